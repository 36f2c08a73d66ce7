// SPDX-License-Identifier: Apache-2.0
// Sampling of images at computed positions, built from gathers: the image becomes a table of its elements
// with one row of channels each, and a row of zeros behind them for what is outside; every tap of the filter
// is one gather of rows, which are weighted and summed up.
#include "compiler/import/onnx/ops/onnx_sample.h"

typedef struct Tap {
    NodeId index, weight; // [N, P]: rows to the first one of the image, far below 0 outside; weight 0: 1
} Tap;

enum { MAX_TAPS = 4 };

typedef struct AxisTaps {
    uint32_t count;
    Tap tap[MAX_TAPS];
} AxisTaps;

typedef struct Table {
    NodeId rows, first; // [N * spatial + 1, C]; per image the index of its first row, [N, 1]
    uint32_t axes;
    int64_t size[SAMPLE_MAX_AXES], step[SAMPLE_MAX_AXES]; // step: rows to the next element
    int64_t far;                                          // more rows than there are
    DType type, index_type;                               // of sums, and of indices
} Table;
// Three times as much, and the row of an image, are within the type.
static const int64_t far_i32 = 1 << 29, far_i64 = (int64_t)1 << 48;

static NodeId clamp(OnnxNode *n, NodeId v, double low, double high)
{
    return onnx_op_number(n, OP_min, onnx_op_number(n, OP_max, v, low), high);
}

// Folds v back into [low, high] as mirrors at both ends do.
static NodeId reflect(OnnxNode *n, NodeId v, double low, double high)
{
    const double range = high - low;
    if (range <= 0)
        return onnx_op_number(n, OP_mul, v, 0);
    const NodeId far = onnx_op1(n, OP_abs, onnx_op_number(n, OP_sub, v, low));
    const NodeId turns = onnx_op1(n, OP_floor, onnx_op_number(n, OP_div, far, range));
    const NodeId rest = onnx_op2(n, OP_sub, far, onnx_op_number(n, OP_mul, turns, range));
    const NodeId half = onnx_op_number(n, OP_mul, turns, 0.5);
    const NodeId is_even = onnx_op2(n, OP_eq, half, onnx_op1(n, OP_floor, half));
    const NodeId up = onnx_op_number(n, OP_add, rest, low),
                 down = onnx_op_number(n, OP_add, onnx_op1(n, OP_neg, rest), high);
    return onnx_op3(n, OP_where, is_even, up, down);
}

// The ends of an axis, where positions begin to be outside.
static void ends_of(const Sampling *s, int64_t size, double *low, double *high)
{
    *low = s->align_corners ? 0 : -0.5;
    *high = (double)size - (s->align_corners ? 1 : 0.5);
}

static NodeId pad_position(OnnxNode *n, NodeId v, const Sampling *s, int64_t size)
{
    double low, high;
    ends_of(s, size, &low, &high);
    // Wide filters see the border's repetition outside, not the border alone.
    if (s->padding == SAMPLE_ZEROS || (s->padding == SAMPLE_BORDER && s->mode == SAMPLE_CUBIC))
        return v;
    const NodeId inside =
        s->padding == SAMPLE_BORDER ? clamp(n, v, 0, (double)size - 1) : reflect(n, v, low, high);
    const NodeId is_outside =
        onnx_op2(n, OP_logical_or, onnx_op_number(n, OP_lt, v, low), onnx_op_number(n, OP_gt, v, high));
    return onnx_op3(n, OP_where, is_outside, inside, v);
}

// Places a tap at the whole position `at` of an axis.
static Tap tap_at(OnnxNode *n, NodeId at, NodeId weight, const Sampling *s, const Table *table, uint32_t axis)
{
    const double last = (double)table->size[axis] - 1, step = (double)table->step[axis];
    double low, high;
    ends_of(s, table->size[axis], &low, &high);
    if (s->padding == SAMPLE_REFLECTION)
        at = reflect(n, at, low, high);
    const NodeId inside = onnx_cast(n, clamp(n, at, 0, last), table->index_type);
    const NodeId row = onnx_op_number(n, OP_mul, inside, step);
    if (s->padding != SAMPLE_ZEROS)
        return (Tap){row, weight};
    const NodeId is_inside =
        onnx_op2(n, OP_logical_and, onnx_op_number(n, OP_ge, at, 0), onnx_op_number(n, OP_le, at, last));
    const NodeId outside = onnx_scalar(n, table->index_type, -(double)table->far);
    return (Tap){onnx_op3(n, OP_where, is_inside, row, outside), weight};
}

