// SPDX-License-Identifier: Apache-2.0
// Sizes as data: what SHAPE and the operators behind it compute, read back from the graph as sizes, which may
// be symbolic, by the operator that wants a shape.
#include "compiler/import/tflite/tfl_import.h"
#include "ir/shape/shape.h"

#include <string.h>

enum { MAX_DEPTH = 24, MAX_STEPS = 4096 };

typedef struct Search {
    TflNode *n;
    uint32_t steps; // graphs may reach a node in many ways
} Search;

void tfl_dim_remember(TflNode *n, NodeId id, Dim d)
{
    const uint64_t key[2] = {(uint64_t)(uintptr_t)n->graph, id};
    map_put(n->model->arena, &n->model->sizes, key, sizeof key, (uint64_t)d);
}

static bool find(Search *s, NodeId id, uint32_t depth, Dim *out, uint32_t *count);

static bool find_const(Search *s, NodeId id, Dim *out, uint32_t *count)
{
    const Tensor t = tensor_of_const(s->n->graph, id);
    if (t.numel > TFL_MAX_LIST || dtype_info[t.dtype].cls == DCLASS_FLOAT)
        return false;
    for (int64_t i = 0; i < t.numel; i++)
        out[i] = tensor_get_i64(&t, i);
    *count = (uint32_t)t.numel;
    return true;
}

// Every size is within these, so that sums of them do not wrap.
static bool is_small(Dim d)
{
    return !dim_is_const(d) || (d >= -(INT64_C(1) << 31) && d < (INT64_C(1) << 31));
}

static bool combine(Search *s, OpId op, Dim a, Dim b, Dim *out)
{
    DimTable *t = s->n->graph->dims;
    if (!is_small(a) || !is_small(b))
        return false;
    if (op == OP_add)
        *out = dim_add(t, a, b);
    else if (op == OP_sub)
        *out = dim_sub(t, a, b);
    else if (op == OP_mul)
        *out = dim_mul(t, a, b);
    else if (op == OP_div && dim_is_const(b) && b > 0)
        *out = dim_floor_div(t, a, b);
    else
        return false;
    return !dim_is_unknown(t, *out);
}

static bool find_pair(Search *s, NodeId id, uint32_t depth, Dim *out, uint32_t *count)
{
    const Node v = *graph_node(s->n->graph, id);
    Dim a[TFL_MAX_LIST], b[TFL_MAX_LIST];
    uint32_t na = 0, nb = 0;
    if (!find(s, v.src[0], depth, a, &na) || !find(s, v.src[1], depth, b, &nb) ||
        (na != nb && na != 1 && nb != 1))
        return false;
    *count = na > nb ? na : nb;
    for (uint32_t i = 0; i < *count; i++)
        if (!combine(s, (OpId)v.op, a[na == 1 ? 0 : i], b[nb == 1 ? 0 : i], &out[i]))
            return false;
    return true;
}

static bool find_concat(Search *s, NodeId id, uint32_t depth, Dim *out, uint32_t *count)
{
    const Node v = *graph_node(s->n->graph, id);
    Dim part[TFL_MAX_LIST];
    *count = 0;
    for (uint32_t i = 0; i < v.n_src; i++) {
        uint32_t n = 0;
        if (!find(s, v.src[i], depth, part, &n) || *count + n > TFL_MAX_LIST)
            return false;
        memcpy(out + *count, part, n * sizeof *part);
        *count += n;
    }
    return true;
}

static bool find_slice(Search *s, NodeId id, uint32_t depth, Dim *out, uint32_t *count)
{
    const Node v = *graph_node(s->n->graph, id);
    Dim all[TFL_MAX_LIST], first = 0, many = 0;
    uint32_t n = 0;
    if (v.shape->rank != 1 || !find(s, v.src[0], depth, all, &n))
        return false;
    const int64_t step = node_get_at(&v, A_slice_steps, 0, 1);
    shape_slice_range(
        s->n->graph->dims, n,
        (SliceAxis){node_get_at(&v, A_slice_starts, 0, 0), node_get_at(&v, A_slice_ends, 0, 0), step}, &first,
        &many);
    *count = (uint32_t)many;
    for (uint32_t i = 0; i < *count; i++)
        out[i] = all[first + i * step];
    return true;
}

static bool find(Search *s, NodeId id, uint32_t depth, Dim *out, uint32_t *count)
{
    const Node v = *graph_node(s->n->graph, id);
    const uint64_t key[2] = {(uint64_t)(uintptr_t)s->n->graph, id};
    uint64_t known = 0;
    if (v.op == OP_const)
        return find_const(s, id, out, count);
    if (depth == 0 || s->steps++ > MAX_STEPS || v.shape->rank > 1)
        return false;
    if (map_get(&s->n->model->sizes, key, sizeof key, &known)) {
        out[0] = (Dim)known;
        *count = 1;
        return true;
    }
    if (v.op == OP_reshape || v.op == OP_squeeze || v.op == OP_unsqueeze ||
        (v.op == OP_cast && dtype_info[v.dtype].cls == DCLASS_INT))
        return graph_node(s->n->graph, v.src[0])->shape->rank <= 1 &&
               find(s, v.src[0], depth - 1, out, count);
    if (v.op == OP_concat)
        return find_concat(s, id, depth - 1, out, count);
    if (v.op == OP_slice)
        return find_slice(s, id, depth - 1, out, count);
    return v.n_src == 2 && op_info[v.op].kind == OPKIND_EW && find_pair(s, id, depth - 1, out, count);
}

bool tfl_known_dims(TflNode *n, NodeId id, Dim *out, uint32_t *count)
{
    Search s = {.n = n};
    *count = 0;
    return !n->failed && id != 0 && find(&s, id, MAX_DEPTH, out, count);
}
