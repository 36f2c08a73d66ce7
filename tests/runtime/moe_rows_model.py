# SPDX-License-Identifier: Apache-2.0
"""The model of moe_rows_test.c: products by experts that are inputs, with weights in blocks of GGML, in
quantised groups and as floats, in layers of different numbers of experts. One layer has experts of three
kinds, another one weights that are no constants. expected() computes all outputs by itself."""

import struct

ROWS, EACH, INNER, WIDE = 4, 2, 32, 256
INDEX = {"of3": 3, "of12": 12, "of5": 5, "of2": 2}
CHOSEN = {
    "of3": (0, 2, 1, 2, -1, 0, 2, 2),
    "of12": (11, 0, 3, 8, 9, 10, -1, 12),  # the last row has none
    "of5": (1, 4, 3, 1, -1, 0, 0, 1),
    "of2": (0, 1, 1, 1, -1, 0, 0, 0),
}
FP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def nested(values, shape):
    if len(shape) == 1:
        return [next(values) for _ in range(shape[0])]
    return [nested(values, shape[1:]) for _ in range(shape[0])]


def weight(dtype, shape, values):
    return {"dtype": dtype, "data": nested(iter(values), shape)}


def f16(low, high):
    return struct.unpack("<e", bytes([low, high]))[0]


# --- rows of weights as they are stored, and as numbers: row i of n -----------------------------------


def q8_0(i):
    return [0x00, 0x3C, *((7 * i + b) % 251 for b in range(32))]


def of_q8_0(block):
    d = f16(*block[:2])
    return [d * (b - 256 if b > 127 else b) for b in block[2:]]


def mxfp4(i):
    return [124 + i % 5, *((11 * i + 3 * b + b * b) % 256 for b in range(16))]


def of_mxfp4(block):
    d = 2.0 ** (block[0] - 128)
    return [d * FP4[b & 15] for b in block[1:]] + [d * FP4[b >> 4] for b in block[1:]]


