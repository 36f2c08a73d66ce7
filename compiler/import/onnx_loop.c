// SPDX-License-Identifier: Apache-2.0
// Loop and Scan.
#include "compiler/import/onnx_unroll.h"

#include <string.h>

// What both operators say about a loop, and what comes out of it.
typedef struct Loop {
    OnnxUnroll u;
} Loop;

static bool begin_loop(OnnxNode *n, Loop *l, const Onnx__GraphProto *body, uint32_t n_carried)
{
    Arena *a = n->model->arena;
    if (n->failed || n_carried > n->n_out)
        return onnx_fail(n, E0202, "carries %u values, but has %u outputs", n_carried, n->n_out);
    l->u = (OnnxUnroll){.body = body, .n_carried = n_carried, .n_scan = n->n_out - n_carried};
    l->u.carried = ARENA_ARRAY(a, OnnxValue, n_carried + 1);
    l->u.scan = ARENA_ARRAY(a, OnnxValueList, l->u.n_scan + 1);
    return true;
}

// Scan outputs of one iteration that is not part of the result, for their types.
static void try_iteration(OnnxNode *n, const Loop *l, OnnxValue *out)
{
    Arena *a = n->model->arena;
    OnnxUnroll u = l->u;
    u.trips = 1;
    u.cond = (OnnxValue){.kind = ONNX_ABSENT};
    u.carried = arena_copy(a, u.carried, (u.n_carried + 1) * sizeof *u.carried);
    u.scan = ARENA_ARRAY(a, OnnxValueList, u.n_scan + 1);
    if (onnx_unroll(n, &u))
        for (uint32_t i = 0; i < u.n_scan; i++)
            out[i] = u.scan[i].v.data[0];
}

static void unroll(OnnxNode *n, Loop *l)
{
    OnnxUnroll *u = &l->u;
    OnnxValue *like = ARENA_ARRAY(n->model->arena, OnnxValue, u->n_scan + 1);
    if (!onnx_unroll(n, u))
        return;
    if (u->done == 0 && u->n_scan)
        try_iteration(n, l, like);
    for (uint32_t i = 0; i < u->n_carried && !n->failed; i++)
        n->out[i] = u->carried[i];
    for (uint32_t i = 0; i < u->n_scan && !n->failed; i++)
        onnx_out(n, u->n_carried + i, onnx_stack(n, &u->scan[i], like[i]));
}

static OnnxValue take_value(OnnxNode *n, uint32_t i)
{
    onnx_skip(n, i);
    if (!onnx_has(n, i))
        onnx_fail(n, E0202, "input %u is missing", i);
    return n->failed ? (OnnxValue){.kind = ONNX_BROKEN} : n->in[i];
}

void onnx_import_loop(OnnxNode *n)
{
    Loop l = {0};
    const Onnx__GraphProto *body = onnx_graph(n, "body");
    OnnxInts trips = {0};
    if (n->n_in < 2)
        onnx_fail(n, E0202, "needs at least 2 inputs, got %u", n->n_in);
    if (n->failed || !begin_loop(n, &l, body, n->n_in - 2))
        return;
    l.u.has_control = true;
    l.u.trips = INT64_MAX;
    if (onnx_has(n, 0) && onnx_src_ints(n, 0, &trips))
        l.u.trips = trips.n ? trips.v[0] : 0;
    onnx_skip(n, 1);
    if (onnx_has(n, 1))
        l.u.cond = n->in[1];
    for (uint32_t i = 0; i < l.u.n_carried; i++)
        l.u.carried[i] = take_value(n, i + 2);
    if (!n->failed)
        unroll(n, &l);
}
