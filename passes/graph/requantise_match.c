// SPDX-License-Identifier: Apache-2.0
// What the pass `requantise` made of what follows a sum, read back for schedules that do it themselves
// (requantise.h). Apart from the pass because it asks nothing but what nodes there are.
#include "passes/graph/requantise.h"
#include "ir/graph/tensor.h"
#include "passes/graph/choices.h"

// The nodes between the sum and the root, from the root on.
typedef struct Match {
    const Graph *g;
    NodeId sum, at;
    int64_t n; // channels
    RequantScale *scale;
} Match;

static const Node *node_at(const Match *m)
{
    return graph_node(m->g, m->at);
}

static bool is_op(const Match *m, NodeId id, OpId op, DType type)
{
    const Node *n = graph_node(m->g, id);
    return n->op == op && n->dtype == type;
}

// Passes the node if it is one, and goes on with its first operand.
static bool take(Match *m, OpId op, DType type)
{
    if (!is_op(m, m->at, op, type) || m->at == m->sum)
        return false;
    m->at = node_at(m)->src[0];
    return true;
}

// A constant with a value for each channel, or one for all.
static bool read_channels(const Match *m, NodeId id, int64_t *out)
{
    if (!node_is_const(m->g, id))
        return false;
    const Tensor t = tensor_of_const(m->g, id);
    const uint32_t rank = graph_node(m->g, m->sum)->shape->rank;
    for (uint32_t i = 0; i < t.rank; i++)
        if (t.dim[i] != 1 && (rank - t.rank + i != 1 || t.dim[i] != m->n))
            return false;
    for (int64_t o = 0; o < m->n; o++)
        out[o] = tensor_get_i64(&t, t.numel == 1 ? 0 : o);
    return true;
}

static bool is_number(const Match *m, NodeId id, int64_t v)
{
    double found = 0;
    return node_is_scalar_const(m->g, id, &found) && found == (double)v;
}

// value +- cast(sum == exception)
static bool take_exceptions(Match *m, int64_t *values)
{
    while ((is_op(m, m->at, OP_add, DTYPE_i32) || is_op(m, m->at, OP_sub, DTYPE_i32)) &&
           is_op(m, node_at(m)->src[1], OP_cast, DTYPE_i32)) {
        const int64_t by = node_at(m)->op == OP_add ? 1 : -1;
        const Node *test = graph_node(m->g, graph_node(m->g, node_at(m)->src[1])->src[0]);
        if (test->op != OP_eq || test->src[0] != m->sum || !read_channels(m, test->src[1], values))
            return false;
        for (int64_t o = 0; o < m->n; o++) {
            RequantScale *s = &m->scale[o];
            if (values[o] == INT32_MIN)
                continue;
            if (s->n_exceptions == REQUANT_MOST)
                return false;
            s->exception[s->n_exceptions] = values[o];
            s->added[s->n_exceptions++] = by;
        }
        m->at = node_at(m)->src[0];
    }
    return true;
}

// (sum * factor + start) >> 32 + shift, the start before or behind the first shift.
static bool take_product(Match *m, int64_t *values)
{
    NodeId operand = node_at(m)->src[1];
    if (!take(m, OP_shift_right, DTYPE_i32) || !read_channels(m, operand, values))
        return false;
    for (int64_t o = 0; o < m->n; o++)
        m->scale[o].shift = values[o];
    operand = is_op(m, m->at, OP_add, DTYPE_i32) ? node_at(m)->src[1] : 0;
    if (operand != 0 && (!take(m, OP_add, DTYPE_i32) || !read_channels(m, operand, values)))
        return false;
    for (int64_t o = 0; operand != 0 && o < m->n; o++)
        m->scale[o].start = values[o] * (INT64_C(1) << 32);
    if (!take(m, OP_cast, DTYPE_i32) || !is_op(m, m->at, OP_shift_right, DTYPE_i64) ||
        !is_number(m, node_at(m)->src[1], 32))
        return false;
    m->at = node_at(m)->src[0];
    if (is_op(m, m->at, OP_add, DTYPE_i64)) {
        if (operand != 0 || !read_channels(m, node_at(m)->src[1], values))
            return false;
        for (int64_t o = 0; o < m->n; o++)
            m->scale[o].start = values[o];
        m->at = node_at(m)->src[0];
    }
    operand = is_op(m, m->at, OP_mul, DTYPE_i64) ? node_at(m)->src[1] : 0;
    if (operand == 0 || !take(m, OP_mul, DTYPE_i64) || !read_channels(m, operand, values))
        return false;
    for (int64_t o = 0; o < m->n; o++)
        m->scale[o].factor = values[o];
    return take(m, OP_cast, DTYPE_i64) && m->at == m->sum;
}

