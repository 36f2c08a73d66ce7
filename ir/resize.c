// SPDX-License-Identifier: Apache-2.0
// The coordinate rules of resize (see resize.h).
#include "ir/resize.h"
#include "ir/shape.h"

#include <math.h>

ResizeAxis resize_axis(const Node *n, uint32_t axis, int64_t in, int64_t out)
{
    static const char *const names[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
    const char *scales = node_get_str(n, A_resize_scales), *coord = node_get_str(n, A_resize_coord);
    double scale[SHAPE_MAX_RANK];
    ResizeAxis a = {.in = in, .out = out, .scale = 0, .coord = RESIZE_half_pixel};
    if (scales[0] != '\0') {
        rlx_assert(shape_resize_scales(scales, n->shape->rank, scale));
        a.scale = scale[axis];
    }
    while (!str_equal(names[a.coord], coord))
        a.coord++;
    return a;
}

// v in the operand's measure. Multiplying first keeps halves exact when sizes were given.
static double shrink(const ResizeAxis *a, double v)
{
    return a->scale != 0 ? v / a->scale : v * (double)a->in / (double)a->out;
}

double resize_coord(const ResizeAxis *a, int64_t i)
{
    switch (a->coord) {
    case RESIZE_asymmetric:
        return shrink(a, (double)i);
    case RESIZE_align_corners:
        return a->out == 1 ? 0 : (double)i * (double)(a->in - 1) / (double)(a->out - 1);
    case RESIZE_pytorch_half_pixel:
        return a->out == 1 ? 0 : shrink(a, (double)i + 0.5) - 0.5;
    case RESIZE_half_pixel:
        break;
    }
    return shrink(a, (double)i + 0.5) - 0.5;
}

static double clamp_to_axis(const ResizeAxis *a, double v)
{
    return v < 0 ? 0 : v > (double)(a->in - 1) ? (double)(a->in - 1) : v;
}

int64_t resize_nearest(const Node *n, const ResizeAxis *a, int64_t i)
{
    const char *rounding = node_get_str(n, A_resize_nearest);
    const double v = resize_coord(a, i);
    double r = ceil(v - 0.5);
    if (str_equal(rounding, "round_prefer_ceil"))
        r = floor(v + 0.5);
    else if (str_equal(rounding, "floor"))
        r = floor(v);
    else if (str_equal(rounding, "ceil"))
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
