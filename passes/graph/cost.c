// SPDX-License-Identifier: Apache-2.0
// The cost model of rewriting; see cost.h. Elementwise ops have their cost in ops.def, the others here: they
// are weighed only against the elementwise ops that they stand for.
#include "passes/graph/cost.h"

// Symbols count as their largest value, but at most this, so that products of them stay comparable.
static const int64_t symbol_max = 1 << 16;

static double size_of(const Graph *g, const Shape *s)
{
    double n = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t low = 0, high = 0;
        dim_range(g->dims, s->dim[i], &low, &high);
        n *= (double)(dim_is_const(s->dim[i]) || high < symbol_max ? high : symbol_max);
    }
    return n;
}

// What one element of operand 0 or of the result costs.
typedef struct OpCost {
    uint8_t per_operand, per_result;
} OpCost;

static const OpCost op_cost[OP_COUNT] = {
    [OP_qmatmul] = {0, 100},    [OP_bitcast] = {0, 1},        [OP_cast] = {0, 1},
    [OP_copy] = {0, 1},         [OP_reduce_sum] = {1, 0},     [OP_reduce_mean] = {1, 0},
    [OP_reduce_max] = {1, 0},   [OP_reduce_min] = {1, 0},     [OP_reduce_prod] = {1, 0},
    [OP_argmax] = {2, 0},       [OP_argmin] = {2, 0},         [OP_cumsum] = {0, 2},
    [OP_layer_norm] = {0, 5},   [OP_rms_norm] = {0, 3},       [OP_softmax] = {0, 15},
    [OP_log_softmax] = {0, 14}, [OP_attention] = {100, 0},    [OP_rope] = {0, 4},
    [OP_attention_part] = {100, 0},
    [OP_gather] = {0, 2},       [OP_concat] = {0, 1},         [OP_pad] = {0, 1},
    [OP_transpose] = {0, 1},    [OP_resize] = {0, 2},         [OP_lstm] = {100, 0},
    [OP_update_slice] = {0, 1}, [OP_scatter] = {0, 2},        [OP_dfa] = {4, 4},
    [OP_top_k] = {20, 0},       [OP_cumprod] = {0, 2},        [OP_det] = {100, 0},
    [OP_tree_walk] = {0, 100},  [OP_mt19937] = {0, 20},       [OP_repack] = {0, 10},
    [OP_nms] = {100, 0},        [OP_unique] = {40, 0},        [OP_nonzero] = {4, 0},
    [OP_argmax_pool] = {0, 18}, [OP_roi_pool] = {0, 60},      [OP_grouped_matmul] = {0, 100},
    [OP_block_decode] = {0, 4}, [OP_block_matmul] = {0, 100},
    [OP_block_grouped_matmul] = {0, 100},
};

// Multiplications and additions of one element of the result.
static double window_cost(const Graph *g, const Node *n)
{
    const bool is_pool = n->op == OP_max_pool || n->op == OP_avg_pool;
    if (n->op == OP_matmul) {
        const Shape *a = graph_node(g, n->src[0])->shape;
        const bool is_transposed = a->rank > 1 && node_get_int(n, A_matmul_transpose_a);
        return 2 * size_of(g, &(Shape){1, {a->dim[a->rank - (is_transposed ? 2 : 1)]}});
    }
    if (is_pool) {
        const AttrVal *kernel = node_attr(n, n->op == OP_max_pool ? A_max_pool_kernel : A_avg_pool_kernel);
        double taps = 1;
        for (uint64_t i = 0; i < kernel->len; i++)
            taps *= (double)kernel->u.ints[i];
        return taps;
    }
    const Shape *w = graph_node(g, n->src[1])->shape;
    return 2 * size_of(g, w) / size_of(g, &(Shape){1, {w->dim[0]}});
}

static bool is_window(const Node *n)
{
    return n->op == OP_matmul || n->op == OP_conv || n->op == OP_int_conv || n->op == OP_conv_transpose ||
           n->op == OP_max_pool || n->op == OP_avg_pool;
}

// Elementwise ops of a norm's scale and bias.
static double weight_cost(const Node *n)
{
    double cost = 0;
    for (uint32_t i = 1; i < n->n_src && (n->op == OP_layer_norm || n->op == OP_rms_norm); i++)
        cost += n->src[i] != 0;
    return cost;
}

static bool has_only_constants(const Graph *g, const Node *n)
{
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] != 0 && !node_is_const(g, n->src[i]))
            return false;
    return true;
}

double cost_node(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    if (n->n_src == 0 || has_only_constants(g, n))
        return 0;
    const double out = size_of(g, n->shape);
    if (op_info[n->op].kind == OPKIND_EW)
        return op_info[n->op].cost * out;
    if (is_window(n))
        return window_cost(g, n) * out;
    const OpCost c = op_cost[n->op];
    const double in = c.per_operand ? size_of(g, graph_node(g, n->src[0])->shape) : 0;
    return c.per_operand * in + (c.per_result + weight_cost(n)) * out;
}

double cost_graph(const Graph *g)
{
    Arena scratch = {0};
    const uint32_t n = g->nodes.len;
    bool *is_needed = ARENA_ARRAY(&scratch, bool, n);
    double sum = 0;
    for (uint32_t i = 0; i < g->outputs.len; i++)
        is_needed[g->outputs.data[i].node] = true;
    for (uint32_t i = 0; i < g->states.len; i++)
        is_needed[g->states.data[i].next] = true;
    for (uint32_t i = 0; i < g->checks.len; i++)
        is_needed[g->checks.data[i].cond] = true;
    for (NodeId id = n; id-- > 1;) {
        const Node *node = graph_node(g, id);
        for (uint32_t i = 0; is_needed[id] && i < node->n_src; i++)
            is_needed[node->src[i]] = true;
        sum += is_needed[id] ? cost_node(g, id) : 0;
    }
    arena_free(&scratch);
    return sum;
}
