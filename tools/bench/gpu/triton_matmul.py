# SPDX-License-Identifier: Apache-2.0
"""Triton as a peer: the usual tiled product c[m, n] = a[m, k] * b[n, k] of 16-bit floats, in tiles as its
autotuners try them on Hopper; the caller takes the fastest. (Inductor's own search takes half a minute for a
shape.)"""

import torch
import triton
import triton.language as tl

# Rows, columns, steps of k, stages, warps.
TILES = [
    (16, 64, 128, 5, 4),
    (16, 128, 128, 4, 4),
    (64, 64, 128, 4, 4),
    (64, 128, 64, 5, 4),
    (64, 256, 64, 4, 4),
    (128, 64, 64, 5, 4),
    (128, 128, 64, 4, 4),
    (128, 128, 64, 4, 8),
    (128, 256, 64, 3, 8),
    (256, 128, 64, 3, 8),
]


@triton.jit
def product(a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEPS: tl.constexpr):
    number = tl.program_id(0)
    row_tiles, column_tiles = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    group = 8 * column_tiles  # tiles of eight rows of tiles, column by column
    first = number // group * 8
    height = min(row_tiles - first, 8)
    row = first + number % group % height
    column = number % group // height
    rows = (row * ROWS + tl.arange(0, ROWS)) % m
    columns = (column * COLUMNS + tl.arange(0, COLUMNS)) % n
    steps = tl.arange(0, STEPS)
    a_at = a + rows[:, None] * k + steps[None, :]
    b_at = b + columns[None, :] * k + steps[:, None]
    sums = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(0, tl.cdiv(k, STEPS)):
        sums = tl.dot(tl.load(a_at), tl.load(b_at), sums)
        a_at += STEPS
        b_at += STEPS
    rows = row * ROWS + tl.arange(0, ROWS)
    columns = column * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], sums.to(c.dtype.element_ty), mask=inside)


def tiles_for(m):
    """Those that are not much larger than the product; k must be a multiple of their steps."""
    return [t for t in TILES if t[0] <= max(16, m)]


def multiply(a, b, tile):
    """a [m, k] by b [n, k]."""
    m, k = a.shape
    n = b.shape[0]
    rows, columns, steps, stages, warps = tile
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, rows) * triton.cdiv(n, columns),)
    product[grid](a, b, c, m, n, k, rows, columns, steps, num_stages=stages, num_warps=warps)
    return c
