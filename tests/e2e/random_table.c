// SPDX-License-Identifier: Apache-2.0
// Generators of ops whose operands are tables or packed words that belong together: weights of few bits,
// regions, trees, automata, the state of a generator of random bits. See random_graph.h.
#include "random_blocks.h"
#include "random_ops.h"

// Scales and zeros are plain: infinite ones tell the sum of a block, scaled once, from scaled weights.
static NodeId make_qmatmul(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_qmatmul);
    const NodeId x = gen_pick(e, GEN_FLOAT, 1, 4);
    const DType t = gen_type_of(e, x);
    const Shape s = *gen_shape_of(e, x);
    const int64_t bits = INT64_C(2) << gen_below(e, 3), blob = gen_range(e, 1, 3) * 4;
    const int64_t block = blob * (8 / bits), inner = s.dim[s.rank - 1];
    const int64_t dim[] = {gen_size(e), (inner + block - 1) / block, blob};
    node_src(&b, x);
    node_src(&b, gen_chance(e, 80) ? gen_table(e, DTYPE_u8, 3, dim, 0, 255) : gen_value(e, DTYPE_u8, 3, dim));
    node_src(&b, gen_plain_leaf(e, t, 2, dim));
    if (gen_chance(e, 50))
        node_src(&b, gen_plain_leaf(e, t, 2, dim));
    node_int(&b, A_qmatmul_bits, bits);
    node_int(&b, A_qmatmul_x_bits, t == DTYPE_f32 && gen_chance(e, 40) ? 8 : 0);
    return node_end(&b);
}

static uint64_t next_bits(void *ctx)
{
    return rng_u64(&((Gen *)ctx)->rng);
}

// A format of the table, or of groups of some size that blocks can have.
static const BlockFormat *any_format(Gen *e)
{
    static const DType types[] = {DTYPE_f16, DTYPE_bf16, DTYPE_f32};
    if (gen_chance(e, 50))
        return &block_formats[gen_below(e, BLOCK_FORMATS)];
    const int64_t bits = gen_range(e, 2, 4) * 2, group = gen_range(e, 1, 8) << gen_below(e, 5);
    return block_format(e->arena, block_group_name(e->arena, bits, group, types[gen_below(e, 3)]));
}

// A constant of blocks; the last dim is set.
static NodeId make_blocks(Gen *e, const BlockFormat *f, uint32_t rank, int64_t *dim)
{
    dim[rank - 1] = f->bytes;
    Tensor v = tensor_new(e->arena, DTYPE_u8, rank, dim);
    random_blocks(f, v.data, v.numel / f->bytes, next_bits, e);
    return gen_given(e, v);
}

// Rows of a table by index, as of an embedding, or all of it.
static NodeId make_block_decode(Gen *e)
{
    const BlockFormat *f = any_format(e);
    int64_t dim[3] = {gen_range(e, 1, 5), gen_range(e, 1, f->elements > 32 ? 1 : 3), 0};
    NodeId x = make_blocks(e, f, 3, dim);
    if (gen_chance(e, 70)) {
        NodeBuild rows = gen_begin(e, OP_gather);
        node_src(&rows, x);
        node_src(&rows, gen_leaf(e, DTYPE_i32, 1, (const int64_t[]){gen_range(e, 1, 4)}));
        x = node_end(&rows);
        if (x == 0)
            return 0;
    }
    NodeBuild b = gen_begin(e, OP_block_decode);
    node_src(&b, x);
    node_str(&b, A_block_decode_format, f->name);
    return node_end(&b);
}

static NodeId make_block_matmul(Gen *e)
{
    const BlockFormat *f = any_format(e);
    int64_t dim[3] = {gen_size(e), gen_range(e, 1, f->elements > 32 ? 1 : 3), 0};
    const int64_t x[3] = {gen_range(e, 1, 2), gen_range(e, 1, 4), dim[1] * f->elements};
    const uint32_t rank = (uint32_t)gen_range(e, 1, 3);
    NodeBuild b = gen_begin(e, OP_block_matmul);
    node_src(&b, gen_value(e, gen_dtype(e, GEN_FLOAT), rank, x + 3 - rank));
    node_src(&b, make_blocks(e, f, 3, dim));
    node_str(&b, A_block_matmul_format, f->name);
    return node_end(&b);
}

