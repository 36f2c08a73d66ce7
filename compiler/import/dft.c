// SPDX-License-Identifier: Apache-2.0
// See dft.h. Complex numbers are pairs in the last axis, so that a short transform is one product of rows
// [points, pair] with a constant matrix. Long ones are cut into two shorter ones (Cooley and Tukey): columns,
// a turn of every point, rows. Tables are made in f64.
#include "compiler/import/dft.h"

#include "ir/graph/tensor.h"
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

typedef struct Build {
    const DftReader *reader;
    bool failed; // and reported
} Build;

// --- building ---

static bool refuse(Build *b, const char *what)
{
    if (!b->failed)
        b->reader->refuse(b->reader->node, what);
    b->failed = true;
    return false;
}

static NodeBuild begin(Build *b, OpId op)
{
    NodeBuild build = node_begin(b->reader->graph, op, b->reader->span, b->reader->label);
    build.failed = b->failed;
    return build;
}

static NodeId end(Build *b, NodeBuild *build)
{
    const NodeId id = b->failed ? 0 : node_end(build);
    b->failed = id == 0;
    return id;
}

static NodeId with_ints(Build *b, OpId op, NodeId x, AttrId id, const int64_t *v, uint32_t n)
{
    NodeBuild build = begin(b, op);
    node_src(&build, x);
    node_ints(&build, id, v, n);
    return end(b, &build);
}

static NodeId op2(Build *b, OpId op, NodeId x, NodeId y)
{
    NodeBuild build = begin(b, op);
    node_src(&build, x);
    node_src(&build, y);
    return end(b, &build);
}

static NodeId constant(Build *b, DType t, const Shape *s, const void *data, uint64_t bytes)
{
    const NodeId id = b->failed ? 0 : graph_const(b->reader->graph, t, s, data, bytes, b->reader->span);
    b->failed = id == 0;
    return id;
}

static NodeId scalar(Build *b, DType t, double v)
{
    const NodeId id = b->failed ? 0 : graph_scalar(b->reader->graph, t, v, b->reader->span);
    b->failed = id == 0;
    return id;
}

static NodeId cast(Build *b, NodeId x, DType to)
{
    if (b->failed || graph_node(b->reader->graph, x)->dtype == to)
        return x;
    NodeBuild build = begin(b, OP_cast);
    node_src(&build, x);
    node_int(&build, A_cast_to, to);
    return end(b, &build);
}

static NodeId reshape_to(Build *b, NodeId x, const Dim *dims, uint32_t rank)
{
    return with_ints(b, OP_reshape, x, A_reshape_shape, dims, rank);
}

static NodeId reshape(Build *b, NodeId x, const Shape *s)
{
    if (b->failed || shape_equal(graph_node(b->reader->graph, x)->shape, s))
        return x;
    return reshape_to(b, x, s->dim, s->rank);
}

static NodeId transpose(Build *b, NodeId x, const int64_t *perm)
{
    const uint32_t rank = b->failed ? 0 : graph_node(b->reader->graph, x)->shape->rank;
    bool is_identity = true;
    for (uint32_t i = 0; i < rank; i++) {
        rlx_assert(perm[i] >= 0 && perm[i] < rank);
        is_identity = is_identity && perm[i] == i;
    }
    return is_identity ? x : with_ints(b, OP_transpose, x, A_transpose_perm, perm, rank);
}

static NodeId slice(Build *b, NodeId x, int64_t axis, int64_t start, int64_t stop, int64_t step)
{
    if (b->failed)
        return 0;
    NodeBuild build = begin(b, OP_slice);
    node_slice(&build, x, axis, start, stop, step);
    return end(b, &build);
}

static NodeId concat(Build *b, const NodeId *src, uint32_t n, int64_t axis)
{
    NodeBuild build = begin(b, OP_concat);
    node_concat(&build, src, n, axis);
    return end(b, &build);
}

