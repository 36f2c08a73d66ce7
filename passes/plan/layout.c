// SPDX-License-Identifier: Apache-2.0
// Layout: chooses the axis order of every value. Image-like values that convolutions and pools make are kept
// channels-last where the target wants it; ops that need rows in order get a copy in front, which costs
// nothing where the two orders are the same bytes (one channel, or one pixel). Separate from fusion because
// it changes the graph, fusion only groups it.
#include "ir/shape/forms.h"
#include "passes/graph/fold.h"
#include "passes/pass.h"
#include "passes/plan/ram/rows_input.h"

typedef struct Layout {
    Arena *arena;
    bool prefers_channels_last;
    bool keeps_constants; // they are read where they are in a file
    bool pads_channels;   // for convolutions on matrix units, which read them channels-last
    NodeId rows, copy;    // 0, or the value of an input that comes row by row, and its copy
    VEC(uint8_t) orders;  // by NodeId of the graph as rebuilt so far
} Layout;

static AxisOrder order_of(const Layout *l, NodeId id)
{
    return id < l->orders.len ? (AxisOrder)l->orders.data[id] : ORDER_ROW_MAJOR;
}

static void set_order(Layout *l, NodeId id, AxisOrder order)
{
    while (l->orders.len <= id)
        vec_push(l->arena, &l->orders, (uint8_t)ORDER_ROW_MAJOR);
    l->orders.data[id] = (uint8_t)order;
}

// True when both orders are the same bytes: axis 1 or all axes after it have one element.
static bool is_order_moot(const Shape *s)
{
    if (s->rank < 3 || s->dim[1] == 1)
        return true;
    for (uint32_t i = 2; i < s->rank; i++)
        if (s->dim[i] != 1)
            return false;
    return true;
}

// Order of the first non-constant operand that has the result's rank.
static AxisOrder followed_order(const Graph *g, const Layout *l, const Node *n)
{
    for (uint32_t i = 0; i < n->n_src; i++) {
        const NodeId s = n->src[i];
        if (s != 0 && !node_is_const(g, s) && graph_node(g, s)->shape->rank == n->shape->rank)
            return order_of(l, s);
    }
    return ORDER_ROW_MAJOR;
}

static NodeId copy_in_order(Graph *g, Layout *l, NodeId id, AxisOrder order)
{
    NodeBuild b = node_begin(g, OP_copy, node_span(g, id), g->labels.data[id]);
    node_src(&b, id);
    node_str(&b, A_copy_order, order == ORDER_CHANNELS_LAST ? "channels_last" : "row_major");
    const NodeId out = node_end(&b);
    set_order(l, out, order);
    return out;
}

static NodeId to_rows(Graph *g, Layout *l, NodeId id)
{
    if (id == 0 || order_of(l, id) == ORDER_ROW_MAJOR)
        return id;
    return is_order_moot(graph_node(g, id)->shape) ? id : copy_in_order(g, l, id, ORDER_ROW_MAJOR);
}

// A convolution over few channels reads any order; one that loads vectors of channels needs them next to each
// other.
static bool wants_channels_last_operand(const Graph *g, const Node *n)
{
    if (op_info[n->op].steps == OPSTEPS_KERNEL)
        return true;
    return conv_form(n).group > 1 && graph_node(g, n->src[0])->shape->dim[1] > 1;
}

// A pad that fills channels up (pass_channels), and perhaps frames the pixels.
enum { CHUNK = 8 };
static bool adds_channels(const Node *n)
{
    const int64_t *pads = pad_amounts(n);
    const uint32_t rank = n->shape->rank;
    return pads != NULL && rank >= 3 && pads[0] == 0 && pads[rank] == 0 && pads[1] == 0 &&
           pads[rank + 1] > 0 && pads[rank + 1] < CHUNK && k_is_half(n->dtype);
}

// The axes of an image, or of weights for its elements as rows of a matrix, with the channels last.
static NodeId with_channels_last(Graph *g, NodeId id, const Shape *image, uint32_t first)
{
    int64_t perm[SHAPE_MAX_RANK];
    const uint32_t rank = graph_node(g, id)->shape->rank, last = first + image->rank - 2;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i < first || i > last ? i : i == last ? first : i + 1;
    return graph_transpose(g, id, perm);
}

// The weights of a product on flattened images, for images that are flattened with their channels last.
static NodeId turned_weights(Graph *g, NodeId weights, const Shape *image, bool is_transposed)
{
    const Shape *flat = graph_node(g, weights)->shape;
    const char *label = g->labels.data[weights];
    Shape apart = {.rank = image->rank};
    for (uint32_t i = 0; i + 1 < image->rank; i++)
        apart.dim[i + is_transposed] = image->dim[i + 1];
    apart.dim[is_transposed ? 0 : image->rank - 1] = flat->dim[is_transposed ? 0 : 1];
    const NodeId parts = fold_node(g, graph_reshape(g, weights, &apart));
    const NodeId turned = fold_node(g, with_channels_last(g, parts, image, is_transposed));
    const NodeId made = fold_node(g, graph_reshape(g, turned, flat));
    if (label != NULL && node_is_const(g, made))
        graph_label(g, made, label);
    return made;
}