// A row of x for each index, which may name no expert.
static NodeId make_block_grouped_matmul(Gen *e)
{
    const BlockFormat *f = any_format(e);
    int64_t dim[4] = {gen_range(e, 1, 4), gen_size(e), gen_range(e, 1, f->elements > 32 ? 1 : 3), 0};
    const int64_t x[2] = {gen_range(e, 1, 5), dim[2] * f->elements}, index[2] = {x[0], gen_range(e, 1, 3)};
    NodeBuild b = gen_begin(e, OP_block_grouped_matmul);
    node_src(&b, gen_value(e, gen_dtype(e, GEN_FLOAT), 2, x));
    node_src(&b, make_blocks(e, f, 4, dim));
    node_src(&b, gen_table(e, DTYPE_i32, (uint32_t)gen_range(e, 1, 2), index, -1, dim[0]));
    node_str(&b, A_block_grouped_matmul_format, f->name);
    return node_end(&b);
}

static NodeId make_bits(Gen *e, DType t, uint32_t rank, const int64_t *dim)
{
    Tensor v = tensor_new(e->arena, t, rank, dim);
    for (int64_t i = 0; i < v.numel; i++)
        tensor_set_i64(&v, i, (int64_t)(next_bits(e) >> 32));
    return gen_given(e, v);
}

// Weights are bytes or words, of one matrix or by experts.
static NodeId make_affine(Gen *e, OpId op, AttrId attr)
{
    static const DType types[] = {DTYPE_f16, DTYPE_bf16, DTYPE_f32};
    const bool is_grouped = op == OP_affine_grouped_matmul, is_words = gen_chance(e, 50);
    const int64_t bits = gen_range(e, 2, 4) * 2, group =
        gen_chance(e, 50) ? (int64_t)32 << gen_below(e, 3) : 4 * gen_range(e, 1, 20);
    const int64_t experts = gen_range(e, 1, 3), n = gen_size(e), groups = gen_range(e, 1, 2);
    const int64_t x[2] = {gen_range(e, 1, 4), groups * group}, numbers[3] = {experts, n, groups};
    const int64_t per_word = is_words && gen_chance(e, 40) ? gen_range(e, 1, 32 / bits) : 0;
    const int64_t bytes[4] = {experts, n, groups, group * bits / 8},
                  words[3] = {experts, n,
                              per_word > 0 ? (x[1] + per_word - 1) / per_word : (x[1] * bits + 31) / 32};
    const uint32_t skipped = is_grouped ? 0 : 1;
    const DType t = types[gen_below(e, 3)];
    NodeBuild b = gen_begin(e, op);
    node_src(&b, gen_value(e, gen_dtype(e, GEN_FLOAT), 2, x));
    node_src(&b, is_words ? make_bits(e, DTYPE_u32, 3 - skipped, words + skipped)
                          : make_bits(e, DTYPE_u8, 4 - skipped, bytes + skipped));
    if (is_grouped)
        node_src(&b, gen_table(e, DTYPE_i64, 1, x, -1, experts));
    for (int i = 0; i < 2; i++)
        node_src(&b, gen_value(e, t, 3 - skipped, numbers + skipped));
    node_int(&b, attr, bits);
    node_int(&b, attr + 1, per_word);
    return node_end(&b);
}

static NodeId make_affine_matmul(Gen *e)
{
    return make_affine(e, OP_affine_matmul, A_affine_matmul_bits);
}

static NodeId make_affine_grouped_matmul(Gen *e)
{
    return make_affine(e, OP_affine_grouped_matmul, A_affine_grouped_matmul_bits);
}