static NodeId matmul(Build *b, NodeId x, NodeId y, bool transpose_x, bool transpose_y)
{
    NodeBuild build = begin(b, OP_matmul);
    node_matmul(&build, x, y, transpose_x, transpose_y);
    return end(b, &build);
}

static int64_t size_of(Build *b, NodeId x, uint32_t axis)
{
    if (b->failed)
        return 0;
    const Shape *s = graph_node(b->reader->graph, x)->shape;
    rlx_assert(axis < s->rank);
    if (!dim_is_const(s->dim[axis]))
        refuse(b, arena_printf(b->reader->graph->arena, "the size of axis %u must be a number", axis));
    return b->failed ? 0 : s->dim[axis];
}

// --- tables ---

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

static bool new_table(Build *b, const Dft *d, uint32_t rank, const Dim *dims, Tensor *out)
{
    double count = 1;
    for (uint32_t i = 0; i < rank; i++)
        count *= (double)dims[i];
    if (b->failed)
        return false;
    if (count > (double)(1 << 24))
        return refuse(b, arena_printf(
                             b->reader->graph->arena,
                             "a transform of %lld points, which has a large prime factor, is not supported",
                             (long long)d->points));
    b->failed = !b->reader->spend(b->reader->node, (uint64_t)count);
    if (b->failed)
        return false;
    *out = tensor_new(b->reader->graph->arena, d->type, rank, dims);
    return true;
}

static NodeId table_node(Build *b, const Tensor *t)
{
    const Shape s = shape_of(t->rank, t->dim);
    return constant(b, t->dtype, &s, t->data, (uint64_t)t->numel * dtype_info[t->dtype].bytes);
}

// The matrix [(point, part), (bin, 2)] from `rows` points to `bins` bins.
static NodeId matrix(Build *b, const Dft *d, int64_t rows, int64_t parts, int64_t bins, double scale)
{
    Tensor t;
    if (!new_table(b, d, 2, (const Dim[]){rows * parts, bins * 2}, &t))
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
    return table_node(b, &t);
}

// The matrix [(bin, part), point] from the first half of a spectrum to real points.
static NodeId real_matrix(Build *b, const Dft *d, int64_t bins, int64_t parts)
{
    Tensor t;
    if (!new_table(b, d, 2, (const Dim[]){bins * parts, d->points}, &t))
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
    return table_node(b, &t);
}

