// SPDX-License-Identifier: Apache-2.0
// Operators of ai.onnx.ml that prepare features: scaling, thresholds, categories. Their results are f32 where
// the standard says so, whatever the type of the features.
#include "compiler/import/onnx/ml/onnx_ml.h"
#include "compiler/import/onnx/onnx_text.h"

NodeId onnx_ml_floats(OnnxNode *n, const char *name)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (!a || !a->n_floats || !onnx_spend(n, (int64_t)a->n_floats))
        return 0;
    const Shape s = shape_of(1, &(Dim){(Dim)a->n_floats});
    const uint64_t bytes = a->n_floats * sizeof *a->floats;
    return onnx_const(n, DTYPE_f32, &s, arena_copy(n->model->arena, a->floats, bytes), bytes);
}

static NodeId onnx_ml_ints(OnnxNode *n, const char *name)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (!a || !a->n_ints || !onnx_spend(n, (int64_t)a->n_ints))
        return 0;
    const Shape s = shape_of(1, &(Dim){(Dim)a->n_ints});
    const uint64_t bytes = a->n_ints * sizeof *a->ints;
    return onnx_const(n, DTYPE_i64, &s, arena_copy(n->model->arena, a->ints, bytes), bytes);
}

NodeId onnx_ml_table(OnnxNode *n, const Tensor *t)
{
    const Shape s = shape_of(t->rank, t->dim);
    return onnx_const(n, t->dtype, &s, t->data, (uint64_t)t->numel * dtype_info[t->dtype].bytes);
}

// Features in the last axis, gathered by index. A vector counts as one row.
void onnx_import_ml_array_feature(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    const NodeId index = onnx_src(n, 1);
    if (onnx_shape(n, x)->rank == 1)
        x = onnx_unsqueeze(n, x, &(const int64_t){0}, 1);
    const NodeId flat = onnx_reshape_to(n, index, (const Dim[]){-1}, 1);
    onnx_out(n, 0, onnx_gather(n, x, flat, -1));
}

void onnx_import_ml_binarizer(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const NodeId above = onnx_op2(n, OP_gt, x, onnx_scalar_like(n, x, onnx_float(n, "threshold", 0)));
    onnx_out(n, 0, onnx_cast(n, above, onnx_dtype(n, x)));
}

// Exactly `width` columns of a matrix, cut or filled with zeros.
static NodeId columns(OnnxNode *n, NodeId x, int64_t width)
{
    rlx_assert(n->failed || width >= 0);
    const int64_t have = onnx_const_dim(n, x, 1);
    if (n->failed || have >= width)
        return onnx_slice(n, x, 1, 0, width, 1);
    return onnx_op_ints(n, OP_pad, x, A_pad_pads, (const int64_t[]){0, 0, 0, width - have}, 4);
}

// Rows side by side, each with the number of columns that the node names.
void onnx_import_ml_feature_vectorizer(OnnxNode *n)
{
    const Onnx__AttributeProto *sizes = onnx_attr(n, "inputdimensions");
    NodeId *part = ARENA_ARRAY(n->model->arena, NodeId, n->n_in);
    if (!n->failed && (n->n_in == 0 || (sizes && sizes->n_ints != n->n_in)))
        onnx_fail(n, E0203, "attribute 'inputdimensions' must have one entry for each of %u inputs", n->n_in);
    for (uint32_t i = 0; i < n->n_in && !n->failed; i++) {
        NodeId x = onnx_cast(n, onnx_src(n, i), DTYPE_f32);
        if (onnx_shape(n, x)->rank < 2)
            x = onnx_reshape_to(n, x, (const Dim[]){1, -1}, 2);
        else
            x = onnx_reshape_to(n, x, (const Dim[]){onnx_shape(n, x)->dim[0], -1}, 2);
        const int64_t width = sizes ? sizes->ints[i] : onnx_const_dim(n, x, 1);
        if (width < 0 || width > DIM_MAX_VALUE)
            onnx_fail(n, E0203, "attribute 'inputdimensions' has the entry %lld", (long long)width);
        part[i] = columns(n, x, width);
    }
    onnx_out(n, 0, onnx_concat(n, part, n->n_in, 1));
}

// Replaces one value (which may be NaN) by the number of its column.
void onnx_import_ml_imputer(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const DType type = onnx_dtype(n, x);
    const bool is_float = dtype_info[type].cls == DCLASS_FLOAT;
    const NodeId values =
        is_float ? onnx_ml_floats(n, "imputed_value_floats") : onnx_ml_ints(n, "imputed_value_int64s");
    const double replaced = onnx_float(n, "replaced_value_float", 0);
    const int64_t replaced_int = onnx_int(n, "replaced_value_int64", 0);
    if (!values) {
        onnx_fail(n, E0203, "needs the attribute '%s'",
                  is_float ? "imputed_value_floats" : "imputed_value_int64s");
        return;
    }
    NodeId is_missing;
    if (is_float && replaced != replaced)
        is_missing = onnx_op1(n, OP_is_nan, x);
    else
        is_missing = onnx_op2(n, OP_eq, x,
                              is_float ? onnx_scalar_like(n, x, replaced)
                                       : onnx_cast(n, onnx_ints_const(n, &replaced_int, 1), type));
    onnx_out(n, 0, onnx_op3(n, OP_where, is_missing, onnx_cast(n, values, type), x));
}