// Regions are leaves: rounding would decide about their points.
static NodeId make_roi_pool(Gen *e)
{
    static const char *const modes[] = {"avg", "max", "bins"};
    static const double scales[] = {1, 0.5, 3, 2.25};
    NodeBuild b = gen_begin(e, OP_roi_pool);
    const NodeId x = gen_pick(e, GEN_FLOAT, 4, 4);
    const int64_t rois[] = {gen_range(e, 0, 4), 4};
    node_src(&b, x);
    node_src(&b, gen_leaf(e, gen_type_of(e, x), 2, rois));
    node_src(&b, gen_value(e, gen_dtype(e, GEN_INT), 1, rois));
    node_int(&b, A_roi_pool_height, gen_range(e, 1, 4));
    node_int(&b, A_roi_pool_width, gen_range(e, 1, 4));
    node_str(&b, A_roi_pool_mode, modes[gen_below(e, 3)]);
    node_float(&b, A_roi_pool_scale, scales[gen_below(e, 4)]);
    node_int(&b, A_roi_pool_half_pixel, gen_chance(e, 50));
    node_int(&b, A_roi_pool_sampling, gen_range(e, 0, 3));
    return node_end(&b);
}

// Nodes that lead to later ones, the last half of them leaves.
static NodeId make_trees(Gen *e, int64_t n, int64_t features)
{
    Tensor v = tensor_new(e->arena, DTYPE_i32, 2, (const int64_t[]){n, 4});
    for (int64_t i = 0; i < n; i++) {
        const bool is_leaf = 2 * i >= n - 1;
        const int64_t kind = gen_range(e, 1, 6) + (gen_chance(e, 30) ? 8 : 0);
        tensor_set_i64(&v, 4 * i, gen_range(e, 0, features - 1));
        tensor_set_i64(&v, 4 * i + 1, is_leaf ? 0 : kind);
        tensor_set_i64(&v, 4 * i + 2, is_leaf ? gen_range(e, -99, 99) : gen_range(e, i + 1, n - 1));
        tensor_set_i64(&v, 4 * i + 3, is_leaf ? 0 : gen_range(e, i + 1, n - 1));
    }
    return gen_given(e, v);
}

static NodeId make_tree_walk(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_tree_walk);
    const NodeId x = gen_pick(e, GEN_FLOAT, 2, 2);
    const DType t = gen_type_of(e, x);
    const int64_t n = gen_range(e, 1, 15), nodes[] = {n, 4}, trees = gen_range(e, 1, 4);
    node_src(&b, x);
    node_src(&b, gen_chance(e, 75) ? make_trees(e, n, gen_shape_of(e, x)->dim[1])
                                   : gen_value(e, DTYPE_i32, 2, nodes));
    node_src(&b, gen_chance(e, 75) ? gen_const(e, t, 1, &n) : gen_value(e, t, 1, &n));
    node_src(&b, gen_chance(e, 75) ? gen_table(e, DTYPE_i32, 1, &trees, 0, n / 2)
                                   : gen_value(e, DTYPE_i32, 1, &trees));
    node_int(&b, A_tree_walk_depth, gen_range(e, 0, n));
    return node_end(&b);
}

static NodeId make_mt19937(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_mt19937);
    const int64_t words = 625, shape[] = {gen_size(e), gen_range(e, 1, 40)};
    node_src(&b, gen_chance(e, 50) ? gen_value(e, DTYPE_u32, 1, &words)
                                   : gen_table(e, DTYPE_u32, 1, &words, 0, INT32_MAX));
    node_ints(&b, A_mt19937_shape, shape, gen_below(e, 3));
    return node_end(&b);
}

static NodeId make_dfa(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_dfa);
    const int64_t bytes = 256, table[] = {gen_range(e, 1, 7), gen_range(e, 1, 5)};
    node_src(&b, graph_cast(e->g, gen_pick(e, GEN_INT, 1, 4), DTYPE_u8));
    node_src(&b, gen_chance(e, 75) ? gen_table(e, DTYPE_i32, 1, &bytes, 0, table[1] - 1)
                                   : gen_value(e, DTYPE_i32, 1, &bytes));
    node_src(&b, gen_chance(e, 75) ? gen_table(e, DTYPE_i32, 2, table, 0, table[0] - 1)
                                   : gen_value(e, DTYPE_i32, 2, table));
    node_int(&b, A_dfa_all, gen_chance(e, 50));
    return node_end(&b);
}

