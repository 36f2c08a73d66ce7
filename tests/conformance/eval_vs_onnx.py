#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the reference evaluator with ONNX Runtime (or, where that lacks a kernel, with ONNX's own reference).

For every structural op it makes random small cases, writes each as a graph in the text form with its operands as
constants, lets eval_tool evaluate it, and compares types, shapes and values. Runs again in the environment that
RLXC_VENV names when the wheels are missing here, and exits with 77 when they are missing there too.
`eval_vs_onnx.py EVAL_TOOL [--count N] [--seed N] [--only OP]`.
"""
import argparse
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator
except ImportError:
    VENV_PYTHON = os.path.join(os.environ.get("RLXC_VENV", ""), "bin", "python")
    if os.path.exists(VENV_PYTHON) and "RLXC_IN_VENV" not in os.environ:
        os.environ["RLXC_IN_VENV"] = "1"
        os.execv(VENV_PYTHON, [VENV_PYTHON, *sys.argv])
    print("onnx, onnxruntime or numpy is missing: tools/setup installs them", file=sys.stderr)
    sys.exit(77)

NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16",
         "int8": "i8", "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool"}
rng = np.random.default_rng()


class Case:
    """One op: operands (None = absent), its attributes in our text, and the ONNX nodes that mean the same."""

    def __init__(self, op, operands, attrs, nodes, results=1, feeds=None, opset=22, exact=False):
        self.op, self.operands, self.attrs, self.nodes, self.exact = op, operands, attrs, nodes, exact
        self.results, self.opset = results, opset
        self.feeds = {f"x{i}": v for i, v in enumerate(operands) if v is not None}
        self.feeds.update(feeds or {})


def node(op, inputs, outputs="y0", **attrs):
    return helper.make_node(op, inputs.split(","), outputs.split(","), **attrs)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def pick(*choices):
    return choices[rng.integers(len(choices))]


def between(lo, hi):
    return int(rng.integers(lo, hi + 1))


def flag(v):
    return "true" if v else "false"


# --- what the oracles say -------------------------------------------------------------------------------------------

def oracle(case):
    inputs = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
              for k, v in case.feeds.items()]
    outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(case.results)]
    graph = helper.make_graph(case.nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=10)
    try:
        model = onnx.shape_inference.infer_shapes(model)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, case.feeds)
    except Exception as e:  # ONNX Runtime raises its own types for what it does not implement
        if "NOT_IMPLEMENTED" not in str(e) and "NotImplemented" not in type(e).__name__:
            raise
        return ReferenceEvaluator(model).run(None, case.feeds)


# --- what we say ----------------------------------------------------------------------------------------------------

def type_text(v):
    return f"{NAMES[str(v.dtype)]}[{', '.join(str(n) for n in v.shape)}]"


def text_of(case, want):
    lines = ['graph "case" {']
    refs = []
    for v in case.operands:
        if v is None:
            refs.append("_")
            continue
        number = len(lines)
        digits = v.astype(v.dtype.newbyteorder(">")).tobytes().hex()
        lines.append(f'  %{number} = const : {type_text(v)} = hex"{digits}"')
        refs.append(f"%{number}")
    while refs[-1] == "_":
        refs.pop()
    number = len(lines)
    types = ", ".join(type_text(v) for v in want)
    attrs = ", ".join(f"{k} = {v}" for k, v in case.attrs.items())
    lines.append(f"  %{number} = {case.op}({', '.join(refs)}){' {' + attrs + '}' if attrs else ''} : "
                 + (f"({types})" if case.results > 1 else types))
    lines.append(f'  output "y0" = %{number}')
    for i in range(1, case.results):
        lines.append(f"  %{number + i} = result(%{number}) {{index = {i}}} : {type_text(want[i])}")
        lines.append(f'  output "y{i}" = %{number + i}')
    return "\n".join(lines + ["}", ""])


def run_tool(tool, paths):
    """The outputs by file; a file whose graph was refused has none."""
    done = subprocess.run([tool, *paths], capture_output=True, text=True)
    outputs = {}
    by_name = {v: np.dtype(k) for k, v in NAMES.items()}
    for line in done.stdout.splitlines():
        if line.startswith("= "):
            outputs[line[2:]] = current = []
            continue
        _, dtype, shape, digits = line.split(" ")
        dims = [int(n) for n in shape.split(",")] if shape else []
        current.append(np.frombuffer(bytes.fromhex(digits), by_name[dtype]).reshape(dims))
    if done.returncode != 0:
        sys.exit(f"{tool} ended with {done.returncode}\n{done.stderr}")
    return outputs, done.stderr


def difference(case, got, want):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f" or case.exact:
        return "" if np.array_equal(got, want, equal_nan=want.dtype.kind == "f") else "values differ"
    with np.errstate(invalid="ignore"):
        special = ~np.isfinite(want) | ~np.isfinite(got)
        if not np.array_equal(np.where(special, got, 0), np.where(special, want, 0), equal_nan=True):
            return "infinities or NaN differ"
        scale = max(1.0, float(np.abs(np.where(special, 0, want)).max(initial=0)))
        error = float(np.abs(np.where(special, 0, got.astype(np.float64) - want)).max(initial=0))
    return "" if error <= 2e-5 * scale else f"error {error:g} of {scale:g}"


# --- cases: one generator per op ------------------------------------------------------------------------------------

def windows(n):
    """Spatial axes of a window: kernel, strides, dilations, pads and an input that it fits into."""
    kernel = [between(1, 3) for _ in range(n)]
    strides = [between(1, 3) for _ in range(n)]
    dilations = [between(1, 2) for _ in range(n)]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    pads = [between(0, e - 1) for e in extent] + [between(0, e - 1) for e in extent]
    size = [e + between(0, 6) for e in extent]
    return kernel, strides, dilations, pads, size


def case_conv():
    n, group = pick(1, 2, 2, 3), pick(1, 1, 2, 3)
    kernel, strides, dilations, pads, size = windows(n)
    c, o = group * between(1, 3), group * between(1, 3)
    operands = [floats(between(1, 2), c, *size), floats(o, c // group, *kernel), pick(None, floats(o))]
    return Case("conv", operands, {"strides": strides, "pads": pads, "dilations": dilations, "group": group},
                [node("Conv", "x0,x1" + (",x2" if operands[2] is not None else ""), kernel_shape=kernel,
                      strides=strides, pads=pads, dilations=dilations, group=group)])


def case_conv_transpose():
    n, group = pick(1, 2, 2), pick(1, 1, 2)
    kernel, strides, dilations, pads, size = windows(n)
    size = [between(2, 5) for _ in range(n)]
    pads = [min(p, 1) for p in pads]
    extra = [between(0, s - 1) for s in strides]  # ONNX Runtime refuses more
    for i in range(n):  # keep the result from vanishing
        if (size[i] - 1) * strides[i] + extra[i] + (kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[n + i] < 1:
            pads[i] = pads[n + i] = 0
    c, o = group * between(1, 3), between(1, 3)
    operands = [floats(between(1, 2), c, *size), floats(c, o, *kernel), pick(None, floats(o * group))]
    return Case("conv_transpose", operands,
                {"strides": strides, "pads": pads, "dilations": dilations, "output_padding": extra, "group": group},
                [node("ConvTranspose", "x0,x1" + (",x2" if operands[2] is not None else ""), kernel_shape=kernel,
                      strides=strides, pads=pads, dilations=dilations, output_padding=extra, group=group)])


def pool(op, onnx_op, onnx_attrs, attrs):
    kernel, strides, dilations, pads, size = windows(pick(1, 2, 2, 3))
    # ONNX Runtime wants pads below the kernel itself.
    pads = [min(p, k - 1) for p, k in zip(pads, kernel * 2)]
    ceil = pick(0, 1)
    return Case(op, [floats(between(1, 2), 2, *size)],
                {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": flag(ceil), **attrs},
                [node(onnx_op, "x0", kernel_shape=kernel, strides=strides, pads=pads, dilations=dilations,
                      ceil_mode=ceil, **onnx_attrs)])


def case_max_pool():
    return pool("max_pool", "MaxPool", {}, {})


def case_avg_pool():
    include = pick(0, 1)
    return pool("avg_pool", "AveragePool", {"count_include_pad": include}, {"count_include_pad": flag(include)})


def case_resize():
    n = pick(1, 2)
    x = floats(1, 2, *[between(1, 6) for _ in range(n)])
    mode, rounding = pick("nearest", "linear"), pick("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    coord = pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attrs = {"mode": f'"{mode}"', "coord": f'"{coord}"', "nearest": f'"{rounding}"'}
    onnx_attrs = {"mode": mode, "coordinate_transformation_mode": coord, "nearest_mode": rounding}
    if pick(True, False):
        scales = [1.0, 1.0] + [pick(0.5, 1.0, 1.5, 2.0, 2.5, 3.0) for _ in range(n)]
        scales = [s if int(s * d) > 0 else 1.0 for s, d in zip(scales, x.shape)]
        attrs["scales"] = '"' + ",".join(repr(s) for s in scales) + '"'
        return Case("resize", [x], attrs, [node("Resize", "x0,,scales", **onnx_attrs)],
                    feeds={"scales": np.array(scales, np.float32)}, opset=18)
    sizes = [1, 2] + [between(1, 9) for _ in range(n)]
    attrs["sizes"] = sizes
    return Case("resize", [x], attrs, [node("Resize", "x0,,,sizes", **onnx_attrs)],
                feeds={"sizes": np.array(sizes, np.int64)}, opset=18)


def case_lstm():
    seq, batch, size, hidden = between(1, 4), between(1, 3), between(1, 3), between(1, 3)
    direction = pick("forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    layout = 0  # ONNX Runtime has only this one; layout 1 is a transposition of it, see case_lstm_batch_major
    operands = [floats(seq, batch, size), floats(d, 4 * hidden, size), floats(d, 4 * hidden, hidden),
                pick(None, floats(d, 8 * hidden)), pick(None, floats(d, batch, hidden)),
                pick(None, floats(d, batch, hidden)), pick(None, floats(d, 3 * hidden))]
    names = ["x0", "x1", "x2", "x3", "", "x4", "x5", "x6"]  # ONNX has the sequence lengths in between
    for i, k in ((3, 3), (4, 5), (5, 6), (6, 7)):
        names[k] = names[k] if operands[i] is not None else ""
    return Case("lstm", operands, {"direction": f'"{direction}"'},
                [node("LSTM", ",".join(names), "y0,y1,y2", hidden_size=hidden, direction=direction, layout=layout)],
                results=3)


def case_lstm_batch_major():
    case = case_lstm()
    x, *weights = case.operands[:4]
    h0, c0, p = case.operands[4:]
    swap = [v if v is None else np.ascontiguousarray(v.swapaxes(0, 1)) for v in (x, h0, c0)]
    inner = case.nodes[0]
    for i, k in ((0, 0), (4, 5), (5, 6)):
        if case.operands[i] is not None:
            inner.input[k] = f"t{i}"
    inner.output[:] = ["u0", "u1", "u2"]
    before = [node("Transpose", f"x{i}", f"t{i}", perm=[1, 0, 2]) for i in (0, 4, 5) if case.operands[i] is not None]
    after = [node("Transpose", "u0", "y0", perm=[2, 0, 1, 3]), node("Transpose", "u1", "y1", perm=[1, 0, 2]),
             node("Transpose", "u2", "y2", perm=[1, 0, 2])]
    return Case("lstm", [swap[0], *weights, swap[1], swap[2], p], {**case.attrs, "batch_major": "true"},
                before + [inner] + after, results=3)


def case_attention():
    batch, kv, repeat = between(1, 2), between(1, 2), between(1, 3)
    queries, keys, size, value_size = between(1, 4), between(1, 5), between(1, 4), between(1, 4)
    causal, kind = pick(0, 1), pick("none", "bool", "float")
    operands = [floats(batch, kv * repeat, queries, size), floats(batch, kv, keys, size),
                floats(batch, kv, keys, value_size)]
    # ONNX aligns the causal mask at the first key, so it is given as a mask here.
    keep = np.ones((queries, keys), bool)
    if causal:
        keep &= np.tril(np.ones((queries, keys), bool), keys - queries)
    shape = pick((queries, keys), (1, keys), (batch, 1, queries, keys), (kv * repeat, queries, 1))
    mask = rng.random(shape) < 0.7 if kind == "bool" else floats(*shape) if kind == "float" else None
    if kind == "bool":
        keep = keep & mask
    full = np.where(np.broadcast_to(keep, (batch, kv * repeat, queries, keys)), 0.0, -np.inf)
    if kind == "float":
        full = full + mask
    operands.append(mask)
    scale = pick(0.0, 0.7)
    attrs = {"scale": scale, "causal": flag(causal)}
    # The products by basic ops; a row that sees nothing gives 0.
    factor = scale or 1 / np.sqrt(size)
    with np.errstate(invalid="ignore"):
        score = np.einsum("bhqd,bhkd->bhqk", operands[0], operands[1].repeat(repeat, 1)) * factor + full
        top = score.max(-1, keepdims=True)
        weight = np.exp(score - np.where(np.isinf(top), 0, top))
        weight = weight / np.maximum(weight.sum(-1, keepdims=True), 1e-300)
    want = np.einsum("bhqk,bhkd->bhqd", weight, operands[2].repeat(repeat, 1)).astype(np.float32)
    case = Case("attention", operands, attrs, None)
    case.want = [want]
    return case


def case_attention_onnx():
    """Without a causal mask ONNX's own Attention (opset 23) must agree."""
    batch, kv, repeat = between(1, 2), between(1, 2), between(1, 3)
    queries, keys, size = between(1, 4), between(1, 5), between(1, 4)
    operands = [floats(batch, kv * repeat, queries, size), floats(batch, kv, keys, size), floats(batch, kv, keys, size)]
    mask = pick(None, floats(queries, keys), rng.random((queries, keys)) < 0.7)
    if mask is not None and mask.dtype == bool:
        mask[:, 0] = True
    case = Case("attention", operands + [mask], {},
                [node("Attention", "x0,x1,x2" + (",x3" if mask is not None else ""))], opset=23)
    model = helper.make_model(helper.make_graph(
        case.nodes, "g", [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                          for k, v in case.feeds.items()],
        [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)]), opset_imports=[helper.make_opsetid("", 23)])
    case.want = [ReferenceEvaluator(model).run(None, case.feeds)[0].astype(np.float32)]
    return case


