// SPDX-License-Identifier: Apache-2.0
// Tree ensembles of ai.onnx.ml: regressors and classifiers of versions 1 to 4, and TreeEnsemble of version 5,
// which says the same with other lists.
#include "compiler/import/onnx/ml/onnx_ml.h"

#include <math.h>

// A list of numbers that is an attribute of floats, or a tensor with "_as_tensor" behind its name.
static bool read_numbers(OnnxNode *n, const char *name, Tensor *out)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    const char *longer = arena_printf(n->model->arena, "%s_as_tensor", name);
    *out = (Tensor){.dtype = DTYPE_f32, .rank = 1};
    if (a && a->n_floats) {
        out->dim[0] = out->numel = (int64_t)a->n_floats;
        out->data = a->floats;
        return true;
    }
    if (!onnx_has_attr(n, longer))
        return true;
    const Onnx__TensorProto *t = onnx_tensor(n, longer);
    const NodeId id = t ? onnx_tensor_const(n->model, n->graph, t, longer, n->span) : 0;
    if (!id)
        return onnx_fail(n, E0203, "attribute '%s' cannot be read", longer);
    *out = tensor_of_const(n->graph, id);
    return true;
}

// --- versions 1 to 4 ---

// The weights of leaves: lists named PREFIX_treeids, PREFIX_nodeids, PREFIX_ids and PREFIX_weights.
typedef struct WeightLists {
    size_t n;
    const int64_t *tree, *node, *id;
    Tensor weight;
} WeightLists;

static bool read_weight_lists(OnnxNode *n, const char *prefix, WeightLists *l)
{
    Arena *a = n->model->arena;
    const Onnx__AttributeProto *trees = onnx_attr(n, arena_printf(a, "%s_treeids", prefix));
    const Onnx__AttributeProto *nodes = onnx_attr(n, arena_printf(a, "%s_nodeids", prefix));
    const Onnx__AttributeProto *ids = onnx_attr(n, arena_printf(a, "%s_ids", prefix));
    if (!read_numbers(n, arena_printf(a, "%s_weights", prefix), &l->weight))
        return false;
    if (!trees || !nodes || !ids || nodes->n_ints != trees->n_ints || ids->n_ints != trees->n_ints ||
        l->weight.numel != (int64_t)trees->n_ints)
        return onnx_fail(n, E0203, "the attributes '%s_...' must have equally many entries", prefix);
    l->n = trees->n_ints;
    l->tree = trees->ints;
    l->node = nodes->ints;
    l->id = ids->ints;
    return true;
}

// target: for classifiers of one score, all ids are that one.
static bool put_weights(OnnxNode *n, const Forest *f, const WeightLists *l, bool is_single, LeafWeights *w)
{
    for (size_t i = 0; i < l->n; i++) {
        uint64_t place = 0;
        const int64_t key[2] = {l->tree[i], l->node[i]};
        if (!map_get(&f->places, key, sizeof key, &place) || f->node[place][1] != TREE_LEAF)
            return onnx_fail(n, E0203, "tree %lld has no leaf %lld", (long long)key[0], (long long)key[1]);
        if (!onnx_ml_add_weight(n, w, f->node[place][2], is_single ? 0 : l->id[i],
                                tensor_get_f64(&l->weight, (int64_t)i)))
            return false;
    }
    return true;
}

static NodeId add_base(OnnxNode *n, NodeId scores)
{
    Tensor base;
    const int64_t targets = onnx_const_dim(n, scores, 1);
    if (!read_numbers(n, "base_values", &base) || n->failed || base.numel == 0)
        return scores;
    if (base.numel != targets) {
        onnx_fail(n, E0203, "attribute 'base_values' must have %lld entries", (long long)targets);
        return 0;
    }
    Tensor list = tensor_new(n->model->arena, onnx_dtype(n, scores), 1, &targets);
    for (int64_t i = 0; i < targets; i++)
        tensor_set_f64(&list, i, tensor_get_f64(&base, i));
    const Shape s = shape_of(1, &targets);
    const uint64_t bytes = (uint64_t)targets * dtype_info[list.dtype].bytes;
    return onnx_op2(n, OP_add, scores, onnx_const(n, list.dtype, &s, list.data, bytes));
}

