# SPDX-License-Identifier: Apache-2.0
"""Seeded random models for import_vs_onnx.py, one generator a family of operators.

Each returns (nodes, feeds, number of results or their shapes in f32, opsets, tolerance), and behind these
what is expected, where ONNX Runtime itself is not exact enough."""

import numpy as np
from onnx import helper

from import_loop_cases import case_counted_while, case_rows_set_in_loop, floats  # noqa: F401
from import_move_cases import (  # noqa: F401
    case_col2im, case_pad, case_squeeze_none, case_unsorted, case_unsorted_chain)

ML = "ai.onnx.ml"
MICROSOFT = "com.microsoft"
TRAINING = "ai.onnx.preview.training"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
POSTS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
OPSETS = {"": 17, ML: 3}


def labels_of(rng, count, name):
    """Numbers by that name, or strings."""
    if rng.random() < 0.3:
        return {"classlabels_strings": [f"class {k}" for k in rng.permutation(20)[:count]]}
    return {name: (rng.permutation(20)[:count] - 5).tolist()}


# --- trees ---


def random_trees(rng, trees, features, mixed_modes):
    """Lists nodes_*, and the (tree, node) of every leaf."""
    names = "treeids nodeids featureids modes values truenodeids falsenodeids missing_value_tracks_true"
    lists = {k: [] for k in names.split()}
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
    pairs = []
    for tree, node in leaves:
        chosen = rng.permutation(targets)[: rng.integers(least, targets + 1)]
        pairs += [(tree, node, int(k)) for k in chosen]
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
                 post_transform=POSTS[rng.integers(4)], **labels_of(rng, classes, "classlabels_int64s"))
    if has_base:
        attrs["base_values"] = floats(rng, 1 if is_binary else classes).tolist()
    node = helper.make_node("TreeEnsembleClassifier", ["x"], ["y0", "y1"], domain=ML, **attrs)
    return [node], {"x": tree_input(rng, int(rng.integers(1, 40)), features)}, 2, OPSETS, 1e-5


# --- linear models and support vectors ---


def ml(op, outputs, **attrs):
    return helper.make_node(op, ["x"], outputs.split(","), domain=ML, **attrs)




def case_linear_regressor(rng):
    features, targets = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    attrs = {"coefficients": floats(rng, targets * features).tolist(), "targets": targets}
    if rng.random() < 0.7:
        attrs["intercepts"] = floats(rng, targets).tolist()
    attrs["post_transform"] = POSTS[rng.integers(4)]
    x = floats(rng, int(rng.integers(1, 9)), features)
    return [ml("LinearRegressor", "y0", **attrs)], {"x": x}, 1, OPSETS, 1e-5


def case_linear_classifier(rng):
    features, classes = int(rng.integers(1, 6)), int(rng.integers(2, 5))
    rows = 1 if classes == 2 and rng.random() < 0.6 else classes
    rows = 3 if rows == 2 else rows  # two rows of two classes: ONNX Runtime adds a second class all the same
    classes = classes if rows == 1 else rows
    attrs = {
        "coefficients": floats(rng, rows * features).tolist(),
        "intercepts": floats(rng, rows).tolist(),
        **labels_of(rng, classes, "classlabels_ints"),
        "post_transform": POSTS[rng.integers(4)],
    }
    x = floats(rng, int(rng.integers(1, 9)), features)
    return [ml("LinearClassifier", "y0,y1", **attrs)], {"x": x}, 2, OPSETS, 1e-5


def kernel_attrs(rng):
    kernel = ["LINEAR", "POLY", "RBF", "SIGMOID"][rng.integers(4)]
    return {"kernel_type": kernel, "kernel_params": [0.3, 0.5, float(rng.integers(1, 4))]}


def case_svm_regressor(rng):
    features, supports = int(rng.integers(1, 6)), int(rng.integers(0, 6))
    attrs = {"rho": [0.25], "n_supports": supports, **kernel_attrs(rng)}
    if supports:
        attrs["support_vectors"] = floats(rng, supports * features).tolist()
        attrs["coefficients"] = floats(rng, supports).tolist()
    else:
        attrs["coefficients"] = floats(rng, features).tolist()
        attrs["kernel_type"] = "LINEAR"
    if rng.random() < 0.3:
        attrs["one_class"] = 1
    x = floats(rng, int(rng.integers(1, 9)), features)
    return [ml("SVMRegressor", "y0", **attrs)], {"x": x}, 1, OPSETS, 1e-4


