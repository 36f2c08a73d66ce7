// SPDX-License-Identifier: Apache-2.0
// Ops that move elements, or read them as another type, as ONNX.
#include "compiler/export/onnx/put.h"
#include "ir/shape/shape.h"

#include <math.h>
#include <string.h>

Value put_same(Put *w, const char *type)
{
    return put_op1(w, type, put_src(w, 0));
}

// Floats beyond an integer type become its least or greatest number in our graphs, and anything in ONNX. The
// greatest of 32 bits and more is no float: there only the least is kept, which is.
static Value limited(Put *w, Value x, DType from, DType to)
{
    const double most = (double)INFINITY;
    const double lo = (double)tensor_saturate(to, -most), hi = (double)tensor_saturate(to, most);
    if (!put_is_float(from) || put_is_float(to) || to == DTYPE_bool)
        return x;
    Tensor limit = tensor_new(&w->file->scratch, from, 0, NULL);
    tensor_set_f64(&limit, 0, hi);
    const bool has_most = dtype_info[to].bytes <= 2 && tensor_get_f64(&limit, 0) <= hi;
    tensor_set_f64(&limit, 0, lo);
    if (!has_most && !isfinite(tensor_get_f64(&limit, 0)))
        return x;
    return put_op3(w, "Clip", x, put_number(w, from, lo), has_most ? put_number(w, from, hi) : "");
}

Value put_cast_op(Put *w, const char *type)
{
    const DType from = put_type(w, 0), to = (DType)put_node(w)->dtype;
    (void)type;
    return put_cast(w, limited(w, put_src(w, 0), from, to), from, to);
}

// Between integers of one size Cast keeps the bits.
Value put_bitcast(Put *w, const char *type)
{
    const DType from = put_type(w, 0), to = (DType)put_node(w)->dtype;
    if (!put_is_float(from) && !put_is_float(to) && from != DTYPE_bool && to != DTYPE_bool)
        return put_cast(w, put_src(w, 0), from, to);
    const Value x = put_src(w, 0);
    Onnx__NodeProto *n = put_begin(w, type, &x, 1);
    put_int(w, n, "to", dtype_info[to].onnx);
    put_since(w, 26);
    return put_result(w, n);
}

static Value as_index(Put *w, uint32_t i)
{
    const DType t = put_type(w, i);
    return t == DTYPE_i32 ? put_src(w, i) : put_cast(w, put_src(w, i), t, DTYPE_i64);
}

Value put_gather_op(Put *w, const char *type)
{
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){put_src(w, 0), as_index(w, 1)}, 2);
    put_copy_int(w, n, "axis", "axis");
    return put_result(w, n);
}

Value put_concat_op(Put *w, const char *type)
{
    Onnx__NodeProto *n = put_begin(w, type, put_all_src(w), put_node(w)->n_src);
    put_copy_int(w, n, "axis", "axis");
    return put_result(w, n);
}

Value put_slice_op(Put *w, const char *type)
{
    static const int64_t first[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint64_t count = put_get_list(w, "starts")->len;
    if (count == 0)
        return put_op1(w, "Identity", put_src(w, 0));
    const Value axes =
        put_get_list(w, "axes")->len != 0 ? put_attr_list(w, "axes") : put_list(w, first, count);
    const Value in[] = {put_src(w, 0), put_attr_list(w, "starts"), put_attr_list(w, "ends"), axes,
                        put_attr_list(w, "steps")};
    return put_result(w, put_begin(w, type, in, 5));
}

static Value pad_by(Put *w, const char *type, const Value x, const int64_t *pads, uint64_t count, Value value)
{
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){x, put_list(w, pads, count), value}, 3);
    put_text(w, n, "mode", put_get_text(w, "mode"));
    return put_result(w, n);
}

// ONNX Runtime removes elements before it wraps: two nodes keep the order of ours.
Value put_pad(Put *w, const char *type)
{
    const AttrVal *given = put_get_list(w, "pads");
    int64_t more[2 * SHAPE_MAX_RANK], less[2 * SHAPE_MAX_RANK];
    bool adds = false, cuts = false;
    rlx_assert(given->len <= 2 * SHAPE_MAX_RANK);
    for (uint64_t i = 0; i < given->len; i++) {
        more[i] = given->u.ints[i] > 0 ? given->u.ints[i] : 0;
        less[i] = given->u.ints[i] < 0 ? given->u.ints[i] : 0;
        adds = adds || more[i] != 0;
        cuts = cuts || less[i] != 0;
    }
    if (adds && cuts && strcmp(put_get_text(w, "mode"), "wrap") == 0)
        return pad_by(w, type, pad_by(w, type, put_src(w, 0), more, given->len, 0), less, given->len, 0);
    Value value = put_src(w, 1);
    if (put_has(w, 1) && put_shape(w, 1)->rank != 0)
        value = put_reshape(w, value, NULL, 0);
    return pad_by(w, type, put_src(w, 0), given->u.ints, given->len, value);
}

