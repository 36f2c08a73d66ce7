// SPDX-License-Identifier: Apache-2.0
// Generators of ops that move elements. See random_graph.h.
#include "random_ops.h"

#include <string.h>

static NodeId make_cast(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_cast);
    node_src(&b, gen_pick(e, GEN_ALL, 0, SHAPE_MAX_RANK));
    node_int(&b, A_cast_to, gen_dtype(e, GEN_ALL));
    return node_end(&b);
}

// The first type from a random one on that has as many bits. No narrow floats, as everywhere, and no bool.
static DType type_of_bits(Gen *e, DType from)
{
    const uint32_t bits = from == DTYPE_bool ? 8 : dtype_info[from].bits, first = gen_below(e, DTYPE_COUNT);
    for (uint32_t i = 0; i < DTYPE_COUNT; i++) {
        const DType t = (DType)((first + i) % DTYPE_COUNT);
        const bool is_coarse = dtype_is_narrow(t) && dtype_info[t].cls == DCLASS_FLOAT;
        if (!is_coarse && t != DTYPE_bool && dtype_info[t].bits == bits)
            return t;
    }
    return from;
}

// Only leaves of floats, since rounding moves the bits of others, and no NaN, whose bits nobody demands.
static NodeId make_bitcast(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_bitcast);
    const int64_t dim[2] = {gen_size(e), gen_size(e)};
    const NodeId x = gen_chance(e, 50) ? gen_pick(e, GEN_INT | GEN_BOOL, 0, SHAPE_MAX_RANK)
                                       : gen_plain_leaf(e, gen_dtype(e, GEN_FLOAT), gen_below(e, 3), dim);
    node_src(&b, x);
    node_int(&b, A_bitcast_to, type_of_bits(e, gen_type_of(e, x)));
    return node_end(&b);
}

static NodeId make_copy(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_copy);
    node_src(&b, gen_pick(e, GEN_ALL, 0, SHAPE_MAX_RANK));
    if (gen_chance(e, 50))
        node_str(&b, A_copy_order, "channels_last");
    return node_end(&b);
}

static NodeId make_gather(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_gather);
    const NodeId x = gen_pick(e, GEN_ALL, 1, 4);
    int64_t dim[2] = {gen_range(e, 1, 5), gen_range(e, 1, 3)};
    node_src(&b, x);
    node_src(&b, gen_chance(e, 50) ? gen_pick(e, GEN_INT, 0, 2)
                                   : gen_leaf(e, gen_dtype(e, GEN_INT), gen_below(e, 3), dim));
    node_int(&b, A_gather_axis, gen_below(e, gen_shape_of(e, x)->rank));
    return node_end(&b);
}

static NodeId make_concat(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_concat);
    const NodeId first = gen_pick(e, GEN_ALL, 1, 5);
    const DType t = gen_type_of(e, first);
    Shape s = *gen_shape_of(e, first);
    const uint32_t axis = gen_below(e, s.rank), n = 1 + gen_below(e, 4);
    node_src(&b, first);
    for (uint32_t i = 1; i < n; i++) {
        s.dim[axis] = gen_chance(e, 50) ? s.dim[axis] : gen_range(e, 1, 5);
        node_src(&b, gen_value(e, t, s.rank, s.dim));
    }
    node_int(&b, A_concat_axis, axis);
    return node_end(&b);
}

static NodeId make_slice(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_slice);
    const NodeId x = gen_pick(e, GEN_ALL, 1, SHAPE_MAX_RANK);
    const Shape s = *gen_shape_of(e, x);
    int64_t starts[SHAPE_MAX_RANK], ends[SHAPE_MAX_RANK], axes[SHAPE_MAX_RANK], steps[SHAPE_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s.rank; i++) {
        if (n > 0 && gen_chance(e, 50))
            continue;
        const int64_t size = s.dim[i], a = gen_range(e, 0, size), z = gen_range(e, 0, size);
        steps[n] = gen_chance(e, 60) ? 1 : gen_chance(e, 50) ? gen_range(e, 2, 3) : -gen_range(e, 1, 2);
        starts[n] = (steps[n] > 0) == (a < z) ? a : z;
        ends[n] = (steps[n] > 0) == (a < z) ? z : a;
        if (gen_chance(e, 30))
            ends[n] = steps[n] > 0 ? INT64_MAX : INT64_MIN;
        starts[n] -= gen_chance(e, 20) ? size : 0;
        axes[n++] = i;
    }
    node_src(&b, x);
    node_ints(&b, A_slice_starts, starts, n);
    node_ints(&b, A_slice_ends, ends, n);
    node_ints(&b, A_slice_axes, axes, n);
    node_ints(&b, A_slice_steps, steps, n);
    return node_end(&b);
}