// Rows divided by their largest element, their sum of magnitudes or their length; rows of which that is 0
// stay.
void onnx_import_ml_normalizer(OnnxNode *n)
{
    const NodeId x = onnx_cast(n, onnx_src(n, 0), DTYPE_f32);
    static const OpId norms[] = {OP_reduce_max, OP_reduce_l1, OP_reduce_l2};
    const OpId op = norms[ONNX_WORD(n, "norm", "MAX", "L1", "L2")];
    const int64_t last = -1;
    const NodeId size = onnx_reduce(n, op, x, &last, 1);
    const NodeId is_zero = onnx_op2(n, OP_eq, size, onnx_scalar_like(n, x, 0));
    onnx_out(n, 0, onnx_op2(n, OP_div, x, onnx_op3(n, OP_where, is_zero, onnx_scalar_like(n, x, 1), size)));
}

// A new last axis: 1 at the category that the element is.
void onnx_import_ml_one_hot(OnnxNode *n)
{
    const Onnx__AttributeProto *names = onnx_attr(n, "cats_strings");
    NodeId categories, wide;
    const bool must_be_one = onnx_int(n, "zeros", 1) == 0;
    if (n->failed)
        return;
    if (names && names->n_strings) {
        wide = onnx_text_find(n, onnx_text_src(n, 0), names->strings, names->n_strings);
        categories = onnx_cast(n, onnx_iota(n, (Dim)names->n_strings), DTYPE_i32);
    } else {
        wide = onnx_cast(n, onnx_src(n, 0), DTYPE_i64);
        categories = onnx_ml_ints(n, "cats_int64s");
        if (!categories)
            onnx_fail(n, E0203, "needs the attribute 'cats_int64s' or 'cats_strings'");
    }
    const int64_t after = onnx_shape(n, wide)->rank;
    wide = onnx_unsqueeze(n, wide, &after, 1);
    const NodeId is_one = onnx_op2(n, OP_eq, wide, categories);
    if (must_be_one) {
        const NodeId hits = onnx_reduce(n, OP_reduce_sum, onnx_cast(n, is_one, DTYPE_i32), &after, 1);
        onnx_require(n, onnx_all(n, onnx_op_number(n, OP_gt, hits, 0)),
                     arena_printf(n->model->arena, "node '%s': every element must be one of the categories",
                                  n->label));
    }
    onnx_out(n, 0, onnx_cast(n, is_one, DTYPE_f32));
}

// There are no maps: the scores stay a matrix, with a column for each label in the order of the attribute.
// The labels are a part of what the model says about an output, for those who want maps.
void onnx_import_ml_zip_map(OnnxNode *n)
{
    const Onnx__AttributeProto *ints = onnx_attr(n, "classlabels_int64s"),
                               *texts = onnx_attr(n, "classlabels_strings");
    const bool is_text = texts && texts->n_strings;
    OnnxValue v = onnx_value(onnx_src(n, 0));
    const size_t count = is_text ? texts->n_strings : ints ? ints->n_ints : 0;
    const Shape *s = onnx_shape(n, v.node);
    if (!n->failed && (s->rank < 1 || s->rank > 2))
        onnx_fail(n, E0204, "needs scores [N, C] or [C], found rank %u", s->rank);
    else if (!n->failed && (count == 0 || s->dim[s->rank - 1] != (Dim)count))
        onnx_fail(n, E0203, "has %zu labels for scores whose last axis is another size", count);
    v.keys = is_text ? texts : ints;
    onnx_out_any(n, 0, v);
    if (!n->failed)
        diag_warning(n->model->diag, n->span, E0206,
                     "node '%s': ZipMap: the result is a tensor with one column for each label; only the "
                     "Python package makes a list of maps of it",
                     n->label);
}

void onnx_import_ml_scaler(OnnxNode *n)
{
    NodeId x = onnx_cast(n, onnx_src(n, 0), DTYPE_f32);
    const NodeId offset = onnx_ml_floats(n, "offset"), scale = onnx_ml_floats(n, "scale");
    if (offset)
        x = onnx_op2(n, OP_sub, x, offset);
    onnx_out(n, 0, scale ? onnx_op2(n, OP_mul, x, scale) : x);
}