// Of a scale with its starts in two values that differ by 1 at most, of which the even (odd: the odd) one
// counts. False: they differ elsewhere than at halves, or what counts there is not the even number before
// the start's multiple of it is added.
static bool find_even(RequantScale *low, const RequantScale *high, int64_t odd)
{
    const int64_t zone = (high->start - low->start) / 2, middle = low->start + zone;
    const int64_t half = INT64_C(1) << (31 + low->shift);
    int64_t bits = 0;
    while (bits < 31 && low->factor > INT64_C(1) << bits)
        bits++;
    low->start = middle;
    low->even = 32 + low->shift - bits;
    return high->shift == low->shift && high->factor == low->factor && low->factor == INT64_C(1) << bits &&
           0 < zone && zone < low->factor && middle % half == 0 && middle / half % 2 != 0 &&
           ((middle - half) / (2 * half) + odd) % 2 == 0 && low->even >= 2 && low->even < 32;
}

// Passes a choice between two such values, and the product behind them; is_one: there was a choice.
static bool take_choice(Match *m, int64_t *values, bool *is_one)
{
    const Node *n = node_at(m), *both = graph_node(m->g, n->src[1]);
    *is_one = is_op(m, m->at, OP_add, DTYPE_i32) && both->op == OP_bit_and;
    if (!*is_one)
        return true;
    const Node *parity = graph_node(m->g, both->src[0]), *step = graph_node(m->g, both->src[1]);
    const int64_t odd = both->src[0] != n->src[0];
    if (step->op != OP_sub || step->src[1] != n->src[0] ||
        (odd != 0 &&
         (parity->op != OP_add || parity->src[0] != n->src[0] || !is_number(m, parity->src[1], 1))))
        return false;
    Match high = *m;
    high.at = step->src[0];
    high.scale = ARENA_ARRAY(m->g->arena, RequantScale, m->n);
    m->at = n->src[0];
    bool is_found = take_product(&high, values) && take_product(m, values);
    for (int64_t o = 0; is_found && o < m->n; o++)
        is_found = m->scale[o].n_exceptions == 0 && find_even(&m->scale[o], &high.scale[o], odd);
    return is_found;
}

// clamp(value, least, most) as a byte
static bool take_ends(Match *m, RequantEnds *ends)
{
    double least = 0, most = 0;
    ends->is_unsigned = node_at(m)->dtype == DTYPE_u8;
    if (!take(m, OP_cast, ends->is_unsigned ? DTYPE_u8 : DTYPE_i8) || !is_op(m, m->at, OP_clamp, DTYPE_i32) ||
        !node_is_scalar_const(m->g, node_at(m)->src[1], &least) ||
        !node_is_scalar_const(m->g, node_at(m)->src[2], &most))
        return false;
    ends->least = (int64_t)least - (ends->is_unsigned ? 128 : 0);
    ends->most = (int64_t)most - (ends->is_unsigned ? 128 : 0);
    m->at = node_at(m)->src[0];
    return INT8_MIN <= ends->least && ends->least <= ends->most && ends->most <= INT8_MAX;
}

RequantScale *requantise_match(Arena *a, const Graph *g, NodeId root, NodeId sum, RequantEnds *ends)
{
    Match m = {.g = g, .sum = sum, .at = root, .n = graph_node(g, sum)->shape->dim[1]};
    if (!take_ends(&m, ends))
        return NULL;
    m.scale = ARENA_ARRAY(a, RequantScale, m.n);
    int64_t *values = ARENA_ARRAY(a, int64_t, m.n);
    bool is_choice = false;
    if (!take_exceptions(&m, values) || node_at(&m)->n_src != 2 || !take_choice(&m, values, &is_choice) ||
        (!is_choice && !take_product(&m, values)))
        return NULL;
    for (int64_t o = 0; ends->is_unsigned && o < m.n; o++)
        m.scale[o].start -= INT64_C(128) * (INT64_C(1) << (32 + m.scale[o].shift));
    return m.scale;
}

bool requant_ends_are_plain(const RequantEnds *ends)
{
    return ends->least == INT8_MIN && ends->most == INT8_MAX && !ends->is_unsigned;
}

