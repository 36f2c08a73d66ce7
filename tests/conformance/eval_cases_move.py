# SPDX-License-Identifier: Apache-2.0
"""Cases of eval_vs_onnx.py, one generator per op: along axes, moving elements, casts.

Each says the same in our text and as ONNX nodes; where ONNX leaves it open, it brings its own expectation.
"""

import numpy as np
from eval_case import NAMES, Case, between, flag, floats, node, pick, rng


def case_softmax():
    x = floats(*[between(1, 4) for _ in range(between(1, 4))]) * pick(1, 50)
    axis = between(-x.ndim, x.ndim - 1)
    op = pick("softmax", "log_softmax")
    return Case(
        op, [x], {"axis": axis}, [node("Softmax" if op == "softmax" else "LogSoftmax", "x0", axis=axis)]
    )


def case_reduce():
    op, onnx_op = pick(
        ("reduce_sum", "ReduceSum"),
        ("reduce_mean", "ReduceMean"),
        ("reduce_max", "ReduceMax"),
        ("reduce_min", "ReduceMin"),
        ("reduce_prod", "ReduceProd"),
        ("reduce_l1", "ReduceL1"),
        ("reduce_l2", "ReduceL2"),
        ("reduce_logsumexp", "ReduceLogSumExp"),
    )
    x = floats(*[between(1, 4) for _ in range(between(1, 4))])
    if op in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod") and pick(True, False):
        x = (x * 10).astype(
            pick(np.int32, np.int64)
            if op in ("reduce_sum", "reduce_prod")
            else pick(np.int32, np.int64, np.int8)
        )
    axes = [int(a) - pick(0, x.ndim) for a in rng.permutation(x.ndim)[: between(0, x.ndim)]]
    keep = pick(0, 1)
    attrs = {"axes": axes, "keepdims": flag(keep)}
    if not axes:
        return Case(op, [x], attrs, [node(onnx_op, "x0", keepdims=keep)], opset=18)
    return Case(
        op,
        [x],
        attrs,
        [node(onnx_op, "x0,axes", keepdims=keep)],
        feeds={"axes": np.array(axes, np.int64)},
        opset=18,
    )


def case_search():
    op, onnx_op = pick(("argmax", "ArgMax"), ("argmin", "ArgMin"))
    x = rng.integers(-3, 4, [between(1, 5) for _ in range(between(1, 3))]).astype(
        pick(np.float32, np.int32)
    )
    axis, keep = between(-x.ndim, x.ndim - 1), pick(0, 1)
    return Case(
        op, [x], {"axis": axis, "keepdims": flag(keep)}, [node(onnx_op, "x0", axis=axis, keepdims=keep)]
    )


def case_cumsum():
    x = floats(*[between(1, 5) for _ in range(between(1, 3))])
    x = x if pick(True, False) else (x * 10).astype(np.int64)
    axis, exclusive, reverse = between(-x.ndim, x.ndim - 1), pick(0, 1), pick(0, 1)
    return Case(
        "cumsum",
        [x],
        {"axis": axis, "exclusive": flag(exclusive), "reverse": flag(reverse)},
        [node("CumSum", "x0,axis", exclusive=exclusive, reverse=reverse)],
        feeds={"axis": np.array(axis, np.int64)},
    )


def case_cummax():
    """ONNX has no such op: NumPy says what is expected."""
    x = floats(*[between(1, 5) for _ in range(between(1, 3))])
    x = x if pick(True, False) else (x * 100).astype(pick(np.int64, np.int8, np.uint8))
    if x.dtype == np.float32 and pick(True, False):
        x.flat[between(0, x.size - 1)] = pick(np.nan, np.inf, -np.inf)
    axis, exclusive, reverse = between(-x.ndim, x.ndim - 1), pick(0, 1), pick(0, 1)
    attrs = {"axis": axis, "exclusive": flag(exclusive), "reverse": flag(reverse)}
    case = Case("cummax", [x], attrs, None, exact=True)
    lines = np.flip(x, axis) if reverse else x
    want = np.maximum.accumulate(lines, axis)
    if exclusive:
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        first = np.full_like(np.take(want, [0], axis), least)
        want = np.concatenate([first, np.delete(want, -1, axis)], axis)
    case.want = [np.flip(want, axis) if reverse else want]
    return case


def case_gather():
    x = floats(*[between(1, 4) for _ in range(between(1, 3))])
    axis = between(-x.ndim, x.ndim - 1)
    n = x.shape[axis]
    index = rng.integers(-n, n, [between(0, 3) for _ in range(between(0, 2))]).astype(
        pick(np.int32, np.int64)
    )
    return Case(
        "gather", [x, np.asarray(index)], {"axis": axis}, [node("Gather", "x0,x1", axis=axis)], exact=True
    )


