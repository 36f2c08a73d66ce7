// SPDX-License-Identifier: Apache-2.0
// Layout: chooses the axis order of every value. Image-like values that convolutions and pools make are kept
// channels-last where the target wants it; ops that need rows in order get a copy in front, which costs
// nothing where the two orders are the same bytes (one channel, or one pixel). Separate from fusion because
// it changes the graph, fusion only groups it.
#include "ir/graph/intern.h"
#include "ir/shape/forms.h"
#include "passes/graph/fold.h"
#include "passes/graph/long_norms.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/ops/pool.h"
#include "passes/lower/packer.h"
#include "passes/pass.h"
#include "passes/plan/ram/rows_input.h"
#include "passes/plan/view_loc.h"

typedef struct Layout {
    Arena *arena;
    bool prefers_channels_last;
    bool keeps_constants; // they are read where they are in a file
    bool pads_channels;   // for convolutions on matrix units, which read them channels-last
    const PassOptions *options;
    const TargetCaps *caps;
    NodeId rows, copy;    // 0, or the value of an input that comes row by row, and its copy
    const bool *lasting;  // packer_find_lasting of the graph before, of n_before nodes
    uint32_t n_before;
    const bool *in_rows;  // by node of the graph before: all who read it want it in rows
    NodeId old;           // the node of the graph before that is looked at
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

// True for a view of rows that has the channels of these last.
static bool is_image_of_rows(const Graph *g, const Layout *l, NodeId id)
{
    const Node *n = graph_node(g, id);
    return view_has_channels_last(n) && order_of(l, n->src[0]) == ORDER_ROW_MAJOR;
}

// True for an image that would have to be copied so that its channels lie last.
static bool needs_turn(const Graph *g, const Layout *l, NodeId id)
{
    const Node *n = graph_node(g, id);
    return order_of(l, id) == ORDER_ROW_MAJOR && !is_image_of_rows(g, l, id) && !is_order_moot(n->shape);
}

// True when a result may have the order of this operand: it is computed, and of the same rank.
static bool is_followed(const Graph *g, NodeId operand, const Node *n)
{
    return operand != 0 && !node_is_const(g, operand) &&
           graph_node(g, operand)->shape->rank == n->shape->rank;
}

// Is the operand an image that lies channels last? On GPUs, views of rows count too, unless all who read the
// result want it in rows: neighbouring threads would read elements that lie apart, and what turns the result
// back would be a copy. So do they on CPUs that multiply bytes, for bytes, which get another sign first.
static bool has_channels_last(const Graph *g, const Layout *l, NodeId operand)
{
    const bool is_for_dots =
        (l->caps->has_dot8 || l->caps->has_dot16) && k_is_byte(graph_node(g, operand)->dtype);
    const bool takes_views =
        (l->caps->is_gpu || is_for_dots) && l->prefers_channels_last && !l->in_rows[l->old];
    return !is_order_moot(graph_node(g, operand)->shape) &&
           (order_of(l, operand) == ORDER_CHANNELS_LAST ||
            (takes_views && is_image_of_rows(g, l, operand)));
}

// Order of a result that may have any: that of an operand for which it matters and which has channels last,
// or else of the first one.
static AxisOrder followed_order(const Graph *g, const Layout *l, const Node *n)
{
    NodeId first = 0;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (!is_followed(g, n->src[i], n))
            continue;
        first = first != 0 ? first : n->src[i];
        if (has_channels_last(g, l, n->src[i]))
            return ORDER_CHANNELS_LAST;
    }
    return first != 0 ? order_of(l, first) : ORDER_ROW_MAJOR;
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

enum { MAX_CHAIN = 6, MAX_CHAIN_OPERANDS = 3 };

// The same value with channels last. Where it is computed element by element, of one value and numbers, that
// value is copied, so that its kernel writes the other order: no kernel copies the result.
static NodeId turned(Graph *g, Layout *l, NodeId id, uint32_t depth)
{
    const Node n = *graph_node(g, id);
    NodeId src[MAX_CHAIN_OPERANDS];
    if (!needs_turn(g, l, id))
        return id;
    bool is_chain = depth > 0 && op_is_pointwise((OpId)n.op) && n.n_src <= MAX_CHAIN_OPERANDS &&
                    is_followed(g, n.src[0], &n);
    for (uint32_t i = 1; i < n.n_src && is_chain; i++)
        is_chain = n.src[i] == 0 || shape_numel(graph_node(g, n.src[i])->shape) == 1;
    if (!is_chain || graph_node(g, n.src[0])->shape != n.shape)
        return copy_in_order(g, l, id, ORDER_CHANNELS_LAST);
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] = n.src[i];
    src[0] = turned(g, l, n.src[0], depth - 1);
    const NodeId out = graph_clone_node(g, g, id, src);
    set_order(l, out, ORDER_CHANNELS_LAST);
    return out;
}