def case_rope():
    batch, heads, seq, half = between(1, 2), between(1, 3), between(1, 4), between(1, 4)
    interleaved = pick(0, 1)
    x, angle = floats(batch, heads, seq, 2 * half), floats(seq, half)
    case = Case("rope", [x, np.cos(angle), np.sin(angle)], {"interleaved": flag(interleaved)},
                [node("RotaryEmbedding", "x0,c,s", interleaved=interleaved)], opset=23,
                feeds={"c": np.tile(np.cos(angle), (batch, 1, 1)), "s": np.tile(np.sin(angle), (batch, 1, 1))})
    del case.feeds["x1"], case.feeds["x2"]
    model = helper.make_model(helper.make_graph(
        case.nodes, "g", [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in case.feeds.items()],
        [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)]), opset_imports=[helper.make_opsetid("", 23)])
    case.want = ReferenceEvaluator(model).run(None, case.feeds)
    return case


def case_matmul():
    m, k, n = between(1, 4), between(0, 4), between(1, 4)
    head = [between(1, 3) for _ in range(between(0, 2))]
    a_head = [pick(1, d) for d in head]
    b_head = [d if a == 1 or pick(True, False) else 1 for d, a in zip(head, a_head)]
    a, b = floats(*a_head, m, k), floats(*b_head[between(0, len(head)):] if all(v == 1 for v in b_head) else b_head, k, n)
    kind = pick("both", "both", "vector a", "vector b", "transposed", "int")
    if kind == "int":
        a, b = (rng.integers(-1 << 31, 1 << 31, v.shape).astype(np.int32) for v in (a, b))
        case = Case("matmul", [a, b], {}, None)
        case.want = [np.matmul(a.astype(np.int64).astype(np.uint64), b.astype(np.int64).astype(np.uint64)).astype(np.int32)]
        return case
    if kind == "transposed":
        ta, tb = pick(0, 1), pick(0, 1)
        case = Case("matmul", [np.ascontiguousarray(a.swapaxes(-1, -2)) if ta else a,
                               np.ascontiguousarray(b.swapaxes(-1, -2)) if tb else b],
                    {"transpose_a": flag(ta), "transpose_b": flag(tb)}, None)
        case.want = [np.matmul(a, b)]
        return case
    if kind == "vector a":
        a = floats(k)
    if kind == "vector b":
        b = floats(k)
    case = Case("matmul", [a, b], {}, [node("MatMul", "x0,x1")])
    if k == 0:  # ONNX Runtime forgets to broadcast then
        case.want = [np.matmul(a, b)]
    return case


