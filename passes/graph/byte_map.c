// SPDX-License-Identifier: Apache-2.0
// See byte_map.h.
#include "passes/graph/byte_map.h"
#include "ir/eval/eval.h"
#include "ir/kernel/kernel.h"
#include "passes/graph/choices.h"
#include "passes/graph/monotone.h"

#include <math.h>
#include <string.h>

enum { MAX_NODES = 64, VALUES = 256, MAX_SHIFT = 22, MIN_SHIFT = 16, NEAR = 6 };

typedef struct ByteMap {
    Graph *g;
    NodeId end;
    NodeId node[MAX_NODES]; // operands come before their users
    uint32_t n;
    NodeId source[2]; // bytes
    uint32_t n_sources;
    bool has_floats;
} ByteMap;

// --- which nodes ---------------------------------------------------------------------------------

static bool add_source(ByteMap *m, NodeId id)
{
    for (uint32_t i = 0; i < m->n_sources; i++)
        if (m->source[i] == id)
            return true;
    if (m->n_sources == 2)
        return false;
    m->source[m->n_sources++] = id;
    return true;
}

// Inserts by number: the graph has operands before their users.
static bool add_node(ByteMap *m, NodeId id)
{
    uint32_t at = m->n;
    while (at > 0 && m->node[at - 1] > id)
        at--;
    if (at > 0 && m->node[at - 1] == id)
        return true;
    if (m->n == MAX_NODES)
        return false;
    memmove(&m->node[at + 1], &m->node[at], (m->n - at) * sizeof *m->node);
    m->node[at] = id;
    m->n++;
    return true;
}

// A constant is no node of the map.
static bool add_operand(ByteMap *m, NodeId id)
{
    const Node *n = graph_node(m->g, id), *end = graph_node(m->g, m->end);
    if (node_is_const(m->g, id))
        return shape_numel(n->shape) == 1 && n->shape->rank <= end->shape->rank;
    if (n->shape != end->shape)
        return false;
    if (id != m->end && k_is_byte(n->dtype))
        return add_source(m, id);
    m->has_floats = m->has_floats || dtype_info[n->dtype].cls == DCLASS_FLOAT;
    return op_is_pointwise((OpId)n->op) && n->n_src <= 3 && add_node(m, id);
}

static bool find_map(Graph *g, NodeId end, ByteMap *m)
{
    *m = (ByteMap){.g = g, .end = end};
    const Shape *s = graph_node(g, end)->shape;
    if (!shape_is_const(s) || s->rank == 0 || !add_operand(m, end))
        return false;
    // Nodes are added below the one at hand, so each is looked at once, from the end on.
    for (NodeId at = end; at != 0;) {
        const Node *n = graph_node(g, at);
        for (uint32_t i = 0; i < n->n_src; i++)
            if (!add_operand(m, n->src[i]))
                return false;
        NodeId next = 0;
        for (uint32_t i = 0; i < m->n && m->node[i] < at; i++)
            next = m->node[i];
        at = next;
    }
    return m->has_floats && m->n_sources > 0;
}

// --- values --------------------------------------------------------------------------------------

static int64_t byte_of(const ByteMap *m, uint32_t source, int64_t i)
{
    return graph_node(m->g, m->source[source])->dtype == DTYPE_i8 ? i - 128 : i;
}

