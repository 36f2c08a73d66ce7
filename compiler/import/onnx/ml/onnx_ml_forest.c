// SPDX-License-Identifier: Apache-2.0
// Decision trees: the lists of the model become the tables of tree_walk, and what the leaves weigh a matrix
// with one row a leaf. The scores are gathered rows, summed over the trees.
#include "compiler/import/onnx/ml/onnx_ml.h"

#include <math.h>
#include <string.h>

enum { FOREST_MAX_NODES = 1 << 24 };

// --- reading the lists of versions 1 to 4 ---

typedef struct Lists {
    size_t n;
    const int64_t *tree, *node, *feature, *yes, *no, *tracks;
    const Onnx__AttributeProto *modes;
    Tensor values;
} Lists;

static const int64_t *read_ints(OnnxNode *n, const char *name, size_t count)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (a && a->n_ints == count)
        return a->ints;
    onnx_fail(n, E0203, "attribute '%s' must have %zu entries", name, count);
    return NULL;
}

static bool read_values(OnnxNode *n, size_t count, Tensor *out)
{
    const Onnx__AttributeProto *a = onnx_attr(n, "nodes_values");
    if (a && a->n_floats == count) {
        const int64_t dim = (int64_t)count;
        *out = (Tensor){.dtype = DTYPE_f32, .rank = 1, .dim = {dim}, .numel = dim, .data = a->floats};
        return true;
    }
    if (!onnx_has_attr(n, "nodes_values_as_tensor"))
        return onnx_fail(n, E0203, "attribute 'nodes_values' must have %zu entries", count);
    const Onnx__TensorProto *t = onnx_tensor(n, "nodes_values_as_tensor");
    const NodeId id =
        t ? onnx_tensor_const(n->model, n->graph, t, "attribute 'nodes_values_as_tensor'", n->span) : 0;
    if (!id)
        return onnx_fail(n, E0203, "attribute 'nodes_values_as_tensor' cannot be read");
    *out = tensor_of_const(n->graph, id);
    return out->numel == (int64_t)count ||
           onnx_fail(n, E0203, "attribute 'nodes_values_as_tensor' must have %zu entries", count);
}

static bool read_lists(OnnxNode *n, Lists *l)
{
    const Onnx__AttributeProto *trees = onnx_attr(n, "nodes_treeids");
    if (!trees || trees->n_ints == 0 || trees->n_ints > FOREST_MAX_NODES)
        return onnx_fail(n, E0203, "needs the attribute 'nodes_treeids', one entry for each node");
    *l = (Lists){.n = trees->n_ints, .tree = trees->ints};
    l->node = read_ints(n, "nodes_nodeids", l->n);
    l->feature = read_ints(n, "nodes_featureids", l->n);
    l->yes = read_ints(n, "nodes_truenodeids", l->n);
    l->no = read_ints(n, "nodes_falsenodeids", l->n);
    l->modes = onnx_attr(n, "nodes_modes");
    if (!n->failed && (!l->modes || l->modes->n_strings != l->n))
        return onnx_fail(n, E0203, "attribute 'nodes_modes' must have %zu entries", l->n);
    const Onnx__AttributeProto *tracks = onnx_attr(n, "nodes_missing_value_tracks_true");
    if (tracks && tracks->n_ints)
        l->tracks = read_ints(n, "nodes_missing_value_tracks_true", l->n);
    onnx_ignore_attr(n, "nodes_hitrates"); // how often a node was seen in training
    onnx_ignore_attr(n, "nodes_hitrates_as_tensor");
    return !n->failed && read_values(n, l->n, &l->values) && onnx_spend(n, 4 * (int64_t)l->n);
}