def case_linear():
    m, k, n, t = between(1, 4), between(1, 4), between(1, 4), pick(0, 1)
    operands = [floats(m, k), floats(*((n, k) if t else (k, n))), pick(None, floats(n), floats(m, n))]
    return Case("linear", operands, {"transpose_b": flag(t)},
                [node("Gemm", "x0,x1" + (",x2" if operands[2] is not None else ""), transB=t)])


def case_norms():
    shape = [between(1, 4) for _ in range(between(1, 4))]
    axis = between(0, len(shape) - 1)
    x, scale, bias = floats(*shape), floats(*shape[axis:]), floats(*shape[axis:])
    epsilon = pick(1e-5, 1e-2)
    if pick(True, False):
        return Case("layer_norm", [x, scale, bias], {"axis": axis - len(shape), "epsilon": epsilon},
                    [node("LayerNormalization", "x0,x1,x2", axis=axis, epsilon=epsilon)])
    case = Case("rms_norm", [x, scale], {"axis": axis, "epsilon": epsilon},
                [node("RMSNormalization", "x0,x1", axis=axis, epsilon=epsilon)], opset=23)
    x64 = x.astype(np.float64)
    mean = (x64 ** 2).mean(axis=tuple(range(axis, len(shape))), keepdims=True)
    case.want = [(x64 / np.sqrt(mean + epsilon) * scale).astype(np.float32)]
    return case