// Winograd's convolution, which wants channels next to each other, is worth a copy of them.
enum { MANY_CHANNELS = 16 };
static bool may_be_transformed(const Graph *g, const Layout *l, const Node *n)
{
    const NodeId weights = n->src[1];
    const bool is_lasting = l->lasting != NULL && weights < l->n_before && l->lasting[weights];
    const WindowForm form = conv_form(n);
    const Shape *w = graph_node(g, weights)->shape;
    return window_is_three(&form, w) && w->dim[1] >= MANY_CHANNELS &&
           (node_is_const(g, weights) || is_lasting);
}

// Cycles that a tile of a dense convolution takes for a channel of a tap, by its sums and by what it reads.
typedef struct Step {
    double sums, reads;
} Step;

// For an image in rows, a tile's few pixels are a line of memory for each channel. If the lines of a row of
// tiles and the weights do not stay in the first-level cache, all of them come from the second-level one.
static Step step_on_rows(const CpuMachine *cpu, const Shape *w, double sums, double lanes)
{
    enum { VECTORS = 3 }; // of output channels beside each other in a tile
    const double near_share = 0.5, held_share = 0.75, held = held_share * cpu->l1_bytes;
    const double channels = (double)w->dim[1], columns = (double)w->dim[w->rank - 1],
                 taps = (double)shape_numel(w) / (double)(w->dim[0] * w->dim[1]);
    const double lines = channels * CACHE_LINE, weights = VECTORS * lanes * 4;
    Step step = {.sums = sums / cpu->fma_per_cycle};
    if (lines * taps / columns + weights * channels * taps <= held)
        return step;
    const double line = CACHE_LINE / (lines + weights * channels <= held ? columns : 1);
    step.reads = (line + weights) / (near_share * cpu->l2_rate);
    return step;
}

// Do the channels of an image in rows all share a set of the first-level cache?
static bool shares_sets(const CpuMachine *cpu, const Shape *x)
{
    rlx_assert(x->dim[0] > 0 && x->dim[1] > 0);
    const int64_t pitch = shape_numel(x) / (x->dim[0] * x->dim[1]) * (int64_t)sizeof(float);
    return pitch % cpu->way_bytes == 0;
}

// Cycles that a tile waits for the lines of a channel of an image in rows, however few there are: the
// channels are far apart, so nothing fetches the next one ahead. Twice that where all of them share a set of
// the cache.
static double wait_on_rows(const CpuMachine *cpu, const Shape *x, int64_t stride, double pixels)
{
    const double for_line = 0.5, lines = 1 + pixels * (double)stride * sizeof(float) / CACHE_LINE;
    return for_line * lines * (shares_sets(cpu, x) ? 2 : 1);
}

// Machines wait for these lines if there are many, because registers are few, or if the channels share a set,
// and those that compute the vectors of a line in less time if there is work for it: a copy with the channels
// last, of which a tile reads whole lines, is worth its time.
static bool waits_for_rows(const Graph *g, const Layout *l, const Node *n)
{
    enum { OTHER_REGISTERS = 4, COPIED_BYTES = 8 };
    const double near_share = 0.25, far_share = 0.4, worthwhile = 1.2;
    const CpuMachine *cpu = &l->caps->cpu;
    const Shape *w = graph_node(g, n->src[1])->shape, *x = graph_node(g, n->src[0])->shape;
    const WindowForm form = conv_form(n);
    if (form.group != 1 || !node_is_const(g, n->src[1]) || l->caps->vector_regs <= OTHER_REGISTERS ||
        shape_numel(n->shape) == 0 || shape_numel(w) == 0)
        return false;
    const double sums = l->caps->vector_regs - OTHER_REGISTERS, lanes = l->caps->f32_lanes;
    const Step step = step_on_rows(cpu, w, sums, lanes);
    const double steps = (double)shape_numel(n->shape) / (sums * lanes) * (double)shape_numel(w) /
                         (double)w->dim[0];
    const double bytes = (double)shape_numel(x) * COPIED_BYTES;
    const double copy =
        bytes / (bytes > cpu->l2_bytes ? far_share * cpu->l3_rate : near_share * cpu->l2_rate);
    if (step.reads > worthwhile * step.sums && steps * (step.reads - step.sums) > worthwhile * copy)
        return true;
    const bool fills_lines = lanes * sizeof(float) >= CACHE_LINE;
    const bool has_lines = (fills_lines || shares_sets(cpu, x)) && w->dim[1] >= MANY_CHANNELS &&
                           (double)w->dim[0] >= 2 * lanes;
    const double slower = !fills_lines && bytes > cpu->l3_bytes ? cpu->l3_rate / cpu->memory_rate : 1;
    return has_lines &&
           steps * wait_on_rows(cpu, x, form.stride[x->rank - 3], sums) > worthwhile * copy * slower;
}