// --- choices ---------------------------------------------------------------------------------------

// The constant that has word i of the stored bits: operands of `where`, which ask for bits of the step.
static NodeId word_node(const Match *m, NodeId id, uint32_t i)
{
    enum { WORD_BITS = 32 };
    while (graph_node(m->g, id)->op == OP_where) {
        const Node *n = graph_node(m->g, id), *test = graph_node(m->g, n->src[0]);
        const Node *bit = graph_node(m->g, test->src[0]);
        double mask = 0;
        if (test->op != OP_eq || !is_number(m, test->src[1], 0) || bit->op != OP_bit_and ||
            !node_is_scalar_const(m->g, bit->src[1], &mask))
            return 0;
        id = n->src[((int64_t)mask & i * WORD_BITS) != 0 ? 2 : 1];
    }
    return id;
}

static bool read_words(Match *m, NodeId id, int64_t *values, RequantChoice *c)
{
    for (uint32_t i = 0; i < CHOICE_WORDS; i++) {
        const NodeId word = word_node(m, id, i);
        if (word == 0 || !read_channels(m, word, values))
            return false;
        for (int64_t o = 0; o < m->n; o++)
            c->upper[o * CHOICE_WORDS + i] = (int32_t)values[o];
    }
    return true;
}

// low + (bits & high - low): by the parity of low + odd, or by bits that are stored for low.
static bool take_bits(Match *m, const Node *n, int64_t *values, RequantChoice *c)
{
    const Node *both = graph_node(m->g, n->src[1]), *bits = graph_node(m->g, both->src[0]);
    c->odd = both->src[0] != n->src[0];
    if (c->odd == 0 ||
        (bits->op == OP_add && bits->src[0] == n->src[0] && is_number(m, bits->src[1], 1)))
        return true;
    const Node *at = graph_node(m->g, bits->src[1]);
    if (bits->op != OP_shift_right || at->op != OP_bit_and || !is_number(m, at->src[1], 31))
        return false;
    const Node *step = graph_node(m->g, at->src[0]), *inside = graph_node(m->g, step->src[0]);
    double least = 0, most = 0;
    if (step->op != OP_sub || inside->op != OP_clamp || inside->src[0] != n->src[0] ||
        !node_is_scalar_const(m->g, inside->src[1], &least) ||
        !node_is_scalar_const(m->g, inside->src[2], &most) || !is_number(m, step->src[1], (int64_t)least))
        return false;
    c->least = (int64_t)least;
    c->most = (int64_t)most;
    c->upper = ARENA_ARRAY(m->g->arena, int32_t, m->n * CHOICE_WORDS);
    return read_words(m, bits->src[0], values, c);
}

RequantScale *requantise_match_choice(Arena *a, const Graph *g, NodeId root, NodeId sum, RequantEnds *ends,
                                      RequantChoice *c)
{
    Match m = {.g = g, .sum = sum, .at = root, .n = graph_node(g, sum)->shape->dim[1]};
    *c = (RequantChoice){0};
    if (!take_ends(&m, ends) || !is_op(&m, m.at, OP_add, DTYPE_i32))
        return NULL;
    const Node *n = node_at(&m), *both = graph_node(g, n->src[1]);
    const Node *step = both->op == OP_bit_and ? graph_node(g, both->src[1]) : n;
    int64_t *values = ARENA_ARRAY(a, int64_t, m.n);
    if (step->op != OP_sub || step->src[1] != n->src[0] || !take_bits(&m, n, values, c))
        return NULL;
    Match high = m;
    high.at = step->src[0];
    high.scale = ARENA_ARRAY(a, RequantScale, m.n);
    m.scale = ARENA_ARRAY(a, RequantScale, m.n);
    m.at = n->src[0];
    if (!take_product(&high, values) || !take_product(&m, values))
        return NULL;
    const int64_t down = ends->is_unsigned ? 128 : 0;
    c->least -= down;
    c->most -= down;
    const int64_t start = high.scale[0].start;
    c->width = start - m.scale[0].start;
    for (int64_t o = 0; o < m.n; o++) {
        RequantScale *s = &high.scale[o];
        if (s->factor != m.scale[o].factor || s->shift != m.scale[o].shift || s->start != start ||
            m.scale[o].start != start - c->width)
            return NULL;
        s->start -= down * (INT64_C(1) << (32 + s->shift));
    }
    return c->width > 0 && c->width <= UINT32_MAX ? high.scale : NULL;
}
