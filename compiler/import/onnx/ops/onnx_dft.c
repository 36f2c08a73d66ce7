// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms as matrix products. Complex numbers are pairs in the last axis, so that a short
// transform is one product of rows [points, pair] with a constant matrix. Long ones are cut into two shorter
// ones (Cooley and Tukey): columns, a turn of every point, rows. Tables are made in f64.
#include "compiler/import/onnx/onnx_import.h"

#include <math.h>

// Up to MAX_DIRECT points a transform is one product; longer ones are cut where a divisor allows it, and what
// cannot be cut is one product up to MAX_PRIME.
enum { MAX_DIRECT = 96, MAX_WHOLE = 8, MAX_RADIX = 32, MAX_PRIME = 256 };

// Transforms of `points` numbers with `parts` parts each (2: complex, 1: real).
typedef struct Dft {
    DType type; // of the work: f32 or f64
    double sign;
    int64_t points;
} Dft;

// cos and sin of sign * 2 pi * a * b / points; exact at the quarters of the circle.
static void unit_of(const Dft *d, int64_t a, int64_t b, double *c, double *s)
{
    rlx_assert(d->points >= 1 && a >= 0 && b >= 0);
    static const double quarter_cos[] = {1, 0, -1, 0}, quarter_sin[] = {0, 1, 0, -1};
    const int64_t turn = (int64_t)((uint64_t)a * (uint64_t)b % (uint64_t)d->points);
    const double angle = 6.283185307179586476925 * (double)turn / (double)d->points;
    const bool is_quarter = 4 * turn % d->points == 0;
    *c = is_quarter ? quarter_cos[4 * turn / d->points] : cos(angle);
    *s = d->sign * (is_quarter ? quarter_sin[4 * turn / d->points] : sin(angle));
}

static bool new_table(OnnxNode *n, const Dft *d, uint32_t rank, const Dim *dims, Tensor *out)
{
    double count = 1;
    for (uint32_t i = 0; i < rank; i++)
        count *= (double)dims[i];
    if (n->failed)
        return false;
    if (count > (double)(1 << 24))
        return onnx_fail(n, E0206,
                         "a transform of %lld points, which has a large prime factor, is not supported",
                         (long long)d->points);
    if (!onnx_spend(n, (int64_t)count))
        return false;
    *out = tensor_new(n->model->arena, d->type, rank, dims);
    return true;
}

static NodeId table_node(OnnxNode *n, const Tensor *t)
{
    const Shape s = shape_of(t->rank, t->dim);
    return onnx_const(n, t->dtype, &s, t->data, (uint64_t)t->numel * dtype_info[t->dtype].bytes);
}

// The matrix [(point, part), (bin, 2)] from `rows` points to `bins` bins.
static NodeId matrix(OnnxNode *n, const Dft *d, int64_t rows, int64_t parts, int64_t bins, double scale)
{
    Tensor t;
    if (!new_table(n, d, 2, (const Dim[]){rows * parts, bins * 2}, &t))
        return 0;
    int64_t at = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t part = 0; part < parts; part++)
            for (int64_t bin = 0; bin < bins; bin++) {
                double c, s;
                unit_of(d, i, bin, &c, &s);
                tensor_set_f64(&t, at++, scale * (part ? -s : c));
                tensor_set_f64(&t, at++, scale * (part ? c : s));
            }
    return table_node(n, &t);
}

// The matrix [(bin, part), point] from the first half of a spectrum to real points.
static NodeId real_matrix(OnnxNode *n, const Dft *d, int64_t bins, int64_t parts)
{
    Tensor t;
    if (!new_table(n, d, 2, (const Dim[]){bins * parts, d->points}, &t))
        return 0;
    int64_t at = 0;
    for (int64_t bin = 0; bin < bins; bin++)
        for (int64_t part = 0; part < parts; part++)
            for (int64_t i = 0; i < d->points; i++) {
                const bool is_alone = bin == 0 || 2 * bin == d->points; // it has no mirror image
                const double scale = (is_alone ? 1 : 2) / (double)d->points;
                double c, s;
                unit_of(d, i, bin, &c, &s);
                tensor_set_f64(&t, at++, part ? (is_alone ? 0 : -scale * s) : scale * c);
            }
    return table_node(n, &t);
}

