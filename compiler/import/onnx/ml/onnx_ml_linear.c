// SPDX-License-Identifier: Apache-2.0
// Linear models and support vector machines of ai.onnx.ml: products with the coefficients, or with kernels of
// the features and every support vector. Classifiers by support vectors vote for every pair of classes.
#include "compiler/import/onnx/ml/onnx_ml.h"

enum { MAX_CLASSES = 256 };

// The list as [rows, F] of the type of x; rows are what is left. 0: reported.
static NodeId rows_attr(OnnxNode *n, const char *name, NodeId x, int64_t *rows)
{
    const int64_t features = onnx_const_dim(n, x, 1);
    const NodeId list = onnx_ml_floats(n, name);
    const int64_t count = list ? onnx_const_dim(n, list, 0) : 0;
    *rows = 0;
    if (n->failed)
        return 0;
    if (count == 0 || features == 0 || count % features != 0) {
        onnx_fail(n, E0203, "attribute '%s' has %lld entries for %lld features", name, (long long)count,
                  (long long)features);
        return 0;
    }
    *rows = count / features;
    return onnx_cast(n, onnx_reshape_to(n, list, (const Dim[]){*rows, features}, 2), onnx_dtype(n, x));
}

static NodeId add_list(OnnxNode *n, NodeId scores, const char *name)
{
    const NodeId list = onnx_ml_floats(n, name);
    return list ? onnx_op2(n, OP_add, scores, onnx_cast(n, list, onnx_dtype(n, scores))) : scores;
}

// --- linear models ---

void onnx_import_ml_linear_regressor(OnnxNode *n)
{
    const NodeId x = onnx_ml_matrix(n, 0);
    const int64_t targets = onnx_int(n, "targets", 1);
    const MlPost post = onnx_ml_post(n);
    int64_t rows = 0;
    const NodeId w = rows_attr(n, "coefficients", x, &rows);
    if (!n->failed && rows != targets)
        onnx_fail(n, E0203, "attribute 'coefficients' has %lld rows for %lld targets", (long long)rows,
                  (long long)targets);
    NodeId y = add_list(n, onnx_matmul(n, x, w, false, true), "intercepts");
    if (targets > 1 || post == ML_PROBIT)
        y = onnx_ml_transform(n, post, y);
    onnx_out(n, 0, onnx_cast(n, y, DTYPE_f32));
}

static NodeId is_positive(OnnxNode *n, NodeId score)
{
    const int64_t one = 1;
    const NodeId yes = onnx_op2(n, OP_gt, score, onnx_scalar(n, onnx_dtype(n, score), 0));
    return onnx_cast(n, onnx_squeeze(n, yes, &one, 1), DTYPE_i32);
}

void onnx_import_ml_linear_classifier(OnnxNode *n)
{
    const NodeId x = onnx_ml_matrix(n, 0);
    MlLabels labels;
    onnx_ml_read_labels(n, "classlabels_ints", &labels);
    const MlPost post = onnx_ml_post(n);
    int64_t rows = 0;
    onnx_ignore_attr(n, "multi_class"); // says how it was trained
    const NodeId w = rows_attr(n, "coefficients", x, &rows);
    NodeId scores = add_list(n, onnx_matmul(n, x, w, false, true), "intercepts");
    if (rows == 1 && labels.count == 2) {
        onnx_ml_out_labels(n, &labels, is_positive(n, scores), 2);
        scores = onnx_ml_two_scores(n, post, scores, true);
    } else {
        onnx_ml_out_labels(n, &labels, onnx_ml_best(n, scores), rows);
        scores = onnx_ml_transform(n, post, scores);
    }
    onnx_out(n, 1, onnx_cast(n, scores, DTYPE_f32));
}

// --- kernels ---

static NodeId power(OnnxNode *n, NodeId x, double exponent)
{
    return exponent >= 1 && exponent <= 1
               ? x
               : onnx_op2(n, OP_pow, x, onnx_scalar(n, onnx_dtype(n, x), exponent));
}

// exp(-gamma |x - v|^2)
static NodeId radial(OnnxNode *n, NodeId x, NodeId vectors, double gamma)
{
    const int64_t one = 1, last = 2;
    const NodeId apart = onnx_op2(n, OP_sub, onnx_unsqueeze(n, x, &one, 1), vectors);
    const NodeId square = onnx_reduce(n, OP_reduce_sum, onnx_op1(n, OP_square, apart), &last, 1);
    const NodeId exponent =
        onnx_op2(n, OP_mul, onnx_squeeze(n, square, &last, 1), onnx_scalar(n, onnx_dtype(n, x), -gamma));
    return onnx_op1(n, OP_exp, exponent);
}