// Sizes that are symbols are copied from the same axis (0), or follow from the others (-1), if that is
// enough.
static bool literal_shape(const Put *w, int64_t *out)
{
    const Shape *to = put_node(w)->shape, *from = put_shape(w, 0);
    uint32_t n_open = 0;
    for (uint32_t i = 0; i < to->rank; i++) {
        out[i] = to->dim[i];
        if (to->dim[i] == 0)
            return false;
        if (!dim_is_const(to->dim[i])) {
            const bool is_copied = i < from->rank && from->dim[i] == to->dim[i];
            n_open += !is_copied;
            out[i] = is_copied ? 0 : -1;
        }
    }
    return n_open <= 1;
}

Value put_reshape_op(Put *w, const char *type)
{
    int64_t shape[SHAPE_MAX_RANK];
    const Shape *s = put_node(w)->shape;
    if (literal_shape(w, shape))
        return put_reshape(w, put_src(w, 0), shape, s->rank);
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){put_src(w, 0), put_dims(w, s->dim, s->rank)}, 2);
    put_int(w, n, "allowzero", 1);
    return put_result(w, n);
}

Value put_transpose_op(Put *w, const char *type)
{
    const AttrVal *perm = put_get_list(w, "perm");
    return perm->len != 0 ? put_transpose(w, put_src(w, 0), perm->u.ints, (uint32_t)perm->len)
                          : put_same(w, type);
}

Value put_expand(Put *w, const char *type)
{
    const Shape *s = put_node(w)->shape;
    return put_op2(w, type, put_src(w, 0), put_dims(w, s->dim, s->rank));
}

Value put_split(Put *w, const char *type)
{
    const uint32_t count = put_node(w)->n_results;
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){put_src(w, 0), put_attr_list(w, "sizes")}, 2);
    put_copy_int(w, n, "axis", "axis");
    const Value first = put_result(w, n);
    for (uint32_t i = 1; i < count; i++)
        put_more(w, i, put_result(w, n));
    return first;
}

Value put_squeeze(Put *w, const char *type)
{
    return put_result(w, put_begin(w, type, (const Value[]){put_src(w, 0), put_attr_list(w, "axes")}, 2));
}

// --- resize --------------------------------------------------------------------------------------

// "0.5,2" with so many numbers, as f32[n]; "" where there are none.
static Value numbers(Put *w, const char *text, uint32_t n, double *out)
{
    const int64_t size = n;
    Tensor t = tensor_new(&w->file->scratch, DTYPE_f32, 1, &size);
    if (*text == '\0')
        return "";
    const bool is_good = shape_resize_numbers(text, n, out);
    rlx_assert(is_good); // the shape rule has read them
    for (uint32_t i = 0; i < n; i++)
        tensor_set_f64(&t, i, out[i]);
    return put_small(w, &t);
}

// ONNX takes sizes or scales. Both are meant where sizes are what the scales give.
static void check_scales(Put *w, const double *scales)
{
    const Shape *from = put_shape(w, 0), *to = put_node(w)->shape;
    for (uint32_t i = 0; i < to->rank; i++)
        if (dim_is_const(from->dim[i]) && dim_is_const(to->dim[i]) &&
            (int64_t)floor((double)from->dim[i] * scales[i]) != to->dim[i])
            put_fail(w, "sizes that are not those of its scales have no form in ONNX");
}

static void resize_attributes(Put *w, Onnx__NodeProto *n)
{
    const char *coord = put_get_text(w, "coord"), *mode = put_get_text(w, "mode");
    if (strcmp(coord, "tf_half_pixel_for_nn") == 0)
        put_fail(w, "its coordinates (%s) have no form in this version of ONNX", coord);
    put_text(w, n, "mode", mode);
    put_text(w, n, "coordinate_transformation_mode", coord);
    put_text(w, n, "nearest_mode", put_get_text(w, "nearest"));
    put_copy_int(w, n, "antialias", "antialias");
    put_copy_int(w, n, "exclude_outside", "exclude_outside");
    put_float(w, n, "cubic_coeff_a", put_get_float(w, "cubic_coeff"));
    put_float(w, n, "extrapolation_value", put_get_float(w, "extrapolation"));
}