// A transposed convolution reads its image once for each phase. Where registers are few, a tile has less than
// half of the pixels of a line of each channel, so that an image beyond the second-level cache is better
// copied with the channels last first: lines are read whole then.
static bool waits_in_phases(const Graph *g, const Layout *l, const Node *n)
{
    enum { OTHER_REGISTERS = 4, VECTORS = 2 };
    const Shape *x = graph_node(g, n->src[0])->shape;
    const WindowForm form = window_form(n);
    const int64_t pixels = (l->caps->vector_regs - OTHER_REGISTERS) / VECTORS;
    int64_t phases = 1;
    for (uint32_t i = 0; i + 2 < x->rank; i++)
        phases *= form.stride[i];
    return phases > 1 && form.group == 1 && x->dim[1] >= MANY_CHANNELS &&
           2 * pixels * (int64_t)sizeof(float) <= CACHE_LINE &&
           shape_numel(x) * (int64_t)sizeof(float) > (int64_t)l->caps->cpu.l2_bytes;
}

// Convolutions of bytes are left to matrix units, which take words of four channels, or are depthwise ones
// that read vectors of channels.
static bool has_byte_units(const Graph *g, const Layout *l, const Node *n)
{
    const bool is_grouped = conv_is_of_bytes(n) && window_form(n).group > 1;
    return (l->pads_channels || (is_grouped && l->caps->is_gpu)) &&
           k_is_byte(graph_node(g, n->src[0])->dtype);
}

// A filter of several taps to few channels sums vectors of input channels (tile_take_dots), which makes
// up for a copy of the image.
static bool sums_channels(const Graph *g, const Node *n)
{
    enum { FEW_RESULTS = 4, DOT_CHANNELS = 8, DOT_TAPS = 4 };
    const Shape *x = graph_node(g, n->src[0])->shape, *w = graph_node(g, n->src[1])->shape;
    return window_form(n).group == 1 && n->shape->dim[1] <= FEW_RESULTS && x->dim[1] >= DOT_CHANNELS &&
           shape_is_const(w) && shape_numel(w) >= DOT_TAPS * x->dim[1] * n->shape->dim[1];
}

