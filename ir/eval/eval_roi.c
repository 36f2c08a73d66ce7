// SPDX-License-Identifier: Apache-2.0
// Meaning of roi_pool. Corners, steps and the number of points are computed in the type that the op states,
// so that everyone counts the same points; blends and sums are in double.
#include "ir/eval/eval_ops.h"

#include <math.h>

typedef struct Roi {
    int64_t size[2], bins[2], sampling; // y, x
    bool is_max, half_pixel, is_wide;
    double scale;
} Roi;

// One axis of a region.
typedef struct Span1 {
    double start, step;
    int64_t points; // of a bin
} Span1;

static double to_type(const Roi *r, double v)
{
    return r->is_wide ? v : (double)(float)v;
}

static Span1 span_of(const Roi *r, double from, double to, uint32_t axis)
{
    const double offset = r->half_pixel ? 0.5 : 0;
    const double start = to_type(r, to_type(r, from * r->scale) - offset),
                 end = to_type(r, to_type(r, to * r->scale) - offset);
    double length = to_type(r, end - start);
    if (!r->half_pixel && !(length > 1))
        length = 1;
    Span1 s = {.start = start, .step = to_type(r, length / (double)r->bins[axis]), .points = r->sampling};
    if (s.points == 0) {
        const double n = ceil(s.step), most = 4 * (double)r->size[axis];
        s.points = n >= most ? (int64_t)most : n >= 1 ? (int64_t)n : 0;
    }
    return s;
}

typedef struct Blend {
    int64_t low, high;
    double part; // of high
    bool is_inside;
} Blend;

static Blend blend_of(const Roi *r, const Span1 *s, int64_t bin, int64_t point, uint32_t axis)
{
    const int64_t last = r->size[axis] - 1;
    const double base = to_type(r, s->start + to_type(r, (double)bin * s->step));
    const double inner = to_type(r, to_type(r, ((double)point + 0.5) * s->step) / (double)s->points);
    double v = to_type(r, base + inner);
    Blend b = {.is_inside = v >= -1 && v <= (double)r->size[axis]};
    v = v > 0 ? v : 0;
    b.low = v >= (double)last ? last : (int64_t)v;
    b.high = b.low < last ? b.low + 1 : last;
    b.part = b.low < last ? v - (double)b.low : 0;
    return b;
}

static double point_value(const Roi *r, const double *plane, const Blend *y, const Blend *x)
{
    if (!y->is_inside || !x->is_inside)
        return 0;
    const double *low = plane + y->low * r->size[1], *high = plane + y->high * r->size[1];
    const double v[4] = {(1 - y->part) * (1 - x->part) * low[x->low], (1 - y->part) * x->part * low[x->high],
                         y->part * (1 - x->part) * high[x->low], y->part * x->part * high[x->high]};
    return r->is_max ? fmax(fmax(v[0], v[1]), fmax(v[2], v[3])) : v[0] + v[1] + v[2] + v[3];
}

static double align(const Roi *r, const double *plane, const double *corner, int64_t by, int64_t bx)
{
    const Span1 y = span_of(r, corner[1], corner[3], 0), x = span_of(r, corner[0], corner[2], 1);
    const int64_t count = y.points * x.points;
    double all = 0;
    for (int64_t i = 0; i < count; i++) {
        const Blend at_y = blend_of(r, &y, by, i / x.points, 0), at_x = blend_of(r, &x, bx, i % x.points, 1);
        const double v = point_value(r, plane, &at_y, &at_x);
        all = !r->is_max ? all + v : i == 0 ? v : fmax(all, v);
    }
    return r->is_max || count == 0 ? all : all / (double)count;
}

// --- MaxRoiPool ---

// C's round(), which no target has: halves go away from 0. Clamped to where integers are exact.
static int64_t round_away(const Roi *r, double v)
{
    const double w = to_type(r, fabs(v) + 0.5);
    const int64_t n = w < 1e6 ? (int64_t)w : w >= 1e6 ? 1000000 : 0;
    return v < 0 ? -n : n;
}

static void bin_range(const Roi *r, double from, double to, int64_t bin, uint32_t axis, int64_t *lo,
                      int64_t *hi)
{
    const int64_t start = round_away(r, to_type(r, from * r->scale)),
                  end = round_away(r, to_type(r, to * r->scale));
    const int64_t length = end - start + 1 > 1 ? end - start + 1 : 1;
    const double step = to_type(r, (double)length / (double)r->bins[axis]);
    *lo = start + (int64_t)floor(to_type(r, (double)bin * step));
    *hi = start + (int64_t)ceil(to_type(r, (double)(bin + 1) * step));
    *lo = *lo < 0 ? 0 : *lo > r->size[axis] ? r->size[axis] : *lo;
    *hi = *hi < 0 ? 0 : *hi > r->size[axis] ? r->size[axis] : *hi;
}

static double largest(const Roi *r, const double *plane, const double *corner, int64_t by, int64_t bx)
{
    int64_t y0, y1, x0, x1;
    double top = 0;
    bin_range(r, corner[1], corner[3], by, 0, &y0, &y1);
    bin_range(r, corner[0], corner[2], bx, 1, &x0, &x1);
    for (int64_t y = y0; y < y1; y++)
        for (int64_t x = x0; x < x1; x++) {
            const double v = plane[y * r->size[1] + x];
            top = (y == y0 && x == x0) || v > top ? v : top;
        }
    return top;
}

bool eval_roi_pool(EvalCtx *c)
{
    const Tensor *x = &c->in[0];
    Tensor *out = &c->out[0];
    rlx_assert(x->rank == 4 && out->rank == 4);
    const char *mode = node_get_str(c->node, A_roi_pool_mode);
    const Roi r = {.size = {x->dim[2], x->dim[3]},
                   .bins = {out->dim[2], out->dim[3]},
                   .sampling = node_get_int(c->node, A_roi_pool_sampling),
                   .is_max = str_equal(mode, "max"),
                   .half_pixel = eval_flag(c, A_roi_pool_half_pixel),
                   .is_wide = x->dtype == DTYPE_f64,
                   .scale = x->dtype == DTYPE_f64 ? node_get_float(c->node, A_roi_pool_scale)
                                                  : (double)(float)node_get_float(c->node, A_roi_pool_scale)};
    const bool is_bins = str_equal(mode, "bins");
    const double *v = eval_doubles(c, 0), *rois = eval_doubles(c, 1);
    const int64_t bins = r.bins[0] * r.bins[1], plane = r.size[0] * r.size[1];
    for (int64_t i = 0; i < out->numel; i++) {
        const int64_t roi = i / bins / out->dim[1], channel = i / bins % out->dim[1];
        const int64_t by = i % bins / r.bins[1], bx = i % r.bins[1];
        int64_t image = tensor_get_i64(&c->in[2], roi);
        image = image < 0 ? 0 : image >= x->dim[0] ? x->dim[0] - 1 : image;
        const double *p = v + (image * x->dim[1] + channel) * plane;
        tensor_set_f64(out, i, (is_bins ? largest : align)(&r, p, rois + roi * 4, by, bx));
    }
    return true;
}
