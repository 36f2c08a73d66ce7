// SPDX-License-Identifier: Apache-2.0
// The coordinate rules of resize (see resize.h).
#include "ir/shape/resize.h"
#include "ir/shape/shape.h"

#include <math.h>

static uint32_t index_of(const char *const *names, const char *name)
{
    uint32_t i = 0;
    while (!str_equal(names[i], name))
        i++;
    return i;
}

// Entry `i` of a list of n numbers, or dflt when the list is empty.
static double entry(const char *list, uint32_t n, uint32_t i, double dflt)
{
    double v[2 * SHAPE_MAX_RANK];
    if (list[0] == '\0')
        return dflt;
    rlx_assert(shape_resize_numbers(list, n, v));
    return v[i];
}

ResizeAxis resize_axis(const Node *n, uint32_t axis, int64_t in, int64_t out)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coords[] = {"half_pixel",         "asymmetric",           "align_corners",
                                         "pytorch_half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn",
                                         "tf_crop_and_resize"};
    const uint32_t rank = n->shape->rank;
    const char *roi = node_get_str(n, A_resize_roi);
    ResizeAxis a = {.in = in,
                    .out = out,
                    .scale = entry(node_get_str(n, A_resize_scales), rank, axis, 0),
                    .begin = entry(roi, 2 * rank, axis, 0),
                    .end = entry(roi, 2 * rank, rank + axis, 1),
                    .coeff = node_get_float(n, A_resize_cubic_coeff),
                    .rounding = node_get_str(n, A_resize_nearest),
                    .mode = (ResizeMode)index_of(modes, node_get_str(n, A_resize_mode)),
                    .coord = (ResizeCoord)index_of(coords, node_get_str(n, A_resize_coord)),
                    .antialias = node_get_int(n, A_resize_antialias) != 0,
                    .excludes_outside = node_get_int(n, A_resize_exclude_outside) != 0};
    const bool is_cut =
        a.coord == RESIZE_tf_crop_and_resize && !(a.begin <= 0 && a.begin >= 0 && a.end <= 1 && a.end >= 1);
    a.is_identity = in == out && (a.scale == 0 || a.scale == 1) && !is_cut;
    return a;
}

// The length of the result before it was rounded to a whole number.
static double length(const ResizeAxis *a)
{
    return a->scale != 0 ? a->scale * (double)a->in : (double)a->out;
}

// v in the operand's measure. Multiplying first keeps halves exact when sizes were given.
static double shrink(const ResizeAxis *a, double v)
{
    return a->scale != 0 ? v / a->scale : v * (double)a->in / (double)a->out;
}

static double coord_in_roi(const ResizeAxis *a, int64_t i)
{
    const double last = (double)(a->in - 1), part = (a->end - a->begin) * last;
    return a->begin * last + (a->out == 1 ? part / 2 : (double)i * part / (length(a) - 1));
}

// The coordinate in the operand of result element i; may be outside of the axis.
static double resize_coord(const ResizeAxis *a, int64_t i)
{
    const double half = (double)i + 0.5;
    switch (a->coord) {
    case RESIZE_asymmetric:
        return shrink(a, (double)i);
    case RESIZE_align_corners:
        return a->out == 1 && length(a) <= 1 ? 0 : (double)i * (double)(a->in - 1) / (length(a) - 1);
    case RESIZE_pytorch_half_pixel:
        return a->out == 1 ? 0 : shrink(a, half) - 0.5;
    case RESIZE_half_pixel_symmetric:
        return (double)a->in / 2 * (1 - (double)a->out / length(a)) + shrink(a, half) - 0.5;
    case RESIZE_tf_half_pixel_for_nn:
        return shrink(a, half);
    case RESIZE_tf_crop_and_resize:
        return coord_in_roi(a, i);
    case RESIZE_half_pixel:
        break;
    }
    return shrink(a, half) - 0.5;
}

