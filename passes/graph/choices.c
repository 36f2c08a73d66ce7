// SPDX-License-Identifier: Apache-2.0
// See choices.h.
#include "passes/graph/choices.h"
#include "ir/graph/tensor.h"

enum { WORD_BITS = 32 };

static NodeId number(Graph *g, NodeId like, int64_t v)
{
    return graph_scalar(g, DTYPE_i32, (double)v, node_span(g, like));
}

// Is word `first` of all channels the same as word `second`?
static bool are_equal(const Choices *c, uint32_t first, uint32_t second)
{
    for (uint32_t i = 0; i < c->channels; i++)
        if (c->upper[i][first] != c->upper[i][second])
            return false;
    return true;
}

NodeId choices_const(Graph *g, DType t, uint32_t rank, const int64_t *v, uint32_t n, Span span)
{
    bool is_equal = true;
    for (uint32_t i = 1; i < n; i++)
        is_equal = is_equal && v[i] == v[0];
    Shape s = {.rank = is_equal ? 0 : rank - 1};
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = i == 0 ? n : 1;
    Tensor made = tensor_new(g->arena, t, s.rank, s.dim);
    for (uint32_t i = 0; i < made.numel; i++)
        tensor_set_i64(&made, i, v[i]);
    return graph_const(g, t, &s, made.data, type_bytes(t, &s), span);
}

static NodeId word_of(Graph *g, NodeId like, const Choices *c, uint32_t word)
{
    int64_t *v = ARENA_ARRAY(g->arena, int64_t, c->channels);
    for (uint32_t i = 0; i < c->channels; i++)
        v[i] = (int32_t)c->upper[i][word];
    return choices_const(g, DTYPE_i32, graph_node(g, like)->shape->rank, v, c->channels, node_span(g, like));
}

// The word that has the bit of a step, of n words, by halving: a bit of the step's number decides.
static NodeId pick_word(Graph *g, NodeId step, const Choices *c, uint32_t first, uint32_t n)
{
    bool is_repeated = n > 1;
    for (uint32_t i = 0; i < n / 2; i++)
        is_repeated = is_repeated && are_equal(c, first + i, first + n / 2 + i);
    if (n == 1)
        return word_of(g, step, c, first);
    const NodeId low = pick_word(g, step, c, first, n / 2);
    if (is_repeated)
        return low;
    const NodeId high = pick_word(g, step, c, first + n / 2, n / 2);
    const NodeId bit = graph_op2(g, OP_bit_and, step, number(g, step, n / 2 * WORD_BITS));
    return graph_op3(g, OP_where, graph_op2(g, OP_eq, bit, number(g, step, 0)), low, high);
}

NodeId choose_stored(Graph *g, NodeId low, NodeId high, const Choices *c)
{
    rlx_assert(c->most - c->least < CHOICE_WORDS * WORD_BITS);
    const NodeId least = number(g, low, c->least), most = number(g, low, c->most);
    const NodeId step = graph_op2(g, OP_sub, graph_op3(g, OP_clamp, low, least, most), least);
    const NodeId word = pick_word(g, step, c, 0, CHOICE_WORDS);
    const NodeId upper =
        graph_op2(g, OP_shift_right, word, graph_op2(g, OP_bit_and, step, number(g, low, WORD_BITS - 1)));
    return graph_op2(g, OP_add, low, graph_op2(g, OP_bit_and, upper, graph_op2(g, OP_sub, high, low)));
}
