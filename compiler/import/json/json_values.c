// SPDX-License-Identifier: Apache-2.0
// JSON values to ours: each function checks kind and range, and says what it wanted.
#include "compiler/import/json/json_reader.h"
#include "ir/graph/small_float.h"

#include <math.h>
#include <string.h>

enum { MAX_NAME = 255 };
#define EXACT_IN_DOUBLE 9007199254740992.0 // 2^53: below it every whole number has a double of its own

static uint32_t count_children(const cJSON *item)
{
    uint32_t n = 0;
    for (const cJSON *child = item->child; child; child = child->next)
        n++;
    return n;
}

bool json_list(JsonReader *r, const JsonPlace *p, const char *expected, uint32_t *len)
{
    if (!cJSON_IsArray(p->item))
        return json_wrong(r, p, expected);
    *len = count_children(p->item);
    return true;
}

bool json_string(JsonReader *r, const JsonPlace *p, const char *expected, const char **out)
{
    if (!cJSON_IsString(p->item))
        return json_wrong(r, p, expected);
    *out = p->item->valuestring;
    return true;
}

bool json_name(JsonReader *r, const JsonPlace *p, const char *name)
{
    size_t n = strlen(name);
    if (n == 0)
        return json_error(r, p, E0102, "a name must not be empty");
    if (n > MAX_NAME)
        return json_error(r, p, E0004, "a name has %zu bytes; at most %d", n, MAX_NAME);
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return json_error(r, p, E0102, "a name must not hold control characters");
    return true;
}

bool json_bool(JsonReader *r, const JsonPlace *p, bool *out)
{
    if (!cJSON_IsBool(p->item))
        return json_wrong(r, p, "true or false");
    *out = cJSON_IsTrue(p->item);
    return true;
}

bool json_float(JsonReader *r, const JsonPlace *p, double *out)
{
    const char *s = p->item->valuestring;
    if (cJSON_IsString(p->item) && (str_equal(s, "inf") || str_equal(s, "-inf") || str_equal(s, "nan")))
        return str_parse_f64(s, strlen(s), out);
    if (!cJSON_IsNumber(p->item))
        return json_wrong(r, p, "a number, \"inf\", \"-inf\" or \"nan\"");
    *out = p->item->valuedouble;
    if (isinf(*out))
        return json_error(r, p, E0102, "the number is too large; the largest is about 1.8e308");
    return true;
}

bool json_int(JsonReader *r, const JsonPlace *p, const char *expected, int64_t *out)
{
    if (cJSON_IsString(p->item)) {
        const char *s = p->item->valuestring;
        return str_parse_i64(s, strlen(s), out) || json_wrong(r, p, expected);
    }
    if (!cJSON_IsNumber(p->item))
        return json_wrong(r, p, expected);
    double v = p->item->valuedouble;
    if (v != floor(v))
        return json_wrong(r, p, expected);
    if (fabs(v) >= EXACT_IN_DOUBLE)
        return json_error(r, p, E0102,
                          "a whole number beyond 2^53 is written as a string, \"9007199254740993\", "
                          "because a JSON number of that size is not exact");
    *out = (int64_t)v;
    return true;
}

bool json_dtype(JsonReader *r, const JsonPlace *p, DType *out)
{
    const char *names[DTYPE_COUNT];
    const char *name = NULL;
    if (!json_string(r, p, "an element type, for example \"f32\"", &name))
        return false;
    if (dtype_parse(name, out))
        return true;
    for (uint32_t i = 0; i < DTYPE_COUNT; i++)
        names[i] = dtype_info[i].name;
    return json_error(r, p, E0102, "there is no element type '%s'%s", name,
                      json_hint(r, name, names, DTYPE_COUNT));
}

bool json_ints(JsonReader *r, const JsonPlace *p, int64_t **out, uint32_t *n)
{
    if (!json_list(r, p, "a list of whole numbers", n))
        return false;
    *out = ARENA_ARRAY(r->arena, int64_t, *n);
    JsonPlace child = {0};
    while (json_next(p, &child))
        if (!json_int(r, &child, "a whole number", &(*out)[child.index]))
            return false;
    return true;
}

// text does not parse, at byte `at`.
static bool wrong_size(JsonReader *r, const JsonPlace *p, const char *text, size_t at)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.0123456789";
    const char *names[64];
    uint32_t n = 0;
    size_t len = strspn(text + at, letters);
    const char *name = arena_strndup(r->arena, text + at, len);
    bool is_name = len && !(*name >= '0' && *name <= '9') && *name != '.';
    if (!text[at])
        return json_error(r, p, E0102, "\"%s\" is not a size expression: it ends too early", text);
    if (!is_name || r->symbols == DIM_ADD_SYMBOLS || dim_find_symbol(r->dims, name) >= 0)
        return json_error(r, p, E0102, "\"%s\" is not a size expression: trouble at \"%s\"", text, text + at);
    for (; n < 64 && n < r->dims->symbols.len; n++)
        names[n] = r->dims->symbols.data[n].name;
    return json_error(r, p, E0102, "there is no symbol '%s'%s", name, json_hint(r, name, names, n));
}

