// SPDX-License-Identifier: Apache-2.0
// See border.h.
#include "passes/lower/border.h"

#include "ir/graph/tensor.h"
#include "ir/shape/forms.h"

enum { CHANNEL = 1, ROW = 2, COLUMN = 3, RANK = 4, WORD = 4 };

const PlanBorder *border_find(const Plan *p, NodeId id)
{
    rlx_assert(id != 0);
    for (uint32_t i = 0; i < p->borders.len; i++)
        if (p->borders.data[i].node == id)
            return &p->borders.data[i];
    return NULL;
}

// --- what readers need ---------------------------------------------------------------------------

// Widens the frame for one reader. False: it does not read the image as words around their zero point.
static bool add_reader(const Graph *g, NodeId id, const Node *n, PlanBorder *b, int *value)
{
    const Shape *x = graph_node(g, id)->shape, *w = graph_node(g, n->src[1])->shape;
    if (n->src[0] != id || !node_is_const(g, n->src[1]) || (n->n_src > 4 && n->src[4] != 0) ||
        w->dim[CHANNEL] % WORD != 0) // of a group
        return false;
    const Tensor zero = tensor_if_const(g, n->n_src > 3 ? n->src[3] : 0);
    if (n->n_src > 3 && n->src[3] != 0 && !node_is_const(g, n->src[3]))
        return false;
    const int own = n->n_src > 3 && n->src[3] != 0 ? (int)tensor_get_i64(&zero, 0) : 0;
    const WindowForm f = window_form(n);
    for (uint32_t a = 0; a < 2; a++) {
        const int64_t window = (w->dim[a + ROW] - 1) * f.dilation[a] + 1;
        const int64_t read = (n->shape->dim[a + ROW] - 1) * f.stride[a] + window - f.pad[a];
        const int64_t after = read - x->dim[a + ROW];
        b->before[a] = f.pad[a] > b->before[a] ? f.pad[a] : b->before[a];
        b->after[a] = after > b->after[a] ? after : b->after[a];
    }
    const bool is_same = *value < 0 || *value == own;
    *value = own;
    return is_same;
}

// Bytes of one image in its frame.
static int64_t framed_bytes(const Shape *x, const PlanBorder *b)
{
    return (b->before[0] + x->dim[ROW] + b->after[0]) * (b->before[1] + x->dim[COLUMN] + b->after[1]) *
           x->dim[CHANNEL];
}

bool border_for(const Plan *p, NodeId id, const NodeId *readers, uint32_t n, PlanBorder *border)
{
    enum { MOST = 2 }; // times the image: else the copy of one reader is the smaller evil
    rlx_assert(id != 0 && id < p->orders.len);
    const Node *x = graph_node(p->graph, id);
    int value = -1;
    *border = (PlanBorder){.node = id};
    if (!p->caps->has_dot8 || p->caps->is_gpu || p->live != NULL || x->shape->rank != RANK || n == 0 ||
        x->dtype != DTYPE_u8 || p->orders.data[id] != ORDER_CHANNELS_LAST || shape_numel(x->shape) == 0 ||
        x->shape->dim[CHANNEL] % WORD != 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const Node *reader = graph_node(p->graph, readers[i]);
        if (readers[i] == 0 || !conv_is_of_bytes(reader) ||
            !add_reader(p->graph, id, reader, border, &value))
            return false;
    }
    border->value = (uint8_t)value;
    const int64_t plain = x->shape->dim[CHANNEL] * x->shape->dim[ROW] * x->shape->dim[COLUMN];
    const int64_t framed = framed_bytes(x->shape, border);
    return framed > plain && framed <= MOST * plain;
}

int64_t border_frame(const Plan *p, const PlanBorder *b, Loc *loc)
{
    const Shape *x = graph_node(p->graph, b->node)->shape;
    rlx_assert(loc->offset == 0 && loc->stride[CHANNEL] == 1);
    loc->stride[COLUMN] = x->dim[CHANNEL];
    loc->stride[ROW] = (b->before[1] + x->dim[COLUMN] + b->after[1]) * x->dim[CHANNEL];
    loc->stride[0] = framed_bytes(x, b);
    loc->offset = b->before[0] * loc->stride[ROW] + b->before[1] * loc->stride[COLUMN];
    return x->dim[0] * loc->stride[0];
}

// --- zero points ---------------------------------------------------------------------------------

static void fill(Lower *l, uint32_t param, KRef at, int64_t words, KRef value)
{
    if (words == 0)
        return;
    const KRef i = k_loop(l->k, words, KFOR_SERIAL, "i");
    k_store(l->k, param, k_add(l->k, at, i), value, 1);
    k_end(l->k);
}

// The value in its frame, in words.
static uint32_t frame_param(Lower *l, const Loc *inside, int64_t images)
{
    const TensorType t = {DTYPE_i32, {.rank = 1, .dim = {images * inside->stride[0] / WORD}}};
    const Loc at = {.buf = inside->buf, .stride = {1}};
    return lower_param_typed(l, &t, &at, "border", PARAM_WRITE);
}

void border_fill(Lower *l)
{
    const PlanBorder *b = border_find(l->plan, l->root);
    if (b == NULL)
        return;
    Kernel *k = l->k;
    const Shape *x = lower_node(l, l->root)->shape;
    const Loc *at = lower_loc(l, l->root);
    const int64_t row = at->stride[ROW] / WORD, column = at->stride[COLUMN] / WORD;
    const uint32_t param = frame_param(l, at, x->dim[0]);
    k->may_alias = true; // the frame lies in the memory of the image
    const KRef value = k_integer(k, DTYPE_i32, (int32_t)(b->value * UINT32_C(0x01010101)));
    const KRef n = k_loop(k, x->dim[0], KFOR_PARALLEL, "n");
    const KRef y = k_loop(k, b->before[0] + x->dim[ROW] + b->after[0], KFOR_PARALLEL, "y");
    const KRef from = k_expr(k, "$ * # + $ * #", n, at->stride[0] / WORD, y, row);
    k_if(k, k_expr(k, "# <= $ & $ < #", b->before[0], y, y, b->before[0] + x->dim[ROW]));
    fill(l, param, from, b->before[1] * column, value);
    fill(l, param, k_expr(k, "$ + #", from, (b->before[1] + x->dim[COLUMN]) * column), b->after[1] * column,
         value);
    k_else(k);
    fill(l, param, from, row, value);
    k_ends(k, 3);
}