def case_batch_norm():
    c = between(1, 4)
    operands = [floats(2, c, *[between(1, 3) for _ in range(between(1, 2))]), floats(c), floats(c), floats(c),
                np.abs(floats(c))]
    return Case("batch_norm", operands, {"epsilon": 0.001},
                [node("BatchNormalization", "x0,x1,x2,x3,x4", epsilon=0.001)])


def case_softmax():
    x = floats(*[between(1, 4) for _ in range(between(1, 4))]) * pick(1, 50)
    axis = between(-x.ndim, x.ndim - 1)
    op = pick("softmax", "log_softmax")
    return Case(op, [x], {"axis": axis}, [node("Softmax" if op == "softmax" else "LogSoftmax", "x0", axis=axis)])


def case_reduce():
    op, onnx_op = pick(("reduce_sum", "ReduceSum"), ("reduce_mean", "ReduceMean"), ("reduce_max", "ReduceMax"),
                       ("reduce_min", "ReduceMin"), ("reduce_prod", "ReduceProd"), ("reduce_l1", "ReduceL1"),
                       ("reduce_l2", "ReduceL2"), ("reduce_logsumexp", "ReduceLogSumExp"))
    x = floats(*[between(1, 4) for _ in range(between(1, 4))])
    if op in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod") and pick(True, False):
        x = (x * 10).astype(pick(np.int32, np.int64) if op in ("reduce_sum", "reduce_prod") else pick(np.int32, np.int64, np.int8))
    axes = [int(a) - pick(0, x.ndim) for a in rng.permutation(x.ndim)[:between(0, x.ndim)]]
    keep = pick(0, 1)
    attrs = {"axes": axes, "keepdims": flag(keep)}
    if not axes:
        return Case(op, [x], attrs, [node(onnx_op, "x0", keepdims=keep)], opset=18)
    return Case(op, [x], attrs, [node(onnx_op, "x0,axes", keepdims=keep)], feeds={"axes": np.array(axes, np.int64)}, opset=18)