// x [B, rows, columns, 2] with every number turned by the product of its row and its column.
static NodeId turn(OnnxNode *n, const Dft *d, NodeId x, int64_t rows, int64_t columns)
{
    Tensor same, other;
    if (!new_table(n, d, 3, (const Dim[]){rows, columns, 1}, &same) ||
        !new_table(n, d, 3, (const Dim[]){rows, columns, 2}, &other))
        return 0;
    for (int64_t i = 0; i < rows * columns; i++) {
        double c, s;
        unit_of(d, i / columns, i % columns, &c, &s);
        tensor_set_f64(&same, i, c);
        tensor_set_f64(&other, 2 * i, -s);
        tensor_set_f64(&other, 2 * i + 1, s);
    }
    const NodeId swapped = onnx_slice(n, x, 3, -1, INT64_MIN, -1);
    return onnx_op2(n, OP_add, onnx_op2(n, OP_mul, x, table_node(n, &same)),
                    onnx_op2(n, OP_mul, swapped, table_node(n, &other)));
}

// The next radix to cut off; `points` when the rest is one product. A complex transform of an even number is
// halved once more at the end, which halves its work too.
static int64_t radix_of(int64_t points, int64_t parts)
{
    rlx_assert(points >= 1);
    if (points <= MAX_DIRECT)
        return parts == 2 && points % 2 == 0 && points > MAX_WHOLE ? 2 : points;
    for (int64_t r = MAX_RADIX; r > 1; r--)
        if (points % r == 0)
            return r;
    for (int64_t r = MAX_RADIX + 1; r * r <= points; r++)
        if (points % r == 0)
            return r;
    return points;
}

static bool is_one_product(int64_t points, int64_t parts)
{
    return points <= MAX_PRIME && radix_of(points, parts) == points;
}

static NodeId swap_middle(OnnxNode *n, NodeId x)
{
    return onnx_transpose(n, x, (const int64_t[]){0, 2, 1, 3});
}

// Groups the rows of x anew: [-1, a, b, c].
static NodeId grouped(OnnxNode *n, NodeId x, int64_t a, int64_t b, int64_t c)
{
    return onnx_reshape_to(n, x, (const Dim[]){-1, a, b, c}, 4);
}

// All bins of x [B, points, parts]: [B, points, 2]. Cuts off one radix after the other, then puts the bins in
// order, innermost first.
static NodeId cut_transform(OnnxNode *n, const Dft *whole, NodeId x, int64_t parts)
{
    int64_t radix[64], left = whole->points;
    uint32_t count = 0;
    Dft d = *whole;
    for (bool is_last = false; !is_last && (radix[count] = radix_of(left, parts)) != left;) {
        const int64_t r = radix[count++], rest = left / r;
        is_last = left <= MAX_DIRECT;
        const Dft part = {d.type, d.sign, r};
        d.points = left;
        x = swap_middle(n, grouped(n, x, r, rest, parts));
        x = onnx_reshape_to(n, x, (const Dim[]){-1, r * parts}, 2);
        x = onnx_matmul(n, x, matrix(n, &part, r, parts, r, 1), false, false);
        x = swap_middle(n, turn(n, &d, grouped(n, x, rest, r, 2), rest, r));
        parts = 2;
        left = rest;
    }
    d.points = left;
    x = onnx_reshape_to(n, x, (const Dim[]){-1, left * parts}, 2);
    x = onnx_matmul(n, x, matrix(n, &d, left, parts, left, 1), false, false);
    while (count-- > 0) {
        x = swap_middle(n, grouped(n, x, radix[count], left, 2));
        left *= radix[count];
    }
    return onnx_reshape_to(n, x, (const Dim[]){-1, whole->points, 2}, 3);
}

// x [B, have, parts] cut or filled with zeros to [B, points, parts].
static NodeId fit(OnnxNode *n, NodeId x, int64_t points)
{
    const int64_t have = onnx_const_dim(n, x, 1);
    if (have > points)
        return onnx_slice(n, x, 1, 0, points, 1);
    if (have == points || n->failed)
        return x;
    return onnx_op_ints(n, OP_pad, x, A_pad_pads, (const int64_t[]){0, 0, 0, 0, points - have, 0}, 6);
}

// --- lengths with a large prime factor (Bluestein): a convolution with a chirp ---

