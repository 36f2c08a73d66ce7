// SPDX-License-Identifier: Apache-2.0
// The analysis behind live.h: one walk over the final graph that carries facts from operands to results.
// An element that is computed from one that does not exist does not exist either, so `dead` follows the axes
// through every op that maps them. The exceptions are the repairs of the extent pass (extent_rules.c): masks
// where(lt(iota, size), x, v), which are recognised and make `fill`, and parts that are written over
// (update_slice). A mask that is not recognised ends what is known.
#include "passes/live/live.h"

#include "ir/graph/tensor.h"
#include "ir/shape/forms.h"

#include <math.h>

enum { MAX_FACTOR = 1 << 30 };

typedef struct Live {
    const Graph *g;
    Arena *arena;
    const LiveFacts **of;
    bool *has_size; // by node: its value depends on one of the sizes
} Live;

// --- sizes ---

bool live_equal(const LiveRef *a, const LiveRef *b)
{
    return a->size == b->size && a->mul == b->mul && a->add == b->add && a->div == b->div;
}

LiveRef live_times(LiveRef r, int64_t factor)
{
    const LiveRef none = {0};
    if (r.size == 0 || factor <= 0 || factor > MAX_FACTOR || r.mul * factor > MAX_FACTOR ||
        r.add > MAX_FACTOR || r.add < -MAX_FACTOR)
        return none;
    r.mul *= factor;
    r.add *= factor;
    return r;
}

static LiveRef plus(LiveRef r, int64_t n)
{
    if (n > MAX_FACTOR || n < -MAX_FACTOR || r.div > MAX_FACTOR)
        return (LiveRef){0};
    r.add += n * r.div;
    return r;
}

// Rounded up: more elements than exist do no harm.
static LiveRef over(LiveRef r, int64_t n)
{
    if (n <= 0 || n > MAX_FACTOR || r.div * n > MAX_FACTOR)
        return (LiveRef){0};
    r.div *= n;
    r.add += r.div - r.div / n;
    return r;
}

static bool is_size(const Graph *g, NodeId id)
{
    for (uint32_t i = 0; i < g->lives.len; i++)
        if (g->lives.data[i].size == id)
            return true;
    return false;
}

static bool is_sum(OpId op)
{
    return (op_info[op].flags & OPFLAG_LINEAR) != 0 && (op_info[op].flags & OPFLAG_COMMUTES) != 0;
}

// A size of the graph, perhaps with a constant added; else size 0.
static LiveRef ref_of(const Graph *g, NodeId id)
{
    int64_t add = 0;
    for (uint32_t steps = 0; steps < 8; steps++) {
        const Node *n = graph_node(g, id);
        double v = 0;
        if (is_size(g, id))
            return plus((LiveRef){id, 1, 0, 1}, add);
        if (n->op == OP_reshape || n->op == OP_expand) {
            id = n->src[0];
        } else if (is_sum((OpId)n->op) && node_is_scalar_const(g, n->src[1], &v) && fabs(v) < MAX_FACTOR) {
            add += (int64_t)v;
            id = n->src[0];
        } else {
            break;
        }
    }
    return (LiveRef){0};
}

// --- masks ---

// The axis along which a constant counts 0, 1, 2 ...; -1: it is no such constant.
static int iota_axis(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    int axis = -1;
    if (n->op != OP_const || n->dtype != DTYPE_i64)
        return -1;
    for (uint32_t i = 0; i < n->shape->rank; i++) {
        if (n->shape->dim[i] != 1 && axis >= 0)
            return -1;
        axis = n->shape->dim[i] != 1 ? (int)i : axis;
    }
    const Tensor t = tensor_of_const(g, id);
    for (int64_t i = 0; axis >= 0 && i < n->shape->dim[axis]; i++)
        axis = tensor_get_i64(&t, i) == i ? axis : -1;
    return axis;
}

