// SPDX-License-Identifier: Apache-2.0
// loop: no kernel of its own, but a plan for the body, made by the same passes, whose memory is one scratch
// buffer here. Carried values live in the memory of the results; captured values and rows are read, and scan
// outputs written, in place.
#include "passes/graph/driver.h"
#include "passes/graph/loop_body.h"
#include "passes/lower/lower.h"
#include <string.h>

typedef struct LoopLower {
    Lower *l;
    PlanLoop *loop;
    LoopBody body;
    BodyFrame frame;
    uint32_t n_carried;
} LoopLower;

static uint32_t add_slot(LoopLower *s, PlanSlot slot)
{
    vec_push(s->l->plan->arena, &s->frame.slots, slot);
    return s->frame.slots.len - 1;
}

// --- what the body reads -------------------------------------------------------------------------

// The strides of an operand, or of one entry of it, counted from the lowest address.
static Loc input_loc(const Lower *l, const BodyInput *in, NodeId src, PlanSlot *slot)
{
    const Node *n = lower_node(l, src);
    const Loc *at = lower_loc(l, src);
    const int64_t bytes = dtype_info[n->dtype].bytes;
    Loc loc = {0};
    uint32_t to = 0;
    for (uint32_t i = 0; i < n->shape->rank; i++) {
        if (in->kind == BODY_ROW && i == in->axis) {
            slot->start += in->base * at->stride[i] * bytes;
            slot->step = in->sign * at->stride[i] * bytes;
            to += in->rank; // of one element each: their stride does not matter
            continue;
        }
        const int64_t low = at->stride[i] < 0 ? (n->shape->dim[i] - 1) * at->stride[i] : 0;
        loc.stride[to++] = at->stride[i];
        loc.offset -= low;
        slot->start += low * bytes;
    }
    return loc;
}

static void add_input(LoopLower *s, const BodyInput *in)
{
    Arena *a = s->l->plan->arena;
    PlanSlot slot = {.arg = PLAN_NO_ARG};
    Loc loc = {0};
    if (in->kind != BODY_COUNTER) {
        const NodeId src = lower_node(s->l, s->l->anchor)->src[in->operand];
        slot.arg = lower_param(s->l, src, PARAM_READ);
        if (shape_numel(lower_node(s->l, src)->shape) > 0)
            loc = input_loc(s->l, in, src, &slot);
    }
    vec_push(a, &s->frame.input_locs, loc);
    vec_push(a, &s->frame.inputs, add_slot(s, slot));
}

// --- what it writes ------------------------------------------------------------------------------

static uint32_t result_param(LoopLower *s, uint32_t result, ParamUse use)
{
    Lower *l = s->l;
    const Node *n = lower_node(l, l->anchor);
    const Loc *loc = &l->pk->results[result];
    const TensorType t = n->n_results > 1 ? n->results[result] : (TensorType){(DType)n->dtype, *n->shape};
    return lower_param_typed(l, &t, loc, arena_printf(l->plan->arena, "y%u", l->k->params.len), use);
}

static void add_carried(LoopLower *s)
{
    for (uint32_t i = 0; i < s->n_carried; i++) {
        const PlanSlot slot = {.arg = result_param(s, i, PARAM_READ_WRITE), .is_written = true};
        vec_push(s->l->plan->arena, &s->frame.states, add_slot(s, slot));
    }
}

// Every row is written when nothing can end the loop before.
static bool writes_all_rows(const LoopLower *s)
{
    const Lower *l = s->l;
    const Node *n = lower_node(l, l->anchor);
    double trips = 0, cond = 0;
    return !s->body.has_cond && node_is_scalar_const(l->g, n->src[0], &trips) &&
           trips >= (double)node_attr(n, A_loop_max_trips)->u.ints[0] &&
           s->body.max_trips == node_attr(n, A_loop_max_trips)->u.ints[0] &&
           node_is_scalar_const(l->g, n->src[1], &cond) && cond != 0;
}