def case_svm_classifier(rng):
    features, classes = int(rng.integers(1, 6)), int(rng.integers(2, 5))
    attrs = {**labels_of(rng, classes, "classlabels_ints"), **kernel_attrs(rng)}
    per_class = [int(rng.integers(1, 4)) for _ in range(classes)]
    total = sum(per_class)
    attrs["vectors_per_class"] = per_class
    attrs["support_vectors"] = floats(rng, total * features).tolist()
    attrs["coefficients"] = floats(rng, (classes - 1) * total).tolist()
    attrs["rho"] = floats(rng, classes * (classes - 1) // 2).tolist()
    attrs["post_transform"] = POSTS[rng.integers(4)]
    if rng.random() < 0.6:
        attrs["prob_a"] = (-np.abs(floats(rng, len(attrs["rho"])))).tolist()
        attrs["prob_b"] = floats(rng, len(attrs["rho"])).tolist()
    x = floats(rng, int(rng.integers(1, 9)), features)
    return [ml("SVMClassifier", "y0,y1", **attrs)], {"x": x}, 2, OPSETS, 1e-4


# --- features ---


def features_of(rng, ints=False):
    x = floats(rng, int(rng.integers(1, 9)), int(rng.integers(2, 6)))
    return np.round(x * 3).astype(np.int64) if ints else x


def case_scaler(rng):
    x = features_of(rng, rng.random() < 0.5)
    n = x.shape[1] if rng.random() < 0.5 else 1
    attrs = {"offset": floats(rng, n).tolist(), "scale": floats(rng, n).tolist()}
    return [ml("Scaler", "y0", **attrs)], {"x": x}, 1, OPSETS, 1e-5


def case_normalizer(rng):
    x = features_of(rng, rng.random() < 0.3)
    x[0] = 0
    return [ml("Normalizer", "y0", norm=["MAX", "L1", "L2"][rng.integers(3)])], {"x": x}, 1, OPSETS, 1e-5


def case_imputer(rng):
    is_int = rng.random() < 0.5
    x = features_of(rng, is_int)
    n = x.shape[1] if rng.random() < 0.5 else 1
    if is_int:
        attrs = {"imputed_value_int64s": rng.integers(0, 99, n).tolist(), "replaced_value_int64": 2}
    else:
        missing = float("nan") if rng.random() < 0.5 else 0.5
        x[rng.random(x.shape) < 0.3] = missing
        attrs = {"imputed_value_floats": floats(rng, n).tolist(), "replaced_value_float": missing}
    return [ml("Imputer", "y0", **attrs)], {"x": x}, 1, OPSETS, 0


def case_one_hot_encoder(rng):
    x, zeros = features_of(rng, True), int(rng.integers(2))
    x = x if zeros else np.array([-3, 0, 2, 3])[rng.integers(4, size=x.shape)]
    return [ml("OneHotEncoder", "y0", cats_int64s=[-3, 0, 2, 3], zeros=zeros)], {"x": x}, 1, OPSETS, 0


def case_feature_vectorizer(rng):
    a, b = floats(rng, 4, 3), floats(rng, 4, 2)
    node = helper.make_node("FeatureVectorizer", ["a", "b"], ["y0"], domain=ML, inputdimensions=[3, 2])
    return [node], {"a": a, "b": b}, 1, OPSETS, 0


# --- sums of products, transforms ---

EQUATIONS = [
    ("ij,jk->ik", "23,34"),
    ("ij,jk", "23,34"),
    ("ij,kj->ki", "23,43"),
    ("ii->i", "33"),
    ("ii", "33"),
    ("iji->j", "343"),
    ("i,j->ij", "3,4"),
    ("ijk->kij", "234"),
    ("ijk->j", "234"),
    ("bij,bjk->bik", "523,534"),
    ("bhqd,bhkd->bhqk", "2345,2365"),
    ("...ij,...jk->...ik", "2123,534"),
    ("...ij,jk...->...ik", "523,345"),
    ("...i,...i->...", "234,34"),
    ("i...->...", "234"),
    ("ab,bc,cd->ad", "23,34,45"),
    ("ab,ab,ab->b", "23,23,23"),
    ("abc,cd,be->ade", "234,45,36"),
    ("a,a->", "3,3"),
    ("ab,cd->abcd", "23,45"),
    ("iij,jk->ik", "334,45"),
    ("bn,anm,bm->ba", "23,435,25"),
    (" i j , j k -> i k ", "23,34"),
    ("aab,bcc->ac", "334,455"),
]


def case_einsum(rng):
    equation, sizes = EQUATIONS[rng.integers(len(EQUATIONS))]
    feeds = {f"x{i}": floats(rng, *[int(d) for d in size]) for i, size in enumerate(sizes.split(","))}
    node = helper.make_node("Einsum", list(feeds), ["y0"], equation=equation)
    return [node], feeds, 1, {"": 12}, 1e-5


def number(name, value):
    return helper.make_node("Constant", [], [name], value_int=value)


def case_dft(rng):
    n = [int(rng.integers(2, 40)), 97, 100, 128, 210, 256, 360, 1000, 1024, 37 * 41][rng.integers(10)]
    rank = 2 if n > 300 else int(rng.integers(2, 4))
    shape = [int(rng.integers(1, 4)) for _ in range(rank)]
    axis = int(rng.integers(rank))
    shape[axis] = n
    inverse, length = int(rng.random() < 0.4), ""
    onesided = int(not inverse and rng.random() < 0.4)
    parts = 1 if onesided else int(rng.integers(1, 3))
    nodes = [number("axis", axis)]
    if rng.random() < 0.3:
        length, n = "length", int(rng.choice([5, 31, 64, 90, 101, 243, 500, 509, 1536, 2722]))
        nodes.append(number("length", n))
    nodes.append(helper.make_node("DFT", ["x", length, "axis"], ["y0"], inverse=inverse, onesided=onesided))
    x = floats(rng, *shape, parts)
    signal = (x[..., 0] + 1j * x[..., 1]) if parts == 2 else x[..., 0]
    transform = np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft
    want = transform(signal.astype(np.float64 if onesided else np.complex128), n=n, axis=axis)
    want = np.stack([want.real, want.imag], axis=-1).astype(np.float32)
    return nodes, {"x": x}, 1, {"": 20}, 2e-5 if n < 100 else 1e-4, [want]


def case_inverse_real_dft(rng):
    n = [int(rng.integers(1, 40)), 128, 360, 1000][rng.integers(4)]
    parts = int(rng.integers(1, 3))
    x = floats(rng, 2, n // 2 + 1, parts)
    signal = (x[..., 0] + 1j * x[..., 1]) if parts == 2 else x[..., 0]
    want = np.fft.irfft(signal.astype(np.complex128), n=n, axis=1)[..., None].astype(np.float32)
    node = helper.make_node("DFT", ["x", "length", "axis"], ["y0"], inverse=1, onesided=1)
    return [number("length", n), number("axis", 1), node], {"x": x}, 1, {"": 20}, 2e-5, [want]


def case_stft(rng):
    length, step = int(rng.integers(4, 30)), int(rng.integers(1, 9))
    x = floats(rng, int(rng.integers(1, 3)), length + int(rng.integers(0, 50)), 1)
    nodes = [number("step", step), number("length", length)]
    feeds = {"x": x}
    if rng.random() < 0.6:
        feeds["window"] = floats(rng, length)
    inputs = ["x", "step", "window" if "window" in feeds else "", "length"]
    nodes.append(helper.make_node("STFT", inputs, ["y0"], onesided=int(rng.random() < 0.6)))
    return nodes, feeds, 1, {"": 17}, 1e-4


def case_lp_pool(rng):
    n = int(rng.integers(1, 3))
    kernel = [int(rng.integers(1, 4)) for _ in range(n)]
    strides = [int(rng.integers(1, 4)) for _ in range(n)]
    pads = [int(rng.integers(0, k)) for k in kernel * 2]
    x = floats(rng, 2, 3, *[int(rng.integers(4, 9)) for _ in range(n)])
    attrs = {"kernel_shape": kernel, "strides": strides, "pads": pads, "p": int(rng.integers(1, 4))}
    return [helper.make_node("LpPool", ["x"], ["y0"], **attrs)], {"x": x}, 1, {"": 18}, 1e-4


def case_det(rng):
    n = int(rng.integers(1, 7))
    x = floats(rng, *[int(rng.integers(1, 4)) for _ in range(rng.integers(0, 3))], n, n)
    return [helper.make_node("Det", ["x"], ["y0"])], {"x": x}, 1, OPSETS, 1e-4


# --- strings ---

WORDS = ["This is the first document.", "", ", a bb ccc", "\u00fcber stra\u00dfe 12", "x",
         "second-hand, or not; a_b"]
EXPRESSIONS = [
    {"tokenexp": "[a-zA-Z0-9_]+"}, {"tokenexp": r"\b\w\w+\b"}, {"tokenexp": "."}, {"tokenexp": r"\S+"},
    {"tokenexp": "[a-z]{3,}"}, {"separators": [""]}, {"separators": [" ", ",", r"\."]},
    {"separators": [r"\s|-"]}, {"separators": [r"[^a-z]+", "e"]},
]


def case_tokenizer(rng):
    attrs = dict(EXPRESSIONS[rng.integers(len(EXPRESSIONS))], mark=int(rng.integers(2)),
                 pad_value=["#", "", "0xdeadbeef"][rng.integers(3)], mincharnum=1)
    if attrs.get("tokenexp") != "." and attrs.get("separators") != [""]:
        attrs["mincharnum"] = int(rng.integers(1, 4))
    x = np.array(WORDS, object)[rng.permutation(6)[: rng.integers(1, 6)]]
    x = x[None] if rng.random() < 0.4 else x
    node = helper.make_node("Tokenizer", ["x"], ["y0"], domain=MICROSOFT, **attrs)
    return [node], {"x": x}, 1, {"": 17, MICROSOFT: 1}, 0


def case_tfidf_of_tokens(rng):
    """As skl2onnx writes it: words, flattened, counted with their pairs; their number is that of the run."""
    pool = ["is", "the", "a", "#", "first", "is", "the", "a", "bb"]
    nodes = [
        helper.make_node("StringNormalizer", ["x"], ["n"], case_change_action="LOWER", locale="C"),
        helper.make_node("Tokenizer", ["n"], ["t"], domain=MICROSOFT, tokenexp="[a-zA-Z0-9_]+", mark=0,
                         mincharnum=1, pad_value="#"),
        helper.make_node("Flatten", ["t"], ["f"]),
        helper.make_node("TfIdfVectorizer", ["f"], ["y0"], mode="TF", min_gram_length=1, max_gram_length=2,
                         max_skip_count=int(rng.integers(3)), ngram_counts=[0, 5],
                         ngram_indexes=[0, 2, 4, 6, 1, 3, 5], pool_strings=pool),
    ]
    x = np.array(WORDS, object)[rng.permutation(6)[: rng.integers(1, 6)]]
    return nodes, {"x": x}, 1, {"": 17, MICROSOFT: 1}, 0


# --- norms, of ONNX and as ONNX Runtime has them ---


def case_layer_norm(rng):
    x = floats(rng, 2, 3, 4)
    axis = int(rng.integers(-3, 3))
    shapes = [x.shape[axis:], [4], [1, 4], [1, 1, 4], [2, 1, 4], [3, 4], [2, 3, 4], [1], []]
    feeds = {"x": x, "scale": floats(rng, *shapes[rng.integers(9)])}
    if rng.random() < 0.7:
        feeds["shift"] = floats(rng, *shapes[rng.integers(9)])
    stash = int(rng.integers(2))
    results = 3 if stash and rng.random() < 0.6 else 1
    if rng.random() < 0.3:
        feeds = {k: v.astype(np.float16) for k, v in feeds.items()}
    node = helper.make_node("LayerNormalization", list(feeds), [f"y{i}" for i in range(results)], axis=axis,
                            stash_type=stash)
    tolerance = 2e-3 if feeds["x"].dtype == np.float16 else 1e-5
    return [node], feeds, results, {"": int(rng.choice([9, 13, 15, 17, 21]))}, tolerance


def case_simplified_layer_norm(rng):
    x, scale = floats(rng, 2, 3, 4), floats(rng, *[[4], [1, 1, 4], [3, 4], [2, 1, 4]][rng.integers(4)])
    narrow = rng.random() < 0.3
    kinds = [("SimplifiedLayerNormalization", 2, 17), ("RMSNormalization", 1, 23)]
    name, results, opset = kinds[rng.integers(2)]
    if narrow:
        x = x.astype(np.float16)
        scale = scale if results == 2 and rng.random() < 0.5 else scale.astype(np.float16)
    node = helper.make_node(name, ["x", "scale"], [f"y{i}" for i in range(results)], epsilon=1e-3)
    return [node], {"x": x, "scale": scale}, results, {"": opset}, 2e-3 if narrow else 1e-5


def case_image_scaler(rng):
    x = floats(rng, 2, 3, 4, 5)
    node = helper.make_node("ImageScaler", ["x"], ["y0"], scale=0.25, bias=floats(rng, 3).tolist())
    return [node], {"x": x}, 1, {"": int(rng.choice([7, 9]))}, 1e-6


def case_skip_norm(rng):
    feeds = {"x": floats(rng, 2, 3, 4), "skip": floats(rng, *[[2, 3, 4], [1, 3, 4], [3, 4]][rng.integers(3)]),
             "scale": floats(rng, 4)}
    name = ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"][rng.integers(2)]
    if name == "SkipLayerNormalization":
        feeds["shift"] = floats(rng, 4)
    feeds["bias"] = floats(rng, 4)
    node = helper.make_node(name, list(feeds), [f"y{i}" for i in range(4)], domain=MICROSOFT, epsilon=1e-5)
    return [node], feeds, 4, {"": 17, MICROSOFT: 1}, 1e-5


def case_reduce_ints(rng):
    """As the functions of the standard say; ONNX Runtime rounds exponentials to whole numbers."""
    kind = [np.int32, np.int64, np.uint32, np.uint64][rng.integers(4)]
    x = rng.integers(0 if kind(0).dtype.kind == "u" else -6, 7, (3, 4)).astype(kind)
    wide = x.astype(np.float64)
    name, want = [
        ("ReduceL1", np.abs(wide).sum(1, keepdims=True)),
        ("ReduceL2", np.sqrt((wide * wide).sum(1, keepdims=True))),
        ("ReduceLogSum", np.log(np.abs(wide).sum(1, keepdims=True) + 1)),
        ("ReduceLogSumExp", np.log(np.exp(wide).sum(1, keepdims=True))),
    ][rng.integers(4)]
    if name == "ReduceLogSum":
        x = np.abs(wide).astype(kind)
        x[:, 0] += 1
    return [helper.make_node(name, ["x"], ["y0"], axes=[1])], {"x": x}, 1, {"": 13}, 0, [want.astype(kind)]


# --- derivatives and random numbers, which ONNX Runtime does not have, or has others ---


def slopes(f, values):
    """Derivatives of f by central differences."""
    out = []
    for k, v in enumerate(values):
        g = np.zeros(v.shape)
        for at in np.ndindex(*v.shape):
            step = np.zeros(v.shape)
            step[at] = 1e-5
            up, down = list(values), list(values)
            up[k], down[k] = v + step, v - step
            g[at] = (f(*up) - f(*down)) / 2e-5
        out.append(g.astype(np.float32))
    return out


def case_gradient(rng):
    x, w, b = floats(rng, 3, 4), floats(rng, 5, 4), floats(rng, 5)

    def f(x, w, b):
        h = np.tanh(x @ w.T + b)
        e = np.exp(h - h.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        s = 1 / (1 + np.exp(-h))
        q = np.sqrt(np.exp(s) + h * h) / (np.abs(b) + 2)
        return (np.log(p) * q).mean(axis=0).sum() + np.maximum(h, b).sum() + ((s + 1) ** 3).sum()

    lines = """MatMul x,wt h0;Add h0,b h1;Tanh h1 h;Softmax h p;Log p lp;Sigmoid h s;Exp s es;Mul h,h hh
        Add es,hh u
        Sqrt u ru;Abs b ab;Add ab,two ab2;Div ru,ab2 q;Mul lp,q lq;ReduceMean lq m;ReduceSum m m1;Max h,b mx
        ReduceSum mx m2;Add s,one s1;Pow s1,three s3;ReduceSum s3 m3;Add m1,m2 m12;Add m12,m3 y0"""
    numbers = (("one", 1.0), ("two", 2.0), ("three", 3.0))
    nodes = [helper.make_node("Constant", [], [k], value_float=v) for k, v in numbers]
    nodes.append(helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]))
    for line in lines.replace("\n", ";").split(";"):
        op, inputs, output = line.split()
        attrs = {"axes": [0], "keepdims": 0} if op == "ReduceMean" else {}
        attrs = {"keepdims": 0} if op == "ReduceSum" else attrs
        nodes.append(helper.make_node(op, inputs.split(","), [output], **attrs))
    names = ["x", "w", "b"]
    nodes.append(
        helper.make_node("Gradient", names, ["y1", "y2", "y3"], domain=TRAINING, xs=names, y="y0")
    )
    values = [v.astype(np.float64) for v in (x, w, b)]
    want = [np.float32(f(*values)), *slopes(f, values)]
    return nodes, dict(zip(names, (x, w, b))), 4, {"": 13, TRAINING: 1}, 1e-3, want


def case_random_uniform(rng):
    seed, shape = int(rng.integers(1000)), [int(rng.integers(1, 5)), int(rng.integers(1, 400))]
    low, high = -2.0, 3.0
    node = helper.make_node("RandomUniform", [], ["y0"], shape=shape, seed=float(seed), low=low, high=high)
    want = (np.random.RandomState(seed).rand(*shape) * (high - low) + low).astype(np.float32)
    return [node], {}, 1, {"": 17}, 1e-6, [want]


def case_bernoulli(rng):
    seed, p = int(rng.integers(1000)), rng.random((int(rng.integers(1, 5)), 50)).astype(np.float32)
    node = helper.make_node("Bernoulli", ["x"], ["y0"], seed=float(seed))
    want = np.random.RandomState(seed).binomial(1, p).astype(np.float32)
    return [node], {"x": p}, 1, {"": 17}, 0, [want]


def case_random_normal(rng):
    """Their mean and variance; the numbers are not NumPy's."""
    attrs = {"shape": [200, 100], "seed": float(rng.integers(99)), "mean": 2.0, "scale": 3.0}
    nodes = [
        helper.make_node("RandomNormal", [], ["z"], **attrs),
        helper.make_node("ReduceMean", ["z"], ["y0"], keepdims=0),
        helper.make_node("Sub", ["z", "y0"], ["c"]),
        helper.make_node("ReduceSumSquare", ["c"], ["s"], keepdims=0),
        helper.make_node("Constant", [], ["n"], value_float=20000.0),
        helper.make_node("Div", ["s", "n"], ["y1"]),
    ]
    return nodes, {}, 2, {"": 12}, 0.03, [np.float32(2), np.float32(9)]


def case_multinomial(rng):
    """How often each class is drawn."""
    p = np.array([[0.5, 0.2, 0.3], [0.1, 0.0, 0.9]], np.float32)
    nodes = [
        helper.make_node("Multinomial", ["x"], ["k"], sample_size=20000, seed=float(rng.integers(99))),
        helper.make_node("Constant", [], ["depth"], value_int=3),
        helper.make_node("Constant", [], ["values"], value_floats=[0.0, 1 / 20000]),
        helper.make_node("OneHot", ["k", "depth", "values"], ["hot"]),
        helper.make_node("ReduceMean", ["hot"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Constant", [], ["n"], value_float=20000.0),
        helper.make_node("Mul", ["mean", "n"], ["y0"]),
    ]
    with np.errstate(divide="ignore"):
        return nodes, {"x": np.log(p)}, 1, {"": 12}, 0.02, [p]


CASES = {name[5:]: make for name, make in list(globals().items()) if name.startswith("case_")}