// The kernel of every row of x with every row of `vectors`: [N, vectors].
static NodeId kernels(OnnxNode *n, NodeId x, NodeId vectors)
{
    enum { LINEAR, RBF, POLY, SIGMOID };
    const uint32_t type = ONNX_WORD(n, "kernel_type", "LINEAR", "RBF", "POLY", "SIGMOID");
    const Onnx__AttributeProto *given = onnx_attr(n, "kernel_params");
    double p[3] = {0, 0, 0}; // gamma, coef0, degree
    for (size_t i = 0; given && i < given->n_floats && i < 3; i++)
        p[i] = (double)given->floats[i];
    if (type == RBF)
        return radial(n, x, vectors, p[0]);
    const NodeId dot = onnx_matmul(n, x, vectors, false, true);
    if (type == LINEAR)
        return dot;
    const DType t = onnx_dtype(n, x);
    const NodeId inner =
        onnx_op2(n, OP_add, onnx_op2(n, OP_mul, dot, onnx_scalar(n, t, p[0])), onnx_scalar(n, t, p[1]));
    return type == POLY ? power(n, inner, p[2]) : onnx_op1(n, OP_tanh, inner);
}

// The first number of a list as a scalar of the type of `like`.
static NodeId first_of(OnnxNode *n, const char *name, NodeId like)
{
    const NodeId list = onnx_ml_floats(n, name);
    if (!list) {
        onnx_fail(n, E0203, "needs the attribute '%s'", name);
        return 0;
    }
    return onnx_cast(n, onnx_reshape(n, onnx_slice(n, list, 0, 0, 1, 1), &(Shape){0}), onnx_dtype(n, like));
}

void onnx_import_ml_svm_regressor(OnnxNode *n)
{
    const NodeId x = onnx_ml_matrix(n, 0);
    const int64_t supports = onnx_int(n, "n_supports", 0);
    const MlPost post = onnx_ml_post(n);
    int64_t rows = 0;
    NodeId y;
    if (supports > 0) {
        const NodeId vectors = rows_attr(n, "support_vectors", x, &rows);
        const NodeId weights = onnx_ml_floats(n, "coefficients");
        if (!n->failed && (rows != supports || !weights || onnx_const_dim(n, weights, 0) != rows)) {
            onnx_fail(n, E0203, "needs %lld support vectors and coefficients", (long long)supports);
            return;
        }
        const NodeId column = onnx_reshape_to(n, weights, (const Dim[]){-1, 1}, 2);
        y = onnx_matmul(n, kernels(n, x, vectors), onnx_cast(n, column, onnx_dtype(n, x)), false, false);
    } else {
        y = kernels(n, x, rows_attr(n, "coefficients", x, &rows));
    }
    y = onnx_op2(n, OP_add, y, first_of(n, "rho", x));
    if (onnx_flag(n, "one_class", 0)) {
        const DType t = onnx_dtype(n, y);
        const NodeId inside = onnx_op2(n, OP_gt, y, onnx_scalar(n, t, 0));
        y = onnx_op3(n, OP_where, inside, onnx_scalar(n, t, 1), onnx_scalar(n, t, -1));
    } else if (post == ML_PROBIT) {
        y = onnx_ml_transform(n, post, y);
    }
    onnx_out(n, 0, onnx_cast(n, y, DTYPE_f32));
}

// --- votes ---

// Which support vectors decide for which pair: weight[vector, pair], and how a decision counts as votes:
// vote[pair, class] is +1 for the first class (when positive), -1 for the second.
typedef struct Pairs {
    int64_t classes, pairs, vectors;
    int64_t begin[MAX_CLASSES + 1]; // of the vectors of each class
    NodeId weight;                  // [vectors, pairs]
    NodeId first, second;           // [pairs, classes]: 1 at the class
} Pairs;

static bool read_classes(OnnxNode *n, Pairs *p, int64_t labels)
{
    const Onnx__AttributeProto *counts = onnx_attr(n, "vectors_per_class");
    p->classes = counts ? (int64_t)counts->n_ints : 0;
    if (n->failed || p->classes < 2 || p->classes > MAX_CLASSES || p->classes != labels)
        return onnx_fail(n, E0203, "needs 2 to %d classes, and as many labels", MAX_CLASSES);
    p->pairs = p->classes * (p->classes - 1) / 2;
    for (int64_t i = 0; i < p->classes; i++) {
        if (counts->ints[i] < 0 || counts->ints[i] > INT32_MAX)
            return onnx_fail(n, E0203, "attribute 'vectors_per_class' has the entry %lld",
                             (long long)counts->ints[i]);
        p->begin[i + 1] = p->begin[i] + counts->ints[i];
    }
    p->vectors = p->begin[p->classes];
    return onnx_spend(n, p->pairs * (p->vectors + 2 * p->classes));
}

