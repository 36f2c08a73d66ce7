# SPDX-License-Identifier: Apache-2.0
"""Cases of Fourier transforms, whose results are complex inside of a model, and of sparse constants."""

from case import case, i32, i8

RFFT, IMAG, REAL, ABS = (131, 105), 133, 134, 135


def transform(c, x_shape, lengths):
    x, n = c.x("f32", x_shape), c.c("i32", [2], lengths)
    shape = [*x_shape[:-2], lengths[0], lengths[1] // 2 + 1]
    y = c.graph.tensor(f"{c.prefix}spectrum", "complex64", shape)
    c.op(RFFT[0], [x, n], [y], RFFT[1])
    return y, shape


@case("rfft2d_real_imag", 4e-6)
def _(c):
    spectrum, shape = transform(c, [2, 3, 4, 8], [4, 8])
    c.op(REAL, [spectrum], [c.y("f32", shape)])
    c.op(IMAG, [spectrum], [c.y("f32", shape)])


@case("rfft2d_cut_abs", 4e-6)
def _(c):
    spectrum, shape = transform(c, [3, 5, 19], [2, 16])
    c.op(ABS, [spectrum], [c.y("f32", shape)])


@case("rfft2d_filled_abs", 4e-6)
def _(c):
    spectrum, shape = transform(c, [3, 5, 12], [8, 32])
    c.op(ABS, [spectrum], [c.y("f32", shape)])


@case("rfft2d_frames", 4e-6)
def _(c):
    """Frames of a signal, as converters write transforms of one axis."""
    spectrum, _ = transform(c, [1, 3, 1, 480], [1, 512])
    rows = c.graph.tensor(f"{c.prefix}rows", "complex64", [1, 3, 257])
    flat = c.graph.tensor(f"{c.prefix}flat", "complex64", [3, 257])
    c.op(43, [spectrum], [rows], 30, {0: ("list", "i32", [-2])})
    c.op(22, [rows, c.c("i32", [2], [-1, 257])], [flat], 17)
    c.op(53, [flat], [c.y("f32", [3, 257])], 37, {0: i8(8), 1: i8(0)})
    c.op(ABS, [rows], [c.y("f32", [1, 3, 257])])


def whole(size):
    return {0: i8(0), 1: i32(size)}


def listed(segments, indices, kind="u8"):
    number = {"i32": 1, "u16": 2, "u8": 3}[kind]
    lists = [{0: ("list", kind, values)} for values in (segments, indices)]
    return {0: i8(1), 2: ("u8", number), 3: lists[0], 4: ("u8", number), 5: lists[1]}


def sparse(order, levels, blocks=()):
    return {0: ("list", "i32", order), 1: ("list", "i32", list(blocks)), 2: levels}


def in_rows(kind):
    """Rows of 6 of which 2, 0, 3 and 1 exist."""
    return sparse([0, 1], [whole(4), listed([0, 2, 2, 5, 6], [1, 4, 0, 3, 5, 2], kind)])


@case("densify_f32")
def _(c):
    kept = c.c("f32", [4, 6], c.values("f32", 6), sparse=in_rows("u16"))
    dense = c.graph.tensor(f"{c.prefix}dense", "f32", [4, 6])
    c.op(124, [kept], [dense], 99)
    c.op(0, [dense, c.x("f32", [4, 6])], [c.y("f32", [4, 6])], 11)


@case("densify_f16_blocks")
def _(c):
    """Blocks of 2 x 3, columns of blocks outermost."""
    levels = [whole(2), listed([0, 1, 3], [1, 0, 1], "i32"), whole(2), whole(3)]
    kept = c.c("f16", [4, 6], c.values("f16", 18), sparse=sparse([1, 0, 2, 3], levels, [0, 1]))
    dense = c.graph.tensor(f"{c.prefix}dense", "f16", [4, 6])
    wide = c.graph.tensor(f"{c.prefix}wide", "f32", [4, 6])
    c.op(124, [kept], [dense], 99)
    c.op(6, [dense], [wide], 38)
    c.op(0, [wide, c.x("f32", [4, 6])], [c.y("f32", [4, 6])], 11)