// exp(sign * i * pi * k^2 / points)
static void chirp_of(const Dft *d, int64_t k, double *c, double *s)
{
    const Dft half = {d->type, d->sign, 2 * d->points};
    unit_of(&half, k, k, c, s);
}

// In place, for a power of two: by halves, as text books have it.
static void transform_numbers(double *re, double *im, int64_t n)
{
    rlx_assert(n >= 1 && (n & (n - 1)) == 0);
    for (int64_t i = 1, j = 0; i < n; i++) {
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            const double r = re[i], m = im[i];
            re[i] = re[j];
            im[i] = im[j];
            re[j] = r;
            im[j] = m;
        }
    }
    for (int64_t size = 2; size <= n; size *= 2) {
        const Dft d = {DTYPE_f64, -1, size};
        for (int64_t k = 0; k < size / 2; k++) {
            double c, s;
            unit_of(&d, 1, k, &c, &s);
            for (int64_t i = k; i < n; i += size) {
                const int64_t j = i + size / 2;
                const double r = re[j] * c - im[j] * s, m = re[j] * s + im[j] * c;
                re[j] = re[i] - r;
                im[j] = im[i] - m;
                re[i] += r;
                im[i] += m;
            }
        }
    }
}

// Numbers as the tables of `turned`: the chirp itself, or the spectrum of its conjugate on a circle of `n`.
static bool chirp_tables(OnnxNode *n, const Dft *d, int64_t count, bool is_spectrum, Tensor *same,
                         Tensor *other)
{
    rlx_assert(count >= d->points);
    if (!new_table(n, d, 3, (const Dim[]){1, count, 1}, same) ||
        !new_table(n, d, 3, (const Dim[]){1, count, 2}, other))
        return false;
    double *re = ARENA_ARRAY(n->model->arena, double, count),
           *im = ARENA_ARRAY(n->model->arena, double, count);
    for (int64_t k = 0; k < d->points; k++) {
        chirp_of(d, k, &re[k], &im[k]);
        im[k] = is_spectrum ? -im[k] : im[k];
        if (is_spectrum && k > 0) {
            re[count - k] = re[k];
            im[count - k] = im[k];
        }
    }
    if (is_spectrum)
        transform_numbers(re, im, count);
    for (int64_t k = 0; k < count; k++) {
        tensor_set_f64(same, k, re[k]);
        tensor_set_f64(other, 2 * k, -im[k]);
        tensor_set_f64(other, 2 * k + 1, im[k]);
    }
    return true;
}

// x [B, count, 2] times one complex number for each place.
static NodeId times(OnnxNode *n, NodeId x, const Tensor *same, const Tensor *other)
{
    const NodeId swapped = onnx_slice(n, x, 2, -1, INT64_MIN, -1);
    return onnx_op2(n, OP_add, onnx_op2(n, OP_mul, x, table_node(n, same)),
                    onnx_op2(n, OP_mul, swapped, table_node(n, other)));
}

static NodeId chirp_transform(OnnxNode *n, const Dft *d, NodeId x, int64_t parts)
{
    int64_t circle = 1;
    while (circle < 2 * d->points - 1)
        circle *= 2;
    const Dft there = {d->type, -1, circle}, back = {d->type, 1, circle};
    Tensor chirp[2], spectrum[2];
    if (!chirp_tables(n, d, d->points, false, &chirp[0], &chirp[1]) ||
        !chirp_tables(n, d, circle, true, &spectrum[0], &spectrum[1]))
        return 0;
    if (parts == 1) {
        const NodeId nothing = onnx_op2(n, OP_mul, x, onnx_scalar(n, d->type, 0));
        x = onnx_concat(n, (const NodeId[]){x, nothing}, 2, 2);
    }
    x = fit(n, times(n, x, &chirp[0], &chirp[1]), circle);
    x = times(n, cut_transform(n, &there, x, 2), &spectrum[0], &spectrum[1]);
    x = onnx_op2(n, OP_mul, cut_transform(n, &back, x, 2), onnx_scalar(n, d->type, 1 / (double)circle));
    return times(n, onnx_slice(n, x, 1, 0, d->points, 1), &chirp[0], &chirp[1]);
}

// All bins of x [B, points, parts]: [B, points, 2].
static NodeId transform(OnnxNode *n, const Dft *d, NodeId x, int64_t parts)
{
    int64_t left = d->points;
    while (left > MAX_DIRECT && radix_of(left, 1) < left)
        left /= radix_of(left, 1);
    return left > MAX_PRIME ? chirp_transform(n, d, x, parts) : cut_transform(n, d, x, parts);
}