def case_search():
    op, onnx_op = pick(("argmax", "ArgMax"), ("argmin", "ArgMin"))
    x = rng.integers(-3, 4, [between(1, 5) for _ in range(between(1, 3))]).astype(pick(np.float32, np.int32))
    axis, keep = between(-x.ndim, x.ndim - 1), pick(0, 1)
    return Case(op, [x], {"axis": axis, "keepdims": flag(keep)}, [node(onnx_op, "x0", axis=axis, keepdims=keep)])


def case_cumsum():
    x = floats(*[between(1, 5) for _ in range(between(1, 3))])
    x = x if pick(True, False) else (x * 10).astype(np.int64)
    axis, exclusive, reverse = between(-x.ndim, x.ndim - 1), pick(0, 1), pick(0, 1)
    return Case("cumsum", [x], {"axis": axis, "exclusive": flag(exclusive), "reverse": flag(reverse)},
                [node("CumSum", "x0,axis", exclusive=exclusive, reverse=reverse)], feeds={"axis": np.array(axis, np.int64)})


def case_gather():
    x = floats(*[between(1, 4) for _ in range(between(1, 3))])
    axis = between(-x.ndim, x.ndim - 1)
    n = x.shape[axis]
    index = rng.integers(-n, n, [between(0, 3) for _ in range(between(0, 2))]).astype(pick(np.int32, np.int64))
    return Case("gather", [x, np.asarray(index)], {"axis": axis}, [node("Gather", "x0,x1", axis=axis)], exact=True)


