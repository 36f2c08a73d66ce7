// SPDX-License-Identifier: Apache-2.0
// Unrolling of Loop and Scan at import. See onnx_unroll.h.
#include "compiler/import/onnx/onnx_unroll.h"

// Bytes of bodies that an import may read again and again: that bounds its time and what it makes.
static uint64_t unroll_max(const OnnxModel *m)
{
    return (UINT64_C(1) << 24) + 16 * (uint64_t)m->source->len;
}

// An iteration costs something even when nothing is in it.
static uint64_t body_cost(const Onnx__GraphProto *body)
{
    return 64 + (uint64_t)onnx__graph_proto__get_packed_size(body);
}

bool onnx_may_unroll(OnnxNode *n, const Onnx__GraphProto *body, int64_t trips)
{
    rlx_assert(n->model->unrolled <= unroll_max(n->model));
    const uint64_t left = unroll_max(n->model) - n->model->unrolled;
    return trips >= 0 && (uint64_t)trips <= left / body_cost(body);
}

static bool spend_iteration(OnnxNode *n, const Onnx__GraphProto *body)
{
    if (!onnx_may_unroll(n, body, 1))
        return onnx_fail(n, E0004, "the loop makes too many nodes when it is unrolled");
    n->model->unrolled += body_cost(body);
    return true;
}

// One run of the body.
static bool run_body(OnnxNode *n, OnnxScope *constants, const Onnx__GraphProto *g, OnnxValue *in,
                     OnnxValue *out)
{
    OnnxScope s = {.model = n->model, .parent = constants, .graph = n->graph, .depth = constants->depth};
    const char *user = arena_printf(n->model->arena, "the body of node '%s'", n->label);
    bool ok = spend_iteration(n, g);
    for (size_t i = 0; ok && i < g->n_input; i++)
        ok = onnx_put(&s, onnx_text(g->input[i]->name), in[i], n->span);
    ok = ok && onnx_import_nodes(&s, g);
    for (size_t i = 0; ok && i < g->n_output; i++) {
        out[i] = onnx_get(&s, onnx_text(g->output[i]->name), n->span, user);
        if (out[i].kind == ONNX_ABSENT)
            onnx_fail(n, E0106, "output %zu of the body has no name", i);
        ok = out[i].kind != ONNX_BROKEN && !n->failed;
    }
    n->failed = !ok;
    return ok;
}

// Whether the next iteration runs. False: that is not known (reported).
static bool read_condition(OnnxNode *n, const OnnxUnroll *u, OnnxValue *v, bool *goes_on)
{
    double value = 1;
    *goes_on = true;
    if (v->kind == ONNX_ABSENT)
        return true;
    Tensor known;
    *v = onnx_value(onnx_value_node(n->scope, v, n->span));
    const bool may_ask = u->may_assume || node_is_const(n->graph, v->node);
    const bool is_known = may_ask && onnx_assume_value(n, v, "condition", &known) && known.numel == 1;
    if (is_known)
        value = tensor_get_f64(&known, 0);
    else
        return onnx_fail(
            n, E0206,
            "the loop cannot be unrolled at import, because its condition is only known when the "
            "model runs");
    *goes_on = value != 0;
    return true;
}

static OnnxValue int_value(OnnxNode *n, int64_t i)
{
    const OnnxDims dims = {.dtype = DTYPE_i64, .n = 1, .dim = {i}};
    OnnxValue v = {.kind = ONNX_DIMS, .dims = &dims};
    return onnx_value(onnx_value_node(n->scope, &v, n->span));
}

bool onnx_check_body(OnnxNode *n, const OnnxUnroll *u)
{
    const size_t control_in = u->has_control ? 2 : 0, control_out = u->has_control ? 1 : 0;
    if (u->body->n_input != control_in + u->n_carried + u->n_rows)
        return onnx_fail(n, E0106, "the body has %zu inputs, expected %zu", u->body->n_input,
                         control_in + u->n_carried + u->n_rows);
    if (u->body->n_output != control_out + u->n_carried + u->n_scan)
        return onnx_fail(n, E0106, "the body has %zu outputs, expected %zu", u->body->n_output,
                         control_out + u->n_carried + u->n_scan);
    return true;
}

