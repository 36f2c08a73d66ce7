// SPDX-License-Identifier: Apache-2.0
// The .npy format: "\x93NUMPY", a version, a header length, and a header that is a Python dict in one fixed
// form:
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Read by a small scanner of that form.
#include "compiler/import/tensors/npy.h"
#include "compiler/system/rawfile.h"
#include "compiler/import/tensors/tensor_bytes.h"

#include <string.h>

enum { MAX_HEADER = 1 << 20 };

// By DType: what NumPy calls it, without the byte order.
static const char *const descr_names[DTYPE_COUNT] = {
    [DTYPE_f32] = "f4",        [DTYPE_f16] = "f2",      [DTYPE_bf16] = "V2",       [DTYPE_f64] = "f8",
    [DTYPE_i64] = "i8",        [DTYPE_i32] = "i4",      [DTYPE_i16] = "i2",        [DTYPE_i8] = "i1",
    [DTYPE_u64] = "u8",        [DTYPE_u32] = "u4",      [DTYPE_u16] = "u2",        [DTYPE_u8] = "u1",
    [DTYPE_bool] = "b1",       [DTYPE_f8e4m3fn] = "V1", [DTYPE_f8e4m3fnuz] = "V1", [DTYPE_f8e5m2] = "V1",
    [DTYPE_f8e5m2fnuz] = "V1", [DTYPE_f8e8m0] = "V1",   [DTYPE_f4e2m1] = "V1",     [DTYPE_i4] = "i1",
    [DTYPE_u4] = "u1",         [DTYPE_i2] = "i1",       [DTYPE_u2] = "u1",
};

typedef struct Scan {
    const char *at, *end;
} Scan;

static void skip_space(Scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n'))
        s->at++;
}

static bool take(Scan *s, const char *text)
{
    skip_space(s);
    size_t n = strlen(text);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, text, n) != 0)
        return false;
    s->at += n;
    return true;
}

// 'text' or "text", without escapes.
static bool take_string(Scan *s, char *out, size_t cap)
{
    skip_space(s);
    if (s->at == s->end || (*s->at != '\'' && *s->at != '"'))
        return false;
    char quote = *s->at++;
    const char *close = memchr(s->at, quote, (size_t)(s->end - s->at));
    if (!close || (size_t)(close - s->at) >= cap)
        return false;
    memcpy(out, s->at, (size_t)(close - s->at));
    out[close - s->at] = 0;
    s->at = close + 1;
    return true;
}

static bool take_size(Scan *s, int64_t *out)
{
    skip_space(s);
    const char *begin = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return s->at > begin && str_parse_i64(begin, (size_t)(s->at - begin), out) && dim_from_size(*out, out);
}

typedef struct Header {
    char descr[32];
    char order[8]; // "True" or "False"
    Tensor type;   // rank, dim
    uint32_t seen; // bit per key
} Header;

static bool take_shape(Scan *s, Header *h)
{
    Tensor *t = &h->type;
    if (!take(s, "("))
        return false;
    while (!take(s, ")")) {
        if (t->rank == SHAPE_MAX_RANK || !take_size(s, &t->dim[t->rank++]))
            return false;
        if (!take(s, ","))
            return take(s, ")");
    }
    return true;
}

static bool take_order(Scan *s, Header *h)
{
    bool is_fortran = take(s, "True");
    memcpy(h->order, is_fortran ? "True" : "False", is_fortran ? 5 : 6);
    return is_fortran || take(s, "False");
}

static bool take_entry(Scan *s, Header *h)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[16];
    uint32_t i = 0;
    if (!take_string(s, key, sizeof key) || !take(s, ":"))
        return false;
    while (i < 3 && !str_equal(key, keys[i]))
        i++;
    if (i == 3 || (h->seen & 1u << i))
        return false;
    h->seen |= 1u << i;
    return i == 0 ? take_string(s, h->descr, sizeof h->descr) : i == 1 ? take_order(s, h) : take_shape(s, h);
}

static bool take_header(Scan *s, Header *h)
{
    if (!take(s, "{"))
        return false;
    while (!take(s, "}")) {
        if (!take_entry(s, h))
            return false;
        if (take(s, ","))
            continue;
        if (!take(s, "}"))
            return false;
        break;
    }
    skip_space(s);
    return h->seen == 7 && s->at == s->end;
}

// The header's text, which follows its length. False: not a .npy file, or cut off.
static bool find_header(const unsigned char *p, size_t len, Scan *s)
{
    if (len < 12 || memcmp(p, "\x93NUMPY", 6) != 0 || p[6] < 1 || p[6] > 3)
        return false;
    size_t n = (size_t)p[8] | (size_t)p[9] << 8, at = 10;
    if (p[6] > 1) {
        n |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
        at = 12;
    }
    if (n > MAX_HEADER || n > len - at)
        return false;
    s->at = (const char *)p + at;
    s->end = s->at + n;
    return true;
}

// The narrow types have no names of their own in NumPy: ml_dtypes writes bytes, <V1 or <f1, which are the
// first of them until npy_retype says which one is meant.
static bool parse_descr(const char *descr, DType *out)
{
    if (str_equal(descr, "<f1"))
        descr = "<V1";
    if (*descr != '<' && *descr != '|' && *descr != '=')
        return false;
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        rlx_assert(descr_names[i] != NULL);
        if (str_equal(descr_names[i], descr + 1)) {
            *out = (DType)i;
            return *descr != '|' || dtype_info[i].bytes == 1 || i == DTYPE_bf16;
        }
    }
    return false;
}

