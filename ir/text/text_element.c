// SPDX-License-Identifier: Apache-2.0
// Printing and reading elements of constants. What is printed is read back and compared, so that a constant
// keeps its bits whatever the type; hex is there for what has no decimal.
#include "ir/text/text_element.h"

#include <string.h>

static unsigned char *element_at(const Tensor *t, int64_t i)
{
    return (unsigned char *)t->data + (size_t)i * dtype_info[t->dtype].bytes;
}

static void print_float(const Tensor *t, int64_t i, Str *out)
{
    double v = tensor_get_f64(t, i);
    if (t->dtype == DTYPE_f64)
        str_f64(out, v);
    else
        str_f32(out, (float)v);
}

static void print_any(const Tensor *t, int64_t i, Str *out)
{
    switch (dtype_info[t->dtype].cls) {
    case DCLASS_FLOAT:
        print_float(t, i, out);
        break;
    case DCLASS_INT:
        str_printf(out, "%lld", (long long)tensor_get_i64(t, i));
        break;
    case DCLASS_UINT:
        str_printf(out, "%llu", (unsigned long long)tensor_get_i64(t, i));
        break;
    case DCLASS_BOOL:
        str_add(out, tensor_get_i64(t, i) ? "true" : "false");
        break;
    }
}

bool element_print(const Tensor *t, int64_t i, Str *out)
{
    uint64_t bits = 0;
    Tensor copy = {.dtype = t->dtype, .numel = 1, .data = &bits};
    size_t begin = out->len;
    rlx_assert(i >= 0 && i < t->numel && dtype_info[t->dtype].bytes <= sizeof bits);
    print_any(t, i, out);
    return element_parse(&copy, 0, str_text(out) + begin, out->len - begin) &&
           memcmp(&bits, element_at(t, i), dtype_info[t->dtype].bytes) == 0;
}

static bool parse_unsigned(const char *text, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v))
            return false;
    }
    *out = v;
    return n > 0;
}

static bool is_text(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

static bool parse_integer(const DTypeInfo *info, const char *text, size_t n, int64_t *out)
{
    rlx_assert(info->cls != DCLASS_FLOAT && info->bits >= 1 && info->bits <= 64);
    uint32_t unused = 64 - info->bits;
    uint64_t u = 0;
    if (info->cls == DCLASS_INT)
        return str_parse_i64(text, n, out) && *out >= INT64_MIN >> unused && *out <= INT64_MAX >> unused;
    if (info->cls == DCLASS_BOOL) {
        *out = is_text(text, n, "true");
        return *out || is_text(text, n, "false");
    }
    bool ok = parse_unsigned(text, n, &u) && u <= UINT64_MAX >> unused;
    *out = (int64_t)u;
    return ok;
}

bool element_parse(Tensor *t, int64_t i, const char *text, size_t n)
{
    const DTypeInfo *info = &dtype_info[t->dtype];
    double v = 0;
    int64_t whole = 0;
    if (info->cls == DCLASS_FLOAT) {
        if (!str_parse_f64(text, n, &v))
            return false;
        tensor_set_f64(t, i, v);
        return true;
    }
    if (!parse_integer(info, text, n, &whole))
        return false;
    tensor_set_i64(t, i, whole);
    return true;
}

void element_print_hex(const Tensor *t, Str *out)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t bytes = dtype_info[t->dtype].bytes;
    for (int64_t i = 0; i < t->numel; i++) {
        for (uint32_t k = bytes; k-- > 0;) {
            unsigned char byte = element_at(t, i)[k];
            str_char(out, digits[byte >> 4]);
            str_char(out, digits[byte & 15]);
        }
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool element_parse_hex(Tensor *t, int64_t i, const char *text)
{
    uint32_t bytes = dtype_info[t->dtype].bytes;
    for (uint32_t k = 0; k < bytes; k++) {
        int high = hex_digit(text[2 * k]), low = hex_digit(text[2 * k + 1]);
        if (high < 0 || low < 0)
            return false;
        element_at(t, i)[bytes - 1 - k] = (unsigned char)(high * 16 + low);
    }
    return tensor_is_clean(t, i);
}