// ((c[0] t + c[1]) t + c[2]) t + c[3]
static NodeId cubic(OnnxNode *n, NodeId t, const double *c)
{
    NodeId v = onnx_op_number(n, OP_add, onnx_op_number(n, OP_mul, t, c[0]), c[1]);
    for (uint32_t i = 2; i < 4; i++)
        v = onnx_op_number(n, OP_add, onnx_op2(n, OP_mul, v, t), c[i]);
    return v;
}

// Weights of the four taps around a position whose fraction is t, for Keys' filter with a = -0.75.
static const double keys[MAX_TAPS][4] = {
    {-0.75, 1.5, -0.75, 0}, {1.25, -2.25, 0, 1}, {-1.25, 1.5, 0.75, 0}, {0.75, -0.75, 0, 0}};

static AxisTaps taps_of(OnnxNode *n, NodeId v, const Sampling *s, const Table *table, uint32_t axis)
{
    AxisTaps a = {.count = s->mode == SAMPLE_NEAREST ? 1 : s->mode == SAMPLE_LINEAR ? 2 : 4};
    if (s->mode == SAMPLE_NEAREST)
        v = onnx_op1(n, OP_round, v);
    v = pad_position(n, v, s, table->size[axis]);
    if (s->mode == SAMPLE_NEAREST) {
        a.tap[0] = tap_at(n, onnx_op1(n, OP_trunc, v), 0, s, table, axis);
        return a;
    }
    const NodeId first = onnx_op1(n, OP_floor, v), t = onnx_op2(n, OP_sub, v, first);
    for (uint32_t i = 0; i < a.count; i++) {
        const NodeId linear = i == 0 ? onnx_op_number(n, OP_add, onnx_op1(n, OP_neg, t), 1) : t;
        const NodeId weight = a.count == 2 ? linear : cubic(n, t, keys[i]);
        const double step = a.count == 2 ? (double)i : (double)i - 1;
        a.tap[i] = tap_at(n, onnx_op_number(n, OP_add, first, step), weight, s, table, axis);
    }
    return a;
}

// A column for the rows of channels: [N, P] to [N * P, 1].
static NodeId column(OnnxNode *n, NodeId id)
{
    return id ? onnx_reshape_to(n, id, (const Dim[]){-1, 1}, 2) : 0;
}

static NodeId join(OnnxNode *n, OpId op, NodeId a, NodeId b)
{
    return a && b ? onnx_op2(n, op, a, b) : a ? a : b;
}

static NodeId sum_taps(OnnxNode *n, const Table *table, const AxisTaps *axis)
{
    rlx_assert(table->axes >= 1 && table->axes <= SAMPLE_MAX_AXES);
    uint32_t combinations = 1;
    NodeId sum = 0;
    for (uint32_t i = 0; i < table->axes; i++)
        combinations *= axis[i].count;
    for (uint32_t c = 0; c < combinations && !n->failed; c++) {
        Tap all = {.index = table->first};
        uint32_t rest = c;
        for (uint32_t i = 0; i < table->axes; i++) {
            const Tap *t = &axis[i].tap[rest % axis[i].count];
            rest /= axis[i].count;
            all.index = onnx_op2(n, OP_add, all.index, t->index);
            all.weight = join(n, OP_mul, all.weight, t->weight);
        }
        const NodeId index = onnx_op_number(n, OP_max, all.index, -1); // the last row is 0
        NodeId v = onnx_gather(n, table->rows, onnx_reshape_to(n, index, (const Dim[]){-1}, 1), 0);
        if (all.weight)
            v = onnx_op2(n, OP_mul, onnx_cast(n, v, table->type),
                         onnx_cast(n, column(n, all.weight), table->type));
        sum = join(n, OP_add, sum, v);
    }
    return sum;
}

// The rows of all images, and one of zeros.
static NodeId rows_of(OnnxNode *n, NodeId x, const int64_t *perm, Dim channels)
{
    const NodeId rows = onnx_reshape_to(n, onnx_transpose(n, x, perm), (const Dim[]){-1, channels}, 2);
    const Dim one_row[] = {1, channels};
    const NodeId zeros = onnx_expand(n, onnx_scalar(n, onnx_dtype(n, x), 0), one_row, 2);
    return onnx_concat(n, (const NodeId[]){rows, zeros}, 2, 0);
}