void onnx_import_ml_tree_regressor(OnnxNode *n)
{
    const NodeId x = onnx_ml_matrix(n, 0);
    const int64_t targets = onnx_int(n, "n_targets", 1);
    const MlPost post = onnx_ml_post(n);
    static const MlAggregate aggregates[] = {ML_SUM, ML_AVERAGE, ML_MIN, ML_MAX};
    LeafWeights w = {.aggregate =
                         aggregates[ONNX_WORD(n, "aggregate_function", "SUM", "AVERAGE", "MIN", "MAX")]};
    WeightLists l;
    Forest f;
    if (n->failed || !onnx_ml_read_forest(n, &f) || !read_weight_lists(n, "target", &l) ||
        !onnx_ml_new_weights(n, &f, targets, onnx_dtype(n, x), &w) || !put_weights(n, &f, &l, false, &w))
        return;
    NodeId y = add_base(n, onnx_ml_leaf_scores(n, &f, &w, onnx_ml_walk(n, &f, x)));
    if (targets > 1 || post == ML_PROBIT) // a single score has nothing to be weighed against
        y = onnx_ml_transform(n, post, y);
    onnx_out(n, 0, onnx_cast(n, y, DTYPE_f32));
}

// Two classes of which only one has weights: a single score, a probability when no weight is negative.
static bool is_binary(const WeightLists *l, int64_t classes, bool *is_probability)
{
    bool is_single = classes == 2;
    *is_probability = true;
    for (size_t i = 0; i < l->n; i++) {
        is_single = is_single && l->id[i] == l->id[0];
        *is_probability = *is_probability && !(tensor_get_f64(&l->weight, (int64_t)i) < 0);
    }
    return is_single;
}

void onnx_import_ml_tree_classifier(OnnxNode *n)
{
    const NodeId x = onnx_ml_matrix(n, 0);
    const MlPost post = onnx_ml_post(n);
    MlLabels labels;
    LeafWeights w = {.aggregate = ML_SUM};
    WeightLists l;
    Forest f;
    bool is_probability = false;
    if (n->failed || !onnx_ml_read_labels(n, "classlabels_int64s", &labels) || !onnx_ml_read_forest(n, &f) ||
        !read_weight_lists(n, "class", &l))
        return;
    const int64_t classes = labels.count;
    const bool is_single = is_binary(&l, classes, &is_probability) || classes == 1;
    if (!onnx_ml_new_weights(n, &f, is_single ? 1 : classes, onnx_dtype(n, x), &w) ||
        !put_weights(n, &f, &l, is_single, &w))
        return;
    NodeId scores = add_base(n, onnx_ml_leaf_scores(n, &f, &w, onnx_ml_walk(n, &f, x)));
    if (is_single && classes == 2) {
        const int64_t one = 1;
        const NodeId limit = onnx_scalar(n, onnx_dtype(n, scores), is_probability ? 0.5 : 0);
        const NodeId is_second = onnx_squeeze(n, onnx_op2(n, OP_gt, scores, limit), &one, 1);
        onnx_ml_out_labels(n, &labels, onnx_cast(n, is_second, DTYPE_i32), classes);
        const NodeId none = onnx_op2(
            n, OP_mul, scores,
            onnx_scalar(n, onnx_dtype(n, scores), 0)); // ONNX Runtime's scores for a second class alone
        scores = l.n && l.id[0] == 1
                     ? onnx_ml_transform(n, post, onnx_concat(n, (const NodeId[]){none, scores}, 2, 1))
                     : onnx_ml_two_scores(n, post, scores, is_probability);
    } else {
        onnx_ml_out_labels(n, &labels, onnx_ml_best(n, scores), classes);
        scores = onnx_ml_transform(n, post, scores);
    }
    onnx_out(n, 1, onnx_cast(n, scores, DTYPE_f32));
}

// --- version 5 ---

typedef struct Nodes {
    int64_t n, leaves;
    const int64_t *feature, *yes, *yes_is_leaf, *no, *no_is_leaf, *tracks;
    Tensor split, mode, members, weight;
    const int64_t *target;
    int64_t member_at; // the set of the next membership test
} Nodes;