static Tensor value_of(const ByteMap *m, const Tensor *made, NodeId id, uint32_t rank, Arena *a)
{
    static const int64_t one[SHAPE_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (uint32_t i = 0; i < m->n; i++)
        if (m->node[i] == id)
            return made[i];
    for (uint32_t i = 0; i < m->n_sources; i++)
        if (m->source[i] == id)
            return made[MAX_NODES + i];
    const Tensor c = tensor_of_const(m->g, id);
    Tensor t = tensor_new(a, c.dtype, rank, one);
    tensor_set_bits(&t, 0, tensor_get_bits(&c, 0));
    return t;
}

// The results for all values: of pairs, source 1 varies fastest.
static void eval_map(const ByteMap *m, int64_t *y)
{
    Arena a = {0};
    Tensor made[MAX_NODES + 2];
    const uint32_t rank = graph_node(m->g, m->end)->shape->rank;
    int64_t dim[SHAPE_MAX_RANK] = {m->n_sources == 1 ? VALUES : VALUES * VALUES, 1, 1, 1, 1, 1, 1, 1};
    for (uint32_t s = 0; s < m->n_sources; s++) {
        Tensor *t = &made[MAX_NODES + s];
        *t = tensor_new(&a, (DType)graph_node(m->g, m->source[s])->dtype, rank, dim);
        for (int64_t i = 0; i < t->numel; i++)
            tensor_set_i64(t, i, byte_of(m, s, s + 1 == m->n_sources ? i % VALUES : i / VALUES));
    }
    for (uint32_t i = 0; i < m->n; i++) {
        const Node *n = graph_node(m->g, m->node[i]);
        Tensor in[3];
        for (uint32_t k = 0; k < n->n_src; k++)
            in[k] = value_of(m, made, n->src[k], rank, &a);
        made[i] = tensor_new(&a, (DType)n->dtype, rank, dim);
        EvalCtx e = {.arena = &a, .g = m->g, .node = n, .id = m->node[i], .in = in, .out = &made[i]};
        const bool ok = eval_node(&e);
        rlx_assert(ok);
    }
    for (int64_t i = 0; i < dim[0]; i++)
        y[i] = tensor_get_i64(&made[m->n - 1], i);
    arena_free(&a);
}

// --- one operand: a table ------------------------------------------------------------------------

// A negative index counts from the end of a table, so that signed bytes are indices as they are.
static NodeId as_table(const ByteMap *m)
{
    Graph *g = m->g;
    int64_t y[VALUES];
    const DType t = (DType)graph_node(g, m->end)->dtype;
    const int64_t n = VALUES;
    const Shape s = {.rank = 1, .dim = {n}};
    Tensor table = tensor_new(g->arena, t, 1, &n);
    eval_map(m, y);
    for (int64_t i = 0; i < n; i++)
        tensor_set_i64(&table, byte_of(m, 0, i) & 255, y[i]);
    NodeBuild b = node_begin(g, OP_gather, node_span(g, m->end), g->labels.data[m->end]);
    node_src(&b, graph_const(g, t, &s, table.data, VALUES, node_span(g, m->end)));
    node_src(&b, m->source[0]);
    return node_end(&b);
}

// --- two operands: a sum of products -------------------------------------------------------------

typedef struct Plane {
    double of[2], constant; // of[0] * a + of[1] * b + constant
} Plane;

// What one node makes of planes, between clamps; false: no plane.
static bool plane_of(const Node *n, const Plane *x, const bool *is_constant, Plane *out)
{
    const OpId op = (OpId)n->op;
    const double sign = op == OP_sub ? -1 : 1;
    uint32_t at = 0;
    *out = x[0];
    if (op == OP_add || op == OP_sub) {
        for (uint32_t k = 0; k < 2; k++)
            out->of[k] += sign * x[1].of[k];
        out->constant += sign * x[1].constant;
        return true;
    }
    double k[2] = {0};
    for (uint32_t i = 0, others = 0; i < n->n_src; i++)
        if (!is_constant[i])
            at = i;
        else if (others < 2)
            k[others++] = x[i].constant;
    Line l = {1, 0};
    const bool is_line = line_behind(op, at, k, &l);
    *out = (Plane){{x[at].of[0] * l.slope, x[at].of[1] * l.slope}, x[at].constant * l.slope + l.offset};
    return is_line;
}

static bool find_plane(const ByteMap *m, Plane *out)
{
    Plane made[MAX_NODES];
    for (uint32_t i = 0; i < m->n; i++) {
        const Node *n = graph_node(m->g, m->node[i]);
        Plane x[3] = {0};
        bool is_constant[3] = {false};
        for (uint32_t k = 0; k < n->n_src; k++) {
            is_constant[k] = node_is_scalar_const(m->g, n->src[k], &x[k].constant);
            for (uint32_t s = 0; s < 2; s++)
                if (m->source[s] == n->src[k])
                    x[k].of[s] = 1;
            for (uint32_t j = 0; j < i; j++)
                if (m->node[j] == n->src[k])
                    x[k] = made[j];
        }
        if (!plane_of(n, x, is_constant, &made[i]))
            return false;
    }
    *out = made[m->n - 1];
    return true;
}

// zone: where (a * factor + b * factor + start -+ zone) >> shift differ, `upper` says which one counts.
typedef struct Sum {
    int64_t factor[2], start, shift, zone, least, most;
    uint32_t upper[1][CHOICE_WORDS];
} Sum;

// Is there a start with which these factors give every result? What is at a bound may lie beyond it.
static bool find_start(const ByteMap *m, const int64_t *y, Sum *s)
{
    int64_t lo = INT64_MIN, hi = INT64_MAX, low = INT64_MAX, high = INT64_MIN;
    for (int64_t i = 0; i < VALUES * VALUES && lo <= hi; i++) {
        const int64_t p = byte_of(m, 0, i / VALUES) * s->factor[0] + byte_of(m, 1, i % VALUES) * s->factor[1];
        const int64_t below = y[i] * (INT64_C(1) << s->shift) - p,
                      above = below + (INT64_C(1) << s->shift) - 1;
        lo = y[i] > s->least && below > lo ? below : lo;
        hi = y[i] < s->most && above < hi ? above : hi;
        low = p < low ? p : low;
        high = p > high ? p : high;
    }
    if (lo > hi || lo == INT64_MIN || hi == INT64_MAX)
        return false;
    s->start = lo + (hi - lo) / 2;
    return low + s->start >= INT32_MIN && high + s->start <= INT32_MAX && low >= INT32_MIN &&
           high <= INT32_MAX;
}

static int64_t kept(int64_t v, const Sum *s)
{
    return v < s->least ? s->least : v > s->most ? s->most : v;
}

// Do the results next to steps depend on nothing but the step? Then these choices are stored.
static bool find_choices(const ByteMap *m, const int64_t *y, Sum *s)
{
    uint32_t lower[CHOICE_WORDS] = {0};
    memset(s->upper, 0, sizeof s->upper);
    for (int64_t i = 0; i < VALUES * VALUES; i++) {
        const int64_t p = byte_of(m, 0, i / VALUES) * s->factor[0] +
                          byte_of(m, 1, i % VALUES) * s->factor[1] + s->start;
        if (p - s->zone < INT32_MIN || p + s->zone > INT32_MAX)
            return false;
        const int64_t low = kept((p - s->zone) >> s->shift, s), high = kept((p + s->zone) >> s->shift, s);
        if (y[i] != low && y[i] != high)
            return false;
        const uint32_t step = (uint32_t)(low - s->least), bit = UINT32_C(1) << step % 32;
        if (low != high)
            *(y[i] == high ? &s->upper[0][step / 32] : &lower[step / 32]) |= bit;
    }
    for (uint32_t k = 0; k < CHOICE_WORDS; k++)
        if ((s->upper[0][k] & lower[k]) != 0)
            return false;
    return true;
}

// Where sums fall on halves: the zone is wider than what floats and the factors are off by.
static bool find_zone(const ByteMap *m, const int64_t *y, const Plane *plane, Sum *s)
{
    for (s->shift = MAX_SHIFT; s->shift >= MIN_SHIFT; s->shift--) {
        const double one = (double)(INT64_C(1) << s->shift);
        for (uint32_t k = 0; k < 2; k++)
            s->factor[k] = (int64_t)rint(plane->of[k] * one);
        s->start = (int64_t)floor((plane->constant + 0.5) * one);
        for (s->zone = 1; s->zone <= INT64_C(1) << (s->shift - 10); s->zone *= 8)
            if (find_choices(m, y, s))
                return true;
    }
    return false;
}

static bool is_moderate(double factor)
{
    return fabs(factor) <= 16; // and a number
}

static bool find_sum(const ByteMap *m, Arena *a, Sum *s)
{
    Plane plane;
    if (!find_plane(m, &plane) || !is_moderate(plane.of[0]) || !is_moderate(plane.of[1]))
        return false;
    int64_t *y = ARENA_ARRAY(a, int64_t, VALUES * VALUES);
    eval_map(m, y);
    s->least = s->most = y[0];
    for (int64_t i = 0; i < VALUES * VALUES; i++) {
        s->least = y[i] < s->least ? y[i] : s->least;
        s->most = y[i] > s->most ? y[i] : s->most;
    }
    s->zone = 0;
    for (s->shift = MAX_SHIFT; s->shift >= MIN_SHIFT; s->shift--)
        for (int64_t i = 0; i < (2 * NEAR + 1) * (2 * NEAR + 1); i++) {
            const double one = (double)(INT64_C(1) << s->shift);
            const int64_t step[2] = {i / (2 * NEAR + 1), i % (2 * NEAR + 1)};
            for (uint32_t k = 0; k < 2; k++) // 0, 1, -1, 2, -2 ...
                s->factor[k] =
                    (int64_t)rint(plane.of[k] * one) + (step[k] % 2 ? 1 : -1) * ((step[k] + 1) / 2);
            if (find_start(m, y, s))
                return true;
        }
    return s->most - s->least < VALUES && find_zone(m, y, &plane, s);
}

static NodeId i32_scalar(Graph *g, int64_t v, NodeId like)
{
    return graph_scalar(g, DTYPE_i32, (double)v, node_span(g, like));
}

static NodeId as_sum(const ByteMap *m)
{
    Graph *g = m->g;
    Sum s;
    Arena a = {0};
    const bool is_found = find_sum(m, &a, &s);
    arena_free(&a);
    if (!is_found)
        return m->end;
    NodeId v = i32_scalar(g, s.start - s.zone, m->end);
    for (uint32_t k = 0; k < 2; k++) {
        const NodeId x = graph_cast(g, m->source[k], DTYPE_i32);
        v = graph_op2(g, OP_add, graph_op2(g, OP_mul, x, i32_scalar(g, s.factor[k], m->end)), v);
    }
    const NodeId shift = i32_scalar(g, s.shift, m->end), low = graph_op2(g, OP_shift_right, v, shift);
    if (s.zone != 0) {
        const NodeId more = graph_op2(g, OP_add, v, i32_scalar(g, 2 * s.zone, m->end));
        v = graph_op2(g, OP_shift_right, more, shift);
        v = choose_stored(g, low, v,
                          &(Choices){.upper = (const uint32_t(*)[CHOICE_WORDS])s.upper,
                                     .channels = 1,
                                     .least = s.least,
                                     .most = s.most});
    } else {
        v = low;
    }
    v = graph_op3(g, OP_clamp, v, i32_scalar(g, s.least, m->end), i32_scalar(g, s.most, m->end));
    return graph_cast(g, v, (DType)graph_node(g, m->end)->dtype);
}

NodeId byte_map(Graph *g, NodeId end)
{
    ByteMap m;
    if (!find_map(g, end, &m))
        return end;
    return m.n_sources == 1 ? as_table(&m) : as_sum(&m);
}
