// SPDX-License-Identifier: Apache-2.0
// Maps of FlexBuffers: the options of most custom operators.
#include "compiler/import/tflite/flex.h"

#include "base/diag.h"

#include <string.h>

// Entry i of a vector is at `at` + i * `width`; offsets lead back from their own place.
typedef struct FlexMap {
    size_t values, keys;
    uint64_t n, width, key_width;
} FlexMap;

enum { FLEX_INT = 1, FLEX_UINT, FLEX_FLOAT, FLEX_AT_INT = 6, FLEX_AT_UINT, FLEX_AT_FLOAT, FLEX_MAP = 9 };
enum { FLEX_BOOL = 26, FLEX_HEAD = 3 }; // a map: where its keys are, their width, its size

static bool flex_bits(Flex f, size_t at, uint64_t width, uint64_t *out)
{
    *out = 0;
    if (at > f.len || width > f.len - at || width > sizeof *out)
        return false;
    for (uint64_t i = 0; i < width; i++)
        *out |= (uint64_t)f.data[at + i] << (8 * i);
    return true;
}

static bool flex_follow(Flex f, size_t at, uint64_t width, size_t *out)
{
    uint64_t by = 0;
    if (!flex_bits(f, at, width, &by) || by > at)
        return false;
    *out = at - (size_t)by;
    return true;
}

// False: the root is no map.
static bool flex_map(Flex f, FlexMap *m)
{
    if (f.len < FLEX_HEAD)
        return false;
    const uint64_t width = f.data[f.len - 1], type = f.data[f.len - 2];
    m->width = UINT64_C(1) << (type & 3);
    if (type >> 2 != FLEX_MAP || width > f.len - 2 ||
        !flex_follow(f, f.len - 2 - (size_t)width, width, &m->values) || m->values < FLEX_HEAD * m->width)
        return false;
    return flex_bits(f, m->values - m->width, m->width, &m->n) && m->n <= f.len &&
           flex_bits(f, m->values - 2 * m->width, m->width, &m->key_width) && m->key_width <= 8 &&
           flex_follow(f, m->values - FLEX_HEAD * m->width, m->width, &m->keys);
}

// An integer or float of `width` bytes. False: it is neither.
static bool flex_number(Flex f, size_t at, uint64_t width, uint8_t type, double *out)
{
    uint64_t bits = 0;
    float f32 = 0;
    if (type >= FLEX_AT_INT && type <= FLEX_AT_FLOAT)
        return false;
    if (!flex_bits(f, at, width, &bits) || width == 0)
        return false;
    const uint32_t low = (uint32_t)bits;
    switch (type) {
    case FLEX_INT:
        *out = (double)((int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width));
        return true;
    case FLEX_UINT:
    case FLEX_BOOL:
        *out = (double)bits;
        return true;
    case FLEX_FLOAT:
        memcpy(&f32, &low, sizeof f32);
        *out = (double)f32;
        if (width == sizeof *out)
            memcpy(out, &bits, sizeof bits);
        return width == sizeof f32 || width == sizeof *out;
    default:
        return false;
    }
}

static bool flex_value(Flex f, const FlexMap *m, uint64_t i, double *out)
{
    const size_t at = m->values + (size_t)(i * m->width);
    const size_t type_at = m->values + (size_t)(m->n * m->width + i);
    size_t to = 0;
    if (type_at >= f.len)
        return false;
    const uint8_t type = f.data[type_at] >> 2;
    if (type < FLEX_AT_INT || type > FLEX_AT_FLOAT)
        return flex_number(f, at, m->width, type, out);
    return flex_follow(f, at, m->width, &to) &&
           flex_number(f, to, UINT64_C(1) << (f.data[type_at] & 3), type - FLEX_AT_INT + FLEX_INT, out);
}

bool flex_find(Flex f, const char *name, double *out)
{
    rlx_assert(name != NULL && name[0] != '\0' && (f.data != NULL || f.len == 0));
    FlexMap m = {0};
    size_t key = 0;
    if (!flex_map(f, &m))
        return false;
    for (uint64_t i = 0; i < m.n; i++) {
        if (!flex_follow(f, m.keys + (size_t)(i * m.key_width), m.key_width, &key))
            return false;
        const size_t n = strlen(name) + 1;
        if (n <= f.len - key && memcmp(f.data + key, name, n) == 0)
            return flex_value(f, &m, i, out);
    }
    return false;
}
