#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bounds of sizes that the model computes (--dim NAME=VALUE): every operator that makes such a size, with a
bound above, at and below the size of the run. The first two give what ONNX Runtime gives, in its shape; the
last is an error of the generated code and of the evaluator. Usage: check_bounds.py RLXC; prints TAP. Exits
with 77 without ONNX Runtime."""
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import in_venv  # noqa: E402

try:
    import numpy as np
    import onnxruntime as ort
    from onnx import helper, parser
except ImportError:
    in_venv.enter_or_skip("onnx, onnxruntime or numpy")

RLXC = sys.argv[1]
X = np.array([0, 1, 0, 2, 3, 0, 0, 0], np.float32)
TABLE = np.arange(32, dtype=np.float32).reshape(8, 4) % 7 - 2
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [0, 20, 1, 21]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.7, 0.6]]], np.float32)


def ints(*v):
    return np.array(v, np.int64)


# Name, inputs, text of the nodes, {size: what it is in the run}.
CASES = [
    ("Range", {"n": ints(2, 3)}, "s = ReduceSum <keepdims = 0> (n)  y0 = Range (zero, s, unit)",
     {"range_0": 5}),
    ("Range of floats", {"f": np.array([2.25], np.float32)},
     "s = Squeeze (f)  a = Constant <value_float = 0.0> ()  b = Constant <value_float = 0.5> ()"
     "  y0 = Range (a, s, b)", {"range_0": 5}),
    ("Range to nothing", {"n": ints(-3, 1)}, "s = ReduceSum <keepdims = 0> (n)  y0 = Range (zero, s, unit)",
     {"range_0": 0}),
    ("ConstantOfShape", {"n": ints(2, 3)},
     "y0 = ConstantOfShape <value = float[1] {2}> (n)  y1 = ReduceSum (y0)  y2 = Softmax (y0)"
     "  y3 = ReduceMean <keepdims = 0> (y0, minus)", {"constantofshape_0": 2, "constantofshape_1": 3}),
    ("NonZero", {"x": X},
     "p = NonZero (x)  q = Squeeze (p, first)  v = Gather (x, q)  y0 = Softmax (v)  y1 = ReduceMean (v)"
     "  y2 = ReduceMax (v)  y3 = ReduceProd (v)  y4 = LayerNormalization <axis = -1> (v, scale)",
     {"nonzero_0": 3}),
    ("Compress", {"t": TABLE, "x": X},
     "c = Cast <to = 9> (x)  y0 = Compress <axis = 0> (t, c)  y1 = ReduceSum (y0, first)"
     "  tr = Transpose (y0)  y2 = MatMul (tr, y0)  y3 = Concat <axis = 0> (y0, t, y0)", {"compress_0": 3}),
    ("Unique", {"x": X}, "y0, y1, y2, y3 = Unique (x)  y4 = Softmax (y0)", {"unique_0": 4}),
    ("NonMaxSuppression", {"boxes": BOXES, "scores": SCORES},
     "most = Constant <value_ints = [4]> ()  iou = Constant <value_floats = [0.5]> ()"
     "  y0 = NonMaxSuppression (boxes, scores, most, iou)  f = Cast <to = 1> (y0)"
     "  y1 = ReduceMean (f, first)",
     {"nonmaxsuppression_0": 3}),
    ("Expand", {"x": X[:1], "n": ints(5)}, "y0 = Expand (x, n)  y1 = ReduceMean (y0)", {"expand_0": 5}),
    ("Ranges of one size, as PyTorch names it", {"n": ints(2, 4)},
     "int64[u0] r, float[u0] q # s = ReduceSum <keepdims = 0> (n)  r = Range (zero, s, unit)"
     "  f = Cast <to = 1> (s)  a = Constant <value_float = 0.0> ()  b = Constant <value_float = 1.0> ()"
     "  q = Range (a, f, b)  p = Cast <to = 1> (r)  y0 = Mul (p, q)", {"u0": 6}),
    ("Random numbers", {"n": ints(2, 4)},
     "s = ReduceSum <keepdims = 0> (n)  r = Range (zero, s, unit)  f = Cast <to = 1> (r)"
     "  noise = RandomNormalLike (f)  none = Constant <value_float = 0.0> ()  m = Mul (noise, none)"
     "  y0 = Add (m, f)", {"range_0": 6}),
    ("Resize", {"x": X[:4], "n": ints(2, 4)},
     "to = Constant <value_ints = [1, 1, 4]> ()  r = Reshape (x, to)  o = Constant <value_ints = [1, 1]> ()"
     '  s = ReduceSum (n)  sz = Concat <axis = 0> (o, s)  y0 = Resize <mode = "linear"> (r, , , sz)'
     '  y1 = Resize <mode = "nearest"> (r, , , sz)  y2 = ReduceSum (y0)', {"resize_0": 6, "resize_1": 6}),
    ("Resize of two axes", {"x": TABLE[0], "n": ints(4, 7)},
     "to = Constant <value_ints = [1, 1, 2, 2]> ()  r = Reshape (x, to)"
     "  o = Constant <value_ints = [1, 1]> ()  d = Identity (n)  sz = Concat <axis = 0> (o, d)"
     "  e = Constant <value_ints = [1, 1, 5, 3]> ()"
     '  y0 = Resize <mode = "cubic", coordinate_transformation_mode = "align_corners"> (r, , , sz)'
     '  y1 = Resize <mode = "cubic", coordinate_transformation_mode = "pytorch_half_pixel"> (y0, , , e)',
     {"resize_0": 4, "resize_1": 7}),
    ("Slice", {"x": X, "n": ints(1, 2)},
     "s = ReduceSum (n)  y0 = Slice (x, first, s)  y1 = ReduceSum (y0)", {"slice_0": 3}),
    ("Slice backwards", {"x": X, "n": ints(1, 4)},
     "s = ReduceSum (n)  e = Sub (minus, s)  two = Constant <value_ints = [-2]> ()"
     "  y0 = Slice (x, s, e, first, two)  y1 = ReduceSum (y0)", {"slice_0": 2}),
    ("Tile", {"x": X[:2], "n": ints(2, 1)}, "s = ReduceSum (n)  y0 = Tile (x, s)  y1 = ReduceMean (y0)",
     {"tile_0": 3}),
    ("Loop", {"x": X[:2], "n": ints(3, 0)},
     "m = ReduceSum <keepdims = 0> (n)  yes = Less (zero, unit)  h, rows = Loop (m, yes, x) <body = b"
     " (int64 i, bool k, float[2] s0) => (bool go, float[2] s1, float[2] row) { s1 = Add (s0, s0)"
     "  row = Identity (s1)  go = Identity (k) }>  y0 = Identity (h)  y1 = Identity (rows)"
     "  y2 = ReduceSum (rows, first)", {"h_trips": 3}),
    ("Loop by a condition", {"x": X[:2], "n": ints(3)},
     "m = Squeeze (n)  eight = Constant <value_int = 8> ()  yes = Less (zero, unit)"
     "  h, rows = Loop (eight, yes, x) <body = b (int64 i, bool k, float[2] s0) => (bool go, float[2] s1,"
     " float[2] row) { s1 = Add (s0, s0)  row = Identity (s1)  one = Constant <value_int = 1> ()"
     "  j = Add (i, one)  go = Less (j, m) }>  y0 = Identity (h)  y1 = Identity (rows)"
     "  y2 = ReduceSum (rows, first)", {"loop_0": 3}),
    # As torchvision pastes masks: as many rows as there are, each resized to a size of its own and filled up.
    ("Loop whose body has sizes", {"x": X[:4], "n": ints(2, 5, 0, 3)},
     "p = NonZero (n)  q = Squeeze (p, first)  v = Gather (n, q)  m = Shape (v)  t = Squeeze (m)"
     "  to = Constant <value_ints = [1, 1, 4]> ()  r = Reshape (x, to)  yes = Less (zero, unit)"
     "  o = Constant <value_ints = [1, 1]> ()  none = Constant <value_ints = [0, 6]> ()"
     "  e = ConstantOfShape (none)  six = Constant <value_int = 6> ()"
     "  rows = Loop (t, yes, e) <body = b (int64 i, bool k, float[a, 6] g0) => (bool go, float[d, 6] g2)"
     " { s = Gather (v, i)  l = Sub (six, s)  s1 = Unsqueeze (s, first)  l1 = Unsqueeze (l, first)"
     '  sz = Concat <axis = 0> (o, s1)  f = Resize <mode = "linear"> (r, , , sz)  h = Reshape (f, minus)'
     "  n0 = Shape (h)  w1 = Mul (h, h)  w2 = Slice (w1, first, n0)  f0 = ConstantOfShape (l1)"
     "  w = Concat <axis = 0> (w2, f0)  row = Unsqueeze (w, first)  g1 = Cast <to = 1> (g0)"
     "  g2 = Concat <axis = 0> (g1, row)  go = Identity (k) }>"
     "  y0 = Identity (rows)  y1 = ReduceSum (rows, first)", {"resize_0": 5, "constantofshape_1": 4}),
    # What is joined in an iteration loses what is behind the point in the next one.
    ("Loop that rounds what it has joined", {"x": X[3:4] + 0.5, "n": ints(3, 0)},
     "m = ReduceSum <keepdims = 0> (n)  yes = Less (zero, unit)  e = ConstantOfShape (first)"
     "  h = Loop (m, yes, e) <body = b (int64 i, bool k, float[a] s0) => (bool go, float[d] s3)"
     " { s1 = Cast <to = 7> (s0)  s2 = Cast <to = 1> (s1)  s3 = Concat <axis = 0> (s2, x)"
     "  go = Identity (k) }>  y0 = Identity (h)", {"h_trips": 3}),
    ("Reshape of a range", {"n": ints(2, 4)},
     "s = ReduceSum <keepdims = 0> (n)  r = Range (zero, s, unit)  to = Constant <value_ints = [-1, 1]> ()"
     "  c = Reshape (r, to)  y0 = Equal (c, r)  y1 = Sub (c, r)", {"range_0": 6}),
]


# Models that need no bound: sizes that follow from others. Name, inputs (several runs), text of the nodes.
POSITIVE = (
    "c = Constant <value_floats = [0.5]> ()  g = Greater (x, c)  p = NonZero (g)  q = Squeeze (p, first)"
)
MASKED = {"some": X, "all": X + 1, "none": X * 0, "one": X == 3}
LONG = {k: v.astype(np.float32) for k, v in MASKED.items()}
FREE = [
    ("ScatterND where an expanded mask says", LONG,
     POSITIVE + "  v = Gather (x, q)  n = Shape (x)  w = Expand (g, n)  r = NonZero (w)  t = Transpose (r)"
     "  m = Shape (t)  count = Gather (m, first)  u = Slice (v, first, count)"
     "  z = ConstantOfShape (n)  y0 = ScatterND (z, t, u)"),
    ("TopK of Min(k, size)", LONG,
     POSITIVE + "  v = Gather (x, q)  n = Shape (v)  m = Constant <value_ints = [2]> ()"
     "  b = Concat <axis = 0> (m, n)  k = ReduceMin <keepdims = 1> (b)  y0, y1 = TopK (v, k)"),
    ("TopK of a computed k", LONG,
     POSITIVE + "  o = Cast <to = 7> (g)  k = ReduceSum (o)  y0, y1 = TopK (x, k)  y2 = ReduceSum (y0)"),
    ("Split by sizes that the model computes", LONG,
     POSITIVE + "  o = Cast <to = 7> (g)  a = ReduceSum (o)  e = Constant <value_ints = [8]> ()"
     "  b = Sub (e, a)"
     "  sizes = Concat <axis = 0> (a, b)  y0, y1 = Split <axis = 0> (x, sizes)  y2 = ReduceSum (y1)"),
    ("Loop as Keras writes it", LONG,
     "six = Constant <value_int = 6> ()  five = Constant <value_int = 5> ()  yes = Less (zero, unit)"
     "  h = ReduceSum (x)  j, s, rows = Loop (six, yes, zero, h) <body = b (int64 i, bool k, int64 j0,"
     " float[1] s0) => (bool go, int64 j1, float[1] s1, float[1] row) { j1 = Add (j0, unit)"
     "  s1 = Add (s0, s0)  row = Identity (s1)  a = Less (i, six)  d = Less (j1, five)  go = And (a, d) }>"
     "  most = Constant <value_ints = [2147483647]> ()  t = Slice (rows, minus, most, first)"
     "  y0 = Squeeze (t, first)  y1 = Identity (rows)  y2 = Identity (j)"),
    ("Slice backwards of a computed size", LONG,
     POSITIVE + "  v = Gather (x, q)  o = Cast <to = 7> (g)  s = ReduceSum (o)"
     "  most = Constant <value_ints = [-99]> ()"
     "  y0 = Slice (v, s, most, first, minus)  y1 = ReduceSum (y0)"),
    ("Split of a computed size by numbers", {"some": LONG["some"]},
     POSITIVE + "  v = Gather (x, q)  sizes = Constant <value_ints = [1, 2]> ()"
     "  y0, y1 = Split <axis = 0> (v, sizes)  y2 = ReduceSum (y1)"),
    ("Split by sizes of others", LONG,
     POSITIVE + "  v = Gather (x, q)  n = Shape (v)  m = Shape (x)  sizes = Concat <axis = 0> (n, m, n)"
     "  w = Concat <axis = 0> (v, x, v)  y0, y1, y2 = Split <axis = 0> (w, sizes)"),
    ("Rows of a computed number as a sequence", {"some": LONG["some"], "all": LONG["all"]},
     POSITIVE + "  s = SplitToSequence <keepdims = 0> (q)"
     "  t = SplitToSequence <axis = 1, keepdims = 0> (p)  far = Constant <value_int = -2> ()"
     "  y0 = SequenceAt (s, unit)  y1 = SequenceAt (t, far)  y2 = SequenceLength (s)"),
    ("A sequence of parts whose sizes the model computes", LONG,
     POSITIVE + "  o = Cast <to = 7> (g)  a = ReduceSum (o)  e = Constant <value_ints = [8]> ()"
     "  b = Sub (e, a)  sizes = Concat <axis = 0> (a, b)  s = SplitToSequence <axis = 0> (x, sizes)"
     "  y0 = SequenceAt (s, zero)  y1 = SequenceAt (s, unit)  v = Gather (x, q)"
     "  t = SplitToSequence <axis = 0> (v, a)  y2 = SequenceAt (t, zero)"
     "  y3 = ConcatFromSequence <axis = 0> (s)"),
    ("If with an empty result", LONG,
     POSITIVE + "  n = Size (q)  empty = Equal (n, zero)"
     "  y0 = If (empty) <then_branch = t () => (int64[a] e) { e = Constant <value = int64[0] {}> () },"
     " else_branch = f () => (int64[b] e2) { e2 = Sub (q, unit) }>  y1 = Gather (x, y0)"),
    ("If with results of several sizes", LONG,
     POSITIVE + "  s = ReduceSum <keepdims = 0> (x)  h = Constant <value_float = 7.0> ()  many = Less (h, s)"
     "  y0 = If (many) <then_branch = t () => (float[a, b] u) { h2 = Constant <value_ints = [2, 4]> ()"
     "  u = Reshape (x, h2) }, else_branch = f () => (float[c, d] w) { v = Gather (x, q)"
     "  w0 = Unsqueeze (v, first)  w = Concat <axis = 0> (w0, w0, w0) }>"
     "  y1 = ReduceSum <keepdims = 0> (y0)"),
    ("If with results of another rank", {"seven": np.arange(8, dtype=np.float32)},
     "s = ReduceSum <keepdims = 0> (x)  d = Constant <value_float = 0.0> ()  is_one = Equal (s, d)"
     "  to = Constant <value_ints = [1, 8]> ()  r = Reshape (x, to)"
     "  z = If (is_one) <then_branch = t () => (float[a] u) { u = Squeeze (r, first) },"
     " else_branch = f () => (float[b, c] w) { w = Identity (r) }>  y0 = Add (z, z)"),
    ("If with a number, or a list of it", {"two": X - 2, "seven": X},
     "s = ReduceSum <keepdims = 0> (x)  d = Constant <value_float = 20.0> ()  is_more = Less (d, s)"
     "  z = If (is_more) <then_branch = t () => (float u) { u = ReduceMax <keepdims = 0> (x) },"
     " else_branch = f () => (float[1] w) { w = Slice (x, first, unit1) }>  y0 = Add (z, x)"),
]

# What ONNX Runtime refuses, so does the generated code. Name, runs, text of the nodes, part of the message,
# bounds where the model needs them.
SIZES = "  c = Cast <to = 7> (x)  two = Constant <value_ints = [2]> ()  a = Slice (c, first, unit1)  "
REFUSED = [
    ("TopK of more than there are", {"one": LONG["one"], "none": LONG["none"]},
     POSITIVE + "  v = Gather (x, q)  two = Constant <value_ints = [2]> ()  y0, y1 = TopK (v, two)",
     "TopK: k is over the size of axis 0"),
    ("TopK of a negative number", {"two": X - 2},
     SIZES + "y0, y1 = TopK (x, a)", "TopK: k is negative"),
    ("TopK of a number over the size", {"nine": X + 9},
     SIZES + "y0, y1 = TopK (x, a)", "TopK: k is over the size of axis 0"),
    ("Split into a part that is negative", {"two": X - 2},
     SIZES + "e = Constant <value_ints = [8]> ()  b = Sub (e, a)  s = Concat <axis = 0> (a, b)"
     "  y0, y1 = Split <axis = 0> (x, s)", "Split: part 0 is negative or over the size of the axis"),
    ("Split into a part that is too large", {"nine": X + 9},
     SIZES + "s = Concat <axis = 0> (first, a)  y0, y1 = Split <axis = 0> (x, s)",
     "Split: part 1 is negative or over the size of the axis"),
    ("SequenceAt behind the last row", {"one": LONG["one"], "none": LONG["none"]},
     POSITIVE + "  s = SplitToSequence <keepdims = 0> (q)  y0 = SequenceAt (s, unit)",
     "the sequence must have a position 1"),
    ("SequenceAt before the first row", {"one": LONG["one"], "none": LONG["none"]},
     POSITIVE + "  s = SplitToSequence <keepdims = 0> (q)  far = Constant <value_int = -2> ()"
     "  y0 = SequenceAt (s, far)", "the sequence must have a position -2"),
    ("SplitToSequence into a part that is too large", {"nine": X + 9},
     SIZES + "l = Concat <axis = 0> (first, a)  s = SplitToSequence <axis = 0> (x, l)"
     "  y0 = SequenceAt (s, unit)", "SplitToSequence: part 1 is negative or over the size of the axis"),
    ("Range by a step of 0", {"none": X * 0},
     SIZES + "step = Squeeze (a, first)  end = Constant <value_int = 8> ()  y0 = Range (zero, end, step)",
     "Range: the step is 0", {"range_0": 9}),
    ("ConstantOfShape of a negative size", {"two": X - 2},
     SIZES + "y0 = ConstantOfShape (a)", "ConstantOfShape: a size is negative", {"constantofshape_0": 9}),
]


def model(inputs, text):
    values = ", ".join(
        f"{'int64' if v.dtype == np.int64 else 'float'}{list(v.shape)} {k}" for k, v in inputs.items()
    )
    words = {w.strip(",") for w in text.split()}
    outputs = sorted(w for w in words if w[:1] == "y" and w[1:].isdigit())
    constants = (
        "zero = Constant <value_int = 0> ()  unit = Constant <value_int = 1> ()"
        "  first = Constant <value_ints = [0]> ()  minus = Constant <value_ints = [-1]> ()"
        "  scale = Constant <value_floats = [2.0]> ()  unit1 = Constant <value_ints = [1]> ()"
    )
    infos, _, text = text.rpartition("#")
    infos = f"<{infos}>" if infos else ""
    results = ", ".join(f"float {o}" for o in outputs)
    g = parser.parse_graph(f"g ({values}) => ({results}) {infos} {{ {constants}  {text} }}")
    for o in g.output:
        o.ClearField("type")
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return m.SerializeToString(), outputs


def call(command, folder, path, feeds, sizes):
    options = [w for k, v in sizes.items() for w in ("--dim", f"{k}={v}")]
    for name, value in feeds.items():
        np.save(f"{folder}/{name}.npy", value)
        options += ["--input", f"{name}={folder}/{name}.npy"]
    if command == "run":
        options += ["--output-dir", folder]
    return subprocess.run([RLXC, command, path, *options], capture_output=True, text=True, timeout=100,
                          check=False)


def agrees(folder, path, feeds, sizes, outputs, want):
    """Both the generated code against ONNX Runtime and the evaluator against the generated code."""
    done = call("run", folder, path, feeds, sizes)
    if done.returncode != 0:
        return f"{sizes}: {done.stderr}"
    for name, value in zip(outputs, want):
        got = np.load(f"{folder}/{name}.npy")
        if got.shape != value.shape or not np.allclose(got, value, rtol=1e-5, atol=1e-6):
            found, expected = f"{got.shape} {got.ravel()[:8]}", f"{value.shape} {value.ravel()[:8]}"
            return f"{sizes}: {name} is {found}, expected {expected}"
    done = call("verify", folder, path, feeds, sizes)
    return "" if done.returncode == 0 else f"{sizes}: verify: {done.stdout}{done.stderr}"


def refuses(folder, path, feeds, sizes, over):
    for command in "run", "verify":
        done = call(command, folder, path, feeds, sizes)
        if done.returncode == 0 or f"'{over}'" not in done.stderr:
            return f"{sizes}: {command} ended with {done.returncode}: {done.stderr}"
    return ""


def check(case, folder):
    name, feeds, text, live = case
    path = f"{folder}/m.onnx"
    data, outputs = model(feeds, text)
    with open(path, "wb") as f:
        f.write(data)
    want = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
    wrong = [agrees(folder, path, feeds, {k: v + more for k, v in live.items()}, outputs, want)
             for more in (0, 1, 11)]
    for size, value in live.items():
        if value > 0:
            wrong.append(refuses(folder, path, feeds, {**live, size: value - 1}, size))
    return [w for w in wrong if w]


# As PyTorch's draft export writes models: the first two of what is found, which it takes for two elsewhere.
# Name, inputs, text, {size: its least and largest}, inputs with which there are fewer.
LEAST = [
    ("Slice and Reshape of at least as many", {"x": X, "t": TABLE},
     "p = NonZero (x)  q = Squeeze (p, first)  two = Constant <value_ints = [2]> ()"
     "  v = Slice (q, first, two)  y1 = Gather (t, v)  e = Slice (t, first, two)  n = Shape (q)"
     "  m = Min (n, two)  sh = Concat <axis = 0> (m, minus)  d = Reshape (e, sh)  y0 = Add (d, y1)"
     "  eight = Constant <value_ints = [8]> ()  w = Div (eight, m)  to = Concat <axis = 0> (w, two)"
     "  y2 = Reshape (y0, to)",
     {"nonzero_0": "2..8"}, {"x": np.eye(1, 8, dtype=np.float32)[0]}),
]


def check_least(case, folder):
    _, feeds, text, sizes, fewer = case
    path = f"{folder}/m.onnx"
    data, outputs = model(feeds, text)
    with open(path, "wb") as f:
        f.write(data)
    want = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
    wrong = [agrees(folder, path, feeds, sizes, outputs, want)]
    for size, value in sizes.items():
        wrong.append(refuses(folder, path, {**feeds, **fewer}, sizes, size))
        done = call("run", folder, path, feeds, {})
        least = value.partition("..")[0]
        if done.returncode == 0 or f"--dim {size}={least}..VALUE" not in done.stderr:
            wrong.append(f"without a bound: {done.stderr}")
    return [w for w in wrong if w]


# Values of short inputs are known when a model is compiled for a run: x is part of a longer one.
PART_OF_LONG = "  eight = Constant <value_ints = [8]> ()  x = Slice (long, first, eight)  "


def feeds_of(x):
    return {"long": np.concatenate([x, np.zeros(120, np.float32)])}


def check_free(case, folder):
    name, runs, text = case
    wrong = []
    for feed in runs.values():
        feeds, path = feeds_of(feed), f"{folder}/m.onnx"
        data, outputs = model(feeds, PART_OF_LONG + text)
        with open(path, "wb") as f:
            f.write(data)
        want = ort.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds)
        wrong.append(agrees(folder, path, feeds, {}, outputs, want))
    return [w for w in wrong if w]


def is_refused(path, feeds):
    try:
        ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    except Exception:  # ONNX Runtime has a type for each status
        return True
    return False


def check_refused(case, folder):
    name, runs, text, words, *bounds = case
    wrong, path = [], f"{folder}/m.onnx"
    for run, x in runs.items():
        feeds = feeds_of(x)
        with open(path, "wb") as f:
            f.write(model(feeds, PART_OF_LONG + text)[0])
        if not is_refused(path, feeds):
            wrong.append(f"{run}: ONNX Runtime computes it")
        for command in "run", "verify":
            done = call(command, folder, path, feeds, *(bounds or [{}]))
            if done.returncode != 1 or words not in done.stderr:
                wrong.append(f"{run}: {command} ended with {done.returncode}: {done.stderr}")
    return wrong


# A condition that follows from a counter is computed when the model is compiled, but not for long.
COUNTS = 12, 16000, 150


def check_counting(_, folder):
    loops, trips, nodes = COUNTS
    chain = "  ".join(f"j{i + 1} = Add (j{i}, ones)" for i in range(nodes))
    text = (f"  trips = Constant <value_int = {trips}> ()  yes = Less (zero, unit)  x0 = Identity (long)"
            "  many = Constant <value_ints = [64]> ()  zeros = ConstantOfShape <value = int64[1] {0}> (many)"
            "  ones = ConstantOfShape <value = int64[1] {1}> (many)"
            "  end = Constant <value_int = 1000000000> ()")
    for k in range(loops):
        text += (f"  x{k + 1}, c{k} = Loop (trips, yes, x{k}, zeros) <body = b (int64 i, bool k,"
                 f" float[128] s0, int64[64] j0) => (bool go, float[128] s1, int64[64] j{nodes}) {{ {chain}"
                 f"  m = ReduceMax <keepdims = 0> (j{nodes})  go = Less (m, end)  s1 = Add (s0, s0) }}>")
    path = f"{folder}/m.onnx"
    with open(path, "wb") as f:
        f.write(model(feeds_of(X), f"{text}  y0 = Identity (x{loops})")[0])
    began = os.times()
    done = subprocess.run([RLXC, "compile", path, "-o", folder], capture_output=True, text=True, check=False)
    now = os.times()
    seconds = now.children_user + now.children_system - began.children_user - began.children_system
    return [] if done.returncode == 0 and seconds < 15 else [f"{seconds:.1f} s: {done.stderr}"]


def main():
    failures = 0
    ort.set_default_logger_severity(4)
    ways = ((check, CASES), (check_least, LEAST), (check_free, FREE), (check_refused, REFUSED))
    cases = [(way, c) for way, some in ways for c in some]
    cases.append((check_counting, ("Loops that count for long",)))
    print(f"1..{len(cases)}")
    for number, (way, case) in enumerate(cases):
        with tempfile.TemporaryDirectory() as folder:
            wrong = way(case, folder)
        failures += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number + 1} - {case[0]}")
        for w in wrong:
            print("# " + w.strip().replace("\n", "\n# "))
    return 1 if failures else 0


sys.exit(main())