// lt(iota, size): false from there on.
static void mask_facts(const Live *l, const Node *n, LiveFacts *out)
{
    const int axis = iota_axis(l->g, n->src[0]);
    const Shape *iota = graph_node(l->g, n->src[0])->shape;
    const LiveRef size =
        shape_numel(graph_node(l->g, n->src[1])->shape) == 1 ? ref_of(l->g, n->src[1]) : (LiveRef){0};
    if (axis < 0 || size.size == 0 || iota->rank > n->shape->rank)
        return;
    out->axis[(uint32_t)axis + n->shape->rank - iota->rank].fill = size;
}

// --- ops ---

// The facts about axis i of a node of rank `rank` that operand k gives it; NULL: none.
static const LiveAxis *operand_axis(const Live *l, const Node *n, uint32_t k, uint32_t i)
{
    const NodeId src = n->src[k];
    const LiveFacts *f = src ? l->of[src] : NULL;
    const Shape *s = f ? graph_node(l->g, src)->shape : NULL;
    const uint32_t lead = s ? n->shape->rank - s->rank : 0;
    if (f == NULL || i < lead || s->dim[i - lead] != n->shape->dim[i])
        return NULL;
    return &f->axis[i - lead];
}

// Has operand k different elements along axis i of the node?
static bool varies(const Live *l, const Node *n, uint32_t k, uint32_t i)
{
    const Shape *s = graph_node(l->g, n->src[k])->shape;
    return i + s->rank >= n->shape->rank && s->dim[i + s->rank - n->shape->rank] != 1;
}

// A selection by what is no mask of this axis: what both sides are filled with stays.
static void keep_fill(const Live *l, const Node *n, uint32_t i, LiveAxis *out)
{
    const LiveAxis *yes = operand_axis(l, n, 1, i), *no = operand_axis(l, n, 2, i);
    double v = 0;
    if ((yes == NULL || yes->fill.size == 0) && (no == NULL || no->fill.size == 0))
        return;
    const bool is_same =
        yes != NULL && yes->fill.size != 0 && node_is_scalar_const(l->g, n->src[2], &v) && v == yes->value;
    *out = is_same ? (LiveAxis){.fill = yes->fill, .value = v} : (LiveAxis){0};
}

// What a selection is beyond the end of its mask.
static void where_axis(const Live *l, const Node *n, uint32_t i, LiveAxis *out)
{
    const LiveAxis *mask = operand_axis(l, n, 0, i), *no = operand_axis(l, n, 2, i);
    const bool is_mask = mask != NULL && mask->fill.size != 0 && mask->value == 0;
    double v = 0;
    if (is_mask && node_is_scalar_const(l->g, n->src[2], &v)) {
        out->fill = mask->fill;
        out->value = v;
    } else if (is_mask && no != NULL && no->fill.size != 0 && live_equal(&no->fill, &mask->fill)) {
        out->fill = mask->fill;
        out->value = no->value;
    } else if (l->has_size[n->src[0]] && varies(l, n, 0, i)) {
        *out = (LiveAxis){0}; // may be a repair that is not understood
    } else {
        keep_fill(l, n, i, out);
    }
}

static void pointwise_axis(const Live *l, const Node *n, uint32_t i, LiveAxis *out)
{
    bool is_filled = false;
    for (uint32_t k = 0; k < n->n_src; k++) {
        const LiveAxis *a = operand_axis(l, n, k, i);
        if (a == NULL)
            continue;
        out->dead = out->dead.size ? out->dead : a->dead;
        is_filled = is_filled || a->fill.size != 0;
        if (a->fill.size != 0 && a->value == 0 && (n->op == OP_cast || n->op == OP_logical_and)) {
            out->fill = a->fill;
            out->value = 0;
        }
    }
    if (op_info[n->op].ew == EW_SEL)
        where_axis(l, n, i, out);
    else if (is_filled && out->fill.size == 0)
        *out = (LiveAxis){0};
}

