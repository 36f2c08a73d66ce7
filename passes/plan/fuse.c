// SPDX-License-Identifier: Apache-2.0
// Fusion: turns groups of nodes into kernels, gives every stored value a place (a buffer of its own, a part
// of a concat, a state, or a view of another value), and adds the strided copies that remain. Kernels come
// out in a valid order.
#include "ir/shape/forms.h"
#include "passes/live/live.h"
#include "passes/lower/border.h"
#include "passes/lower/ops/scatter.h"
#include "passes/pass.h"
#include "passes/plan/group.h"
#include "passes/plan/pitch.h"
#include "passes/plan/shift.h"
#include "passes/plan/strip_join.h"
#include "passes/plan/view_loc.h"
#include <string.h>

typedef struct Fuse {
    Pass *pass;
    Plan *plan;
    const Graph *g;
    Groups groups;
} Fuse;

static Loc *loc_of(Fuse *f, NodeId id)
{
    return &f->plan->locs.data[id];
}

static BufId add_buffer(Fuse *f, Region region, DType t, const Shape *s, const char *name)
{
    PlanBuffer b = {.region = region, .bytes = type_bytes(t, s), .align = 64, .name = name};
    vec_push(f->plan->arena, &f->plan->buffers, b);
    return f->plan->buffers.len - 1;
}

static Loc own_loc(Fuse *f, NodeId id, Region region)
{
    const Node *n = graph_node(f->g, id);
    Loc loc = {.buf = add_buffer(f, region, (DType)n->dtype, n->shape, node_name(f->g, id))};
    dense_strides(n->shape, (AxisOrder)f->plan->orders.data[id], loc.stride);
    return loc;
}

// Bytes from the first to behind the last element.
static uint64_t span_bytes(const Node *n, const Loc *loc)
{
    int64_t last = loc->offset;
    if (shape_numel(n->shape) == 0)
        return 0;
    for (uint32_t i = 0; i < n->shape->rank; i++)
        last += loc->stride[i] > 0 ? (n->shape->dim[i] - 1) * loc->stride[i] : 0;
    return (uint64_t)(last + 1) * dtype_info[n->dtype].bytes;
}

// A place inside of a frame of zero points, if that suits all readers.
static bool move_into_border(Fuse *f, NodeId id, Loc *loc)
{
    const Uses *u = &f->groups.uses;
    PlanBorder b;
    if (f->groups.root[id] != id ||
        !border_for(f->plan, id, u->user + u->first[id], u->first[id + 1] - u->first[id], &b))
        return false;
    f->plan->buffers.data[loc->buf].bytes = (uint64_t)border_frame(f->plan, &b, loc);
    vec_push(f->plan->arena, &f->plan->borders, b);
    return true;
}

static Loc pitched_loc(Fuse *f, NodeId id)
{
    const Node *n = graph_node(f->g, id);
    Loc loc = own_loc(f, id, REGION_ARENA);
    if (concat_axis(n) < 0 && move_into_border(f, id, &loc))
        return loc;
    const int64_t gap = pitch_gap(f->plan, &f->groups.uses, id), channels = n->shape->dim[1];
    if (gap == 0)
        return loc;
    for (uint32_t i = 0; i < n->shape->rank; i++)
        loc.stride[i] = i == 1 ? 1 : loc.stride[i] / channels * (channels + gap);
    f->plan->buffers.data[loc.buf].bytes = span_bytes(n, &loc);
    return loc;
}

// --- places of concat operands: from the last node to the first, so that an outer concat places an inner one

// Same order of axes in memory as the value would have by itself: what the schedules of its kernel count on.
static bool is_order_kept(Fuse *f, NodeId id, const Loc *want)
{
    const Shape *s = graph_node(f->g, id)->shape;
    int64_t own[SHAPE_MAX_RANK];
    dense_strides(s, (AxisOrder)f->plan->orders.data[id], own);
    for (uint32_t i = 0; i < s->rank; i++)
        for (uint32_t j = 0; j < s->rank; j++)
            if (s->dim[i] > 1 && s->dim[j] > 1 && own[i] < own[j] && want->stride[i] >= want->stride[j])
                return false;
    return true;
}