// A convolution over few channels reads any order; one that loads vectors of channels needs them next to each
// other.
static bool wants_channels_last_operand(const Graph *g, const Layout *l, const Node *n)
{
    if (op_info[n->op].steps != OPSTEPS_FILTER)
        return true;
    const Node *x = graph_node(g, n->src[0]);
    const bool is_grouped = x->shape->dim[1] > 1 && window_form(n).group > 1;
    if (has_byte_units(g, l, n) && x->shape->dim[1] >= MANY_CHANNELS)
        return true;
    if (caps_have_vectors(l->caps) && x->dtype == DTYPE_f32)
        return is_grouped || sums_channels(g, n) || may_be_transformed(g, l, n) ||
               (n->op == OP_conv ? waits_for_rows(g, l, n) : waits_in_phases(g, l, n)) ||
               (conv_goes_to_matrix(g, l->options, n) && x->shape->dim[1] >= MANY_CHANNELS);
    return is_grouped && conv_form(n).group > 1;
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

// True for a constant that may be stored in another order.
static bool can_turn(const Graph *g, const Layout *l, NodeId id)
{
    enum { MOST_BYTES = 1 << 24 }; // constants in memory twice while they are turned
    return node_is_const(g, id) && node_attr(graph_node(g, id), A_const_data)->len <= MOST_BYTES &&
           !l->keeps_constants;
}

// A dense layer on an image that was copied to rows only to be flattened: constant weights in another order
// cost nothing, the copy does.
static void flatten_channels_last(Graph *g, const Layout *l, const Node *matmul, NodeId *src)
{
    const Node *flat = graph_node(g, src[0]), *copy = graph_node(g, flat->n_src > 0 ? flat->src[0] : 0);
    const Shape *w = graph_node(g, src[1])->shape;
    const MatmulForm form = matmul_form(matmul);
    if (!op_is_view_of_rows((OpId)flat->op) || copy->op != OP_copy || w->rank != 2 || form.turns_a ||
        !can_turn(g, l, src[1]))
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

// A constant image whose elements lie channels last, read in the order of its axes.
static NodeId constant_image(Graph *g, NodeId id)
{
    int64_t back[SHAPE_MAX_RANK];
    const Shape image = *graph_node(g, id)->shape;
    const char *label = g->labels.data[id];
    const NodeId turned = fold_node(g, with_channels_last(g, id, &image, 1));
    if (!node_is_const(g, turned))
        return id;
    if (label != NULL)
        graph_label(g, turned, label);
    for (uint32_t i = 0; i < image.rank; i++)
        back[i] = i == 0 ? 0 : i == 1 ? image.rank - 1 : i - 1;
    return graph_transpose(g, turned, back);
}

// The operands of a node that follows channels-last images, all in their order: tiles of a convolution cannot
// read another image row by row in their epilogue, and a copy reads it once in tiles of its own.
static void follow_images(Graph *g, Layout *l, const Node *n, NodeId *src)
{
    for (uint32_t i = 0; i < n->n_src; i++) {
        const Shape *s = graph_node(g, src[i])->shape;
        if (src[i] == 0 || s->rank != n->shape->rank || is_order_moot(s))
            continue;
        if (is_followed(g, src[i], n) && needs_turn(g, l, src[i]))
            src[i] = copy_in_order(g, l, src[i], ORDER_CHANNELS_LAST);
        else if (can_turn(g, l, src[i]))
            src[i] = constant_image(g, src[i]);
    }
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

// What is looked up in a table of single elements has the order of the indices. A norm whose rows lie across
// memory takes vectors of rows, which need its result in the same order; without vectors, its result may as
// well be in rows.
static OpLayout layout_of(const Graph *g, const TargetCaps *caps, const Node *n)
{
    const OpLayout rule = op_info[n->op].layout;
    if (op_is_norm((OpId)n->op) && !caps_have_vectors(caps))
        return OPLAYOUT_ANY;
    if (rule != OPLAYOUT_TABLE)
        return rule;
    return graph_node(g, n->src[0])->shape->rank == 1 ? OPLAYOUT_FOLLOW : OPLAYOUT_ROWS;
}

// Rows that have arrived go to where they can be read again, each in one piece.
static NodeId copy_rows(Graph *g, Layout *l, NodeId id)
{
    const bool is_input = graph_node(g, id)->op == OP_input, is_in_front = l->options->rows_axis == 1;
    const bool is_moot = is_order_moot(graph_node(g, id)->shape) || (is_input && is_in_front);
    return l->copy = copy_in_order(g, l, id, is_moot ? ORDER_ROW_MAJOR : ORDER_CHANNELS_LAST);
}

// Does a pool take rows and give rows, if it may?
static bool pool_keeps_rows(const Graph *g, const TargetCaps *caps, const Node *n)
{
    return op_info[n->op].steps == OPSTEPS_KERNEL && pool_can_keep_rows(g, caps, n);
}

// An image between rows and rows: copies of both would take longer than what they are for. Not where a run
// decides sizes: the schedules for rows go through all of them.
static bool keeps_rows(const Graph *g, const Layout *l, const Node *n)
{
    const bool has_open_sizes = g->lives.len > 0 || g->extents.len > 0;
    if (l->rows != 0 || has_open_sizes || !l->in_rows[l->old])
        return false;
    if (caps_have_vectors(l->caps) && conv_can_make_steps(g, n))
        return true;
    if (needs_turn(g, l, n->src[0]))
        return pool_keeps_rows(g, l->caps, n) || conv_can_keep_rows(g, l->options, n);
    return is_order_moot(graph_node(g, n->src[0])->shape) && conv_can_make_rows(g, l->options, n);
}

// Regions of an image in rows whose results are so few that a copy of the image would take longer.
static bool has_few_regions(const Graph *g, const Layout *l, const Node *n)
{
    enum { ELEMENTS = 4 }; // that are copied in the time that vectors of channels save for a result
    return op_info[n->op].steps == OPSTEPS_ALL && needs_turn(g, l, n->src[0]) &&
           shape_numel(n->shape) * ELEMENTS < shape_numel(graph_node(g, n->src[0])->shape);
}

// What the readers of a value say about it.
typedef struct Wishes {
    bool *rows, *other; // by node
} Wishes;

static void wish_for_operands(const Graph *g, const TargetCaps *caps, NodeId id, const Wishes *w)
{
    const Node *n = graph_node(g, id);
    const OpLayout rule = layout_of(g, caps, n);
    const bool is_in_rows = w->rows[id] && !w->other[id];
    for (uint32_t i = 0; i < n->n_src; i++)
        if (rule == OPLAYOUT_ROWS || (rule == OPLAYOUT_FOLLOW && is_in_rows) ||
            (is_in_rows && pool_keeps_rows(g, caps, n)))
            w->rows[n->src[i]] = true;
        else
            w->other[n->src[i]] = true;
}

// By node: do all who read it want it in rows? Convolutions do not: chains of them are faster with channels
// last.
static const bool *find_in_rows(const Graph *g, const TargetCaps *caps, Arena *a)
{
    const uint32_t n = g->nodes.len;
    const bool *is_live = graph_mark_live(g, a);
    const Wishes w = {.rows = ARENA_ARRAY(a, bool, n), .other = ARENA_ARRAY(a, bool, n)};
    for (uint32_t i = 0; i < g->outputs.len; i++)
        w.rows[g->outputs.data[i].node] = true;
    for (NodeId id = n; id-- > 1;) {
        if (is_live[id])
            wish_for_operands(g, caps, id, &w);
        w.rows[id] = w.rows[id] && !w.other[id];
    }
    return w.rows;
}

static void visit_layout(NodeId old, NodeId rebuilt, void *ctx)
{
    Layout *l = ctx;
    (void)rebuilt;
    l->old = old;
}

static NodeId step_layout(Graph *g, NodeId id, void *ctx)
{
    Layout *l = ctx;
    const Node n = *graph_node(g, id);
    if (id == l->rows)
        return copy_rows(g, l, id);
    const OpLayout rule = layout_of(g, l->caps, &n);
    NodeId src[256];
    AxisOrder order = ORDER_ROW_MAJOR;
    if (n.n_src == 0 || n.n_src > 256)
        return id;
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] = rule == OPLAYOUT_ROWS ? to_rows(g, l, n.src[i]) : n.src[i];
    if (matmul_form(&n).is_there)
        flatten_channels_last(g, l, &n, src);
    if (rule == OPLAYOUT_IMAGE && (keeps_rows(g, l, &n) || has_few_regions(g, l, &n))) {
        order = ORDER_ROW_MAJOR;
    } else if (rule == OPLAYOUT_IMAGE && l->prefers_channels_last && n.shape->rank >= 3) {
        order = ORDER_CHANNELS_LAST;
        if (wants_channels_last_operand(g, l, &n) && needs_turn(g, l, src[0]))
            src[0] = turned(g, l, src[0], has_byte_units(g, l, &n) ? MAX_CHAIN : 0);
    } else if (l->pads_channels && adds_channels(&n)) {
        order = ORDER_CHANNELS_LAST;
    } else if (rule == OPLAYOUT_FOLLOW) {
        order = followed_order(g, l, &n);
        if (order == ORDER_CHANNELS_LAST)
            follow_images(g, l, &n, src);
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
                .pads_channels = p->options->caps->has_mma,
                .options = p->options,
                .caps = p->options->caps};
    if (!rows_input_begin(p, &l.rows))
        return false;
    l.lasting = packer_find_lasting(p->graph, p->perm);
    l.in_rows = find_in_rows(p->graph, l.caps, p->perm);
    l.n_before = p->graph->nodes.len;
    const bool changed = graph_rewrite_watched(p->graph, visit_layout, step_layout, &l);
    separate_states(p->graph, &l);
    NodeId *map = NULL;
    Graph *packed = graph_compact(p->graph, &map);
    Plan *plan = ARENA_NEW(p->perm, Plan);
    *plan = (Plan){.arena = p->perm,
                   .graph = packed,
                   .caps = p->options->caps,
                   .prefix = "k",
                   .pruned = p->pruned,
                   .rows = {.input = l.rows != 0 ? p->options->rows_input : 0,
                            .axis = p->options->rows_origin,
                            .copy = map[l.copy]}};
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