static void live_pointwise(const Live *l, const Node *n, LiveFacts *out)
{
    for (uint32_t i = 0; i < n->shape->rank; i++)
        pointwise_axis(l, n, i, &out->axis[i]);
    if (n->op == OP_lt)
        mask_facts(l, n, out);
}

static void live_reshape(const Live *l, const Node *n, LiveFacts *out)
{
    const Shape *from = graph_node(l->g, n->src[0])->shape, *to = n->shape;
    const LiveFacts *f = l->of[n->src[0]];
    uint32_t a = 0, b = 0;
    while (f != NULL && a < from->rank && b < to->rank) {
        const uint32_t first_a = a, first_b = b;
        int64_t size_a = from->dim[a++], size_b = to->dim[b++];
        while (size_a != size_b) {
            if (size_a < size_b && a < from->rank)
                size_a *= from->dim[a++];
            else if (size_a > size_b && b < to->rank)
                size_b *= to->dim[b++];
            else
                return;
        }
        uint32_t outer_a = first_a, outer_b = first_b;
        while (outer_a + 1 < a && from->dim[outer_a] == 1)
            outer_a++;
        while (outer_b + 1 < b && to->dim[outer_b] == 1)
            outer_b++;
        if (size_a == 0)
            return;
        LiveAxis x = f->axis[outer_a];
        if (x.dead.size)
            x.dead = over(live_times(x.dead, size_a / from->dim[outer_a]), size_b / to->dim[outer_b]);
        if (x.fill.size)
            x.fill = over(live_times(x.fill, size_a / from->dim[outer_a]), size_b / to->dim[outer_b]);
        out->axis[outer_b] = x;
    }
}

static void live_transpose(const Live *l, const Node *n, LiveFacts *out)
{
    const LiveFacts *f = l->of[n->src[0]];
    for (uint32_t i = 0; f != NULL && i < n->shape->rank; i++)
        out->axis[i] = f->axis[node_get_at(n, A_transpose_perm, i, (int64_t)(n->shape->rank - 1 - i))];
}

static void live_slice(const Live *l, const Node *n, LiveFacts *out)
{
    const LiveFacts *f = l->of[n->src[0]];
    const AttrVal *axes = node_attr(n, A_slice_axes);
    if (f == NULL)
        return;
    *out = *f;
    for (uint32_t i = 0; i < n->shape->rank; i++) {
        for (uint32_t k = 0; k < (axes->len ? axes->len : node_attr(n, A_slice_starts)->len); k++) {
            const int64_t start = node_get_at(n, A_slice_starts, k, 0);
            LiveAxis *x = &out->axis[i];
            if (node_get_at(n, A_slice_axes, k, k) != (int64_t)i)
                continue;
            if (start < 0 || node_get_at(n, A_slice_steps, k, 1) != 1) {
                *x = (LiveAxis){0};
                continue;
            }
            x->dead = x->dead.size ? plus(x->dead, -start) : x->dead;
            x->fill = x->fill.size ? plus(x->fill, -start) : x->fill;
        }
    }
}

// Axis i of the result is axis `from` of operand k, of the same size, of which `dead` is all that stays.
static void take_dead(const Live *l, const Node *n, uint32_t k, uint32_t from, uint32_t i, LiveFacts *out)
{
    const NodeId src = k < n->n_src ? n->src[k] : 0;
    const LiveFacts *f = src ? l->of[src] : NULL;
    if (f != NULL && out->axis[i].dead.size == 0 &&
        graph_node(l->g, src)->shape->dim[from] == n->shape->dim[i])
        out->axis[i].dead = f->axis[from].dead;
}

// All axes but those in `but` stay what they are in operand k.
static void same_axes(const Live *l, const Node *n, uint32_t k, uint32_t but, LiveFacts *out)
{
    const uint32_t rank = graph_node(l->g, n->src[k])->shape->rank;
    for (uint32_t i = 0; i < n->shape->rank && rank == n->shape->rank; i++)
        if (!(but >> i & 1))
            take_dead(l, n, k, i, i, out);
}