// --- the kinds of transforms, on x [B, points, parts] ---

// [B, bins, 2]
static NodeId to_bins(OnnxNode *n, const Dft *d, NodeId x, int64_t parts, int64_t bins)
{
    const double scale = d->sign > 0 ? 1 / (double)d->points : 1;
    const int64_t have = onnx_const_dim(n, x, 1);
    if (is_one_product(d->points, parts)) {
        const int64_t rows = have < d->points ? have : d->points;
        x = onnx_reshape_to(n, fit(n, x, rows), (const Dim[]){-1, rows * parts}, 2);
        x = onnx_matmul(n, x, matrix(n, d, rows, parts, bins, scale), false, false);
        return onnx_reshape_to(n, x, (const Dim[]){-1, bins, 2}, 3);
    }
    x = onnx_slice(n, transform(n, d, fit(n, x, d->points), parts), 1, 0, bins, 1);
    return scale < 1 ? onnx_op2(n, OP_mul, x, onnx_scalar(n, d->type, scale)) : x;
}

// The first half of a spectrum to real points: [B, points, 1].
static NodeId to_real(OnnxNode *n, const Dft *d, NodeId x, int64_t parts)
{
    const int64_t half = d->points / 2 + 1, have = onnx_const_dim(n, x, 1), bins = have < half ? have : half;
    if (is_one_product(d->points, 1)) {
        x = onnx_reshape_to(n, fit(n, x, bins), (const Dim[]){-1, bins * parts}, 2);
        x = onnx_matmul(n, x, real_matrix(n, d, bins, parts), false, false);
        return onnx_reshape_to(n, x, (const Dim[]){-1, d->points, 1}, 3);
    }
    x = fit(n, x, half);
    NodeId mirror = onnx_slice(n, x, 1, (d->points - 1) / 2, 0, -1);
    if (parts == 2) {
        Tensor conjugate = tensor_new(n->model->arena, d->type, 1, (const Dim[]){2});
        tensor_set_f64(&conjugate, 0, 1);
        tensor_set_f64(&conjugate, 1, -1);
        mirror = onnx_op2(n, OP_mul, mirror, table_node(n, &conjugate));
    }
    x = transform(n, d, onnx_concat(n, (const NodeId[]){x, mirror}, 2, 1), parts);
    x = onnx_slice(n, x, 2, 0, 1, 1);
    return onnx_op2(n, OP_mul, x, onnx_scalar(n, d->type, 1 / (double)d->points));
}

typedef struct DftKind {
    bool is_inverse, is_onesided;
} DftKind;

// Any axis but the last: it goes to the end and the others become rows. points 0: all of the axis.
static NodeId along_axis(OnnxNode *n, NodeId x, uint32_t axis, int64_t points, DftKind kind)
{
    const DType type = onnx_dtype(n, x);
    const Shape shape = *onnx_shape(n, x);
    const int64_t parts = onnx_const_dim(n, x, shape.rank - 1), have = onnx_const_dim(n, x, axis);
    const bool is_real = kind.is_inverse && kind.is_onesided;
    if (points == 0)
        points = is_real ? 2 * (have - 1) : have;
    if (!n->failed && (parts < 1 || parts > 2 || points < 1 || points > (1 << 24)))
        onnx_fail(n, E0206, "a transform of %lld points of %lld parts is not supported", (long long)points,
                  (long long)parts);
    if (n->failed)
        return 0;
    rlx_assert(axis + 1 < shape.rank);
    int64_t to_end[SHAPE_MAX_RANK], back[SHAPE_MAX_RANK];
    Shape moved = {.rank = shape.rank};
    for (uint32_t i = 0, at = 0; i < shape.rank; i++)
        if (i != axis && i + 1 < shape.rank)
            to_end[at++] = i;
    to_end[shape.rank - 2] = axis;
    to_end[shape.rank - 1] = shape.rank - 1;
    for (uint32_t i = 0; i < shape.rank; i++) {
        back[to_end[i]] = i;
        moved.dim[i] = shape.dim[to_end[i]];
    }
    const Dft d = {type == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32, kind.is_inverse ? 1.0 : -1.0, points};
    const int64_t bins = kind.is_onesided && !is_real ? points / 2 + 1 : points;
    NodeId y = onnx_transpose(n, onnx_cast(n, x, d.type), to_end);
    y = onnx_reshape_to(n, y, (const Dim[]){-1, have, parts}, 3);
    y = is_real ? to_real(n, &d, y, parts) : to_bins(n, &d, y, parts, bins);
    moved.dim[shape.rank - 2] = bins;
    moved.dim[shape.rank - 1] = is_real ? 1 : 2;
    return onnx_cast(n, onnx_transpose(n, onnx_reshape(n, y, &moved), back), type);
}