def case_slice():
    x = floats(*[between(0, 7) for _ in range(between(1, 3))])
    count = between(1, x.ndim)
    axes = [int(a) - pick(0, x.ndim) for a in rng.permutation(x.ndim)[:count]]
    edge = (-1 << 63, -100, (1 << 63) - 1, 100)
    starts = [pick(between(-9, 9), between(-9, 9), pick(*edge)) for _ in axes]
    steps = [pick(1, 2, 3, -1, -2, -3) for _ in axes]
    # Backwards, ONNX Runtime takes the largest end for "all", which neither NumPy nor the specification says.
    ends = [pick(between(-9, 9), between(-9, 9), pick(*(edge if s > 0 else edge[:2]))) for s in steps]
    arrays = {k: np.array(v, np.int64) for k, v in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))}
    return Case("slice", [x], {"starts": starts, "ends": ends, "axes": axes, "steps": steps},
                [node("Slice", "x0,starts,ends,axes,steps")], feeds=arrays, exact=True)


def case_pad():
    mode = pick("constant", "reflect", "edge", "wrap")
    x = floats(*[between(1, 4) for _ in range(between(1, 3))])
    most = [3 if mode in ("constant", "edge") else n - 1 if mode == "reflect" else n for n in x.shape]
    pads = [between(-1 if mode == "constant" and n > 2 else 0, m) for m, n in zip(most * 2, x.shape * 2)]
    value = np.array(2.5, np.float32) if mode == "constant" and pick(True, False) else None
    return Case("pad", [x, value], {"pads": pads, "mode": f'"{mode}"'},
                [node("Pad", "x0,pads" + (",x1" if value is not None else ""), mode=mode)],
                feeds={"pads": np.array(pads, np.int64)}, opset=19, exact=True)


def case_move():
    x = floats(*[between(0, 4) for _ in range(3)])
    kind = pick("transpose", "concat", "split", "expand", "unsqueeze", "flatten")
    if kind == "transpose":
        perm = [int(v) for v in rng.permutation(3)]
        return Case("transpose", [x], {"perm": perm}, [node("Transpose", "x0", perm=perm)], exact=True)
    if kind == "concat":
        axis = between(-3, 2)
        others = []
        for _ in range(between(1, 3)):
            shape = list(x.shape)
            shape[axis] = between(0, 3)
            others.append(floats(*shape))
        names = ",".join(f"x{i}" for i in range(1 + len(others)))
        return Case("concat", [x, *others], {"axis": axis}, [node("Concat", names, axis=axis)], exact=True)
    if kind == "split":
        axis = between(-3, 2)
        cut = between(0, x.shape[axis])
        sizes = [cut, x.shape[axis] - cut]
        return Case("split", [x], {"axis": axis, "sizes": sizes}, [node("Split", "x0,sizes", "y0,y1", axis=axis)],
                    results=2, feeds={"sizes": np.array(sizes, np.int64)}, opset=18, exact=True)
    if kind == "expand":
        x = floats(*[pick(1, n) for n in (2, 3)])
        shape = [between(1, 2), pick(1, 2) if x.shape[0] == 2 else between(1, 3), pick(1, 3) if x.shape[1] == 3 else between(1, 3)]
        return Case("expand", [x], {"shape": shape}, [node("Expand", "x0,shape")],
                    feeds={"shape": np.array(shape, np.int64)}, exact=True)
    if kind == "unsqueeze":
        axes = [int(a) - pick(0, 5) for a in rng.permutation(5)[:2]]
        return Case("unsqueeze", [x], {"axes": axes}, [node("Unsqueeze", "x0,axes")],
                    feeds={"axes": np.array(axes, np.int64)}, exact=True)
    axis = between(-3, 3)
    return Case("flatten", [x], {"axis": axis}, [node("Flatten", "x0", axis=axis)], exact=True)


