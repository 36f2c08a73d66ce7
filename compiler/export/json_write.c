// SPDX-License-Identifier: Apache-2.0
// Numbers, sizes and names as JSON text that reads back to the same bits.
#include "compiler/export/json_write.h"
#include "compiler/system/json_scan.h"

#include <math.h>
#include <string.h>

enum { MAX_NAME = 200 }; // leaves room for a number behind it
#define EXACT_IN_DOUBLE (INT64_C(1) << 53)

static void write_special(Str *out, double v)
{
    str_add(out, isnan(v) ? "\"nan\"" : v < 0 ? "\"-inf\"" : "\"inf\"");
}

void json_write_float(Str *out, double v)
{
    if (isfinite(v))
        str_f64(out, v);
    else
        write_special(out, v);
}

// The shortest text, unless rounding it twice (to double, then to float) gives another value.
static void write_f32(Str *out, double v)
{
    size_t begin = out->len;
    double back = 0;
    str_f32(out, (float)v);
    if (str_parse_f64(out->data + begin, out->len - begin, &back) && (float)back == (float)v)
        return;
    out->len = begin;
    str_f64(out, v);
}

static void write_int(Str *out, const Tensor *t, int64_t i)
{
    int64_t v = tensor_get_i64(t, i);
    bool is_exact = v < EXACT_IN_DOUBLE && v > (t->dtype == DTYPE_u64 ? -1 : -EXACT_IN_DOUBLE);
    const char *quote = is_exact ? "" : "\"";
    if (t->dtype == DTYPE_u64)
        str_printf(out, "%s%llu%s", quote, (unsigned long long)v, quote);
    else
        str_printf(out, "%s%lld%s", quote, (long long)v, quote);
}

void json_write_element(Str *out, const Tensor *t, int64_t i)
{
    rlx_assert(i >= 0 && i < t->numel);
    DTypeClass cls = dtype_info[t->dtype].cls;
    if (cls == DCLASS_BOOL) {
        str_add(out, tensor_get_i64(t, i) ? "true" : "false");
    } else if (cls != DCLASS_FLOAT) {
        write_int(out, t, i);
    } else {
        double v = tensor_get_f64(t, i);
        if (isfinite(v) && t->dtype != DTYPE_f64)
            write_f32(out, v);
        else
            json_write_float(out, v);
    }
}

bool json_keeps_bits(const Tensor *t)
{
    if (dtype_info[t->dtype].cls != DCLASS_FLOAT)
        return true;
    for (int64_t i = 0; i < t->numel; i++)
        if (isnan(tensor_get_f64(t, i)))
            return false;
    return true;
}

void json_write_dims(Str *out, const DimTable *dims, const Dim *d, uint64_t n)
{
    rlx_assert(d != NULL || n == 0);
    str_char(out, '[');
    for (uint64_t i = 0; i < n; i++) {
        Str text = str_new(out->arena);
        dim_print(dims, d[i], &text);
        str_add(out, i ? ", " : "");
        if (dim_is_const(d[i]))
            str_add(out, str_text(&text));
        else
            json_print_string(out, str_text(&text));
    }
    str_char(out, ']');
}

void json_write_ints(Str *out, const int64_t *v, uint64_t n)
{
    rlx_assert(n <= INT64_MAX);
    Tensor t = {.dtype = DTYPE_i64, .numel = (int64_t)n};
    memcpy(&t.data, &v, sizeof v); // Tensor.data is not const; it is only read here
    str_char(out, '[');
    for (int64_t i = 0; i < t.numel; i++) {
        str_add(out, i ? ", " : "");
        write_int(out, &t, i);
    }
    str_char(out, ']');
}

const char *json_clean_name(Arena *a, const char *name)
{
    size_t n = strlen(name);
    bool is_long = n > MAX_NAME;
    char *clean = arena_strndup(a, name, is_long ? MAX_NAME : n);
    for (char *c = clean; *c; c++) {
        bool is_cut = is_long && (unsigned char)*c >= 0x80; // the cut may be within a character
        if ((unsigned char)*c < 0x20 || *c == 0x7f || is_cut)
            *c = '_';
    }
    return *clean ? clean : "_";
}

const char *json_unique_name(Arena *a, Map *used, const char *name)
{
    uint64_t next = 2; // the number to try first when the name is taken
    const char *unique = name;
    if (map_get_str(used, name, &next))
        while (map_get_str(used, unique = arena_printf(a, "%s_%llu", name, (unsigned long long)next), NULL))
            next++;
    map_put_str(a, used, unique, 2);
    if (unique != name)
        map_put_str(a, used, name, next + 1);
    return unique;
}