def q4_k(i):
    return [0x00, 0x20, 0x00, 0x24, *((13 * i + 5 * b + b * b // 7) % 256 for b in range(140))]


def of_q4_k(block):
    d, m, s, q = f16(*block[:2]), f16(*block[2:4]), block[4:16], block[16:]
    values = []
    for j in range(8):
        if j < 4:
            scale, least = s[j] & 63, s[j + 4] & 63
        else:
            scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4
            least = (s[j + 4] >> 4) | (s[j] >> 6) << 4
        run = q[j // 2 * 32 : j // 2 * 32 + 32]
        values += [d * scale * (b >> 4 if j % 2 else b & 15) - m * least for b in run]
    return values


def group4(i):
    return [(5 * (16 * i + b) + (16 * i + b) // 9) % 256 for b in range(16)]


def number(i):
    return (i % 13 - 6) / 8


def of_groups4(i, n):
    nibbles = [v for b in group4(i) for v in (b & 15, b >> 4)]
    return [number(2 * i + k // 16) * q + number(2 * n - 1 - 2 * i - k // 16) for k, q in enumerate(nibbles)]


def group8(i):
    return [(29 * i + 3 * b) % 256 for b in range(WIDE)]


def of_groups8(i):
    return [number(4 * i + k // 64) / 64 * q + number(3 * (4 * i + k // 64)) for k, q in enumerate(group8(i))]


def dense(i):
    return [number(3 * i + k * k) for k in range(INNER)]


# --- the products: output, index, columns, x, row i of n as numbers -----------------------------------

PRODUCTS = (
    ("y", "of3", 4, "x", lambda i, n: of_q8_0(q8_0(i))),
    ("u", "of3", 5, "x", lambda i, n: of_mxfp4(mxfp4(i))),
    ("v", "of3", 6, "x", lambda i, n: dense(i)),
    ("z", "of12", 4, "x", of_groups4),
    ("s", "of5", 16, "xw", lambda i, n: of_q4_k(q4_k(i))),
    ("t", "of5", 8, "xw", lambda i, n: of_groups8(i)),
    ("p", "of2", 4, "x", lambda i, n: of_q8_0(q8_0(i + 1))),
)


def inputs():
    """x and xw: the numbers that moe_rows_test.c puts there."""
    return {"x": [[(r * INNER + i) % 7 - 3 for i in range(INNER)] for r in range(ROWS)],
            "xw": [[((r * WIDE + i) % 11 - 5) / 4 for i in range(WIDE)] for r in range(ROWS)]}


def product(x, index, columns, rows_of):
    out, n = [], INDEX[index] * columns
    for r, e in enumerate(CHOSEN[index]):
        for c in range(columns):
            is_none = not 0 <= e < INDEX[index]
            row = [] if is_none else rows_of(e * columns + c, n)
            out.append(sum(a * b for a, b in zip(x[r // EACH], row)))
    return out


def expected():
    """A header with what each output must be, the experts of rows, and the weights that are no constants."""
    given = inputs()
    text = ""
    for name, index, columns, x, rows_of in PRODUCTS:
        values = product(given[x], index, columns, rows_of)
        text += f"static const double want_{name}[] = {{{', '.join(repr(float(v)) for v in values)}}};\n"
    for name, chosen in CHOSEN.items():
        text += f"static const int32_t chosen_{name}[] = {{{', '.join(map(str, chosen))}}};\n"
    own = [b for i in range(2 * 4) for b in q8_0(i + 1)]
    return text + f"static const unsigned char own_weights[] = {{{', '.join(map(str, own))}}};\n"


def model():
    def rows(n, make):
        return [v for i in range(n) for v in make(i)]

    def grouped(name, op, operands, **attributes):
        return {"name": name, "op": op, "inputs": operands, **attributes}

    index = {name: {"dtype": "i32", "shape": ["rows", EACH]} for name in INDEX}
    groups = {"bits": 8}
    return {
        "rlxc": 1,
        "name": "moe",
        "symbols": {"rows": {"min": 1, "max": ROWS, "default": ROWS}},
        "inputs": {
            "x": {"dtype": "f32", "shape": ["rows", INNER]},
            "xw": {"dtype": "f32", "shape": ["rows", WIDE]},
            **index,
            "own": {"dtype": "u8", "shape": [2, 4, 1, 34]},
        },
        "weights": {
            "w3": weight("u8", [3, 4, 1, 34], rows(12, q8_0)),
            "fp4": weight("u8", [3, 5, 1, 17], rows(15, mxfp4)),
            "dense": weight("f32", [3, 6, INNER], rows(18, dense)),
            "w12": weight("u8", [12, 4, 2, 8], rows(48, group4)),
            "scale": weight("f16", [12, 4, 2], [number(i) for i in range(96)]),
            "bias": weight("f16", [12, 4, 2], [number(95 - i) for i in range(96)]),
            "k5": weight("u8", [5, 16, 1, 144], rows(80, q4_k)),
            "w5": weight("u8", [5, 8, 4, 64], rows(40, group8)),
            "scale5": weight("f32", [5, 8, 4], [number(i) / 64 for i in range(160)]),
            "bias5": weight("f32", [5, 8, 4], [number(3 * i) for i in range(160)]),
        },
        "nodes": [
            grouped("y", "block_grouped_matmul", ["x", "w3", "of3"], format="q8_0"),
            grouped("u", "block_grouped_matmul", ["x", "fp4", "of3"], format="mxfp4"),
            grouped("v", "grouped_matmul", ["x", "dense", "of3"], transpose_b=True),
            grouped("z", "affine_grouped_matmul", ["x", "w12", "of12", "scale", "bias"], bits=4),
            grouped("s", "block_grouped_matmul", ["xw", "k5", "of5"], format="q4_k"),
            grouped("t", "affine_grouped_matmul", ["xw", "w5", "of5", "scale5", "bias5"], **groups),
            grouped("p", "block_grouped_matmul", ["x", "own", "of2"], format="q8_0"),
        ],
        "outputs": [name for name, *_ in PRODUCTS],
    }