def case_cast():
    """Floats to integers saturate here, which NumPy and ONNX leave open: the expectation is written out."""
    to = np.dtype(pick(np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.float16, np.bool_))
    x = np.concatenate([floats(5) * pick(1, 300, 1e12), np.array([0, -0.0, np.inf, -np.inf, np.nan, 65520], np.float32)])
    case = Case("cast", [x], {"to": NAMES[str(to)]}, None, exact=True)
    with np.errstate(invalid="ignore", over="ignore"):
        if to.kind in "iu":
            bounds = np.iinfo(to)
            case.want = [np.array([0 if np.isnan(v) else bounds.min if v < bounds.min else bounds.max if v > bounds.max
                                   else int(v) for v in x.astype(object)], dtype=to)]
        else:
            case.want = [x.astype(to)]
    return case


def case_cast_int():
    a = np.array([0, 1, -1, 127, 128, -129, 1 << 24, (1 << 24) + 1, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63),
                  (1 << 62) + (1 << 38) + 1, between(-1 << 62, 1 << 62)], np.int64)
    x = a if pick(True, False) else a.astype(np.uint64)
    to = np.dtype(pick(np.int8, np.uint8, np.int32, np.uint64, np.float32, np.float64, np.bool_))
    case = Case("cast", [x], {"to": NAMES[str(to)]}, None, exact=True)
    case.want = [x.astype(to)]
    return case


def case_update_slice():
    shape = [between(1, 4) for _ in range(between(1, 3))]
    x, patch = floats(*shape), floats(*[between(1, n) for n in shape])
    scalar = pick(True, False)
    start = np.array(between(-3, 6) if scalar else [between(-3, 6) for _ in shape], pick(np.int32, np.int64))
    at = [int(start), *[0] * (len(shape) - 1)] if scalar else [int(v) for v in start]
    want = x.copy()
    want[tuple(slice(b, b + p) for b, p in zip([min(max(v, 0), n - p) for v, n, p in zip(at, shape, patch.shape)],
                                                patch.shape))] = patch
    case = Case("update_slice", [x, patch, start], {}, None, exact=True)
    case.want = [want]
    return case


def case_global_pool():
    op, onnx_op = pick(("global_avg_pool", "GlobalAveragePool"), ("global_max_pool", "GlobalMaxPool"))
    return Case(op, [floats(2, 3, *[between(1, 4) for _ in range(between(1, 3))])], {}, [node(onnx_op, "x0")])


MAKERS = {k[5:]: v for k, v in list(globals().items()) if k.startswith("case_")}


# --- running --------------------------------------------------------------------------------------------------------

def check_op(tool, name, count, folder):
    cases = []
    for i in range(count):
        case = MAKERS[name]()
        want = getattr(case, "want", None)
        want = [np.asarray(v) for v in (want if want is not None else oracle(case))]
        path = os.path.join(folder, f"{name}-{i}.ir")
        with open(path, "w") as f:
            f.write(text_of(case, want))
        cases.append((path, case, want))
    outputs, messages = run_tool(tool, [path for path, _, _ in cases])
    failures = 0
    for path, case, want in cases:
        got = outputs[path]
        wrong = "refused" if len(got) != len(want) else "; ".join(
            filter(None, (difference(case, g, w) for g, w in zip(got, want))))
        if wrong:
            failures += 1
            if failures <= 3:
                print(f"# {path}: {wrong}")
                print("".join("#   " + (s if len(s) < 200 else s[:200] + "...") + "\n" for s in text_of(case, want).splitlines()))
    if messages and failures:
        print("".join(f"# {s}\n" for s in messages.splitlines()[:12]))
    return failures


def main():
    global rng
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--keep", help="a folder for the case files")
    args = parser.parse_args()
    failed = 0
    names = [args.only] if args.only else sorted(MAKERS)
    print(f"1..{len(names)}")
    with tempfile.TemporaryDirectory() as scratch:
        for i, name in enumerate(names, 1):
            rng = np.random.default_rng([args.seed, *name.encode()])
            failures = check_op(args.tool, name, args.count, args.keep or scratch)
            failed += failures > 0
            print(f"{'not ok' if failures else 'ok'} {i} - {name}: {args.count - failures} of {args.count}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