static void add_scan(LoopLower *s, uint32_t result)
{
    Lower *l = s->l;
    Arena *a = l->plan->arena;
    if (l->pk->results[result].buf == 0) { // nobody wants it
        vec_push(a, &s->frame.outputs, PLAN_NO_ARG);
        return;
    }
    const TensorType *t = &lower_node(l, l->anchor)->results[result];
    const uint32_t param = result_param(s, result, PARAM_WRITE);
    Shape row = {.rank = t->shape.rank - 1};
    memcpy(row.dim, t->shape.dim + 1, row.rank * sizeof *row.dim);
    const PlanSlot slot = {.arg = param, .step = (int64_t)type_bytes(t->dtype, &row), .is_written = true};
    vec_push(a, &s->frame.outputs, add_slot(s, slot));
    if (!writes_all_rows(s))
        vec_push(a, &s->loop->cleared, param);
}

static void add_outputs(LoopLower *s)
{
    const uint32_t n_results = lower_node(s->l, s->l->anchor)->n_results;
    if (s->body.has_cond)
        vec_push(s->l->plan->arena, &s->frame.outputs, PLAN_NO_ARG);
    for (uint32_t i = s->n_carried; i + 1 < n_results; i++)
        add_scan(s, i);
    s->loop->count = PLAN_NO_ARG;
    if (s->l->pk->results[n_results - 1].buf != 0)
        s->loop->count = result_param(s, n_results - 1, PARAM_WRITE);
}

// --- the body ------------------------------------------------------------------------------------

// All constants of the body, as its plan placed them.
static void fill_weights(const void *ctx, void *bytes)
{
    const Plan *p = ctx;
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        Arena scratch = {0};
        if (buf->region == REGION_WEIGHTS && buf->first != UINT32_MAX && buf->bytes > 0)
            memcpy((char *)bytes + buf->offset, plan_buffer_bytes(buf, &scratch), buf->bytes);
        arena_free(&scratch);
    }
}

// Nesting is bounded by GRAPH_MAX_DEPTH, and so is the recursion through lower.
static Plan *plan_body(LoopLower *s)
{
    Arena scratch = {0};
    const Pass *outer = s->l->pass;
    Pass p = {.perm = outer->perm,
              .scratch = &scratch,
              .diag = outer->diag,
              .options = outer->options,
              .graph = s->body.graph,
              .frame = &s->frame};
    pass_plan_body(&p);
    arena_free(&scratch);
    return p.plan;
}

static uint32_t control_param(Lower *l, uint32_t operand)
{
    const NodeId id = lower_node(l, l->anchor)->src[operand];
    double value = 0;
    if (node_is_scalar_const(l->g, id, &value) && (operand == 0 || value != 0))
        return PLAN_NO_ARG;
    return lower_param(l, id, PARAM_READ);
}

void lower_loop(Lower *l)
{
    Arena *a = l->plan->arena, scratch = {0};
    LoopLower s = {.l = l, .loop = ARENA_NEW(a, PlanLoop)};
    s.n_carried = (uint32_t)node_get_int(lower_node(l, l->anchor), A_loop_carried);
    s.frame.prefix = arena_printf(a, "%s%u_", l->plan->prefix, l->index);
    s.body = loop_body(l->pass->graph, l->anchor, &scratch);
    s.loop->trips = control_param(l, 0);
    s.loop->cond = control_param(l, 1);
    s.loop->max_trips = s.body.max_trips;
    s.loop->has_cond = s.body.has_cond;
    for (uint32_t i = 0; i < s.body.inputs.len; i++)
        add_input(&s, &s.body.inputs.data[i]);
    add_carried(&s);
    add_outputs(&s);
    Plan *body = s.loop->body = plan_body(&s);
    s.loop->arena = s.loop->weights = PLAN_NO_ARG;
    if (body->region_bytes[REGION_ARENA])
        s.loop->arena = lower_param_scratch(l, "loop body", DTYPE_u8, body->region_bytes[REGION_ARENA]);
    if (body->region_bytes[REGION_WEIGHTS])
        s.loop->weights = lower_param_filled(l, "loop weights", DTYPE_u8, fill_weights, body,
                                             body->region_bytes[REGION_WEIGHTS]);
    l->pk->loop = s.loop;
    arena_free(&scratch);
}