static bool check_header(Diag *d, Span where, const char *name, Header *h)
{
    if (h->descr[0] == '>')
        return diag_error(d, where, E0105, "%s is big-endian ('%s'); rlxc reads little-endian files", name,
                          h->descr);
    if (!parse_descr(h->descr, &h->type.dtype))
        return diag_error(d, where, E0105, "%s has the element type '%s', which rlxc does not know", name,
                          h->descr);
    if (h->order[0] == 'T' && h->type.rank > 1)
        return diag_error(d, where, E0105, "%s is in Fortran order; save it with numpy.ascontiguousarray",
                          name);
    return true;
}

bool npy_read(Arena *a, Diag *d, Span where, const char *name, const void *data, size_t len, Tensor *out)
{
    Scan s = {0};
    Header h = {0};
    if (!find_header(data, len, &s))
        return diag_error(d, where, E0105, "%s is not a .npy file of version 1 to 3", name);
    const char *bytes = s.end;
    if (!take_header(&s, &h))
        return diag_error(d, where, E0105,
                          "%s: the header of the .npy file is malformed (at most %d axes, no structs)", name,
                          SHAPE_MAX_RANK);
    if (!check_header(d, where, name, &h))
        return false;
    Shape shape = shape_of(h.type.rank, h.type.dim);
    size_t held = len - (size_t)(bytes - (const char *)data);
    uint64_t wanted = type_bytes(h.type.dtype, &shape);
    if (held != wanted)
        return diag_error(d, where, E0105, "%s: its shape needs %llu bytes, but %llu follow the header", name,
                          (unsigned long long)wanted, (unsigned long long)held);
    h.type.numel = shape_numel(&shape);
    if (!tensor_set_bytes(a, &h.type, bytes))
        return diag_error(d, where, E0105, "%s: holds %s", name, tensor_dirt(h.type.dtype));
    *out = h.type;
    return true;
}

bool npy_retype(Arena *a, Tensor *t, DType wanted)
{
    if (t->dtype == wanted)
        return true;
    if (!dtype_is_narrow(wanted) || dtype_info[t->dtype].bytes != 1 || t->dtype == DTYPE_bool)
        return false;
    const Tensor bytes = {.dtype = DTYPE_u8, .numel = t->numel, .data = t->data};
    Tensor out = *t;
    out.dtype = wanted;
    out.data = arena_alloc_array(a, (size_t)t->numel, 1);
    for (int64_t i = 0; i < t->numel; i++)
        tensor_set_bits(&out, i, tensor_get_bits(&bytes, i));
    *t = out;
    return true;
}

// '<U12' or '|S3'; NumPy also writes '|S0' and '<U0'.
static bool parse_text_descr(const char *descr, NpyText *t)
{
    int64_t length = 0;
    const bool is_text = (descr[0] == '<' && descr[1] == 'U') || (descr[0] == '|' && descr[1] == 'S');
    if (!is_text || !str_parse_i64(descr + 2, strlen(descr + 2), &length) || length < 0 ||
        length > INT32_MAX / 4)
        return false;
    t->is_wide = descr[1] == 'U';
    t->length = (uint32_t)length;
    return true;
}

bool npy_find_text(const void *data, size_t len, NpyText *out)
{
    Scan s = {0};
    Header h = {0};
    *out = (NpyText){0};
    if (!find_header(data, len, &s))
        return false;
    out->data = (const uint8_t *)s.end;
    if (!take_header(&s, &h) || !parse_text_descr(h.descr, out) || (h.order[0] == 'T' && h.type.rank > 1))
        return false;
    const Shape shape = shape_of(h.type.rank, h.type.dim);
    const uint64_t held = len - (size_t)((const char *)out->data - (const char *)data);
    out->numel = shape_numel(&shape);
    out->rank = h.type.rank;
    memcpy(out->dim, h.type.dim, sizeof out->dim);
    const uint64_t size = (uint64_t)out->length * (out->is_wide ? 4 : 1);
    uint64_t wanted = 0;
    return !__builtin_mul_overflow((uint64_t)out->numel, size, &wanted) && wanted == held;
}

bool npy_write_raw(Diag *d, const char *path, const char *descr, uint32_t rank, const int64_t *dim,
                   const void *data, uint64_t bytes)
{
    Str text = str_new(d->arena);
    str_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t i = 0; i < rank; i++)
        str_printf(&text, "%lld,%s", (long long)dim[i], i + 1 < rank ? " " : "");
    str_add(&text, "), }");
    enum { ALIGN = 64, PREFIX = 10 }; // the values start at a multiple of 64
    while ((text.len + PREFIX + 1) % ALIGN)
        str_char(&text, ' ');
    str_char(&text, '\n');
    rlx_assert(rank <= SHAPE_MAX_RANK && text.len <= UINT16_MAX);
    const unsigned char prefix[PREFIX] = {0x93,
                                          'N',
                                          'U',
                                          'M',
                                          'P',
                                          'Y',
                                          1,
                                          0,
                                          (unsigned char)(text.len & 0xff),
                                          (unsigned char)(text.len >> 8)};
    FilePart parts[3] = {{prefix, PREFIX}, {text.data, text.len}, {data, bytes}};
    return rawfile_write(d, path, parts, 3);
}

bool npy_write(Diag *d, const char *path, const Tensor *t)
{
    const bool is_byte = dtype_info[t->dtype].bytes == 1;
    const char *descr = arena_printf(d->arena, "%c%s", is_byte ? '|' : '<', descr_names[t->dtype]);
    const Shape shape = shape_of(t->rank, t->dim);
    return npy_write_raw(d, path, descr, t->rank, t->dim, t->data, type_bytes(t->dtype, &shape));
}