Value put_resize(Put *w, const char *type)
{
    const Shape *s = put_node(w)->shape;
    double roi[2 * SHAPE_MAX_RANK], scale[SHAPE_MAX_RANK];
    const bool has_sizes = put_get_list(w, "sizes")->len != 0;
    const Value scales = numbers(w, put_get_text(w, "scales"), s->rank, scale);
    if (has_sizes && *scales != '\0')
        check_scales(w, scale);
    const Value sizes = *scales != '\0' ? "" : put_dims(w, s->dim, s->rank);
    const Value in[] = {put_src(w, 0), numbers(w, put_get_text(w, "roi"), 2 * s->rank, roi), scales, sizes};
    Onnx__NodeProto *n = put_begin(w, type, in, 4);
    resize_attributes(w, n);
    return put_result(w, n);
}

// --- parts that are replaced ---------------------------------------------------------------------

static Value as_column(Put *w, Value x)
{
    static const int64_t column[] = {-1, 1};
    return put_reshape(w, x, column, 2);
}

Value put_scatter(Put *w, const char *type)
{
    const Value rows = as_column(w, put_cast(w, put_src(w, 1), put_type(w, 1), DTYPE_i64));
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){put_src(w, 0), rows, put_src(w, 2)}, 3);
    put_text(w, n, "reduction", put_get_text(w, "reduction"));
    return put_result(w, n);
}

// start + 0, 1 ... of the patch, i64[size], where start is cut so that the patch fits.
static Value patched_rows(Put *w, uint32_t axis)
{
    static const int64_t zero = 0;
    const int64_t at = axis, end = at + 1;
    const Dim size = put_shape(w, 0)->dim[axis], part = put_shape(w, 1)->dim[axis];
    Value start =
        put_reshape(w, put_cast(w, put_src(w, 2), put_type(w, 2), DTYPE_i64), (const int64_t[]){-1}, 1);
    const bool is_one = put_shape(w, 2)->rank == 0 || put_shape(w, 2)->dim[0] == 1;
    if (is_one && axis != 0)
        start = put_list(w, &zero, 1);
    if (!is_one)
        start = put_slice(w, start, put_list(w, &at, 1), put_list(w, &end, 1), 0);
    const Value most = put_op2(w, "Sub", put_dim(w, size), put_dim(w, part));
    start = put_op2(w, "Min", put_op2(w, "Max", start, put_list(w, &zero, 1)), most);
    return put_op2(w, "Add", put_range(w, part), start);
}

// Exchanges the axis with the first one, or them back.
static Value axis_first(Put *w, Value x, uint32_t axis)
{
    int64_t perm[SHAPE_MAX_RANK];
    const uint32_t rank = put_shape(w, 0)->rank;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i == 0 ? axis : i == axis ? 0 : i;
    return axis != 0 ? put_transpose(w, x, perm, rank) : x;
}

// x with the patch from an axis on: before that one both have the same sizes. If the patch is smaller along a
// later axis too, it replaces a part of the rows of x that it stands in.
static Value patched(Put *w, Value x, uint32_t axis)
{
    const Shape *from = put_shape(w, 0), *patch = put_shape(w, 1);
    while (axis + 1 < from->rank && from->dim[axis] == patch->dim[axis])
        axis++;
    uint32_t next = axis + 1;
    while (next < from->rank && from->dim[next] == patch->dim[next])
        next++;
    const Value rows = patched_rows(w, axis);
    Value new = put_src(w, 1);
    if (next < from->rank) {
        Onnx__NodeProto *n = put_begin(w, "Gather", (const Value[]){x, rows}, 2);
        put_int(w, n, "axis", axis);
        new = patched(w, put_result(w, n), next);
    }
    const Value y =
        put_op3(w, "ScatterND", axis_first(w, x, axis), as_column(w, rows), axis_first(w, new, axis));
    return axis_first(w, y, axis);
}

Value put_update_slice(Put *w, const char *type)
{
    (void)type;
    if (!put_has(w, 3))
        return patched(w, put_src(w, 0), 0);
    put_fail(w, "a patch of which a run decides the size has no form in ONNX");
    return "";
}