def case_slice():
    x = floats(*[between(0, 7) for _ in range(between(1, 3))])
    count = between(1, x.ndim)
    axes = [int(a) - pick(0, x.ndim) for a in rng.permutation(x.ndim)[:count]]
    edge = (-1 << 63, -100, (1 << 63) - 1, 100)
    starts = [pick(between(-9, 9), between(-9, 9), pick(*edge)) for _ in axes]
    steps = [pick(1, 2, 3, -1, -2, -3) for _ in axes]
    # Backwards, ONNX Runtime takes the largest end for "all", which neither NumPy nor the specification says.
    ends = [pick(between(-9, 9), between(-9, 9), pick(*(edge if s > 0 else edge[:2]))) for s in steps]
    arrays = {
        k: np.array(v, np.int64)
        for k, v in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps))
    }
    return Case(
        "slice",
        [x],
        {"starts": starts, "ends": ends, "axes": axes, "steps": steps},
        [node("Slice", "x0,starts,ends,axes,steps")],
        feeds=arrays,
        exact=True,
    )


def case_pad():
    mode = pick("constant", "reflect", "edge", "wrap")
    x = floats(*[between(1, 4) for _ in range(between(1, 3))])
    most = [3 if mode in ("constant", "edge") else n - 1 if mode == "reflect" else n for n in x.shape]
    pads = [between(-1 if mode == "constant" and n > 2 else 0, m) for m, n in zip(most * 2, x.shape * 2)]
    value = np.array(2.5, np.float32) if mode == "constant" and pick(True, False) else None
    return Case(
        "pad",
        [x, value],
        {"pads": pads, "mode": f'"{mode}"'},
        [node("Pad", "x0,pads" + (",x1" if value is not None else ""), mode=mode)],
        feeds={"pads": np.array(pads, np.int64)},
        opset=19,
        exact=True,
    )


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
        return Case(
            "split",
            [x],
            {"axis": axis, "sizes": sizes},
            [node("Split", "x0,sizes", "y0,y1", axis=axis)],
            results=2,
            feeds={"sizes": np.array(sizes, np.int64)},
            opset=18,
            exact=True,
        )
    if kind == "expand":
        x = floats(*[pick(1, n) for n in (2, 3)])
        shape = [
            between(1, 2),
            pick(1, 2) if x.shape[0] == 2 else between(1, 3),
            pick(1, 3) if x.shape[1] == 3 else between(1, 3),
        ]
        return Case(
            "expand",
            [x],
            {"shape": shape},
            [node("Expand", "x0,shape")],
            feeds={"shape": np.array(shape, np.int64)},
            exact=True,
        )
    if kind == "unsqueeze":
        axes = [int(a) - pick(0, 5) for a in rng.permutation(5)[:2]]
        return Case(
            "unsqueeze",
            [x],
            {"axes": axes},
            [node("Unsqueeze", "x0,axes")],
            feeds={"axes": np.array(axes, np.int64)},
            exact=True,
        )
    axis = between(-3, 3)
    return Case("flatten", [x], {"axis": axis}, [node("Flatten", "x0", axis=axis)], exact=True)


def case_cast():
    """Floats to integers saturate here, which NumPy and ONNX leave open: the expectation is written out."""
    to = np.dtype(
        pick(np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.float16, np.bool_)
    )
    x = np.concatenate(
        [floats(5) * pick(1, 300, 1e12), np.array([0, -0.0, np.inf, -np.inf, np.nan, 65520], np.float32)]
    )
    case = Case("cast", [x], {"to": NAMES[str(to)]}, None, exact=True)
    with np.errstate(invalid="ignore", over="ignore"):
        if to.kind in "iu":
            bounds = np.iinfo(to)
            case.want = [
                np.array(
                    [
                        (
                            0
                            if np.isnan(v)
                            else bounds.min if v < bounds.min else bounds.max if v > bounds.max else int(v)
                        )
                        for v in x.astype(object)
                    ],
                    dtype=to,
                )
            ]
        else:
            case.want = [x.astype(to)]
    return case


def case_cast_int():
    a = np.array(
        [
            0,
            1,
            -1,
            127,
            128,
            -129,
            1 << 24,
            (1 << 24) + 1,
            (1 << 53) + 1,
            (1 << 63) - 1,
            -(1 << 63),
            (1 << 62) + (1 << 38) + 1,
            between(-1 << 62, 1 << 62),
        ],
        np.int64,
    )
    x = a if pick(True, False) else a.astype(np.uint64)
    to = np.dtype(pick(np.int8, np.uint8, np.int32, np.uint64, np.float32, np.float64, np.bool_))
    case = Case("cast", [x], {"to": NAMES[str(to)]}, None, exact=True)
    case.want = [x.astype(to)]
    return case


def case_update_slice():
    shape = [between(1, 4) for _ in range(between(1, 3))]
    x, patch = floats(*shape), floats(*[between(1, n) for n in shape])
    scalar = pick(True, False)
    start = np.array(
        between(-3, 6) if scalar else [between(-3, 6) for _ in shape], pick(np.int32, np.int64)
    )
    at = [int(start), *[0] * (len(shape) - 1)] if scalar else [int(v) for v in start]
    want = x.copy()
    want[
        tuple(
            slice(b, b + p)
            for b, p in zip([min(max(v, 0), n - p) for v, n, p in zip(at, shape, patch.shape)], patch.shape)
        )
    ] = patch
    case = Case("update_slice", [x, patch, start], {}, None, exact=True)
    case.want = [want]
    return case
