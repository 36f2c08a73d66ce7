# SPDX-License-Identifier: Apache-2.0
"""Cases of eval_vs_onnx.py, one generator per op: windows, products, norms, recurrence.

Each says the same in our text and as ONNX nodes; where ONNX leaves it open, it brings its own expectation.
"""

import math

import numpy as np
from eval_case import Case, between, flag, floats, node, pick, rng
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator


def windows(n):
    """Spatial axes of a window: kernel, strides, dilations, pads and an input that it fits into."""
    kernel = [between(1, 3) for _ in range(n)]
    strides = [between(1, 3) for _ in range(n)]
    dilations = [between(1, 2) for _ in range(n)]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    pads = [between(0, e - 1) for e in extent] + [between(0, e - 1) for e in extent]
    size = [e + between(0, 6) for e in extent]
    return kernel, strides, dilations, pads, size


def case_erf_inv():
    """What erf of the C library is the inverse of."""
    y = rng.uniform(-3, 3, between(1, 9))
    case = Case("erf_inv", [np.array([math.erf(v) for v in y])], {}, None)
    case.want = [y]
    return case


def case_conv():
    n, group = pick(1, 2, 2, 3), pick(1, 1, 2, 3)
    kernel, strides, dilations, pads, size = windows(n)
    c, o = group * between(1, 3), group * between(1, 3)
    operands = [floats(between(1, 2), c, *size), floats(o, c // group, *kernel), pick(None, floats(o))]
    return Case(
        "conv",
        operands,
        {"strides": strides, "pads": pads, "dilations": dilations, "group": group},
        [
            node(
                "Conv",
                "x0,x1" + (",x2" if operands[2] is not None else ""),
                kernel_shape=kernel,
                strides=strides,
                pads=pads,
                dilations=dilations,
                group=group,
            )
        ],
    )


def case_conv_transpose():
    n, group = pick(1, 2, 2), pick(1, 1, 2)
    kernel, strides, dilations, pads, size = windows(n)
    size = [between(2, 5) for _ in range(n)]
    pads = [min(p, 1) for p in pads]
    extra = [between(0, s - 1) for s in strides]  # ONNX Runtime refuses more
    for i in range(n):  # keep the result from vanishing
        if (size[i] - 1) * strides[i] + extra[i] + (kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[
            n + i
        ] < 1:
            pads[i] = pads[n + i] = 0
    c, o = group * between(1, 3), between(1, 3)
    operands = [floats(between(1, 2), c, *size), floats(c, o, *kernel), pick(None, floats(o * group))]
    return Case(
        "conv_transpose",
        operands,
        {"strides": strides, "pads": pads, "dilations": dilations, "output_padding": extra, "group": group},
        [
            node(
                "ConvTranspose",
                "x0,x1" + (",x2" if operands[2] is not None else ""),
                kernel_shape=kernel,
                strides=strides,
                pads=pads,
                dilations=dilations,
                output_padding=extra,
                group=group,
            )
        ],
    )


def pool(op, onnx_op, onnx_attrs, attrs):
    kernel, strides, dilations, pads, size = windows(pick(1, 2, 2, 3))
    # ONNX Runtime wants pads below the kernel itself.
    pads = [min(p, k - 1) for p, k in zip(pads, kernel * 2)]
    ceil = pick(0, 1)
    return Case(
        op,
        [floats(between(1, 2), 2, *size)],
        {
            "kernel": kernel,
            "strides": strides,
            "pads": pads,
            "dilations": dilations,
            "ceil_mode": flag(ceil),
            **attrs,
        },
        [
            node(
                onnx_op,
                "x0",
                kernel_shape=kernel,
                strides=strides,
                pads=pads,
                dilations=dilations,
                ceil_mode=ceil,
                **onnx_attrs,
            )
        ],
    )


def case_max_pool():
    return pool("max_pool", "MaxPool", {}, {})


def case_argmax_pool():
    n = pick(1, 2)
    kernel = [between(1, 3) for _ in range(n)]
    strides = [between(1, 3) for _ in range(n)]
    size = [k + between(0, 4) for k in kernel]
    return Case(
        "argmax_pool",
        [floats(1, 1, *size)],
        {"kernel": kernel, "strides": strides},
        [node("MaxPool", "x0", "y,y0", kernel_shape=kernel, strides=strides)],
        exact=True,
    )


def case_roi_pool():
    mode, coord, sampling = pick("avg", "max"), pick("half_pixel", "output_half_pixel"), between(1, 3)
    size = [between(1, 3), between(1, 3)]
    begin = rng.uniform(-1, 4, (3, 2))
    rois = np.concatenate([begin, begin + rng.uniform(0.5, 5, (3, 2))], 1).astype(np.float32)
    names = {"output_height": size[0], "output_width": size[1], "sampling_ratio": sampling}
    return Case(
        "roi_pool",
        [np.abs(floats(2, 2, 7, 6)), rois, np.array([0, 1, 1], np.int64)],
        {
            "mode": f'"{mode}"',
            "height": size[0],
            "width": size[1],
            "sampling": sampling,
            "half_pixel": flag(coord == "half_pixel"),
        },
        [node("RoiAlign", "x0,x1,x2", mode=mode, coordinate_transformation_mode=coord, **names)],
    )


def case_avg_pool():
    include = pick(0, 1)
    return pool(
        "avg_pool", "AveragePool", {"count_include_pad": include}, {"count_include_pad": flag(include)}
    )


def case_resize():
    n = pick(1, 2)
    x = floats(1, 2, *[between(1, 6) for _ in range(n)])
    # ONNX Runtime has cubic filters and antialias over two axes only
    mode, rounding = pick("nearest", "linear", "cubic" if n == 2 else "linear"), pick(
        "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"
    )
    coord = pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attrs = {"mode": f'"{mode}"', "coord": f'"{coord}"', "nearest": f'"{rounding}"'}
    onnx_attrs = {"mode": mode, "coordinate_transformation_mode": coord, "nearest_mode": rounding}
    if mode == "cubic" and pick(True, False):
        attrs["exclude_outside"], onnx_attrs["exclude_outside"] = "true", 1
        attrs["cubic_coeff"], onnx_attrs["cubic_coeff_a"] = -0.5, -0.5
    if pick(True, False):
        scales = [1.0, 1.0] + [pick(0.5, 1.0, 1.5, 2.0, 2.5, 3.0) for _ in range(n)]
        scales = [s if int(s * d) > 0 else 1.0 for s, d in zip(scales, x.shape)]
        attrs["scales"] = '"' + ",".join(repr(s) for s in scales) + '"'
        return Case(
            "resize",
            [x],
            attrs,
            [node("Resize", "x0,,scales", **onnx_attrs)],
            feeds={"scales": np.array(scales, np.float32)},
            opset=18,
        )
    sizes = [1, 2] + [between(1, 9) for _ in range(n)]
    attrs["sizes"] = sizes
    return Case(
        "resize",
        [x],
        attrs,
        [node("Resize", "x0,,,sizes", **onnx_attrs)],
        feeds={"sizes": np.array(sizes, np.int64)},
        opset=18,
    )


def case_lstm():
    seq, batch, size, hidden = between(1, 4), between(1, 3), between(1, 3), between(1, 3)
    direction = pick("forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    layout = (
        0  # ONNX Runtime has only this one; layout 1 is a transposition of it, see case_lstm_batch_major
    )
    operands = [
        floats(seq, batch, size),
        floats(d, 4 * hidden, size),
        floats(d, 4 * hidden, hidden),
        pick(None, floats(d, 8 * hidden)),
        pick(None, floats(d, batch, hidden)),
        pick(None, floats(d, batch, hidden)),
        pick(None, floats(d, 3 * hidden)),
    ]
    names = ["x0", "x1", "x2", "x3", "", "x4", "x5", "x6"]  # ONNX has the sequence lengths in between
    for i, k in ((3, 3), (4, 5), (5, 6), (6, 7)):
        names[k] = names[k] if operands[i] is not None else ""
    return Case(
        "lstm",
        operands,
        {"direction": f'"{direction}"'},
        [node("LSTM", ",".join(names), "y0,y1,y2", hidden_size=hidden, direction=direction, layout=layout)],
        results=3,
    )


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
    before = [
        node("Transpose", f"x{i}", f"t{i}", perm=[1, 0, 2])
        for i in (0, 4, 5)
        if case.operands[i] is not None
    ]
    after = [
        node("Transpose", "u0", "y0", perm=[2, 0, 1, 3]),
        node("Transpose", "u1", "y1", perm=[1, 0, 2]),
        node("Transpose", "u2", "y2", perm=[1, 0, 2]),
    ]
    return Case(
        "lstm",
        [swap[0], *weights, swap[1], swap[2], p],
        {**case.attrs, "batch_major": "true"},
        before + [inner] + after,
        results=3,
    )


def case_gru():
    return recurrent_case("gru", 3, pick("true", "false"), None)


def case_rnn():
    return recurrent_case("rnn", 1, None, pick("tanh", "relu"))


def recurrent_case(op, gates, reset_after, activation):
    """A layer with one state, of which ONNX Runtime has only layout 0."""
    seq, batch, size, hidden = between(1, 4), between(1, 3), between(1, 3), between(1, 3)
    direction, clip = pick("forward", "reverse", "bidirectional"), pick(0.0, 0.5)
    d = 2 if direction == "bidirectional" else 1
    operands = [
        floats(seq, batch, size),
        floats(d, gates * hidden, size),
        floats(d, gates * hidden, hidden),
        pick(None, floats(d, 2 * gates * hidden)),
        pick(None, floats(d, batch, hidden)),
    ]
    names = ["x0", "x1", "x2", "x3" if operands[3] is not None else "", ""]
    names.append("x4" if operands[4] is not None else "")
    ours, theirs = {"direction": f'"{direction}"', "clip": str(clip)}, {"direction": direction}
    if clip > 0:
        theirs["clip"] = clip
    if reset_after is not None:
        ours["reset_after"] = reset_after
        theirs["linear_before_reset"] = int(reset_after == "true")
    if activation is not None:
        ours["activation"] = f'"{activation}"'
        theirs["activations"] = [activation.capitalize()] * d
    inner = node(op.upper(), ",".join(names), "y0,y1", hidden_size=hidden, **theirs)
    return Case(op, operands, ours, [inner], results=2)


def case_attention():
    batch, kv, repeat = between(1, 2), between(1, 2), between(1, 3)
    queries, keys, size, value_size = between(1, 4), between(1, 5), between(1, 4), between(1, 4)
    causal, kind = pick(0, 1), pick("none", "bool", "float")
    left, right, softcap = pick(-1, 0, 2), pick(-1, 1), pick(0.0, 1.5)
    operands = [
        floats(batch, kv * repeat, queries, size),
        floats(batch, kv, keys, size),
        floats(batch, kv, keys, value_size),
    ]
    # ONNX aligns the causal mask at the first key, so it is given as a mask here.
    keep = np.ones((queries, keys), bool)
    if causal:
        keep &= np.tril(np.ones((queries, keys), bool), keys - queries)
    if right >= 0:
        keep &= np.tril(np.ones((queries, keys), bool), keys - queries + right)
    if left >= 0:
        keep &= np.triu(np.ones((queries, keys), bool), keys - queries - left)
    shape = pick((queries, keys), (1, keys), (batch, 1, queries, keys), (kv * repeat, queries, 1))
    mask = rng.random(shape) < 0.7 if kind == "bool" else floats(*shape) if kind == "float" else None
    if kind == "bool":
        keep = keep & mask
    full = np.where(np.broadcast_to(keep, (batch, kv * repeat, queries, keys)), 0.0, -np.inf)
    if kind == "float":
        full = full + mask
    operands.append(mask)
    scale = pick(0.0, 0.7)
    attrs = {"scale": scale, "causal": flag(causal), "left": left, "right": right, "softcap": softcap}
    # The products by basic ops; a row that sees nothing gives 0.
    factor = scale or 1 / np.sqrt(size)
    with np.errstate(invalid="ignore"):
        score = np.einsum("bhqd,bhkd->bhqk", operands[0], operands[1].repeat(repeat, 1)) * factor
        score = (softcap * np.tanh(score / softcap) if softcap else score) + full
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
    operands = [
        floats(batch, kv * repeat, queries, size),
        floats(batch, kv, keys, size),
        floats(batch, kv, keys, size),
    ]
    mask = pick(None, floats(queries, keys), rng.random((queries, keys)) < 0.7)
    if mask is not None and mask.dtype == bool:
        mask[:, 0] = True
    case = Case(
        "attention",
        operands + [mask],
        {},
        [node("Attention", "x0,x1,x2" + (",x3" if mask is not None else ""))],
        opset=23,
    )
    model = helper.make_model(
        helper.make_graph(
            case.nodes,
            "g",
            [
                helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                for k, v in case.feeds.items()
            ],
            [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)],
        ),
        opset_imports=[helper.make_opsetid("", 23)],
    )
    case.want = [ReferenceEvaluator(model).run(None, case.feeds)[0].astype(np.float32)]
    return case


def case_rope():
    batch, heads, seq, half = between(1, 2), between(1, 3), between(1, 4), between(1, 4)
    interleaved = pick(0, 1)
    x, angle = floats(batch, heads, seq, 2 * half), floats(seq, half)
    case = Case(
        "rope",
        [x, np.cos(angle), np.sin(angle)],
        {"interleaved": flag(interleaved)},
        [node("RotaryEmbedding", "x0,c,s", interleaved=interleaved)],
        opset=23,
        feeds={"c": np.tile(np.cos(angle), (batch, 1, 1)), "s": np.tile(np.sin(angle), (batch, 1, 1))},
    )
    del case.feeds["x1"], case.feeds["x2"]
    model = helper.make_model(
        helper.make_graph(
            case.nodes,
            "g",
            [helper.make_tensor_value_info(k, TensorProto.FLOAT, v.shape) for k, v in case.feeds.items()],
            [helper.make_tensor_value_info("y0", TensorProto.FLOAT, None)],
        ),
        opset_imports=[helper.make_opsetid("", 23)],
    )
    case.want = ReferenceEvaluator(model).run(None, case.feeds)
    return case


def case_matmul():
    m, k, n = between(1, 4), between(0, 4), between(1, 4)
    head = [between(1, 3) for _ in range(between(0, 2))]
    a_head = [pick(1, d) for d in head]
    b_head = [d if a == 1 or pick(True, False) else 1 for d, a in zip(head, a_head)]
    a, b = floats(*a_head, m, k), floats(
        *b_head[between(0, len(head)) :] if all(v == 1 for v in b_head) else b_head, k, n
    )
    kind = pick("both", "both", "vector a", "vector b", "transposed", "int")
    if kind == "int":
        a, b = (rng.integers(-1 << 31, 1 << 31, v.shape).astype(np.int32) for v in (a, b))
        case = Case("matmul", [a, b], {}, None)
        case.want = [
            np.matmul(a.astype(np.int64).astype(np.uint64), b.astype(np.int64).astype(np.uint64)).astype(
                np.int32
            )
        ]
        return case
    if kind == "transposed":
        ta, tb = pick(0, 1), pick(0, 1)
        case = Case(
            "matmul",
            [
                np.ascontiguousarray(a.swapaxes(-1, -2)) if ta else a,
                np.ascontiguousarray(b.swapaxes(-1, -2)) if tb else b,
            ],
            {"transpose_a": flag(ta), "transpose_b": flag(tb)},
            None,
        )
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
    return Case(
        "linear",
        operands,
        {"transpose_b": flag(t)},
        [node("Gemm", "x0,x1" + (",x2" if operands[2] is not None else ""), transB=t)],
    )


def case_norms():
    shape = [between(1, 4) for _ in range(between(1, 4))]
    axis = between(0, len(shape) - 1)
    x, scale, bias = floats(*shape), floats(*shape[axis:]), floats(*shape[axis:])
    epsilon = pick(1e-5, 1e-2)
    if pick(True, False):
        return Case(
            "layer_norm",
            [x, scale, bias],
            {"axis": axis - len(shape), "epsilon": epsilon},
            [node("LayerNormalization", "x0,x1,x2", axis=axis, epsilon=epsilon)],
        )
    case = Case(
        "rms_norm",
        [x, scale],
        {"axis": axis, "epsilon": epsilon},
        [node("RMSNormalization", "x0,x1", axis=axis, epsilon=epsilon)],
        opset=23,
    )
    x64 = x.astype(np.float64)
    mean = (x64**2).mean(axis=tuple(range(axis, len(shape))), keepdims=True)
    case.want = [(x64 / np.sqrt(mean + epsilon) * scale).astype(np.float32)]
    return case


def case_batch_norm():
    c = between(1, 4)
    operands = [
        floats(2, c, *[between(1, 3) for _ in range(between(1, 2))]),
        floats(c),
        floats(c),
        floats(c),
        np.abs(floats(c)),
    ]
    return Case(
        "batch_norm",
        operands,
        {"epsilon": 0.001},
        [node("BatchNormalization", "x0,x1,x2,x3,x4", epsilon=0.001)],
    )


def case_global_pool():
    op, onnx_op = pick(("global_avg_pool", "GlobalAveragePool"), ("global_max_pool", "GlobalMaxPool"))
    return Case(
        op, [floats(2, 3, *[between(1, 4) for _ in range(between(1, 3))])], {}, [node(onnx_op, "x0")]
    )
