// SPDX-License-Identifier: Apache-2.0
// The shape rule of roi_pool.
#include "ir/shape/shape_rules.h"

enum { ROI_MAX_BINS = 1 << 16, ROI_MAX_SAMPLING = 4096 };

static bool check_range(ShapeCtx *c, AttrId id, int64_t low, int64_t high)
{
    const int64_t v = shape_attr(c, id)->u.i;
    return (v >= low && v <= high) ||
           shape_fail(c, E0203, "`%s` is %lld, expected %lld to %lld", attr_info[id].name, (long long)v,
                      (long long)low, (long long)high);
}

bool shape_roi_pool(ShapeCtx *c)
{
    const char *mode = shape_attr(c, A_roi_pool_mode)->u.str;
    if (!rule_dtypes(c, CLS_FLOAT, 2) || !rule_rank(c, 0, 4, 4) || !rule_rank(c, 1, 2, 2) ||
        !rule_rank(c, 2, 1, 1))
        return false;
    const Shape *x = &c->in[0].shape, *rois = &c->in[1].shape;
    if (!str_equal(mode, "avg") && !str_equal(mode, "max") && !str_equal(mode, "bins"))
        return shape_fail(c, E0203, "`mode` is \"%s\", expected one of: avg, max, bins", mode);
    if (!check_range(c, A_roi_pool_height, 1, ROI_MAX_BINS) ||
        !check_range(c, A_roi_pool_width, 1, ROI_MAX_BINS) ||
        !check_range(c, A_roi_pool_sampling, 0, ROI_MAX_SAMPLING))
        return false;
    const DTypeClass index = dtype_info[c->in[2].dtype].cls;
    if (index != DCLASS_INT && index != DCLASS_UINT)
        return shape_fail(c, E0205, "operand 2 must be an integer type, not %s",
                          dtype_info[c->in[2].dtype].name);
    if (rois->dim[1] != 4)
        return shape_fail(c, E0204, "operand 1 must have 4 numbers a region, not %s",
                          rule_dim_text(c, rois->dim[1]));
    if (!rule_dims_equal(c, rois->dim[0], c->in[2].shape.dim[0], "regions"))
        return false;
    if (x->dim[0] == 0 || x->dim[2] == 0 || x->dim[3] == 0)
        return shape_fail(c, E0204, "an operand without elements has no regions");
    const Shape out =
        shape_of(4, (const Dim[]){rois->dim[0], x->dim[1], shape_attr(c, A_roi_pool_height)->u.i,
                                  shape_attr(c, A_roi_pool_width)->u.i});
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}