// A dense layer on an image that was copied to rows only to be flattened: constant weights in another order
// cost nothing, the copy does.
static void flatten_channels_last(Graph *g, const Layout *l, const Node *matmul, NodeId *src)
{
    enum { MOST_BYTES = 1 << 24 }; // constants in memory twice while they are turned
    const Node *flat = graph_node(g, src[0]), *copy = graph_node(g, flat->n_src > 0 ? flat->src[0] : 0);
    const Shape *w = graph_node(g, src[1])->shape;
    const MatmulForm form = matmul_form(matmul);
    if (!op_is_view_of_rows((OpId)flat->op) || copy->op != OP_copy || !node_is_const(g, src[1]) ||
        w->rank != 2 || form.turns_a || node_attr(graph_node(g, src[1]), A_const_data)->len > MOST_BYTES ||
        l->keeps_constants)
        return;
    const NodeId image = copy->src[0];
    const Shape *s = graph_node(g, image)->shape;
    if (order_of(l, image) != ORDER_CHANNELS_LAST || order_of(l, flat->src[0]) != ORDER_ROW_MAJOR ||
        flat->shape->rank != 2 || flat->shape->dim[0] != s->dim[0])
        return;
    const Shape rows = *flat->shape, image_shape = *s;
    const NodeId weights = turned_weights(g, src[1], &image_shape, form.turns_b);
    if (!node_is_const(g, weights))
        return;
    src[1] = weights;
    src[0] = graph_reshape(g, with_channels_last(g, image, &image_shape, 1), &rows);
}

// The node with these operands; itself when they are its own.
static NodeId with_operands(Graph *g, NodeId id, const NodeId *src)
{
    const Node *n = graph_node(g, id);
    for (uint32_t i = 0; i < n->n_src; i++)
        if (src[i] != n->src[i])
            return graph_clone_node(g, g, id, src);
    return id;
}

// What is looked up in a table of single elements has the order of the indices.
static OpLayout layout_of(const Graph *g, const Node *n)
{
    const OpLayout rule = op_info[n->op].layout;
    if (rule != OPLAYOUT_TABLE)
        return rule;
    return graph_node(g, n->src[0])->shape->rank == 1 ? OPLAYOUT_FOLLOW : OPLAYOUT_ROWS;
}

// Rows that have arrived go to where they can be read again, each in one piece.
static NodeId copy_rows(Graph *g, Layout *l, NodeId id)
{
    const bool is_moot = is_order_moot(graph_node(g, id)->shape);
    return l->copy = copy_in_order(g, l, id, is_moot ? ORDER_ROW_MAJOR : ORDER_CHANNELS_LAST);
}

static NodeId step_layout(Graph *g, NodeId id, void *ctx)
{
    Layout *l = ctx;
    const Node n = *graph_node(g, id);
    if (id == l->rows)
        return copy_rows(g, l, id);
    const OpLayout rule = layout_of(g, &n);
    NodeId src[256];
    AxisOrder order = ORDER_ROW_MAJOR;
    if (n.n_src == 0 || n.n_src > 256)
        return id;
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] = rule == OPLAYOUT_ROWS ? to_rows(g, l, n.src[i]) : n.src[i];
    if (matmul_form(&n).is_there)
        flatten_channels_last(g, l, &n, src);
    if (rule == OPLAYOUT_IMAGE && l->prefers_channels_last && n.shape->rank >= 3) {
        order = ORDER_CHANNELS_LAST;
        if (wants_channels_last_operand(g, &n) && order_of(l, src[0]) == ORDER_ROW_MAJOR &&
            !is_order_moot(graph_node(g, src[0])->shape))
            src[0] = copy_in_order(g, l, src[0], ORDER_CHANNELS_LAST);
    } else if (l->pads_channels && adds_channels(&n)) {
        order = ORDER_CHANNELS_LAST;
    } else if (rule == OPLAYOUT_FOLLOW) {
        order = followed_order(g, l, &n);
    } else if (n.op == OP_copy && str_equal(node_get_str(&n, A_copy_order), "channels_last")) {
        order = ORDER_CHANNELS_LAST;
    }
    const NodeId out = with_operands(g, id, src);
    set_order(l, out, order);
    return out;
}

// True when id is, perhaps through views, the old value of a state.
static bool is_old_state(const Graph *g, NodeId id)
{
    while ((op_info[graph_node(g, id)->op].flags & OPFLAG_VIEW) != 0)
        id = graph_node(g, id)->src[0];
    return graph_node(g, id)->op == OP_state;
}

// States are written at the end of a run, one after the other: a state that becomes another's old value needs
// a copy of it.
static void separate_states(Graph *g, Layout *l)
{
    for (uint32_t i = 0; i < g->states.len; i++) {
        GraphState *s = &g->states.data[i];
        if (s->next != s->node && is_old_state(g, s->next))
            s->next = copy_in_order(g, l, s->next, ORDER_ROW_MAJOR);
    }
}

bool pass_layout(Pass *p)
{
    rlx_assert(p->plan == NULL && p->graph != NULL);
    Layout l = {.arena = p->perm,
                .prefers_channels_last = p->options->caps->channels_last,
                .keeps_constants = p->options->file != NULL,
                .pads_channels = p->options->caps->has_mma};
    if (!rows_input_begin(p, &l.rows))
        return false;
    const bool changed = graph_rewrite(p->graph, step_layout, &l);
    separate_states(p->graph, &l);
    NodeId *map = NULL;
    Graph *packed = graph_compact(p->graph, &map);
    Plan *plan = ARENA_NEW(p->perm, Plan);
    *plan = (Plan){.arena = p->perm,
                   .graph = packed,
                   .caps = p->options->caps,
                   .prefix = "k",
                   .pruned = p->pruned,
                   .rows = {.input = l.rows != 0 ? p->options->rows_input : 0, .copy = map[l.copy]}};
    for (uint32_t i = 0; i < packed->nodes.len; i++)
        vec_push(p->perm, &plan->orders, (uint8_t)ORDER_ROW_MAJOR);
    for (NodeId id = 1; id < p->graph->nodes.len; id++)
        if (map[id] != 0)
            plan->orders.data[map[id]] = (uint8_t)order_of(&l, id);
    p->graph = packed;
    p->plan = plan;
    rlx_assert(plan->orders.len == packed->nodes.len);
    return changed;
}
