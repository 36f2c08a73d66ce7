// SPDX-License-Identifier: Apache-2.0
// Strings in .npy files: NumPy's `<U` (UCS-4, of one length for all) and `|S` (bytes), and rlxc's own form,
// UTF-8 in u8 with the bytes as one more axis, filled up with zeros.
#include "compiler/import/tensors/npy.h"
#include "base/bytes.h"

#include <string.h>

#define MAX_BYTES (INT64_C(1) << 31) // of all strings of a file

// --- UTF-8 ---

// Bytes of a code point; 0: there is no such code point.
static uint32_t put_utf8(uint32_t c, uint8_t *out)
{
    return c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : str_utf8_put(c, out);
}

// The code point at *p, which moves behind it; U+FFFD for a byte that does not belong there.
static uint32_t take_utf8(const uint8_t **p, const uint8_t *end)
{
    uint32_t c = 0xfffd;
    const size_t n = str_utf8((const char *)*p, (const char *)end, &c);
    *p += n == 0 ? 1 : n;
    return c;
}

// --- reading ---

static uint32_t code_point(const uint8_t *p)
{
    return (uint32_t)load_le(p, 4);
}

// One string as UTF-8, in `capacity` bytes. NULL, or what is wrong.
static const char *read_string(const NpyText *t, const uint8_t *from, uint8_t *to, int64_t capacity)
{
    uint32_t n = t->length;
    int64_t at = 0;
    while (n > 0 && (t->is_wide ? code_point(from + 4 * (n - 1)) : from[n - 1]) == 0)
        n--;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t c = t->is_wide ? code_point(from + 4 * i) : from[i];
        uint8_t bytes[4] = {(uint8_t)c};
        const uint32_t count = t->is_wide ? put_utf8(c, bytes) : 1;
        if (c == 0)
            return "has a zero in it";
        if (count == 0)
            return "is no valid text";
        if (count > capacity - at)
            return "is longer than --string-bytes says";
        memcpy(to + at, bytes, count);
        at += count;
    }
    return NULL;
}

bool npy_convert_text(Arena *a, Diag *d, Span where, const char *name, const NpyText *t, int64_t capacity,
                      Tensor *out)
{
    rlx_assert(capacity >= 1);
    const uint32_t size = t->length * (t->is_wide ? 4 : 1);
    int64_t dim[SHAPE_MAX_RANK];
    if (t->rank >= SHAPE_MAX_RANK)
        return diag_error(d, where, E0105, "%s: strings of rank %u are not supported", name, t->rank);
    if (t->numel > MAX_BYTES / capacity)
        return diag_error(d, where, E0004, "%s: %lld strings of %lld bytes are too many", name,
                          (long long)t->numel, (long long)capacity);
    memcpy(dim, t->dim, sizeof dim);
    dim[t->rank] = capacity;
    *out = tensor_new(a, DTYPE_u8, t->rank + 1, dim);
    for (int64_t i = 0; i < t->numel; i++) {
        const char *wrong = read_string(t, t->data + (size_t)i * size,
                                        (uint8_t *)out->data + (size_t)(i * capacity), capacity);
        if (wrong)
            return diag_error(d, where, E0402, "%s: string %lld %s", name, (long long)i, wrong);
    }
    return true;
}

// --- writing ---

static size_t text_length(const uint8_t *p, int64_t capacity)
{
    const uint8_t *zero = memchr(p, 0, (size_t)capacity);
    return zero ? (size_t)(zero - p) : (size_t)capacity;
}

static uint32_t count_points(const uint8_t *p, size_t n)
{
    const uint8_t *end = p + n;
    uint32_t count = 0;
    while (p < end) {
        take_utf8(&p, end);
        count++;
    }
    return count;
}

bool npy_write_text(Diag *d, const char *path, const Tensor *t)
{
    const int64_t capacity = t->rank ? t->dim[t->rank - 1] : 0, count = capacity ? t->numel / capacity : 0;
    const uint8_t *from = t->data;
    uint32_t longest = 1;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *s = from + i * capacity;
        const uint32_t n = count_points(s, text_length(s, capacity));
        longest = n > longest ? n : longest;
    }
    uint8_t *wide = ARENA_ARRAY(d->arena, uint8_t, (size_t)count * longest * 4 + 1);
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *p = from + i * capacity, *end = p + text_length(p, capacity);
        for (uint8_t *to = wide + (size_t)i * longest * 4; p < end; to += 4) {
            const uint32_t c = take_utf8(&p, end);
            for (uint32_t k = 0; k < 4; k++)
                to[k] = (uint8_t)(c >> 8 * k);
        }
    }
    const char *descr = arena_printf(d->arena, "<U%u", longest);
    return npy_write_raw(d, path, descr, t->rank ? t->rank - 1 : 0, t->dim, wide,
                         (uint64_t)count * longest * 4);
}