static NodeId make_pad(Gen *e)
{
    static const char *const modes[] = {"constant", "constant", "reflect", "edge", "wrap"};
    NodeBuild b = gen_begin(e, OP_pad);
    const NodeId x = gen_pick(e, GEN_ALL, 1, 5);
    const uint32_t rank = gen_shape_of(e, x)->rank;
    int64_t pads[2 * SHAPE_MAX_RANK];
    const char *mode = modes[gen_below(e, 5)];
    for (uint32_t i = 0; i < 2 * rank; i++)
        pads[i] = gen_chance(e, 50) ? 0 : gen_range(e, -1, 3);
    node_src(&b, x);
    if (strcmp(mode, "constant") == 0 && gen_chance(e, 50))
        node_src(&b, gen_leaf(e, gen_type_of(e, x), 0, NULL));
    node_ints(&b, A_pad_pads, pads, 2 * rank);
    node_str(&b, A_pad_mode, mode);
    return node_end(&b);
}

// The factors of the element count in new places.
static NodeId make_reshape(Gen *e)
{
    const NodeId x = gen_pick(e, GEN_ALL, 0, SHAPE_MAX_RANK);
    const Shape s = *gen_shape_of(e, x);
    int64_t left = shape_numel(&s), dim[SHAPE_MAX_RANK];
    uint32_t n = 0;
    while (n < 5 && left > 1) {
        int64_t f = gen_range(e, 2, left < 40 ? left : 40);
        while (left % f != 0)
            f++;
        dim[n++] = f;
        left /= f;
        if (gen_chance(e, 10))
            dim[n++] = 1;
    }
    if (n == 0 || left != 1)
        dim[n++] = gen_chance(e, 50) ? -1 : left;
    NodeBuild b = gen_begin(e, OP_reshape);
    node_src(&b, x);
    node_ints(&b, A_reshape_shape, dim, n);
    return node_end(&b);
}

static NodeId make_transpose(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_transpose);
    const NodeId x = gen_pick(e, GEN_ALL, 2, SHAPE_MAX_RANK);
    const uint32_t rank = gen_shape_of(e, x)->rank;
    int64_t perm[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (uint32_t i = rank; i-- > 1;) {
        const uint32_t k = gen_below(e, i + 1);
        const int64_t kept = perm[i];
        perm[i] = perm[k];
        perm[k] = kept;
    }
    node_src(&b, x);
    node_ints(&b, A_transpose_perm, perm, gen_chance(e, 10) ? 0 : rank);
    return node_end(&b);
}

static NodeId make_expand(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_expand);
    const NodeId x = gen_pick(e, GEN_ALL, 0, 4);
    const Shape s = *gen_shape_of(e, x);
    const uint32_t more = gen_below(e, 2);
    int64_t dim[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < s.rank + more; i++)
        dim[i] = i < more || s.dim[i - more] == 1 ? gen_range(e, 1, 4)
                 : gen_chance(e, 50)              ? 1
                                                  : s.dim[i - more];
    node_src(&b, x);
    node_ints(&b, A_expand_shape, dim, s.rank + more);
    return node_end(&b);
}

static NodeId make_update_slice(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_update_slice);
    const NodeId x = gen_pick(e, GEN_ALL, 1, 4);
    const DType t = gen_type_of(e, x);
    Shape s = *gen_shape_of(e, x);
    const bool is_scalar = gen_chance(e, 30);
    for (uint32_t i = 0; i < s.rank; i++)
        if (!is_scalar || i == 0)
            s.dim[i] = gen_range(e, s.dim[i] > 0, s.dim[i]);
    node_src(&b, x);
    node_src(&b, gen_value(e, t, s.rank, s.dim));
    node_src(&b, gen_value(e, gen_dtype(e, GEN_INT), is_scalar ? 0 : 1, (const int64_t[]){s.rank}));
    return node_end(&b);
}