static bool try_place(Fuse *f, NodeId id, Loc want)
{
    const Node *n = graph_node(f->g, id);
    Loc at;
    if (loc_of(f, id)->buf != 0 || op_info[n->op].kind == OPKIND_LEAF || node_result(n) != 0 ||
        n->n_results > 1)
        return false;
    if ((op_info[n->op].flags & OPFLAG_VIEW) != 0)
        return view_source_loc(f->g, n, &want, &at) && try_place(f, n->src[0], at);
    if (!is_order_kept(f, id, &want) || (n->op == OP_custom && !is_dense_rows(n->shape, &want)))
        return false;
    *loc_of(f, id) = want;
    return true;
}

static Loc concat_part(Fuse *f, NodeId concat, uint32_t part)
{
    const Node *n = graph_node(f->g, concat);
    const int64_t axis = concat_axis(n);
    Loc loc = *loc_of(f, concat);
    for (uint32_t i = 0; i < part; i++)
        loc.offset += graph_node(f->g, n->src[i])->shape->dim[axis] * loc.stride[axis];
    return loc;
}

static void place_parts(Fuse *f, NodeId concat)
{
    const Node *n = graph_node(f->g, concat);
    for (uint32_t i = 0; i < n->n_src; i++)
        if (shape_numel(graph_node(f->g, n->src[i])->shape) > 0)
            try_place(f, n->src[i], concat_part(f, concat, i));
}

static void place_values(Fuse *f)
{
    for (NodeId id = f->g->nodes.len - 1; id > 0; id--) {
        const Node *n = graph_node(f->g, id);
        const bool has_parts = concat_axis(n) >= 0, is_root = f->groups.root[id] == id || has_parts;
        if (is_root && loc_of(f, id)->buf == 0)
            *loc_of(f, id) = pitched_loc(f, id);
        if (has_parts)
            place_parts(f, id);
    }
}

// --- leaves -------------------------------------------------------------------------------------

// Where a leaf of a body's graph stands in the lists: inputs, then states.
static const uint32_t *frame_slot(const Fuse *f, NodeId id, const Loc **loc)
{
    const BodyFrame *frame = f->pass->frame;
    *loc = NULL;
    for (uint32_t i = 0; frame != NULL && i < f->g->inputs.len; i++)
        if (f->g->inputs.data[i] == id) {
            *loc = &frame->input_locs.data[i];
            return &frame->inputs.data[i];
        }
    for (uint32_t i = 0; frame != NULL && i < f->g->states.len; i++)
        if (f->g->states.data[i].node == id)
            return &frame->states.data[i];
    return NULL;
}

// Inputs and states of a body are memory of the plan around it.
static bool place_outer_leaf(Fuse *f, NodeId id)
{
    const Node *n = graph_node(f->g, id);
    const Loc *given = NULL;
    const uint32_t *slot = frame_slot(f, id, &given);
    if (slot == NULL)
        return false;
    Loc loc = own_loc(f, id, REGION_OUTER);
    PlanBuffer *b = &f->plan->buffers.data[loc.buf];
    if (given != NULL) {
        memcpy(loc.stride, given->stride, sizeof loc.stride);
        loc.offset = given->offset;
        b->bytes = span_bytes(n, &loc);
    }
    b->slot = *slot;
    *loc_of(f, id) = loc;
    return true;
}

static void place_leaf(Fuse *f, NodeId id)
{
    static const uint8_t region[OP_COUNT] = {[OP_input] = REGION_ARENA,
                                             [OP_param] = REGION_PARAM,
                                             [OP_state] = REGION_STATE,
                                             [OP_const] = REGION_WEIGHTS};
    const Node *n = graph_node(f->g, id);
    if (place_outer_leaf(f, id))
        return;
    const uint32_t rows = f->plan->rows.input;
    const bool is_rows = rows != 0 && f->g->inputs.data[rows - 1] == id;
    *loc_of(f, id) = own_loc(f, id, is_rows ? REGION_ROWS : (Region)region[n->op]);
    PlanBuffer *b = &f->plan->buffers.data[loc_of(f, id)->buf];
    const AttrId data = n->op == OP_param ? A_param_init : n->op == OP_state ? A_state_init : A_const_data;
    if (n->op != OP_input && node_attr(n, data)->len != 0)
        b->data = node_attr(n, data)->u.blob;
}

// --- kernels -------------------------------------------------------------------------------------