// The coefficients are [classes - 1, vectors]: a vector of class c has those against the others in order.
static bool make_tables(OnnxNode *n, Pairs *p, DType type)
{
    rlx_assert(p->pairs == p->classes * (p->classes - 1) / 2 && p->begin[p->classes] == p->vectors);
    Arena *a = n->model->arena;
    const Onnx__AttributeProto *c = onnx_attr(n, "coefficients");
    if (!c || (int64_t)c->n_floats != (p->classes - 1) * p->vectors)
        return onnx_fail(n, E0203, "attribute 'coefficients' must have %lld entries",
                         (long long)((p->classes - 1) * p->vectors));
    Tensor weight = tensor_new(a, type, 2, (const Dim[]){p->vectors, p->pairs}),
           first = tensor_new(a, DTYPE_i32, 2, (const Dim[]){p->pairs, p->classes}),
           second = tensor_new(a, DTYPE_i32, 2, (const Dim[]){p->pairs, p->classes});
    for (int64_t i = 0, pair = 0; i < p->classes; i++)
        for (int64_t j = i + 1; j < p->classes; j++, pair++) {
            for (int64_t v = p->begin[i]; v < p->begin[i + 1]; v++)
                tensor_set_f64(&weight, v * p->pairs + pair, (double)c->floats[(j - 1) * p->vectors + v]);
            for (int64_t v = p->begin[j]; v < p->begin[j + 1]; v++)
                tensor_set_f64(&weight, v * p->pairs + pair, (double)c->floats[i * p->vectors + v]);
            tensor_set_i64(&first, pair * p->classes + i, 1);
            tensor_set_i64(&second, pair * p->classes + j, 1);
        }
    p->weight = onnx_ml_table(n, &weight);
    p->first = onnx_ml_table(n, &first);
    p->second = onnx_ml_table(n, &second);
    return !n->failed;
}

// The class with the most votes; the first of several.
static NodeId elected(OnnxNode *n, const Pairs *p, NodeId decisions)
{
    const NodeId won = onnx_op2(n, OP_gt, decisions, onnx_scalar(n, onnx_dtype(n, decisions), 0));
    const NodeId for_first = onnx_cast(n, won, DTYPE_i32),
                 for_second = onnx_cast(n, onnx_op1(n, OP_logical_not, won), DTYPE_i32);
    return onnx_ml_best(n, onnx_op2(n, OP_add, onnx_matmul(n, for_first, p->first, false, false),
                                    onnx_matmul(n, for_second, p->second, false, false)));
}

static void import_pairs(OnnxNode *n, NodeId x, const MlLabels *labels, MlPost post)
{
    Pairs p = {0};
    int64_t rows = 0;
    const Onnx__AttributeProto *prob = onnx_attr(n, "prob_a");
    const bool has_probabilities = prob && prob->n_floats; // an empty list is as none
    if (!has_probabilities)
        onnx_ignore_attr(n, "prob_b");
    if (n->failed || !read_classes(n, &p, labels->count) || !make_tables(n, &p, onnx_dtype(n, x)))
        return;
    const NodeId vectors = rows_attr(n, "support_vectors", x, &rows);
    if (!n->failed && rows != p.vectors)
        onnx_fail(n, E0203, "there are %lld support vectors, but the classes have %lld", (long long)rows,
                  (long long)p.vectors);
    NodeId scores = onnx_matmul(n, kernels(n, x, vectors), p.weight, false, false);
    scores = add_list(n, scores, "rho");
    onnx_ml_out_labels(n, labels, elected(n, &p, scores), labels->count);
    if (has_probabilities)
        scores = onnx_ml_transform(n, post, onnx_ml_platt(n, scores, p.classes));
    else
        scores = p.pairs == 1 ? onnx_ml_two_scores(n, post, scores, post != ML_NONE)
                              : onnx_ml_transform(n, post, scores);
    onnx_out(n, 1, onnx_cast(n, scores, DTYPE_f32));
}

void onnx_import_ml_svm_classifier(OnnxNode *n)
{
    const NodeId x = onnx_ml_matrix(n, 0);
    MlLabels labels;
    onnx_ml_read_labels(n, "classlabels_ints", &labels);
    const MlPost post = onnx_ml_post(n);
    int64_t rows = 0;
    if (onnx_has_attr(n, "vectors_per_class")) {
        import_pairs(n, x, &labels, post);
        return;
    }
    NodeId scores = kernels(n, x, rows_attr(n, "coefficients", x, &rows));
    scores = onnx_op2(n, OP_add, scores, first_of(n, "rho", x));
    if (!n->failed && rows != labels.count)
        onnx_fail(n, E0203, "there are %lld rows of coefficients for %lld labels", (long long)rows,
                  (long long)labels.count);
    onnx_ml_out_labels(n, &labels, onnx_ml_best(n, scores), rows);
    onnx_out(n, 1, onnx_cast(n, onnx_ml_transform(n, post, scores), DTYPE_f32));
}