static NodeId make_scatter(Gen *e)
{
    static const char *const reductions[] = {"none", "add", "mul", "min", "max"};
    NodeBuild b = gen_begin(e, OP_scatter);
    const uint32_t kind = gen_below(e, 5);
    const NodeId x = gen_pick(e, kind ? GEN_NUMBER : GEN_ALL, 1, 4);
    const DType t = gen_type_of(e, x);
    Shape s = *gen_shape_of(e, x);
    s.dim[0] = gen_range(e, 0, 6);
    node_src(&b, x);
    node_src(&b, gen_value(e, gen_dtype(e, GEN_INT), 1, s.dim));
    node_src(&b, gen_value(e, t, s.rank, s.dim));
    node_str(&b, A_scatter_reduction, reductions[kind]);
    return node_end(&b);
}

// The elements are integers: places of floats that nearly tie would depend on rounding.
static NodeId make_top_k(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_top_k);
    const NodeId x = gen_pick(e, GEN_INT | GEN_BOOL, 1, 4);
    const uint32_t axis = gen_below(e, gen_shape_of(e, x)->rank);
    const int64_t k = gen_range(e, 0, gen_shape_of(e, x)->dim[axis]);
    node_src(&b, x);
    node_ints(&b, A_top_k_k, &k, 1);
    node_int(&b, A_top_k_axis, axis);
    node_int(&b, A_top_k_largest, gen_chance(e, 50));
    const NodeId values = node_end(&b);
    return values && gen_chance(e, 50) ? graph_result(e->g, values, 1) : values;
}

static NodeId make_nonzero(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_nonzero);
    const int64_t size = gen_range(e, 0, 40);
    node_src(&b, gen_pick(e, GEN_INT | GEN_BOOL, 1, 4));
    node_ints(&b, A_nonzero_size, &size, 1);
    return node_end(&b);
}

static NodeId make_unique(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_unique);
    const int64_t size = gen_range(e, 0, 20);
    node_src(&b, gen_pick(e, GEN_INT | GEN_BOOL, 2, 2));
    node_ints(&b, A_unique_size, &size, 1);
    node_int(&b, A_unique_sorted, gen_chance(e, 50));
    const NodeId first = node_end(&b);
    return first ? graph_result(e->g, first, gen_below(e, 4)) : 0;
}

// On leaves, for the same reason.
static NodeId make_nms(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_nms);
    const int64_t n = gen_range(e, 0, 20), size = gen_range(e, 0, 20);
    const int64_t boxes[] = {gen_range(e, 1, 2), n, 4}, scores[] = {boxes[0], gen_range(e, 1, 3), n};
    node_src(&b, gen_leaf(e, DTYPE_f32, 3, boxes));
    node_src(&b, gen_leaf(e, DTYPE_f32, 3, scores));
    node_src(&b, gen_value(e, DTYPE_i64, 0, NULL));
    node_src(&b, graph_scalar(e->g, DTYPE_f32, 0.25, (Span){0}));
    node_ints(&b, A_nms_size, &size, 1);
    const NodeId found = node_end(&b);
    return found ? graph_result(e->g, found, gen_below(e, 2)) : 0;
}

static NodeId make_repack(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_repack);
    const NodeId x = gen_pick(e, GEN_ALL, 1, 4);
    int64_t rank = gen_shape_of(e, x)->rank, dim[3];
    const int64_t more = gen_range(e, 1, 3);
    for (int64_t i = 0; i < more; i++)
        dim[i] = gen_range(e, 0, 6);
    node_src(&b, x);
    node_src(&b, gen_value(e, DTYPE_i64, 1, &rank));
    node_src(&b, gen_value(e, DTYPE_i64, 1, &more));
    node_ints(&b, A_repack_shape, dim, (uint32_t)more);
    return node_end(&b);
}