static void live_reduced(const Live *l, const Node *n, LiveFacts *out)
{
    const AttrVal *v = node_find_attr(n, "axes");
    const bool keeps = node_find_attr(n, "keepdims")->u.i != 0;
    const uint32_t rank = graph_node(l->g, n->src[0])->shape->rank;
    uint32_t gone = v->len == 0 ? 0xff : 0, at = 0;
    for (uint64_t i = 0; i < v->len; i++)
        gone |= 1u << v->u.ints[i];
    for (uint32_t i = 0; i < rank; i++)
        if (!(gone >> i & 1))
            take_dead(l, n, 0, i, at++, out);
        else
            at += keeps;
}

static void live_matmul(const Live *l, const Node *n, LiveFacts *out)
{
    const Shape *a = graph_node(l->g, n->src[0])->shape, *b = graph_node(l->g, n->src[1])->shape;
    const bool ta = matmul_form(n).turns_a, tb = matmul_form(n).turns_b;
    const uint32_t rank = n->shape->rank;
    if (a->rank < 2 || b->rank < 2)
        return;
    for (uint32_t i = 0; i + 2 < rank; i++) {
        if (i + a->rank >= rank)
            take_dead(l, n, 0, i + a->rank - rank, i, out);
        if (i + b->rank >= rank)
            take_dead(l, n, 1, i + b->rank - rank, i, out);
    }
    take_dead(l, n, 0, ta ? a->rank - 1 : a->rank - 2, rank - 2, out);
    take_dead(l, n, 1, tb ? b->rank - 2 : b->rank - 1, rank - 1, out);
}

// Rows that do not exist, or whose experts do not.
static void live_experts(const Live *l, const Node *n, LiveFacts *out)
{
    for (uint32_t i = 0; i + 1 < n->shape->rank; i++) {
        if (i + 1 < graph_node(l->g, n->src[0])->shape->rank)
            take_dead(l, n, 0, i, i, out);
        take_dead(l, n, 2, i, i, out);
    }
}

static void live_gather(const Live *l, const Node *n, LiveFacts *out)
{
    const uint32_t axis = (uint32_t)node_get_int(n, A_gather_axis);
    const uint32_t inner = graph_node(l->g, n->src[1])->shape->rank;
    for (uint32_t i = 0; i < n->shape->rank; i++)
        if (i >= axis && i < axis + inner)
            take_dead(l, n, 1, i - axis, i, out);
        else
            take_dead(l, n, 0, i < axis ? i : i + 1 - inner, i, out);
}

// Along the joined axis only the last part may have dead elements: the extent pass writes others over.
static void live_concat(const Live *l, const Node *n, LiveFacts *out)
{
    const uint32_t axis = (uint32_t)node_get_int(n, A_concat_axis), last = n->n_src - 1u;
    for (uint32_t k = 0; k < n->n_src; k++)
        same_axes(l, n, k, 1u << axis, out);
    const LiveFacts *f = l->of[n->src[last]];
    if (f != NULL && f->axis[axis].dead.size != 0)
        out->axis[axis].dead =
            plus(f->axis[axis].dead, n->shape->dim[axis] - graph_node(l->g, n->src[last])->shape->dim[axis]);
}

static void live_pad(const Live *l, const Node *n, LiveFacts *out)
{
    const LiveFacts *f = l->of[n->src[0]];
    const uint32_t rank = n->shape->rank;
    for (uint32_t i = 0; f != NULL && i < rank; i++) {
        const int64_t both = node_get_at(n, A_pad_pads, i, 0) + node_get_at(n, A_pad_pads, rank + i, 0);
        if (f->axis[i].dead.size != 0 && f->axis[i].fill.size == 0)
            out->axis[i].dead = plus(f->axis[i].dead, both);
    }
}

static void live_same(const Live *l, const Node *n, LiveFacts *out)
{
    for (uint32_t i = 0; i < n->shape->rank; i++) {
        const LiveAxis *a = operand_axis(l, n, 0, i);
        if (a != NULL)
            out->axis[i] = *a;
    }
}

