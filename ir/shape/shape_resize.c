// SPDX-License-Identifier: Apache-2.0
// The shape rule of resize, and how its lists of numbers are read.
#include "ir/shape/shape_rules.h"

#include <math.h>
#include <string.h>

bool shape_resize_numbers(const char *text, uint32_t n, double *out)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t len = strcspn(text, ",");
        const bool is_last = text[len] == '\0';
        const char *next = text + len + (is_last ? 0 : 1);
        while (len > 0 && *text == ' ')
            text++, len--;
        while (len > 0 && text[len - 1] == ' ')
            len--;
        if (is_last != (i + 1 == n) || !str_parse_f64(text, len, &out[i]) || !isfinite(out[i]))
            return false;
        text = next;
    }
    return true;
}

static bool check_choice(ShapeCtx *c, AttrId id, const char *const *choices)
{
    const char *v = shape_attr(c, id)->u.str;
    Str all = str_new(c->g->arena);
    for (uint32_t i = 0; choices[i] != NULL; i++) {
        if (str_equal(v, choices[i]))
            return true;
        str_add(&all, i > 0 ? ", " : "");
        str_add(&all, choices[i]);
    }
    return shape_fail(c, E0203, "`%s` is \"%s\", expected one of: %s", attr_info[id].name, v, str_text(&all));
}

static bool check_resize_modes(ShapeCtx *c)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const coords[] = {
        "half_pixel",           "asymmetric",           "align_corners",      "pytorch_half_pixel",
        "half_pixel_symmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize", NULL};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    if (!check_choice(c, A_resize_mode, modes) || !check_choice(c, A_resize_coord, coords) ||
        !check_choice(c, A_resize_nearest, roundings))
        return false;
    const bool is_nearest = str_equal(shape_attr(c, A_resize_mode)->u.str, "nearest");
    return rule_dtypes(c, is_nearest ? CLS_FLOAT | CLS_INT | CLS_BOOL : CLS_FLOAT, 1);
}

// floor(size * scale); of a symbolic size only by a whole number.
static bool scale_dim(ShapeCtx *c, Dim in, double scale, Dim *out)
{
    if (dim_is_const(in)) {
        const double size = floor((double)in * scale);
        if (!(size <= (double)DIM_MAX_VALUE))
            return shape_fail(c, E0004, "a scale makes the size %s too large", rule_dim_text(c, in));
        *out = (Dim)size;
        return true;
    }
    if (scale != floor(scale) || scale > (double)SHAPE_MAX_STEP)
        return shape_fail(c, E0203, "the symbolic size %s can only be scaled by a whole number",
                          rule_dim_text(c, in));
    *out = dim_mul(c->g->dims, in, (Dim)scale);
    return true;
}

enum { RESIZE_MAX = 1 << 24 }; // elements of an axis: there are tables of that size

static bool read_scales(ShapeCtx *c, double *scale)
{
    const uint32_t rank = c->in[0].shape.rank;
    const char *scales = shape_attr(c, A_resize_scales)->u.str, *roi = shape_attr(c, A_resize_roi)->u.str;
    double ends[2 * SHAPE_MAX_RANK];
    bool is_good = scales[0] == '\0' || shape_resize_numbers(scales, rank, scale);
    for (uint32_t i = 0; i < rank && scales[0] != '\0'; i++)
        is_good = is_good && scale[i] > 0;
    if (!is_good)
        return shape_fail(c, E0203, "`scales` is \"%s\", expected %u positive numbers with commas between",
                          scales, rank);
    return roi[0] == '\0' || shape_resize_numbers(roi, 2 * rank, ends) ||
           shape_fail(c, E0203, "`roi` is \"%s\", expected %u numbers with commas between", roi, 2 * rank);
}

// Scales beside sizes are where the sizes came from.
static bool check_scale(ShapeCtx *c, Dim in, Dim out, double scale)
{
    return !dim_is_const(in) || !dim_is_const(out) || fabs((double)in * scale - (double)out) <= 1 ||
           shape_fail(c, E0203, "%s is not the size %s, scaled by %g", rule_dim_text(c, out),
                      rule_dim_text(c, in), scale);
}

bool shape_resize(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape;
    const AttrVal *sizes = shape_attr(c, A_resize_sizes);
    const char *scales = shape_attr(c, A_resize_scales)->u.str;
    double scale[SHAPE_MAX_RANK];
    Shape out = *x;
    if (!check_resize_modes(c))
        return false;
    if (sizes->len == 0 && scales[0] == '\0' && x->rank != 0)
        return shape_fail(c, E0203, "expected `sizes` or `scales`");
    if (sizes->len != 0 && sizes->len != x->rank)
        return shape_fail(c, E0203, "`sizes` has %llu entries, but the rank is %u",
                          (unsigned long long)sizes->len, x->rank);
    if (!read_scales(c, scale))
        return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (sizes->len != 0)
            out.dim[i] = sizes->u.ints[i];
        else if (!scale_dim(c, x->dim[i], scale[i], &out.dim[i]))
            return false;
        if (dim_is_const(out.dim[i]) && (out.dim[i] > RESIZE_MAX || x->dim[i] > RESIZE_MAX))
            return shape_fail(c, E0004, "axis %u would have more than %d elements", i, RESIZE_MAX);
        if (x->dim[i] == 0 && out.dim[i] != 0)
            return shape_fail(c, E0204, "axis %u has no element to resize", i);
        if (sizes->len != 0 && scales[0] != '\0' && !check_scale(c, x->dim[i], out.dim[i], scale[i]))
            return false;
    }
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}
