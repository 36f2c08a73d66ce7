// SPDX-License-Identifier: Apache-2.0
// What the operators of ai.onnx.ml share: lists of numbers as constants, decision trees, and the way from
// scores to results and labels.
#ifndef COMPILER_IMPORT_ONNX_ML_ONNX_ML_H
#define COMPILER_IMPORT_ONNX_ML_ONNX_ML_H

#include "compiler/import/onnx/onnx_import.h"

// A list of the node as a constant [count], floats as f32 and whole numbers as i64; 0: not given.
NodeId onnx_ml_floats(OnnxNode *n, const char *name);
// What was filled in at import.
NodeId onnx_ml_table(OnnxNode *n, const Tensor *t);

// --- trees (onnx_ml_forest.c) ---

// Nodes as tree_walk reads them; leaves are numbered.
typedef struct Forest {
    uint32_t n_nodes, n_trees, n_leaves;
    int32_t (*node)[4]; // feature, kind, yes, no
    double *threshold;
    int32_t *root;
    int64_t depth;
    Map places; // {tree, node} of the model to an index of `node`
} Forest;

enum { TREE_LEAF, TREE_LE, TREE_LT, TREE_GE, TREE_GT, TREE_EQ, TREE_NE, TREE_KINDS, TREE_NAN_TO_YES = 8 };

// Reads a forest from the lists nodes_treeids, nodes_nodeids ... of versions 1 to 4. False: reported.
bool onnx_ml_read_forest(OnnxNode *n, Forest *f);
// Finds the depth and checks that every walk ends. False: reported.
bool onnx_ml_close_forest(OnnxNode *n, Forest *f);
// The numbers of the leaves that x [N, F] reaches, i32[N, trees]. x is f32 or f64.
NodeId onnx_ml_walk(OnnxNode *n, const Forest *f, NodeId x);

typedef enum MlAggregate { ML_AVERAGE, ML_SUM, ML_MIN, ML_MAX } MlAggregate;

// What leaves add: weight[leaf, target]. Where a leaf has none for a target it does not count.
typedef struct LeafWeights {
    MlAggregate aggregate;
    Tensor table;
} LeafWeights;

bool onnx_ml_new_weights(OnnxNode *n, const Forest *f, int64_t targets, DType t, LeafWeights *w);
bool onnx_ml_add_weight(OnnxNode *n, LeafWeights *w, int64_t leaf, int64_t target, double v);
// The scores of all trees together, [N, targets].
NodeId onnx_ml_leaf_scores(OnnxNode *n, const Forest *f, const LeafWeights *w, NodeId leaves);

// --- scores (onnx_ml_scores.c) ---

typedef enum MlPost { ML_NONE, ML_SOFTMAX, ML_LOGISTIC, ML_SOFTMAX_ZERO, ML_PROBIT } MlPost;

MlPost onnx_ml_post(OnnxNode *n); // the attribute post_transform
NodeId onnx_ml_transform(OnnxNode *n, MlPost post, NodeId scores);
// Single scores as those of two classes: [N, 1] to [N, 2].
NodeId onnx_ml_two_scores(OnnxNode *n, MlPost post, NodeId score, bool is_probability);
// The labels of classes: the list of whole numbers with that name, or `classlabels_strings`.
typedef struct MlLabels {
    const Onnx__AttributeProto *ints, *strings;
    int64_t count;
} MlLabels;

// False, reported: there are none.
bool onnx_ml_read_labels(OnnxNode *n, const char *ints, MlLabels *l);
// Output 0: the label at each index, [N]. All indices are below `classes`.
void onnx_ml_out_labels(OnnxNode *n, const MlLabels *l, NodeId index, int64_t classes);
// The place of the largest of each row, [N].
NodeId onnx_ml_best(OnnxNode *n, NodeId scores);

// Probabilities of support vector machines, by the attributes prob_a and prob_b, from the decisions of all
// pairs: [N, pairs] to f32 [N, classes]. (onnx_ml_platt.c)
NodeId onnx_ml_platt(OnnxNode *n, NodeId scores, int64_t classes);

// A matrix operand as f32 or f64 [N, F]; a vector counts as one row.
NodeId onnx_ml_matrix(OnnxNode *n, uint32_t operand);

#endif