static bool parse_size(JsonReader *r, const JsonPlace *p, DimParse mode, Dim *out)
{
    static const char expected[] = "a size: a whole number, a symbol, or an expression like \"2*seq + 1\"";
    const char *text = p->item->valuestring;
    size_t at = 0;
    if (!cJSON_IsString(p->item)) {
        int64_t v = 0;
        if (!json_int(r, p, expected, &v))
            return false;
        *out = dim_from_entry(v);
        if (v > DIM_MAX_VALUE || v < -DIM_MAX_VALUE)
            return json_error(r, p, E0004, "the size %lld is too large; at most %lld", (long long)v,
                              (long long)DIM_MAX_VALUE);
        return true;
    }
    if (dim_find_symbol(r->dims, text) >= 0) { // whatever it is spelt like
        *out = dim_symbol(r->dims, text, 1, 1, 1);
        return true;
    }
    if (dim_parse(r->dims, text, strlen(text), mode, out, &at))
        return true;
    return wrong_size(r, p, text, at < strlen(text) ? at : strlen(text));
}

static bool read_sizes(JsonReader *r, const JsonPlace *p, DimParse mode, Dim *out)
{
    bool ok = true;
    JsonPlace child = {0};
    while (json_next(p, &child))
        ok &= parse_size(r, &child, mode, &out[child.index]);
    return ok;
}

static bool check_rank(JsonReader *r, const JsonPlace *p, uint32_t rank)
{
    return rank <= SHAPE_MAX_RANK ||
           json_error(r, p, E0004, "%u axes are too many; a tensor has at most %d", rank, SHAPE_MAX_RANK);
}

bool json_dims(JsonReader *r, const JsonPlace *p, Dim **out, uint32_t *n)
{
    if (!json_list(r, p, "a list of sizes", n) || !check_rank(r, p, *n))
        return false;
    *out = ARENA_ARRAY(r->arena, Dim, *n);
    return read_sizes(r, p, DIM_KNOWN_ONLY, *out);
}

bool json_shape(JsonReader *r, const JsonPlace *p, Shape *out)
{
    *out = (Shape){0};
    if (!json_list(r, p, "a list of sizes, for example [1, 3, \"height\"]", &out->rank))
        return false;
    if (!check_rank(r, p, out->rank) || !read_sizes(r, p, r->symbols, out->dim))
        return false;
    JsonPlace child = {0};
    while (json_next(p, &child))
        if (dim_is_const(out->dim[child.index]) && out->dim[child.index] < 0)
            return json_error(r, &child, E0102, "a size must not be negative");
    return true;
}

// --- elements --------------------------------------------------

static bool set_float(JsonReader *r, const JsonPlace *p, Tensor *t, int64_t i)
{
    double v = 0;
    if (!json_float(r, p, &v))
        return false;
    tensor_set_f64(t, i, v);
    const double stored = tensor_get_f64(t, i);
    if (isfinite(v) &&
        (!isfinite(stored) || (dtype_is_narrow(t->dtype) && fabs(v) > small_float_max(t->dtype))))
        return json_error(r, p, E0102, "the number is too large for %s", dtype_info[t->dtype].name);
    return true;
}

static bool parse_u64(const char *s, uint64_t *out)
{
    uint64_t v = 0;
    for (const char *c = s; *c; c++)
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*c - '0'), &v))
            return false;
    *out = v;
    return *s != 0;
}

static bool set_int(JsonReader *r, const JsonPlace *p, Tensor *t, int64_t i)
{
    const DTypeInfo *info = &dtype_info[t->dtype];
    uint32_t bits = info->bits;
    rlx_assert(bits >= 1 && bits <= 64);
    uint64_t large = 0;
    if (t->dtype == DTYPE_u64 && cJSON_IsString(p->item) && parse_u64(p->item->valuestring, &large)) {
        tensor_set_i64(t, i, (int64_t)large);
        return true;
    }
    int64_t v = 0;
    if (!json_int(r, p, "a whole number", &v))
        return false;
    bool is_signed = info->cls == DCLASS_INT;
    int64_t min = is_signed ? INT64_MIN >> (64 - bits) : 0;
    int64_t max = INT64_MAX >> (is_signed ? 64 - bits : bits == 64 ? 0 : 63 - bits);
    if (v < min || v > max)
        return json_error(r, p, E0102, "%lld is outside the range of %s", (long long)v, info->name);
    tensor_set_i64(t, i, v);
    return true;
}

static bool set_bool(JsonReader *r, const JsonPlace *p, Tensor *t, int64_t i)
{
    double v = cJSON_IsNumber(p->item) ? p->item->valuedouble : -1;
    if (!cJSON_IsBool(p->item) && v != 0 && v != 1)
        return json_wrong(r, p, "true, false, 1 or 0");
    tensor_set_i64(t, i, cJSON_IsTrue(p->item) || v == 1);
    return true;
}

bool json_element(JsonReader *r, const JsonPlace *p, Tensor *t, int64_t i)
{
    static bool (*const set[])(JsonReader *, const JsonPlace *, Tensor *, int64_t) = {
        [DCLASS_FLOAT] = set_float,
        [DCLASS_INT] = set_int,
        [DCLASS_UINT] = set_int,
        [DCLASS_BOOL] = set_bool,
    };
    rlx_assert(set[dtype_info[t->dtype].cls] != NULL);
    return set[dtype_info[t->dtype].cls](r, p, t, i);
}