static void add_copy(Fuse *f, NodeId root, NodeId src, Loc dst, bool is_last)
{
    PlanKernel k = {.root = root, .copy = {.src = src, .dst = dst}, .is_last = is_last};
    if (shape_numel(graph_node(f->g, src)->shape) > 0)
        vec_push(f->plan->arena, &f->plan->kernels, k);
}

// A state that is a part of a concat's memory: the old elements move before anything else runs.
static void place_shift(Fuse *f, const GraphState *s)
{
    Loc *at = loc_of(f, s->node);
    PlanBuffer *b = &f->plan->buffers.data[at->buf];
    Shift shift;
    if (b->region != REGION_STATE || !shift_find(f->pass, &f->groups.uses, s, at, &shift))
        return;
    const Node *whole = graph_node(f->g, shift.whole);
    const uint64_t own = b->bytes, before = (uint64_t)shift.at.offset * dtype_info[whole->dtype].bytes;
    b->bytes = type_bytes((DType)whole->dtype, whole->shape);
    if (b->data != NULL) {
        unsigned char *data = arena_alloc(f->plan->arena, b->bytes);
        memcpy(data + before, b->data, own);
        b->data = data;
    }
    at->offset = shift.at.offset;
    *loc_of(f, shift.whole) = shift.begin;
    add_copy(f, shift.whole, s->node, shift.begin, false);
    f->plan->kernels.data[f->plan->kernels.len - 1].is_first = true;
}

// A reshape of scattered memory: the source's elements in row order into a dense buffer.
static void add_reshape_copy(Fuse *f, NodeId id)
{
    const Node *n = graph_node(f->g, id);
    Loc dst = own_loc(f, id, REGION_ARENA);
    *loc_of(f, id) = dst;
    dense_strides(graph_node(f->g, n->src[0])->shape, ORDER_ROW_MAJOR, dst.stride);
    add_copy(f, id, n->src[0], dst, false);
}

static void add_result_buffer(Fuse *f, NodeId id)
{
    *loc_of(f, id) = own_loc(f, id, REGION_ARENA);
}

// May the new value be made where the old one is? When nobody reads the old one, or only the update that
// makes the new one.
static bool is_made_in_place(const Fuse *f, const GraphState *s)
{
    const Node *next = graph_node(f->g, s->next);
    const Uses *u = &f->groups.uses;
    const uint32_t readers = u->first[s->node + 1] - u->first[s->node];
    if (readers == 0)
        return op_is_computed((OpId)next->op);
    return readers == 1 && (op_info[next->op].flags & OPFLAG_UPDATES) != 0 && next->src[0] == s->node &&
           f->groups.anchor[s->next] == s->next;
}

static void place_state_updates(Fuse *f)
{
    // What checks depend on runs before a state may change.
    const bool *is_early = graph_mark_needed(f->g, ROOT_CHECK, f->pass->scratch);
    for (uint32_t i = 0; i < f->g->states.len; i++) {
        const GraphState *s = &f->g->states.data[i];
        if (!is_early[s->next] && f->groups.root[s->next] == s->next && loc_of(f, s->next)->buf == 0 &&
            is_made_in_place(f, s))
            *loc_of(f, s->next) = *loc_of(f, s->node);
    }
}

// The node of result `index`; 0: nobody reads it.
static NodeId result_node(const Fuse *f, NodeId id, uint32_t index)
{
    const Uses *u = &f->groups.uses;
    if (index == 0)
        return id;
    for (uint32_t i = u->first[id]; i < u->first[id + 1]; i++) {
        const Node *n = graph_node(f->g, u->user[i]);
        if (u->user[i] != 0 && node_result(n) == index)
            return u->user[i];
    }
    return 0;
}

// Carried values live where the results are: there the operands are copied before the loop. Carried values
// that nobody wants at the end need memory all the same.
static const Loc *place_loop(Fuse *f, NodeId id)
{
    const Node *n = graph_node(f->g, id);
    const uint32_t n_carried = loop_form(n).n_carried;
    Loc *locs = ARENA_ARRAY(f->plan->arena, Loc, n->n_results);
    for (uint32_t i = 0; i < n->n_results; i++) {
        const NodeId result = result_node(f, id, i);
        if (result != 0 && loc_of(f, result)->buf == 0)
            *loc_of(f, result) = own_loc(f, result, REGION_ARENA);
        if (result != 0)
            locs[i] = *loc_of(f, result);
        else if (i < n_carried)
            locs[i] = own_loc(f, n->src[i + 2], REGION_ARENA);
        if (result == 0 && i < n_carried)
            dense_strides(&n->results[i].shape, ORDER_ROW_MAJOR, locs[i].stride);
        const uint32_t n_kernels = f->plan->kernels.len;
        if (i < n_carried)
            add_copy(f, id, n->src[i + 2], locs[i], false);
        if (f->plan->kernels.len != n_kernels)
            f->plan->kernels.data[n_kernels].is_start = true;
    }
    return locs;
}