// A leaf of a few experts and of some that are not there, for each row, or several for each.
static NodeId make_grouped_matmul(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_grouped_matmul);
    const NodeId x = gen_pick(e, GEN_FLOAT, 1, 4);
    const DType t = gen_type_of(e, x), index = gen_dtype(e, GEN_INT);
    const bool is_transposed = gen_chance(e, 50);
    const int64_t n = gen_size(e), experts = gen_range(e, 1, 6);
    Shape s = *gen_shape_of(e, x);
    const int64_t inner = s.dim[s.rank - 1], bias[] = {experts, n},
                  dim[] = {experts, is_transposed ? n : inner, is_transposed ? inner : n};
    if (shape_numel(&s) > GEN_MAX_NUMEL / 4 || inner * n > GEN_MAX_NUMEL)
        return 0;
    if (gen_chance(e, 50))
        s.dim[s.rank - 1] = gen_range(e, 1, 4);
    else
        s.rank--;
    node_src(&b, x);
    node_src(&b, gen_value(e, t, 3, dim));
    node_src(&b, gen_table(e, index, s.rank, s.dim, dtype_info[index].cls == DCLASS_INT ? -1 : 0, experts));
    if (gen_chance(e, 50))
        node_src(&b, gen_value(e, t, 2, bias));
    node_int(&b, A_grouped_matmul_transpose_b, is_transposed);
    return node_end(&b);
}

// Whole numbers whose products with those of make_moe are far apart for any two experts, as rounding must not
// decide which of them are chosen: one row of the router tells them apart, all others are the same for all.
static NodeId make_router(Gen *e, DType t, int64_t inner, int64_t experts, bool is_transposed)
{
    const int64_t dim[] = {is_transposed ? experts : inner, is_transposed ? inner : experts};
    Tensor v = tensor_new(e->arena, t, 2, dim);
    const int64_t from = gen_range(e, 0, experts - 1), sign = gen_chance(e, 50) ? 1 : -1;
    for (int64_t i = 0; i < inner; i++) {
        const int64_t common = gen_range(e, -1, 1);
        for (int64_t x = 0; x < experts; x++)
            tensor_set_i64(&v, is_transposed ? x * inner + i : i * experts + x,
                           i == 0 ? sign * ((from + x) % experts) : common);
    }
    return gen_given(e, v);
}

static NodeId make_moe(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_moe);
    const DType t = gen_chance(e, 70) ? DTYPE_f32 : DTYPE_f64;
    const bool is_transposed = gen_chance(e, 50);
    const int64_t experts = gen_range(e, 1, 6), hidden = gen_range(e, 1, 20), inner = gen_range(e, 1, 20);
    const int64_t x[] = {gen_range(e, 1, 5), gen_range(e, 1, 5), inner}, in = is_transposed ? hidden : inner,
                  out = is_transposed ? inner : hidden, up[] = {experts, in, out},
                  down[] = {experts, out, in};
    node_src(&b, gen_table(e, t, 3, x, 1, 3));
    node_src(&b, make_router(e, t, inner, experts, is_transposed));
    node_src(&b, gen_value(e, t, 3, up));
    node_src(&b, gen_value(e, t, 3, up));
    node_src(&b, gen_value(e, t, 3, down));
    node_int(&b, A_moe_k, gen_range(e, 1, experts));
    node_int(&b, A_moe_renormalise, gen_chance(e, 50));
    node_int(&b, A_moe_transpose_b, is_transposed);
    return node_end(&b);
}

const GenOp gen_table_ops[] = {
    {OP_qmatmul, 4, make_qmatmul},
    {OP_block_decode, 3, make_block_decode},
    {OP_block_matmul, 4, make_block_matmul},
    {OP_block_grouped_matmul, 3, make_block_grouped_matmul},
    {OP_affine_matmul, 3, make_affine_matmul},
    {OP_affine_grouped_matmul, 3, make_affine_grouped_matmul},
    {OP_roi_pool, 3, make_roi_pool},
    {OP_tree_walk, 3, make_tree_walk},
    {OP_mt19937, 2, make_mt19937},
    {OP_dfa, 3, make_dfa},
    {OP_grouped_matmul, 4, make_grouped_matmul},
    {OP_moe, 3, make_moe},
};
const uint32_t gen_n_table_ops = sizeof gen_table_ops / sizeof *gen_table_ops;