static int32_t kind_of(OnnxNode *n, const ProtobufCBinaryData *mode)
{
    static const char *const names[TREE_KINDS] = {"LEAF",      "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                                  "BRANCH_GT", "BRANCH_EQ",  "BRANCH_NEQ"};
    for (int32_t i = 0; i < TREE_KINDS; i++)
        if (mode->len == strlen(names[i]) && memcmp(mode->data, names[i], mode->len) == 0)
            return i;
    onnx_fail(n, E0203, "attribute 'nodes_modes' has an unknown entry");
    return 0;
}

static bool find_place(OnnxNode *n, const Forest *f, int64_t tree, int64_t node, int32_t *out)
{
    uint64_t index = 0;
    if (!map_get(&f->places, (const int64_t[]){tree, node}, 2 * sizeof(int64_t), &index))
        return onnx_fail(n, E0203, "tree %lld has no node %lld", (long long)tree, (long long)node);
    rlx_assert(index < f->n_nodes);
    *out = (int32_t)index;
    return true;
}

static bool put_node(OnnxNode *n, Forest *f, const Lists *l, size_t i)
{
    rlx_assert(i < f->n_nodes && f->n_leaves < f->n_nodes);
    const int32_t kind = kind_of(n, &l->modes->strings[i]);
    int32_t *node = f->node[i];
    f->threshold[i] = tensor_get_f64(&l->values, (int64_t)i);
    if (kind == TREE_LEAF) {
        node[2] = (int32_t)f->n_leaves++;
        return !n->failed;
    }
    if (l->feature[i] < 0 || l->feature[i] > INT32_MAX)
        return onnx_fail(n, E0203, "attribute 'nodes_featureids' has the entry %lld",
                         (long long)l->feature[i]);
    node[0] = (int32_t)l->feature[i];
    node[1] = kind | (l->tracks && l->tracks[i] ? TREE_NAN_TO_YES : 0);
    return find_place(n, f, l->tree[i], l->yes[i], &node[2]) &&
           find_place(n, f, l->tree[i], l->no[i], &node[3]);
}

static void new_forest(OnnxNode *n, uint32_t nodes, uint32_t roots, Forest *f)
{
    rlx_assert(nodes <= FOREST_MAX_NODES && roots <= nodes);
    Arena *a = n->model->arena;
    f->n_nodes = nodes;
    f->node = (int32_t(*)[4])(void *)ARENA_ARRAY(a, int32_t, 4 * (size_t)nodes);
    f->threshold = ARENA_ARRAY(a, double, nodes);
    f->root = ARENA_ARRAY(a, int32_t, roots);
}

bool onnx_ml_read_forest(OnnxNode *n, Forest *f)
{
    Lists l;
    Map trees = {0};
    *f = (Forest){0};
    if (!read_lists(n, &l))
        return false;
    new_forest(n, (uint32_t)l.n, (uint32_t)l.n, f);
    for (size_t i = 0; i < l.n; i++) { // the first node of a tree is its root
        if (!map_put(n->model->arena, &f->places, (const int64_t[]){l.tree[i], l.node[i]},
                     2 * sizeof(int64_t), i))
            return onnx_fail(n, E0203, "tree %lld has two nodes with the number %lld", (long long)l.tree[i],
                             (long long)l.node[i]);
        if (map_put(n->model->arena, &trees, &l.tree[i], sizeof *l.tree, i))
            f->root[f->n_trees++] = (int32_t)i;
    }
    for (size_t i = 0; i < l.n; i++)
        if (!put_node(n, f, &l, i))
            return false;
    return onnx_ml_close_forest(n, f);
}

// --- depth ---

// Nodes in an order in which parents come first, by counting parents that are left. A cycle has none.
bool onnx_ml_close_forest(OnnxNode *n, Forest *f)
{
    rlx_assert(f->n_trees >= 1 && f->n_nodes >= 1);
    Arena *a = n->model->arena;
    uint32_t *parents = ARENA_ARRAY(a, uint32_t, f->n_nodes), *queue = ARENA_ARRAY(a, uint32_t, f->n_nodes);
    int64_t *level = ARENA_ARRAY(a, int64_t, f->n_nodes);
    uint32_t len = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        for (uint32_t k = 2; f->node[i][1] != TREE_LEAF && k < 4; k++)
            parents[f->node[i][k]]++;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (parents[i] == 0)
            queue[len++] = i;
    for (uint32_t at = 0; at < len; at++) {
        const int32_t *node = f->node[queue[at]];
        const int64_t below = level[queue[at]] + 1;
        for (uint32_t k = 2; node[1] != TREE_LEAF && k < 4; k++) {
            level[node[k]] = level[node[k]] > below ? level[node[k]] : below;
            f->depth = f->depth > below ? f->depth : below;
            if (--parents[node[k]] == 0)
                queue[len++] = (uint32_t)node[k];
        }
    }
    return len == f->n_nodes || onnx_fail(n, E0203, "the nodes of a tree form a cycle");
}

// --- nodes of the graph ---

NodeId onnx_ml_walk(OnnxNode *n, const Forest *f, NodeId x)
{
    rlx_assert(f->depth >= 0 && f->depth < f->n_nodes);
    Arena *a = n->model->arena;
    const DType type = onnx_dtype(n, x);
    const Shape nodes = {.rank = 2, .dim = {f->n_nodes, 4}}, each = {.rank = 1, .dim = {f->n_nodes}},
                trees = {.rank = 1, .dim = {f->n_trees}};
    Tensor thresholds = tensor_new(a, type, 1, each.dim);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        tensor_set_f64(&thresholds, i, f->threshold[i]);
    const NodeId table = onnx_const(n, DTYPE_i32, &nodes, f->node, sizeof *f->node * f->n_nodes);
    const NodeId limits =
        onnx_const(n, type, &each, thresholds.data, (uint64_t)f->n_nodes * dtype_info[type].bytes);
    const NodeId roots = onnx_const(n, DTYPE_i32, &trees, f->root, f->n_trees * sizeof *f->root);
    NodeBuild b = ONNX_BEGIN(n, OP_tree_walk, x, table, limits, roots);
    node_int(&b, A_tree_walk_depth, f->depth);
    return onnx_end(n, &b);
}

static double neutral_of(MlAggregate aggregate)
{
    return aggregate == ML_MIN ? HUGE_VAL : aggregate == ML_MAX ? -HUGE_VAL : 0;
}

bool onnx_ml_new_weights(OnnxNode *n, const Forest *f, int64_t targets, DType t, LeafWeights *w)
{
    const int64_t leaves = f->n_leaves;
    if (targets < 1 || targets > INT32_MAX)
        return onnx_fail(n, E0203, "%lld targets", (long long)targets);
    if (leaves == 0)
        return onnx_fail(n, E0203, "the trees have no leaves");
    if (n->failed || !onnx_spend(n, leaves * targets))
        return false;
    rlx_assert(dtype_info[t].cls == DCLASS_FLOAT);
    w->table = tensor_new(n->model->arena, t, 2, (const int64_t[]){leaves, targets});
    for (int64_t i = 0; i < w->table.numel; i++)
        tensor_set_f64(&w->table, i, neutral_of(w->aggregate));
    return true;
}

bool onnx_ml_add_weight(OnnxNode *n, LeafWeights *w, int64_t leaf, int64_t target, double v)
{
    rlx_assert(leaf >= 0 && leaf < w->table.dim[0]);
    if (target < 0 || target >= w->table.dim[1])
        return onnx_fail(n, E0203, "target or class %lld is out of range", (long long)target);
    const int64_t at = leaf * w->table.dim[1] + target;
    const double old = tensor_get_f64(&w->table, at);
    tensor_set_f64(&w->table, at,
                   w->aggregate == ML_MIN   ? fmin(old, v)
                   : w->aggregate == ML_MAX ? fmax(old, v)
                                            : old + v);
    return true;
}

NodeId onnx_ml_leaf_scores(OnnxNode *n, const Forest *f, const LeafWeights *w, NodeId leaves)
{
    rlx_assert(w->aggregate <= ML_MAX && w->table.rank == 2);
    static const OpId ops[] = {OP_reduce_sum, OP_reduce_sum, OP_reduce_min, OP_reduce_max};
    const Shape s = shape_of(2, w->table.dim);
    const DType type = w->table.dtype;
    const NodeId table =
        onnx_const(n, type, &s, w->table.data, (uint64_t)w->table.numel * dtype_info[type].bytes);
    const int64_t trees = 1;
    const NodeId each = onnx_gather(n, table, leaves, 0);
    NodeId sum = onnx_squeeze(n, onnx_reduce(n, ops[w->aggregate], each, &trees, 1), &trees, 1);
    if (w->aggregate == ML_AVERAGE)
        sum = onnx_op2(n, OP_div, sum, onnx_scalar(n, type, f->n_trees));
    if (w->aggregate == ML_MIN || w->aggregate == ML_MAX) {
        const NodeId none = onnx_op2(n, OP_eq, sum, onnx_scalar(n, type, neutral_of(w->aggregate)));
        sum = onnx_op3(n, OP_where, none, onnx_scalar(n, type, 0), sum);
    }
    return sum;
}