// Operand 0 has all axes of the result.
static void live_axes(const Live *l, const Node *n, LiveFacts *out)
{
    same_axes(l, n, 0, 0, out);
}

static void live_but_last(const Live *l, const Node *n, LiveFacts *out)
{
    if (n->shape->rank > 0)
        same_axes(l, n, 0, 1u << (n->shape->rank - 1), out);
}

// The operand has one axis more: blocks and their bytes are the last one of the result.
static void live_decode(const Live *l, const Node *n, LiveFacts *out)
{
    for (uint32_t i = 0; i + 1 < n->shape->rank; i++)
        take_dead(l, n, 0, i, i, out);
}

// Operand 1 has all axes of the result but the last.
static void live_chosen(const Live *l, const Node *n, LiveFacts *out)
{
    for (uint32_t i = 0; i + 1 < n->shape->rank; i++)
        take_dead(l, n, 1, i, i, out);
}

static void live_first(const Live *l, const Node *n, LiveFacts *out)
{
    same_axes(l, n, 0, ~1u, out);
}

static void live_none(const Live *l, const Node *n, LiveFacts *out)
{
    (void)l;
    (void)n;
    (void)out;
}

// --- the walk ---

typedef void LiveRule(const Live *l, const Node *n, LiveFacts *out);

// The column `live` of ops.def. The layout pass puts copies between masks and those who rely on them, so they
// keep `fill`.
static LiveRule *const rules[OP_COUNT] = {
#define LEAF(name)    [OP_##name] = live_none,
#define EW(name, ...) [OP_##name] = live_pointwise,
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    [OP_##name] = live_##live,
#include "ir/graph/ops.def"
};

static void add_roots(const Live *l, NodeId id, LiveFacts *out)
{
    for (uint32_t i = 0; i < l->g->lives.len; i++) {
        const GraphLive *v = &l->g->lives.data[i];
        if (v->node == id && v->axis < SHAPE_MAX_RANK)
            out->axis[v->axis].dead = (LiveRef){v->size, 1, 0, 1};
    }
}

static bool is_known(const LiveFacts *f)
{
    for (uint32_t i = 0; i < SHAPE_MAX_RANK; i++)
        if (f->axis[i].dead.size != 0 || f->axis[i].fill.size != 0)
            return true;
    return false;
}

static void follow(const Live *l, NodeId id)
{
    const Node *n = graph_node(l->g, id);
    LiveFacts out = {0};
    bool has_facts = op_is_pointwise((OpId)n->op); // masks arise there
    l->has_size[id] = is_size(l->g, id);
    for (uint32_t i = 0; i < n->n_src; i++) {
        has_facts = has_facts || l->of[n->src[i]] != NULL;
        l->has_size[id] = l->has_size[id] || (n->src[i] != 0 && l->has_size[n->src[i]]);
    }
    if (has_facts)
        rules[n->op](l, n, &out);
    add_roots(l, id, &out);
    if (is_known(&out))
        l->of[id] = arena_copy(l->arena, &out, sizeof out);
}

const LiveTable *live_analyse(const Graph *g, Arena *a)
{
    if (g->lives.len == 0)
        return NULL;
    Live l = {.g = g, .arena = a};
    l.of = ARENA_ARRAY(a, const LiveFacts *, g->nodes.len);
    l.has_size = ARENA_ARRAY(a, bool, g->nodes.len);
    for (NodeId id = 1; id < g->nodes.len; id++)
        follow(&l, id);
    live_follow_needs(g, l.of, a);
    rlx_assert(g->nodes.len > 0);
    LiveTable *t = ARENA_NEW(a, LiveTable);
    *t = (LiveTable){l.of, g->nodes.len};
    return t;
}

// --- reading ---

const LiveFacts *live_facts(const Plan *p, NodeId id)
{
    return p->live != NULL && id < p->live->n ? p->live->of[id] : NULL;
}

LiveRef live_bound(const Plan *p, NodeId id, uint32_t axis)
{
    rlx_assert(axis < SHAPE_MAX_RANK);
    rlx_assert(id != 0 && id < p->graph->nodes.len);
    const LiveFacts *f = live_facts(p, id);
    return f == NULL || f->axis[axis].fill.size != 0 ? (LiveRef){0} : f->axis[axis].dead;
}

LiveRef live_fill(const Plan *p, NodeId id, uint32_t axis, double value)
{
    rlx_assert(axis < SHAPE_MAX_RANK);
    rlx_assert(id != 0 && id < p->graph->nodes.len);
    const LiveFacts *f = live_facts(p, id);
    return f == NULL || f->axis[axis].value != value ? (LiveRef){0} : f->axis[axis].fill;
}

bool live_is_masked(const Plan *p, NodeId id, const LiveRef *end, uint32_t axis)
{
    rlx_assert(axis < SHAPE_MAX_RANK);
    rlx_assert(end != NULL && axis < graph_node(p->graph, id)->shape->rank);
    const Graph *g = p->graph;
    const Node *n = graph_node(g, id);
    if (op_info[n->op].ew != EW_SEL)
        return false;
    const uint32_t rank = n->shape->rank, mask_rank = graph_node(g, n->src[0])->shape->rank;
    const LiveFacts *f = live_facts(p, n->src[0]);
    if (f == NULL || axis + mask_rank < rank || !live_equal(&f->axis[axis + mask_rank - rank].fill, end))
        return false;
    NodeId mask = n->src[0];
    while (graph_node(g, mask)->op == OP_reshape || graph_node(g, mask)->op == OP_expand)
        mask = graph_node(g, mask)->src[0];
    const Node *lt = graph_node(g, mask);
    return lt->op == OP_lt && iota_axis(g, lt->src[0]) >= 0 && ref_of(g, lt->src[1]).size == end->size;
}

static void add_size(NodeId *size, uint32_t *n, NodeId id)
{
    for (uint32_t i = 0; i < *n; i++)
        if (size[i] == id)
            return;
    if (id != 0 && *n < LIVE_MAX_SIZES)
        size[(*n)++] = id;
}

static void add_sizes(const Plan *p, NodeId id, NodeId *size, uint32_t *n)
{
    const LiveFacts *f = live_facts(p, id);
    for (uint32_t i = 0; f != NULL && i < SHAPE_MAX_RANK; i++) {
        add_size(size, n, f->axis[i].dead.size);
        add_size(size, n, f->axis[i].fill.size);
    }
}

uint32_t live_sizes(const Plan *p, const PlanKernel *k, NodeId *size)
{
    uint32_t n = 0;
    if (p->live == NULL)
        return 0;
    add_sizes(p, k->copy.src != 0 ? k->copy.src : k->root, size, &n);
    for (uint32_t i = 0; k->anchor != 0 && i < graph_node(p->graph, k->anchor)->n_src; i++)
        add_sizes(p, graph_node(p->graph, k->anchor)->src[i], size, &n);
    rlx_assert(n <= LIVE_MAX_SIZES);
    return n;
}

NodeId live_source(const Graph *g, NodeId size)
{
    rlx_assert(size != 0);
    while ((op_info[graph_node(g, size)->op].flags & OPFLAG_VIEW) != 0)
        size = graph_node(g, size)->src[0];
    rlx_assert(size != 0);
    return size;
}

bool live_is_apart(const Plan *p, const PlanKernel *k, NodeId size)
{
    rlx_assert(size != 0 && size < p->locs.len);
    const NodeId source = live_source(p->graph, size);
    bool is_apart =
        p->locs.data[size].buf != 0 && (op_info[graph_node(p->graph, source)->op].flags & OPFLAG_PARTS) == 0;
    for (uint32_t i = 0; i < k->body.len; i++)
        is_apart = is_apart && k->body.data[i] != source;
    return is_apart && source != k->anchor && source != k->root;
}