static bool run_iteration(OnnxNode *n, OnnxUnroll *u, OnnxScope *constants, OnnxValue *in, OnnxValue *out)
{
    OnnxModel *m = n->model;
    uint32_t at = 0;
    rlx_assert(u->n_carried + u->n_rows <= u->body->n_input);
    if (u->has_control) {
        in[at++] = int_value(n, u->done);
        in[at++] = onnx_value(onnx_scalar(n, DTYPE_bool, 1));
    }
    for (uint32_t i = 0; i < u->n_carried; i++)
        in[at++] = u->carried[i];
    for (uint32_t i = 0; i < u->n_rows; i++)
        in[at++] = u->row(n, u, i, u->done);
    rlx_assert(at == u->body->n_input);
    if (n->failed || !run_body(n, constants, u->body, in, out))
        return false;
    at = 0;
    if (u->has_control)
        u->cond = out[at++];
    for (uint32_t i = 0; i < u->n_carried; i++)
        u->carried[i] = out[at++];
    for (uint32_t i = 0; i < u->n_scan; i++)
        vec_push(m->arena, &u->scan[i].v, out[at++]);
    rlx_assert(at == u->body->n_output);
    u->done++;
    return true;
}

bool onnx_unroll(OnnxNode *n, OnnxUnroll *u)
{
    rlx_assert(u->n_rows == 0 || u->row != NULL);
    Arena *a = n->model->arena;
    OnnxScope constants = {
        .model = n->model, .parent = n->scope, .graph = n->graph, .depth = n->scope->depth + 1};
    if (n->failed || !onnx_check_body(n, u))
        return false;
    if (constants.depth > ONNX_MAX_DEPTH)
        return onnx_fail(n, E0004, "graphs are nested more than %d deep", ONNX_MAX_DEPTH);
    OnnxValue *in = ARENA_ARRAY(a, OnnxValue, u->body->n_input + 1);
    OnnxValue *out = ARENA_ARRAY(a, OnnxValue, u->body->n_output + 1);
    bool goes_on = true;
    if (!onnx_import_initializers(&constants, u->body)) {
        n->failed = true;
        return false;
    }
    for (u->done = 0; u->done < u->trips;) {
        if (!read_condition(n, u, &u->cond, &goes_on))
            return false;
        if (!goes_on)
            break;
        if (!run_iteration(n, u, &constants, in, out))
            return false;
    }
    return true;
}

// --- scan outputs ---

enum { STACK_PARTS = 128 }; // our concat takes 255 operands

static NodeId row_of(OnnxNode *n, OnnxValue v)
{
    const int64_t first[] = {0};
    if (v.is_text || (v.kind != ONNX_NODE && v.kind != ONNX_DIMS))
        onnx_fail(n, E0206, "a scan output that is not a tensor of numbers is not supported");
    const NodeId id = n->failed ? 0 : onnx_value_node(n->scope, &v, n->span);
    n->failed = n->failed || !id;
    return onnx_unsqueeze(n, id, first, 1);
}

NodeId onnx_stack(OnnxNode *n, const OnnxValueList *list, OnnxValue like)
{
    NodeId all = 0, part[STACK_PARTS];
    if (list->v.len == 0)
        return onnx_slice(n, row_of(n, like), 0, 0, 0, 1);
    for (uint32_t i = 0; i < list->v.len && !n->failed; i += STACK_PARTS) {
        const uint32_t count = list->v.len - i < STACK_PARTS ? list->v.len - i : STACK_PARTS;
        for (uint32_t k = 0; k < count; k++)
            part[k] = row_of(n, list->v.data[i + k]);
        const NodeId some = onnx_concat(n, part, count, 0);
        all = all ? onnx_concat(n, (const NodeId[]){all, some}, 2, 0) : some;
    }
    return all;
}