// The text of a custom op reads dense rows: what lies in another way is copied before.
static const Loc *place_custom(Fuse *f, NodeId id)
{
    const Node *n = graph_node(f->g, id);
    Loc *locs = ARENA_ARRAY(f->plan->arena, Loc, n->n_src + 1u);
    for (uint32_t i = 0; i < n->n_src; i++) {
        locs[i] = *loc_of(f, n->src[i]);
        if (is_dense_rows(graph_node(f->g, n->src[i])->shape, &locs[i]))
            continue;
        const uint32_t n_kernels = f->plan->kernels.len;
        locs[i] = own_loc(f, n->src[i], REGION_ARENA);
        dense_strides(graph_node(f->g, n->src[i])->shape, ORDER_ROW_MAJOR, locs[i].stride);
        add_copy(f, id, n->src[i], locs[i], false);
        if (f->plan->kernels.len != n_kernels)
            f->plan->kernels.data[n_kernels].is_start = true;
    }
    return locs;
}

// Maxima are found in the result, to which data is copied before.
static const Loc *place_maxima(Fuse *f, NodeId id)
{
    const Node *n = graph_node(f->g, id);
    const uint32_t n_kernels = f->plan->kernels.len;
    Loc *locs = ARENA_ARRAY(f->plan->arena, Loc, n->n_src);
    if (loc_of(f, id)->buf == 0)
        add_result_buffer(f, id);
    for (uint32_t i = 0; i < n->n_src; i++)
        locs[i] = *loc_of(f, i == 0 ? id : n->src[i]);
    add_copy(f, id, n->src[0], locs[0], false);
    f->plan->kernels.data[n_kernels].is_start = true;
    return locs;
}

static void add_group(Fuse *f, NodeId root, const uint32_t *first, const NodeId *member)
{
    if (shape_numel(graph_node(f->g, root)->shape) == 0 && graph_node(f->g, root)->n_results == 1)
        return;
    PlanKernel k = {.root = root, .anchor = f->groups.anchor[root]};
    if (loop_form(graph_node(f->g, root)).body != NULL)
        k.results = place_loop(f, root);
    if (graph_node(f->g, root)->op == OP_custom)
        k.operands = place_custom(f, root);
    if (scatter_finds_maxima(f->plan->caps, f->g, root))
        k.operands = place_maxima(f, root);
    for (uint32_t i = first[root]; i < first[root + 1]; i++)
        group_add_member(f->plan, &f->groups, member[i], &k);
    strip_add_stages(&f->groups, f->plan->arena, &k);
    vec_push(f->plan->arena, &f->plan->kernels, k);
}

// Members of every group, ascending, as ranges of one array.
static NodeId *collect_members(Fuse *f, uint32_t **first_out)
{
    const uint32_t n = f->g->nodes.len;
    uint32_t *first = ARENA_ARRAY(f->pass->scratch, uint32_t, n + 1);
    for (NodeId id = 1; id < n; id++)
        first[f->groups.root[id] + 1]++;
    first[1] = 0; // root 0: nodes without a group
    for (uint32_t i = 1; i < n; i++)
        first[i + 1] += first[i];
    uint32_t *fill = arena_copy(f->pass->scratch, first, (n + 1) * sizeof *first);
    NodeId *member = ARENA_ARRAY(f->pass->scratch, NodeId, first[n] + 1);
    for (NodeId id = 1; id < n; id++)
        if (f->groups.root[id] != 0)
            member[fill[f->groups.root[id]]++] = id;
    *first_out = first;
    return member;
}