bool resize_is_inside(const ResizeAxis *a, int64_t i)
{
    if (a->coord != RESIZE_tf_crop_and_resize || a->is_identity)
        return true;
    const double v = resize_coord(a, i);
    return v >= 0 && v <= (double)(a->in - 1);
}

static double clamp_to_axis(const ResizeAxis *a, double v)
{
    return v < 0 ? 0 : v > (double)(a->in - 1) ? (double)(a->in - 1) : v;
}

int64_t resize_nearest(const ResizeAxis *a, int64_t i)
{
    const double v = resize_coord(a, i);
    double r = ceil(v - 0.5);
    if (a->is_identity)
        return i;
    if (str_equal(a->rounding, "round_prefer_ceil"))
        r = floor(v + 0.5);
    else if (str_equal(a->rounding, "floor"))
        r = floor(v);
    else if (str_equal(a->rounding, "ceil"))
        r = ceil(v);
    return (int64_t)clamp_to_axis(a, r);
}

ResizeLinear resize_linear(const ResizeAxis *a, int64_t i)
{
    const double v = clamp_to_axis(a, resize_coord(a, i));
    ResizeLinear r = {.lower = (int64_t)v};
    r.upper = r.lower + 1 < a->in ? r.lower + 1 : r.lower;
    r.weight = v - (double)r.lower;
    return r;
}

// --- taps ---

// With antialias the filter is as wide as the elements that one result element stands for.
static double filter_scale(const ResizeAxis *a)
{
    const double scale = a->scale != 0 ? a->scale : (double)a->out / (double)a->in;
    return a->antialias && scale < 1 ? scale : 1;
}

// Elements to each side that the filter reaches. Below one element of the result it would be without limit.
static int64_t reach(const ResizeAxis *a)
{
    const double r = ceil((a->mode == RESIZE_cubic ? 2 : 1) / filter_scale(a)), most = 2 * (double)a->in + 2;
    return (int64_t)(r < most ? r : most);
}

int64_t resize_tap_count(const ResizeAxis *a)
{
    return a->mode == RESIZE_nearest || a->is_identity ? 1 : 2 * reach(a);
}

static double filter(const ResizeAxis *a, double distance)
{
    const double x = fabs(distance), c = a->coeff;
    if (a->mode == RESIZE_linear)
        return x < 1 ? 1 - x : 0;
    if (x <= 1)
        return ((c + 2) * x - (c + 3)) * x * x + 1;
    return x < 2 ? ((c * x - 5 * c) * x + 8 * c) * x - 4 * c : 0;
}

void resize_taps(const ResizeAxis *a, int64_t i, int64_t *index, double *weight)
{
    const int64_t n = resize_tap_count(a);
    index[0] = a->is_identity ? i : a->mode == RESIZE_nearest ? resize_nearest(a, i) : 0;
    weight[0] = 1;
    if (n == 1)
        return;
    if (resize_is_plain(a)) {
        const ResizeLinear r = resize_linear(a, i);
        index[0] = r.lower;
        index[1] = r.upper;
        weight[0] = 1 - r.weight;
        weight[1] = r.weight;
        return;
    }
    const double scale = filter_scale(a), edge = 2 * (double)(a->in + n);
    double v = resize_coord(a, i), sum = 0;
    v = v < -edge ? -edge : v > edge ? edge : v;
    const int64_t first = (int64_t)floor(v) - n / 2 + 1;
    for (int64_t t = 0; t < n; t++) {
        const int64_t at = first + t;
        const bool is_outside = at < 0 || at >= a->in;
        weight[t] = a->excludes_outside && is_outside ? 0 : filter(a, scale * ((double)at - v));
        index[t] = (int64_t)clamp_to_axis(a, (double)at);
        sum += weight[t];
    }
    if (sum == 0)
        weight[0] = sum = 1;
    for (int64_t t = 0; t < n && (a->antialias || a->excludes_outside); t++)
        weight[t] /= sum;
}
