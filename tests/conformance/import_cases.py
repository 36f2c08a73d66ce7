# SPDX-License-Identifier: Apache-2.0
"""Seeded random models for import_vs_onnx.py, one generator a family of operators.

Each returns (nodes, feeds, number of results, opsets, tolerance)."""

import numpy as np
from onnx import helper

ML = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
POSTS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
OPSETS = {"": 17, ML: 3}


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


# --- trees ---


def random_trees(rng, trees, features, mixed_modes):
    """Lists nodes_*, and the (tree, node) of every leaf."""
    lists = {k: [] for k in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
                             "missing_value_tracks_true")}
    leaves = []
    for tree in range(trees):
        mode = MODES[rng.integers(6)]
        open_nodes, next_id = [(0, 0)], 1
        while open_nodes:
            node, depth = open_nodes.pop(0)
            is_leaf = depth == 4 or (depth > 0 and rng.random() < 0.3)
            lists["treeids"].append(tree)
            lists["nodeids"].append(node)
            lists["featureids"].append(0 if is_leaf else int(rng.integers(features)))
            if mixed_modes:
                mode = MODES[rng.integers(6)]
            lists["modes"].append("LEAF" if is_leaf else mode)
            lists["values"].append(float(np.float32(np.round(rng.standard_normal(), 1))))
            lists["truenodeids"].append(0 if is_leaf else next_id)
            lists["falsenodeids"].append(0 if is_leaf else next_id + 1)
            lists["missing_value_tracks_true"].append(0 if is_leaf else int(rng.integers(2)))
            if is_leaf:
                leaves.append((tree, node))
            else:
                open_nodes += [(next_id, depth + 1), (next_id + 1, depth + 1)]
                next_id += 2
    return {"nodes_" + k: v for k, v in lists.items()}, leaves


def tree_input(rng, rows, features):
    x = np.round(floats(rng, rows, features), 1)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x


def case_tree_regressor(rng):
    features, targets = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    nodes, leaves = random_trees(rng, int(rng.integers(1, 6)), features, rng.random() < 0.5)
    has_base = rng.random() < 0.5  # which ONNX Runtime adds only to targets that some leaf has a weight for
    least = targets if has_base else 1
    pairs = [
        (t, n, int(k)) for t, n in leaves for k in rng.permutation(targets)[: rng.integers(least, targets + 1)]
    ]
    attrs = dict(nodes, target_treeids=[p[0] for p in pairs], target_nodeids=[p[1] for p in pairs],
                 target_ids=[p[2] for p in pairs], target_weights=floats(rng, len(pairs)).tolist(),
                 n_targets=targets, aggregate_function=["SUM", "AVERAGE", "MIN", "MAX"][rng.integers(4)],
                 post_transform=POSTS[rng.integers(4)])
    if has_base:
        attrs["base_values"] = floats(rng, targets).tolist()
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y0"], domain=ML, **attrs)
    return [node], {"x": tree_input(rng, int(rng.integers(1, 40)), features)}, 1, OPSETS, 1e-5


def case_tree_classifier(rng):
    features, classes = int(rng.integers(1, 6)), int(rng.integers(2, 5))
    nodes, leaves = random_trees(rng, int(rng.integers(1, 6)), features, rng.random() < 0.5)
    has_base, is_binary = rng.random() < 0.4, classes == 2
    if is_binary:  # with weights for both of two classes ONNX Runtime returns 0 and 1, not the labels
        which = 0 if has_base else int(rng.integers(2))
        pairs = [(t, n, which) for t, n in leaves]
    else:
        pairs = [(t, n, k) for t, n in leaves for k in range(classes)]
    weights = floats(rng, len(pairs))
    if rng.random() < 0.5:
        weights = np.abs(weights) / 4
    attrs = dict(nodes, class_treeids=[p[0] for p in pairs], class_nodeids=[p[1] for p in pairs],
                 class_ids=[p[2] for p in pairs], class_weights=weights.tolist(),
                 classlabels_int64s=(rng.permutation(20)[:classes] - 5).tolist(),
                 post_transform=POSTS[rng.integers(4)])
    if has_base:
        attrs["base_values"] = floats(rng, 1 if is_binary else classes).tolist()
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["y0", "y1"], domain=ML, **attrs)
    return [node], {"x": tree_input(rng, int(rng.integers(1, 40)), features)}, 2, OPSETS, 1e-5


CASES = {name[5:]: make for name, make in list(globals().items()) if name.startswith("case_")}