static NodeId make_resize(Gen *e)
{
    static const char *const coords[] = {"half_pixel",         "asymmetric",           "align_corners",
                                         "pytorch_half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn",
                                         "tf_crop_and_resize"};
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    static const char *const scales[] = {"1,1,2,2", "1,1,0.5,1.5", "1,2,3,1", "1,1,2,0.7"};
    NodeBuild b = gen_begin(e, OP_resize);
    const uint32_t mode = gen_below(e, 3);
    const NodeId x = gen_pick(e, mode > 0 ? GEN_FLOAT : GEN_ALL, 3, 5);
    const Shape s = *gen_shape_of(e, x);
    int64_t sizes[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < s.rank; i++)
        sizes[i] = i < 2 && gen_chance(e, 80) ? s.dim[i] : gen_range(e, 1, 2 * s.dim[i]);
    node_src(&b, x);
    if (s.rank == 4 && gen_chance(e, 40))
        node_str(&b, A_resize_scales, scales[gen_below(e, 4)]);
    else
        node_ints(&b, A_resize_sizes, sizes, s.rank);
    node_str(&b, A_resize_mode, modes[mode]);
    node_str(&b, A_resize_coord, coords[gen_below(e, 7)]);
    node_int(&b, A_resize_antialias, mode > 0 && gen_chance(e, 20));
    node_int(&b, A_resize_exclude_outside, mode > 0 && gen_chance(e, 20));
    if (s.rank == 4 && gen_chance(e, 40))
        node_str(&b, A_resize_roi, "0,0,0.2,-0.5,1,1,0.9,0.7");
    node_str(&b, A_resize_nearest, roundings[gen_below(e, 4)]);
    return node_end(&b);
}

static NodeId make_split(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_split);
    const NodeId x = gen_pick(e, GEN_ALL, 1, 4);
    const uint32_t axis = gen_below(e, gen_shape_of(e, x)->rank);
    int64_t left = gen_shape_of(e, x)->dim[axis], sizes[4];
    uint32_t n = 0;
    for (; n < 3 && left > 0; left -= sizes[n++])
        sizes[n] = gen_range(e, 0, left);
    sizes[n++] = left;
    node_src(&b, x);
    node_int(&b, A_split_axis, axis);
    node_ints(&b, A_split_sizes, sizes, n);
    return node_end(&b);
}

static NodeId make_squeeze(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_squeeze);
    node_src(&b, gen_pick(e, GEN_ALL, 1, SHAPE_MAX_RANK));
    return node_end(&b);
}

static NodeId make_unsqueeze(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_unsqueeze);
    const NodeId x = gen_pick(e, GEN_ALL, 0, 4);
    node_src(&b, x);
    node_ints(&b, A_unsqueeze_axes, (const int64_t[]){gen_range(e, 0, gen_shape_of(e, x)->rank)}, 1);
    return node_end(&b);
}

static NodeId make_flatten(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_flatten);
    const NodeId x = gen_pick(e, GEN_ALL, 0, SHAPE_MAX_RANK);
    node_src(&b, x);
    node_int(&b, A_flatten_axis, gen_range(e, 0, gen_shape_of(e, x)->rank));
    return node_end(&b);
}

// --- if ------------------------------------------------------------------------------------------

// A branch on two values of one type: a few elementwise nodes, one output.
static Graph *make_branch(Gen *e, DType t, const Shape *s)
{
    static const OpId ops[] = {OP_add, OP_sub, OP_mul, OP_min, OP_max};
    Graph *sub = graph_new_like(e->g, "branch");
    const NodeId a = graph_input(sub, "a", t, s, (Span){0}), c = graph_input(sub, "b", t, s, (Span){0});
    NodeId last = gen_chance(e, 50) ? a : c;
    for (uint32_t n = gen_below(e, 3); n > 0; n--)
        last = graph_op2(sub, ops[gen_below(e, 5)], last, gen_chance(e, 50) ? a : c);
    graph_output(sub, "y", last);
    return sub;
}

