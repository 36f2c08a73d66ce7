# SPDX-License-Identifier: Apache-2.0
"""Cases of tools/bench/gpu_odd that came later. They are behind all others, as libraries are named by the
numbers of cases; what comes next belongs at the end."""

import math

import numpy as np

from versus.odd import Case, Fixed, Given, Scalar, sizes, weight


def later():
    more = weight(96), weight(96)
    facts = {"num_groups": 1, "is_image": True}
    yield Case("norm", "GroupNorm 1x96x200x200", "GroupNormalization", Given(1, 96, 200, 200), *more, **facts)
    for x in ([8, 33, 61, 61], [1, 64, 256, 256]):
        more = weight(x[1]), weight(x[1])
        name = f"InstanceNorm {sizes(x)}, channels last"
        yield Case("norm", name, "InstanceNormalization", Given(*x), *more, is_image=True)
    yield Case("choose", "ArgMax 100000x30 along 0", "ArgMax", Given(100000, 30), axis=0, keepdims=0)
    for x, axis in (([8, 5000, 60], 1), ([20000, 3], 0), ([2, 100000, 257], 1)):
        yield Case("choose", f"ArgMax {sizes(x)} along {axis}", "ArgMax", Given(*x), axis=axis, keepdims=0)
    for x, k in (
        ([16, 20000], 1000), ([1000, 2000], 2000), ([300, 20000], 5000), ([1, 1000000], 1000000),
        ([4, 5000], 500), ([2000, 300], 150),
    ):  # fmt: skip
        operands = Given(*x), Fixed(k)
        yield Case("choose", f"TopK {sizes(x)}, {k}", "TopK", *operands, outputs=2, axis=1)
    for x, y in (([4000, 777], [4000, 333]), ([8, 33, 61, 61], [8, 12, 61, 61]), ([99, 10001], [99, 3])):
        yield Case("concat", f"{sizes(x)}, {sizes(y)}", "Concat", Given(*x), Given(*y), axis=1)
    cut = Fixed(1), Fixed(1000), Fixed(1)
    yield Case("slice", "999 of 1001 columns", "Slice", Given(2000, 1001), *cut)
    for a, b in (([257, 1001], [1001, 333]), ([100, 4095], [4095, 1023]), ([5, 2047], [2047, 65])):
        name = f"{sizes(a)} by {sizes(b)}"
        yield Case("product", name, "MatMul", Given(*a), Given(*b, kind="param", scale=1 / math.sqrt(b[0])))
    yield from later_rows()
    yield from later_images()


def later_rows():
    for x, k in (
        ([1000, 4097], 4097), ([64, 5000], 31), ([64, 5000], 33), ([2000, 2049], 1500), ([7, 100000], 10),
    ):  # fmt: skip
        yield Case("choose", f"TopK {sizes(x)}, {k}", "TopK", Given(*x), Fixed(k), outputs=2, axis=1)
    for x, axis in (([5000, 31], 1), ([64, 4096, 33], 1)):
        yield Case("choose", f"ArgMax {sizes(x)} along {axis}", "ArgMax", Given(*x), axis=axis, keepdims=0)
    for x, y, axis in (([501, 1001], [499, 1001], 0), ([16, 33, 129], [16, 31, 129], 1)):
        yield Case("concat", f"{sizes(x)}, {sizes(y)}", "Concat", Given(*x), Given(*y), axis=axis)
    for x, axis in (([33, 1001, 37], 1), ([501, 1999], 0)):
        cut = Fixed(3), Fixed(x[axis] - 2), Fixed(axis)
        yield Case("slice", f"{sizes(x)} along {axis}", "Slice", Given(*x), *cut)
    for x, axis in (([33, 3001, 7], 1), ([5, 4097], 1), ([3, 333, 1001], 0)):
        yield Case("scan", f"CumSum {sizes(x)} along {axis}", "CumSum", Given(*x), Scalar(axis))
    places = Given(77, 333, 13, below=501)
    yield Case("gather", "77x333x13 of 77x501x13", "GatherElements", Given(77, 501, 13), places, axis=1)
    for x, n in (([5000, 129], 20001), ([300, 1001], 2000)):
        name = f"{n} rows of {sizes(x)}"
        yield Case("gather", name, "Gather", Given(*x), Given(n, below=x[0]))
    for x, axes in (
        ([7, 1001, 13], [0, 2]), ([33, 31, 29, 27], [0, 2]), ([33, 31, 29, 27], [1, 2]),
        ([5, 6, 7, 8, 9, 100], [1, 3, 5]), ([3, 100003, 2], [0, 2]), ([999, 7, 333], [0]),
    ):  # fmt: skip
        name = f"ReduceSum {sizes(x)} along {axes}"
        yield Case("reduce", name, "ReduceSum", Given(*x), Fixed(*axes))
    for x in ([100001, 7], [3, 100003], [333, 20011], [17, 33, 1000]):
        scale, shift = weight(x[-1]), weight(x[-1])
        yield Case("norm", f"LayerNorm {sizes(x)}", "LayerNormalization", Given(*x), scale, shift, axis=-1)
    for x, perm in (([33, 101, 303], [2, 0, 1]), ([9, 11, 13, 1001], [2, 0, 3, 1]), ([4097, 333], [1, 0])):
        yield Case("transpose", f"{sizes(x)} as {perm}", "Transpose", Given(*x), perm=perm)
    for n, rows, x in ((3000, 300, 65), (100000, 5000, 3), (4097, 100000, 7), (200, 20000, 100)):
        added = Given(rows, x), Given(n, 1, below=rows), Given(n, x)
        yield Case("scatter", f"sums of {n} in {rows}x{x}", "ScatterND", *added, reduction="add")
    order = Given(999, 500, values=lambda rng: np.argsort(rng.standard_normal((1000, 500)), 0)[:999])
    updates = Given(999, 500)
    yield Case("scatter", "elements along 0", "ScatterElements", Given(1000, 500), order, updates, axis=0)
    x, places = Given(64, 3001), Given(64, 1000, below=3001)
    more = {"axis": 1, "reduction": "add"}
    yield Case("scatter", "sums of 64x1000 elements", "ScatterElements", x, places, Given(64, 1000), **more)


def later_images():
    pads = {"kernel_shape": [3, 5], "pads": [1, 2] * 2, "strides": [2, 1], "is_image": True}
    yield Case("pool", "MaxPool 3x5 of 7x29x57x93", "MaxPool", Given(7, 29, 57, 93), **pads)
    volumes = {"kernel_shape": [3] * 3, "pads": [1] * 6, "strides": [2] * 3}
    yield Case("pool", "MaxPool 3x3x3 of 3x17x31x33x29", "MaxPool", Given(3, 17, 31, 33, 29), **volumes)
    none = None, None
    for x, to in (([8, 33, 1001], [1999]), ([8, 33, 3001], [1501]), ([2, 5, 17, 31, 33], [33, 61, 65])):
        size = Fixed(*x[:2], *to)
        yield Case("resize", f"{sizes(x)} to {sizes(to)}", "Resize", Given(*x), *none, size, mode="linear")
    for x, points in (
        ([2, 257, 33, 35], [41, 43]), ([16, 3, 224, 224], [224, 224]), ([1, 1000, 7, 7], [9, 9]),
    ):  # fmt: skip
        grid = Given(x[0], *points, 2, span=(-1, 1))
        name = f"GridSample {sizes(x)} at {sizes(points)}"
        yield Case("sample", name, "GridSample", Given(*x), grid, opset=20)