static void set_steps(OnnxNode *n, Table *t, Dim images, int64_t rows)
{
    int64_t low = 0, most = 0;
    dim_range(n->graph->dims, images, &low, &most);
    const bool is_small = most < far_i32 / rows;
    t->index_type = is_small ? DTYPE_i32 : DTYPE_i64;
    t->far = is_small ? far_i32 : far_i64;
    for (uint32_t i = t->axes; i-- > 0;)
        t->step[i] = i + 1 == t->axes ? 1 : t->step[i + 1] * t->size[i + 1];
}

// False: reported.
static bool table_of(OnnxNode *n, NodeId x, Table *t)
{
    const Shape s = *onnx_shape(n, x);
    const DType type = onnx_dtype(n, x);
    int64_t perm[SHAPE_MAX_RANK] = {0}, rows = 1;
    *t = (Table){.type = type == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32};
    if (n->failed)
        return false;
    if (s.rank < 3 || s.rank > 2 + SAMPLE_MAX_AXES)
        return onnx_fail(n, E0206, "inputs of rank %u are not supported", s.rank);
    t->axes = s.rank - 2;
    for (uint32_t i = 0; i < t->axes; i++) {
        t->size[i] = onnx_const_dim(n, x, i + 2);
        perm[i + 1] = i + 2;
        if (!n->failed && t->size[i] < 1)
            return onnx_fail(n, E0204, "spatial axis %u has no elements", i);
        rows *= t->size[i] < INT32_MAX ? t->size[i] : INT32_MAX;
        if (rows > INT32_MAX)
            return onnx_fail(n, E0004, "the image is too large");
    }
    perm[s.rank - 1] = 1;
    set_steps(n, t, s.dim[0], rows);
    t->rows = rows_of(n, x, perm, s.dim[1]);
    const NodeId images = onnx_cast(n, onnx_iota(n, s.dim[0]), t->index_type);
    t->first =
        onnx_unsqueeze(n, onnx_op_number(n, OP_mul, images, (double)rows), (const int64_t[]){1}, 1);
    return !n->failed;
}

NodeId onnx_sample(OnnxNode *n, NodeId x, const NodeId *coord, Sampling s)
{
    AxisTaps taps[SAMPLE_MAX_AXES];
    Table table;
    if (!table_of(n, x, &table))
        return 0;
    for (uint32_t i = 0; i < table.axes; i++)
        taps[i] = taps_of(n, coord[i], &s, &table, i);
    const NodeId sum = sum_taps(n, &table, taps);
    const Shape at = *onnx_shape(n, coord[0]);
    if (n->failed)
        return 0;
    const Shape out = {.rank = 3, .dim = {at.dim[0], at.dim[1], onnx_shape(n, x)->dim[1]}};
    return onnx_cast(n, onnx_reshape(n, sum, &out), onnx_dtype(n, x));
}

// --- GridSample ---

// The positions of axis `axis` in elements from the normalised ones, which count from the last axis.
static NodeId positions(OnnxNode *n, NodeId grid, uint32_t axes, uint32_t axis, int64_t size, bool align)
{
    rlx_assert(axis < axes);
    const DType type = onnx_dtype(n, grid) == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
    const int64_t from = axes - 1 - axis;
    const Dim batch = onnx_shape(n, grid)->dim[0];
    NodeId v = onnx_cast(n, onnx_slice(n, grid, axes + 1, from, from + 1, 1), type);
    v = onnx_reshape_to(n, v, (const Dim[]){batch, -1}, 2);
    v = onnx_op_number(n, OP_add, v, 1);
    if (align)
        return onnx_op_number(n, OP_mul, v, ((double)size - 1) / 2);
    return onnx_op_number(n, OP_mul, onnx_op_number(n, OP_sub, onnx_op_number(n, OP_mul, v, (double)size), 1),
                          0.5);
}

static bool read_sampling(OnnxNode *n, Sampling *s)
{
    static const struct {
        const char *name;
        SampleMode mode;
    } modes[] = {{"linear", SAMPLE_LINEAR},
                 {"bilinear", SAMPLE_LINEAR},
                 {"nearest", SAMPLE_NEAREST},
                 {"cubic", SAMPLE_CUBIC},
                 {"bicubic", SAMPLE_CUBIC}};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    const char *mode = onnx_str(n, "mode", "linear"), *padding = onnx_str(n, "padding_mode", "zeros");
    bool has_mode = false, has_padding = false;
    s->align_corners = onnx_flag(n, "align_corners", 0);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (str_equal(mode, modes[i].name)) {
            s->mode = modes[i].mode;
            has_mode = true;
        }
    for (uint32_t i = 0; i < 3; i++)
        if (str_equal(padding, paddings[i])) {
            s->padding = (SamplePadding)i;
            has_padding = true;
        }
    if (!has_mode)
        return onnx_fail(n, E0206, "mode '%s' is not supported", mode);
    return has_padding || onnx_fail(n, E0206, "padding mode '%s' is not supported", padding);
}