static NodeId make_if(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_if);
    const NodeId x = gen_pick(e, GEN_NUMBER, 0, 4);
    const DType t = gen_type_of(e, x);
    const Shape s = *gen_shape_of(e, x);
    node_src(&b, gen_value(e, DTYPE_bool, 0, NULL));
    node_src(&b, x);
    node_src(&b, gen_value(e, t, s.rank, s.dim));
    node_graph(&b, A_if_then, make_branch(e, t, &s));
    node_graph(&b, A_if_else, make_branch(e, t, &s));
    return node_end(&b);
}

// --- loop ----------------------------------------------------------------------------------------

// The body of a loop with two carried values and a captured one of one type, and a row of every iteration.
static Graph *make_body(Gen *e, DType t, const Shape *s)
{
    static const OpId ops[] = {OP_add, OP_sub, OP_min, OP_max};
    const Shape scalar = {0};
    Graph *sub = graph_new_like(e->g, "body");
    const NodeId i = graph_input(sub, "i", DTYPE_i64, &scalar, (Span){0});
    NodeId go = graph_input(sub, "go", DTYPE_bool, &scalar, (Span){0});
    NodeId value[3], last[2];
    for (uint32_t k = 0; k < 3; k++)
        value[k] = graph_input(sub, k == 0 ? "a" : k == 1 ? "b" : "x", t, s, (Span){0});
    for (uint32_t k = 0; k < 2; k++) {
        last[k] = value[gen_below(e, 3)];
        for (uint32_t n = gen_below(e, 3); n > 0; n--)
            last[k] = graph_op2(sub, ops[gen_below(e, 4)], last[k], value[gen_below(e, 3)]);
    }
    if (gen_chance(e, 50))
        go = graph_op2(sub, OP_lt, i, graph_scalar(sub, DTYPE_i64, (double)gen_below(e, 3), (Span){0}));
    graph_output(sub, "go", go);
    graph_output(sub, "a", last[0]);
    graph_output(sub, "b", last[1]);
    graph_output(sub, "row", gen_chance(e, 50) ? last[gen_below(e, 2)] : value[gen_below(e, 3)]);
    return sub;
}

static NodeId make_loop(Gen *e)
{
    NodeBuild b = gen_begin(e, OP_loop);
    const NodeId x = gen_pick(e, GEN_NUMBER, 0, 4);
    const DType t = gen_type_of(e, x);
    const Shape s = *gen_shape_of(e, x);
    const Dim most = gen_range(e, 0, 4);
    node_src(&b, gen_chance(e, 50) ? gen_const(e, DTYPE_i64, 0, NULL) : gen_value(e, DTYPE_i64, 0, NULL));
    node_src(&b, gen_chance(e, 50) ? gen_const(e, DTYPE_bool, 0, NULL) : gen_value(e, DTYPE_bool, 0, NULL));
    node_src(&b, x);
    node_src(&b, gen_value(e, t, s.rank, s.dim));
    node_src(&b, gen_value(e, t, s.rank, s.dim));
    node_graph(&b, A_loop_body, make_body(e, t, &s));
    node_int(&b, A_loop_carried, 2);
    node_ints(&b, A_loop_max_trips, &most, 1);
    return node_end(&b);
}

const GenOp gen_move_ops[] = {
    {OP_cast, 5, make_cast},       {OP_copy, 1, make_copy},
    {OP_gather, 4, make_gather},   {OP_concat, 5, make_concat},
    {OP_slice, 5, make_slice},     {OP_pad, 4, make_pad},
    {OP_reshape, 4, make_reshape}, {OP_transpose, 6, make_transpose},
    {OP_expand, 3, make_expand},   {OP_update_slice, 4, make_update_slice},
    {OP_resize, 3, make_resize},   {OP_split, 3, make_split},
    {OP_squeeze, 1, make_squeeze}, {OP_unsqueeze, 1, make_unsqueeze},
    {OP_scatter, 3, make_scatter}, {OP_top_k, 2, make_top_k},
    {OP_nonzero, 1, make_nonzero}, {OP_unique, 1, make_unique},
    {OP_nms, 1, make_nms},         {OP_repack, 1, make_repack},
    {OP_flatten, 1, make_flatten}, {OP_if, 2, make_if},
    {OP_loop, 2, make_loop},       {OP_bitcast, 3, make_bitcast},
};
const uint32_t gen_n_move_ops = sizeof gen_move_ops / sizeof *gen_move_ops;