static bool read_tensor(OnnxNode *n, const char *name, Tensor *out)
{
    const Onnx__TensorProto *t = onnx_tensor(n, name);
    const NodeId id = t ? onnx_tensor_const(n->model, n->graph, t, name, n->span) : 0;
    if (!id)
        return onnx_fail(n, E0203, "needs the attribute '%s', a tensor", name);
    *out = tensor_of_const(n->graph, id);
    return true;
}

static const int64_t *read_list(OnnxNode *n, const char *name, int64_t count)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (a && (int64_t)a->n_ints == count)
        return a->ints;
    onnx_fail(n, E0203, "attribute '%s' must have %lld entries", name, (long long)count);
    return NULL;
}

static bool read_nodes(OnnxNode *n, Nodes *s)
{
    *s = (Nodes){0};
    if (!read_tensor(n, "nodes_splits", &s->split) || !read_tensor(n, "nodes_modes", &s->mode) ||
        !read_tensor(n, "leaf_weights", &s->weight))
        return false;
    s->n = s->split.numel;
    s->leaves = s->weight.numel;
    s->feature = read_list(n, "nodes_featureids", s->n);
    s->yes = read_list(n, "nodes_truenodeids", s->n);
    s->yes_is_leaf = read_list(n, "nodes_trueleafs", s->n);
    s->no = read_list(n, "nodes_falsenodeids", s->n);
    s->no_is_leaf = read_list(n, "nodes_falseleafs", s->n);
    s->target = read_list(n, "leaf_targetids", s->leaves);
    const Onnx__AttributeProto *tracks = onnx_attr(n, "nodes_missing_value_tracks_true");
    if (tracks && tracks->n_ints)
        s->tracks = read_list(n, "nodes_missing_value_tracks_true", s->n);
    onnx_ignore_attr(n, "nodes_hitrates");
    if (onnx_has_attr(n, "membership_values") && !read_tensor(n, "membership_values", &s->members))
        return false;
    if (!n->failed && s->mode.numel != s->n)
        return onnx_fail(n, E0203, "attribute 'nodes_modes' must have %lld entries", (long long)s->n);
    const int64_t all = s->n + s->leaves + s->members.numel;
    return !n->failed && (all < INT32_MAX / 8 || onnx_fail(n, E0004, "too many nodes")) &&
           onnx_spend(n, 4 * all);
}

// Leaves come behind the inner nodes.
static bool child(OnnxNode *n, const Nodes *s, int64_t index, int64_t is_leaf, int32_t *out)
{
    if (index < 0 || index >= (is_leaf ? s->leaves : s->n))
        return onnx_fail(n, E0203, "a node names the %s %lld, which does not exist",
                         is_leaf ? "leaf" : "node", (long long)index);
    rlx_assert(s->n + s->leaves <= INT32_MAX);
    *out = (int32_t)(is_leaf ? s->n + index : index);
    return true;
}

// A test for membership is a chain of tests for equality; sets end with NaN.
static void put_members(Forest *f, Nodes *s, int64_t i)
{
    const int32_t no = f->node[i][3];
    int64_t at = i;
    f->threshold[i] = (double)NAN; // of an empty set: never equal
    for (bool is_first = true; s->member_at < s->members.numel; is_first = false) {
        const double v = tensor_get_f64(&s->members, s->member_at++);
        if (isnan(v))
            break;
        if (!is_first) {
            rlx_assert(f->n_nodes < s->n + s->leaves + s->members.numel);
            const int32_t next = (int32_t)f->n_nodes++;
            f->node[next][0] = f->node[i][0];
            f->node[next][1] = TREE_EQ;
            f->node[next][2] = f->node[i][2];
            f->node[at][3] = next;
            at = next;
        }
        f->threshold[at] = v;
    }
    f->node[at][3] = no;
}

