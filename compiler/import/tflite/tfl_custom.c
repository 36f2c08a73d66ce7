// SPDX-License-Identifier: Apache-2.0
// Custom operators of .tflite models become custom ops (docs/CUSTOM.md), by their names, where --custom FILE
// declares them. Their options are bytes, of which only the operator knows what they mean: the text gets them
// as one more operand if the declaration has one. Most are maps of FlexBuffers, whose numbers are attributes.
#include "compiler/import/json/json_custom.h"
#include "compiler/import/tflite/tfl_import.h"

#include <string.h>

// --- FlexBuffers ---

// Entry i of a vector is at `at` + i * `width`; offsets lead back from their own place.
typedef struct Flex {
    const uint8_t *data;
    size_t len;
} Flex;
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

// A number of the map by its name. False: there is none.
static bool flex_find(Flex f, const char *name, double *out)
{
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

// --- the node ---

static void read_attributes(TflNode *n, const CustomDecl *d, Flex options, CustomAttr *values)
{
    for (uint32_t i = 0; i < d->attrs.len; i++) {
        double v = 0;
        values[i] = d->attrs.data[i];
        if (flex_find(options, values[i].name, &v)) {
            values[i].number = v;
            values[i].whole = tensor_saturate(DTYPE_i64, v);
            if (!values[i].is_float && (double)values[i].whole != v)
                tfl_fail(n, E0203, "option '%s' is %g, but its declaration wants a whole number",
                         values[i].name, v);
        } else if (values[i].is_required) {
            tfl_fail(n, E0203, "option '%s' is missing", values[i].name);
        }
    }
}

static NodeId bytes_operand(TflNode *n, Flex options)
{
    const Shape s = {.rank = 1, .dim = {(int64_t)options.len}};
    return tfl_const(n, DTYPE_u8, &s, arena_copy(n->model->arena, options.data, options.len));
}

const CustomDecl *tfl_custom_find(const TflModel *m, const char *name)
{
    const CustomDecls *decls = m->source->options.custom;
    return decls ? custom_decl_find(decls, name) : NULL;
}

void tfl_import_custom(TflNode *n)
{
    const CustomDecl *d = tfl_custom_find(n->model, n->op->name);
    rlx_assert(d != NULL && d->attrs.len <= BUILD_MAX_ATTRS);
    const Flex options = {flat_list_bytes(n->custom), n->custom.n};
    CustomAttr values[BUILD_MAX_ATTRS];
    NodeBuild b = tfl_begin(n, OP_custom);
    for (uint32_t i = 0; i < n->n_in; i++)
        node_src(&b, tfl_opt(n, i));
    if (d->n_operands == n->n_in + 1)
        node_src(&b, bytes_operand(n, options));
    read_attributes(n, d, options, values);
    if (n->failed)
        return;
    custom_decl_set(n->model->arena, d, values, &b);
    const NodeId id = tfl_end(n, &b);
    if (!n->failed && n->n_out > graph_node(n->graph, id)->n_results)
        tfl_fail(n, E0202, "the declaration has %u results, not %u", graph_node(n->graph, id)->n_results,
                 n->n_out);
    for (uint32_t i = 0; i < n->n_out && !n->failed; i++)
        tfl_out(n, i, tfl_result(n, id, i));
}