// --- operators ---

// One number that shapes the result, or dflt where it is absent.
static int64_t read_number(OnnxNode *n, uint32_t operand, int64_t dflt)
{
    OnnxInts v;
    if (!onnx_has(n, operand) || !onnx_src_ints(n, operand, &v))
        return dflt;
    if (v.n == 1)
        return v.v[0];
    onnx_fail(n, E0203, "input %u must be one number, found %u", operand, v.n);
    return dflt;
}

void onnx_import_dft(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const int64_t points = read_number(n, 1, 0);
    const int64_t given = n->opset < 20 ? onnx_int(n, "axis", 1) : read_number(n, 2, -2);
    const DftKind kind = {onnx_flag(n, "inverse", 0), onnx_flag(n, "onesided", 0)};
    const uint32_t rank = onnx_shape(n, x)->rank;
    uint32_t axis = 0;
    if (onnx_has(n, 1) && points < 1)
        onnx_fail(n, E0203, "input 1 (dft_length) is %lld, expected at least 1", (long long)points);
    if (!onnx_axis(n, given, rank, &axis))
        return;
    if (axis + 1 == rank)
        onnx_fail(n, E0203, "the last axis has the parts of the numbers; it cannot be transformed");
    if (!n->failed)
        onnx_out(n, 0, along_axis(n, x, axis, points, kind));
}

// Where the frames of a signal of `length` samples lie: [frames, points].
static NodeId frame_indices(OnnxNode *n, Dim length, int64_t points, int64_t step)
{
    rlx_assert(step >= 1 && points >= 1);
    DimTable *t = n->graph->dims;
    const Dim frames = dim_add(t, dim_floor_div(t, dim_sub(t, length, points), step), 1);
    int64_t lo = 0, hi = 0;
    dim_range(t, frames, &lo, &hi);
    if (hi < 1) {
        onnx_fail(n, E0204, "the signal is shorter than a frame of %lld samples", (long long)points);
        return 0;
    }
    const NodeId number = onnx_unsqueeze(n, onnx_iota(n, frames), &(const int64_t){1}, 1);
    const NodeId begin = onnx_op2(n, OP_mul, number, onnx_scalar(n, DTYPE_i64, (double)step));
    return onnx_op2(n, OP_add, begin, onnx_iota(n, points));
}

void onnx_import_stft(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    const NodeId window = onnx_opt(n, 2);
    const DftKind kind = {false, onnx_flag(n, "onesided", 1)};
    const int64_t step = read_number(n, 1, 0);
    if (onnx_shape(n, x)->rank == 2)
        x = onnx_unsqueeze(n, x, &(const int64_t){2}, 1);
    if (!n->failed && onnx_shape(n, x)->rank != 3)
        onnx_fail(n, E0204, "input 0 must have 3 axes, found %u", onnx_shape(n, x)->rank);
    int64_t points = 0;
    if (onnx_has(n, 3))
        points = read_number(n, 3, 0);
    else
        points = window ? onnx_const_dim(n, window, 0) : onnx_const_dim(n, x, 1);
    if (!n->failed && (step < 1 || step > INT32_MAX || points < 1 || points > INT32_MAX))
        onnx_fail(n, E0203, "frames of %lld samples, one every %lld", (long long)points, (long long)step);
    if (n->failed)
        return;
    NodeId framed = onnx_gather(n, x, frame_indices(n, onnx_shape(n, x)->dim[1], points, step), 1);
    if (window) {
        const NodeId column = onnx_unsqueeze(n, window, &(const int64_t){1}, 1);
        framed = onnx_op2(n, OP_mul, framed, onnx_cast(n, column, onnx_dtype(n, x)));
    }
    if (!n->failed)
        onnx_out(n, 0, along_axis(n, framed, 2, points, kind));
}