// x [B, rows, columns, 2] with every number turned by the product of its row and its column.
static NodeId turn(Build *b, const Dft *d, NodeId x, int64_t rows, int64_t columns)
{
    Tensor same, other;
    if (!new_table(b, d, 3, (const Dim[]){rows, columns, 1}, &same) ||
        !new_table(b, d, 3, (const Dim[]){rows, columns, 2}, &other))
        return 0;
    for (int64_t i = 0; i < rows * columns; i++) {
        double c, s;
        unit_of(d, i / columns, i % columns, &c, &s);
        tensor_set_f64(&same, i, c);
        tensor_set_f64(&other, 2 * i, -s);
        tensor_set_f64(&other, 2 * i + 1, s);
    }
    const NodeId swapped = slice(b, x, 3, -1, INT64_MIN, -1);
    return op2(b, OP_add, op2(b, OP_mul, x, table_node(b, &same)),
                    op2(b, OP_mul, swapped, table_node(b, &other)));
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

static NodeId swap_middle(Build *b, NodeId x)
{
    return transpose(b, x, (const int64_t[]){0, 2, 1, 3});
}

// Groups the rows of x anew: [-1, rows, columns, parts].
static NodeId grouped(Build *b, NodeId x, int64_t rows, int64_t columns, int64_t parts)
{
    return reshape_to(b, x, (const Dim[]){-1, rows, columns, parts}, 4);
}

// All bins of x [B, points, parts]: [B, points, 2]. Cuts off one radix after the other, then puts the bins in
// order, innermost first.
static NodeId cut_transform(Build *b, const Dft *whole, NodeId x, int64_t parts)
{
    int64_t radix[64], left = whole->points;
    uint32_t count = 0;
    Dft d = *whole;
    for (bool is_last = false; !is_last && (radix[count] = radix_of(left, parts)) != left;) {
        const int64_t r = radix[count++], rest = left / r;
        is_last = left <= MAX_DIRECT;
        const Dft part = {d.type, d.sign, r};
        d.points = left;
        x = swap_middle(b, grouped(b, x, r, rest, parts));
        x = reshape_to(b, x, (const Dim[]){-1, r * parts}, 2);
        x = matmul(b, x, matrix(b, &part, r, parts, r, 1), false, false);
        x = swap_middle(b, turn(b, &d, grouped(b, x, rest, r, 2), rest, r));
        parts = 2;
        left = rest;
    }
    d.points = left;
    x = reshape_to(b, x, (const Dim[]){-1, left * parts}, 2);
    x = matmul(b, x, matrix(b, &d, left, parts, left, 1), false, false);
    while (count-- > 0) {
        x = swap_middle(b, grouped(b, x, radix[count], left, 2));
        left *= radix[count];
    }
    return reshape_to(b, x, (const Dim[]){-1, whole->points, 2}, 3);
}

// x [B, have, parts] cut or filled with zeros to [B, points, parts].
static NodeId fit(Build *b, NodeId x, int64_t points)
{
    const int64_t have = size_of(b, x, 1);
    if (have > points)
        return slice(b, x, 1, 0, points, 1);
    if (have == points || b->failed)
        return x;
    return with_ints(b, OP_pad, x, A_pad_pads, (const int64_t[]){0, 0, 0, 0, points - have, 0}, 6);
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
static bool chirp_tables(Build *b, const Dft *d, int64_t count, bool is_spectrum, Tensor *same,
                         Tensor *other)
{
    rlx_assert(count >= d->points);
    if (!new_table(b, d, 3, (const Dim[]){1, count, 1}, same) ||
        !new_table(b, d, 3, (const Dim[]){1, count, 2}, other))
        return false;
    double *re = ARENA_ARRAY(b->reader->graph->arena, double, count),
           *im = ARENA_ARRAY(b->reader->graph->arena, double, count);
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
static NodeId times(Build *b, NodeId x, const Tensor *same, const Tensor *other)
{
    const NodeId swapped = slice(b, x, 2, -1, INT64_MIN, -1);
    return op2(b, OP_add, op2(b, OP_mul, x, table_node(b, same)),
                    op2(b, OP_mul, swapped, table_node(b, other)));
}

static NodeId chirp_transform(Build *b, const Dft *d, NodeId x, int64_t parts)
{
    int64_t circle = 1;
    while (circle < 2 * d->points - 1)
        circle *= 2;
    const Dft there = {d->type, -1, circle}, back = {d->type, 1, circle};
    Tensor chirp[2], spectrum[2];
    if (!chirp_tables(b, d, d->points, false, &chirp[0], &chirp[1]) ||
        !chirp_tables(b, d, circle, true, &spectrum[0], &spectrum[1]))
        return 0;
    if (parts == 1) {
        const NodeId nothing = op2(b, OP_mul, x, scalar(b, d->type, 0));
        x = concat(b, (const NodeId[]){x, nothing}, 2, 2);
    }
    x = fit(b, times(b, x, &chirp[0], &chirp[1]), circle);
    x = times(b, cut_transform(b, &there, x, 2), &spectrum[0], &spectrum[1]);
    x = op2(b, OP_mul, cut_transform(b, &back, x, 2), scalar(b, d->type, 1 / (double)circle));
    return times(b, slice(b, x, 1, 0, d->points, 1), &chirp[0], &chirp[1]);
}

// All bins of x [B, points, parts]: [B, points, 2].
static NodeId transform(Build *b, const Dft *d, NodeId x, int64_t parts)
{
    int64_t left = d->points;
    while (left > MAX_DIRECT && radix_of(left, 1) < left)
        left /= radix_of(left, 1);
    return left > MAX_PRIME ? chirp_transform(b, d, x, parts) : cut_transform(b, d, x, parts);
}

// --- the kinds of transforms, on x [B, points, parts] ---

// [B, bins, 2]
static NodeId to_bins(Build *b, const Dft *d, NodeId x, int64_t parts, int64_t bins)
{
    const double scale = d->sign > 0 ? 1 / (double)d->points : 1;
    const int64_t have = size_of(b, x, 1);
    if (is_one_product(d->points, parts)) {
        const int64_t rows = have < d->points ? have : d->points;
        x = reshape_to(b, fit(b, x, rows), (const Dim[]){-1, rows * parts}, 2);
        x = matmul(b, x, matrix(b, d, rows, parts, bins, scale), false, false);
        return reshape_to(b, x, (const Dim[]){-1, bins, 2}, 3);
    }
    x = slice(b, transform(b, d, fit(b, x, d->points), parts), 1, 0, bins, 1);
    return scale < 1 ? op2(b, OP_mul, x, scalar(b, d->type, scale)) : x;
}

// The first half of a spectrum to real points: [B, points, 1].
static NodeId to_real(Build *b, const Dft *d, NodeId x, int64_t parts)
{
    const int64_t half = d->points / 2 + 1, have = size_of(b, x, 1), bins = have < half ? have : half;
    if (is_one_product(d->points, 1)) {
        x = reshape_to(b, fit(b, x, bins), (const Dim[]){-1, bins * parts}, 2);
        x = matmul(b, x, real_matrix(b, d, bins, parts), false, false);
        return reshape_to(b, x, (const Dim[]){-1, d->points, 1}, 3);
    }
    x = fit(b, x, half);
    NodeId mirror = slice(b, x, 1, (d->points - 1) / 2, 0, -1);
    if (parts == 2) {
        Tensor conjugate = tensor_new(b->reader->graph->arena, d->type, 1, (const Dim[]){2});
        tensor_set_f64(&conjugate, 0, 1);
        tensor_set_f64(&conjugate, 1, -1);
        mirror = op2(b, OP_mul, mirror, table_node(b, &conjugate));
    }
    x = transform(b, d, concat(b, (const NodeId[]){x, mirror}, 2, 1), parts);
    x = slice(b, x, 2, 0, 1, 1);
    return op2(b, OP_mul, x, scalar(b, d->type, 1 / (double)d->points));
}

// The axis goes to the end and the others become rows.
static NodeId along_axis(Build *b, NodeId x, uint32_t axis, int64_t points, DftKind kind)
{
    const Node *of = graph_node(b->reader->graph, x);
    const DType type = (DType)of->dtype;
    const Shape shape = *of->shape;
    const int64_t parts = size_of(b, x, shape.rank - 1), have = size_of(b, x, axis);
    const bool is_real = kind.is_inverse && kind.is_onesided;
    if (points == 0)
        points = is_real ? 2 * (have - 1) : have;
    if (!b->failed && (parts < 1 || parts > 2 || points < 1 || points > (1 << 24)))
        refuse(b, arena_printf(b->reader->graph->arena,
                               "a transform of %lld points of %lld parts is not supported", (long long)points,
                               (long long)parts));
    if (b->failed)
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
    NodeId y = transpose(b, cast(b, x, d.type), to_end);
    y = reshape_to(b, y, (const Dim[]){-1, have, parts}, 3);
    y = is_real ? to_real(b, &d, y, parts) : to_bins(b, &d, y, parts, bins);
    moved.dim[shape.rank - 2] = bins;
    moved.dim[shape.rank - 1] = is_real ? 1 : 2;
    return cast(b, transpose(b, reshape(b, y, &moved), back), type);
}

NodeId dft_along(const DftReader *reader, NodeId x, uint32_t axis, int64_t points, DftKind kind)
{
    rlx_assert(reader->graph != NULL && reader->spend != NULL && reader->refuse != NULL);
    rlx_assert(x != 0 && x < reader->graph->nodes.len);
    Build b = {.reader = reader};
    const NodeId y = along_axis(&b, x, axis, points, kind);
    return b.failed ? 0 : y;
}