void onnx_import_grid_sample(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), grid = onnx_src(n, 1);
    const Shape s = *onnx_shape(n, x), g = *onnx_shape(n, grid);
    NodeId coord[SAMPLE_MAX_AXES] = {0};
    int64_t perm[SHAPE_MAX_RANK] = {0};
    Sampling sampling;
    if (!read_sampling(n, &sampling))
        return;
    if (s.rank < 3 || s.rank > 2 + SAMPLE_MAX_AXES || g.rank != s.rank || g.dim[g.rank - 1] != s.rank - 2 ||
        g.dim[0] != s.dim[0]) {
        onnx_fail(n, E0204,
                  "needs an input [N, C, spatial ...] with 1 to 3 spatial axes and a grid [N, spatial "
                  "..., axes]");
        return;
    }
    const uint32_t axes = s.rank - 2;
    for (uint32_t i = 0; i < axes; i++)
        coord[i] = positions(n, grid, axes, i, onnx_const_dim(n, x, i + 2), sampling.align_corners);
    const NodeId y = onnx_sample(n, x, coord, sampling);
    Shape out = g;
    out.dim[g.rank - 1] = s.dim[1];
    perm[1] = g.rank - 1;
    for (uint32_t i = 2; i < g.rank; i++)
        perm[i] = i - 1;
    onnx_out(n, 0, onnx_transpose(n, onnx_reshape(n, y, &out), perm));
}

// --- AffineGrid ---

// Positions along an axis: from one border to the other, of the centres or of the edges of the elements.
static double grid_position(int64_t i, int64_t size, bool align)
{
    if (align)
        return size > 1 ? 2 * (double)i / ((double)size - 1) - 1 : -1;
    return (2 * (double)i + 1) / (double)size - 1;
}

// All positions of a grid of `axes` axes, the last axis first, and a 1: [P, axes + 1].
static NodeId base_grid(OnnxNode *n, const int64_t *size, uint32_t axes, bool align)
{
    rlx_assert(axes == 2 || axes == 3);
    int64_t count = 1;
    for (uint32_t i = 0; i < axes; i++) {
        count *= size[i] > 0 ? size[i] : 0;
        if (size[i] > INT32_MAX || count > INT32_MAX || !onnx_spend(n, count)) {
            onnx_fail(n, E0004, "the grid is too large");
            return 0;
        }
    }
    const uint32_t each = axes + 1;
    double *v = ARENA_ARRAY(n->model->arena, double, (uint64_t)count *each);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        for (uint32_t a = 0; a < axes; a++) {
            const int64_t length = size[axes - 1 - a];
            v[i * each + a] = grid_position(rest % length, length, align);
            rest /= length;
        }
        v[i * each + axes] = 1;
    }
    const Shape s = {.rank = 2, .dim = {count, each}};
    return onnx_const(n, DTYPE_f64, &s, v, (uint64_t)count * each * sizeof *v);
}

void onnx_import_affine_grid(OnnxNode *n)
{
    const NodeId theta = onnx_src(n, 0);
    const bool align = onnx_flag(n, "align_corners", 0);
    const Shape s = *onnx_shape(n, theta);
    OnnxInts size;
    if (!onnx_src_ints(n, 1, &size))
        return;
    if ((size.n != 4 && size.n != 5) || s.rank != 3 || s.dim[1] != size.n - 2 || s.dim[2] != size.n - 1) {
        onnx_fail(n, E0204,
                  "needs theta [N, axes, axes + 1] and a size [N, C, spatial ...] with 2 or 3 spatial axes");
        return;
    }
    const uint32_t axes = size.n - 2;
    const NodeId base = onnx_cast(n, base_grid(n, size.v + 2, axes, align), onnx_dtype(n, theta));
    Dim out[SHAPE_MAX_RANK] = {s.dim[0]};
    for (uint32_t i = 0; i < axes; i++)
        out[i + 1] = size.v[i + 2];
    out[axes + 1] = axes;
    onnx_out(n, 0, onnx_reshape_to(n, onnx_matmul(n, base, theta, false, true), out, axes + 2));
}