static bool put_inner(OnnxNode *n, Forest *f, Nodes *s, int64_t i)
{
    static const int32_t kinds[] = {TREE_LE, TREE_LT, TREE_GE, TREE_GT, TREE_EQ, TREE_NE, TREE_EQ};
    const int64_t mode = tensor_get_i64(&s->mode, i);
    if (mode < 0 || mode > 6 || s->feature[i] < 0 || s->feature[i] > INT32_MAX)
        return onnx_fail(
            n, E0203,
            "node %lld has the mode %lld and the feature %lld, at least one of which does not exist",
            (long long)i, (long long)mode, (long long)s->feature[i]);
    f->node[i][0] = (int32_t)s->feature[i];
    f->node[i][1] = kinds[mode] | (s->tracks && s->tracks[i] ? TREE_NAN_TO_YES : 0);
    f->threshold[i] = tensor_get_f64(&s->split, i);
    if (!child(n, s, s->yes[i], s->yes_is_leaf[i], &f->node[i][2]) ||
        !child(n, s, s->no[i], s->no_is_leaf[i], &f->node[i][3]))
        return false;
    if (mode == 6)
        put_members(f, s, i);
    return true;
}

static bool read_roots(OnnxNode *n, const Nodes *s, Forest *f)
{
    const Onnx__AttributeProto *roots = onnx_attr(n, "tree_roots");
    if (!roots || roots->n_ints == 0 || !onnx_spend(n, (int64_t)roots->n_ints))
        return onnx_fail(n, E0203, "needs the attribute 'tree_roots'");
    rlx_assert(roots->n_ints <= UINT32_MAX);
    f->n_trees = (uint32_t)roots->n_ints;
    f->root = ARENA_ARRAY(n->model->arena, int32_t, f->n_trees);
    for (uint32_t i = 0; i < f->n_trees; i++)
        if (!child(n, s, roots->ints[i], 0, &f->root[i]))
            return false;
    return true;
}

static bool read_forest_5(OnnxNode *n, Nodes *s, Forest *f)
{
    Arena *a = n->model->arena;
    *f = (Forest){.n_leaves = (uint32_t)s->leaves};
    const size_t most = (size_t)(s->n + s->leaves + s->members.numel);
    f->node = (int32_t(*)[4])(void *)ARENA_ARRAY(a, int32_t, 4 * most);
    f->threshold = ARENA_ARRAY(a, double, most);
    f->n_nodes = (uint32_t)(s->n + s->leaves);
    for (int64_t i = 0; i < s->leaves; i++)
        f->node[s->n + i][2] = (int32_t)i;
    for (int64_t i = 0; i < s->n; i++)
        if (!put_inner(n, f, s, i))
            return false;
    return read_roots(n, s, f) && onnx_ml_close_forest(n, f);
}

void onnx_import_ml_tree_ensemble(OnnxNode *n)
{
    const NodeId x = onnx_ml_matrix(n, 0);
    const DType type = onnx_dtype(n, onnx_src(n, 0));
    const int64_t targets = onnx_int(n, "n_targets", 1), post = onnx_int(n, "post_transform", 0);
    const int64_t aggregate = onnx_int(n, "aggregate_function", 1);
    if (post < ML_NONE || post > ML_PROBIT || aggregate < ML_AVERAGE || aggregate > ML_MAX)
        onnx_fail(n, E0203,
                  "post_transform is %lld and aggregate_function is %lld; expected 0 to 4 and 0 to 3",
                  (long long)post, (long long)aggregate);
    LeafWeights w = {.aggregate = (MlAggregate)aggregate};
    Nodes s;
    Forest f;
    if (n->failed || !read_nodes(n, &s) || !read_forest_5(n, &s, &f) ||
        !onnx_ml_new_weights(n, &f, targets, onnx_dtype(n, x), &w))
        return;
    for (int64_t i = 0; i < s.leaves; i++)
        if (!onnx_ml_add_weight(n, &w, i, s.target[i], tensor_get_f64(&s.weight, i)))
            return;
    const NodeId scores = onnx_ml_leaf_scores(n, &f, &w, onnx_ml_walk(n, &f, x));
    const bool transforms = targets > 1 || post == ML_PROBIT;
    onnx_out(n, 0, onnx_cast(n, transforms ? onnx_ml_transform(n, (MlPost)post, scores) : scores, type));
}