static void add_concat_copies(Fuse *f, NodeId id)
{
    const Node *n = graph_node(f->g, id);
    for (uint32_t i = 0; i < n->n_src; i++) {
        const Loc want = concat_part(f, id, i), *have = loc_of(f, n->src[i]);
        if (have->buf == want.buf && f->plan->buffers.data[have->buf].region == REGION_STATE &&
            op_info[graph_node(f->g, n->src[i])->op].kind == OPKIND_LEAF)
            continue; // place_shift
        if (have->buf != want.buf || have->offset != want.offset ||
            !same_strides(graph_node(f->g, n->src[i])->shape, have->stride, want.stride))
            add_copy(f, id, n->src[i], want, false);
    }
}

static void add_kernels(Fuse *f)
{
    uint32_t *first = NULL;
    const NodeId *member = collect_members(f, &first);
    for (NodeId id = 1; id < f->g->nodes.len; id++) {
        const Node *n = graph_node(f->g, id);
        Loc view;
        if (concat_axis(n) >= 0) {
            add_concat_copies(f, id);
        } else if (node_result(n) != 0) {
            if (loc_of(f, id)->buf == 0)
                add_result_buffer(f, id);
        } else if ((op_info[n->op].flags & OPFLAG_VIEW) != 0) {
            if (view_loc(f->g, n, loc_of(f, n->src[0]), &view))
                *loc_of(f, id) = view;
            else
                add_reshape_copy(f, id);
        } else if (f->groups.root[id] == id) {
            add_group(f, id, first, member);
        }
    }
}

// --- inputs, outputs, states ---------------------------------------------------------------------

static PlanIo io_of(Fuse *f, const char *name, NodeId id, const Loc *loc)
{
    const Node *n = graph_node(f->g, id);
    PlanIo io = {.name = name, .node = id, .dtype = (DType)n->dtype, .rank = n->shape->rank, .buf = loc->buf};
    for (uint32_t i = 0; i < io.rank; i++)
        io.dim[i] = n->shape->dim[i];
    io.byte_offset = (uint64_t)loc->offset * dtype_info[n->dtype].bytes;
    io.bytes = type_bytes((DType)n->dtype, n->shape);
    return io;
}

// A scan output of a body is written where its row is, if it has a buffer that holds nothing else.
static void place_scan_output(Fuse *f, Loc *loc, const GraphOutput *o, uint32_t slot)
{
    Plan *p = f->plan;
    const Node *n = graph_node(f->g, o->node);
    const PlanBuffer *own = &p->buffers.data[loc->buf];
    if (own->region != REGION_ARENA || own->is_pinned || loc->offset != 0 ||
        own->bytes != type_bytes((DType)n->dtype, n->shape) || !is_dense_rows(n->shape, loc)) {
        *loc = (Loc){.buf = add_buffer(f, REGION_OUTER, (DType)n->dtype, n->shape, o->name)};
        dense_strides(n->shape, ORDER_ROW_MAJOR, loc->stride);
        add_copy(f, o->node, o->node, *loc, false);
    }
    p->buffers.data[loc->buf].region = REGION_OUTER;
    p->buffers.data[loc->buf].slot = slot;
}

static void add_outputs(Fuse *f)
{
    Plan *p = f->plan;
    for (uint32_t i = 0; i < f->g->outputs.len; i++) {
        const GraphOutput *o = &f->g->outputs.data[i];
        const Node *n = graph_node(f->g, o->node);
        Loc loc = *loc_of(f, o->node);
        const PlanBuffer *b = &p->buffers.data[loc.buf];
        const uint32_t slot = f->pass->frame ? f->pass->frame->outputs.data[i] : PLAN_NO_ARG;
        if (slot != PLAN_NO_ARG) {
            place_scan_output(f, &loc, o, slot);
        } else if (b->region != REGION_ARENA || b->is_pinned || !is_dense_rows(n->shape, &loc)) {
            loc = (Loc){.buf = add_buffer(f, REGION_ARENA, (DType)n->dtype, n->shape, o->name)};
            dense_strides(n->shape, ORDER_ROW_MAJOR, loc.stride);
            add_copy(f, o->node, o->node, loc, false);
        }
        if (o->shape_of) {
            vec_push(p->arena, &p->sizes, io_of(f, o->name, o->node, &loc));
            p->outputs.data[o->shape_of - 1].sizes = p->sizes.len;
            p->buffers.data[loc.buf].is_pinned = true;
        } else {
            vec_push(p->arena, &p->outputs, io_of(f, o->name, o->node, &loc));
        }
    }
    for (uint32_t i = 0; i < p->outputs.len; i++)
        p->buffers.data[p->outputs.data[i].buf].is_pinned = true;
}

static void add_checks(Fuse *f)
{
    for (uint32_t i = 0; i < f->g->checks.len; i++) {
        const GraphCheck *c = &f->g->checks.data[i];
        const Loc *at = loc_of(f, c->cond);
        const PlanCheck check = {c->message, at->buf, (uint64_t)at->offset};
        rlx_assert(f->plan->buffers.data[at->buf].region != REGION_WEIGHTS); // constants were settled
        vec_push(f->plan->arena, &f->plan->checks, check);
    }
}

// States whose new value is somewhere else are copied at the very end. (The layout pass has put a copy
// between a state and another state's old value, so that states may swap.)
static void add_state_copies(Fuse *f)
{
    for (uint32_t i = 0; i < f->g->states.len; i++) {
        const GraphState *s = &f->g->states.data[i];
        const Loc *to = loc_of(f, s->node);
        const Loc *from = loc_of(f, s->next);
        if (from->buf == to->buf && from->offset == to->offset &&
            same_strides(graph_node(f->g, s->node)->shape, from->stride, to->stride))
            continue;
        add_copy(f, s->next, s->next, *to, true);
    }
}

static void add_leaves(Fuse *f)
{
    Plan *p = f->plan;
    for (NodeId id = 1; id < f->g->nodes.len; id++)
        if (op_info[graph_node(f->g, id)->op].kind == OPKIND_LEAF)
            place_leaf(f, id);
    p->page = loc_of(f, f->g->page)->buf;
    for (uint32_t i = 0; i < f->g->inputs.len; i++) {
        const NodeId id = f->g->inputs.data[i];
        p->buffers.data[loc_of(f, id)->buf].is_pinned = true;
        vec_push(p->arena, &p->inputs, io_of(f, node_name(f->g, id), id, loc_of(f, id)));
    }
    for (uint32_t i = 0; i < f->g->params.len; i++)
        vec_push(p->arena, &p->params,
                 io_of(f, node_name(f->g, f->g->params.data[i]), f->g->params.data[i],
                       loc_of(f, f->g->params.data[i])));
    for (uint32_t i = 0; i < f->g->states.len; i++) {
        const NodeId id = f->g->states.data[i].node;
        place_shift(f, &f->g->states.data[i]);
        vec_push(p->arena, &p->states, io_of(f, node_name(f->g, id), id, loc_of(f, id)));
    }
}

// Nodes of a kernel stand in the order of the graph, the root last, and the root has memory.
static bool are_bodies_in_order(const Plan *p)
{
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const PlanKernel *k = &p->kernels.data[i];
        for (uint32_t j = 1; j < k->body.len; j++)
            if (k->body.data[j - 1] >= k->body.data[j])
                return false;
        if (k->copy.src == 0 && (p->locs.data[k->root].buf == 0 || k->body.data[k->body.len - 1] != k->root))
            return false;
    }
    return true;
}

bool pass_fuse(Pass *p)
{
    rlx_assert(p->plan->graph == p->graph && p->plan->kernels.len == 0);
    Fuse f = {.pass = p, .plan = p->plan, .g = p->graph};
    p->plan->live = live_analyse(p->graph, p->perm);
    f.groups = group_nodes(p->plan, p->scratch,
                           p->options->opt_level >= 1 && !p->options->no_fuse ? GROUP_FUSE : GROUP_SINGLE);
    if (p->plan->rows.input == 0) // strips of several rows would wait for all of these
        strip_join(p->plan, p->options, p->scratch, &f.groups);
    group_join_products(p, &f.groups);
    vec_push(p->perm, &p->plan->buffers, (PlanBuffer){0});
    if (p->frame != NULL) {
        p->plan->prefix = p->frame->prefix;
        p->plan->slots.data = p->frame->slots.data;
        p->plan->slots.len = p->frame->slots.len;
    }
    for (uint32_t i = 0; i < p->graph->nodes.len; i++)
        vec_push(p->perm, &p->plan->locs, (Loc){0});
    add_leaves(&f);
    place_state_updates(&f);
    group_join_patches(p, &f.groups);
    place_values(&f);
    add_kernels(&f);
    add_outputs(&f);
    add_checks(&f);
    add_state_copies(&f);
    rlx_assert(are_bodies_in_order(p->plan));
    return true;
}
