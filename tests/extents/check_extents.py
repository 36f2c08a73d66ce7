#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes that the model computes: rows of a table chosen by a mask go through every kind of op that mixes
along such an axis. The generated code, planned at the largest size, must give what the reference evaluator
gives, which computes with the sizes of the run: for some rows, none and all. What is refused must say so.
"""

import os
import subprocess
import sys
import tempfile

HEAD = """graph "extents" {{
  symbol hits [0, 12] multiple 1
  %1 = input "s" : f32[12]
  %2 = const : f32[] = {{{limit}}}
  %3 = gt(%1, %2)
  %4 = cast(%3) {{to = i64}}
  %5 = reduce_sum(%4)
  %6 = nonzero(%3) {{size = [hits]}}
  %7 = reshape(%6) {{shape = [hits]}}
  %8 = input "x" : f32[12, 5]
  %9 = gather(%8, %7) {{axis = 0}}
  %10 = transpose(%9)
  extent %5 [hits, 12]
"""
EMPTY, FULL = "none", "some"  # FULL: not for no rows at all
UNIQUE = """  symbol kinds [0, 60] multiple 1
  %20 = round(%9)
  %21 = reshape(%20) {shape = [5*hits, 1]}
  %22 = unique(%21) {size = [kinds]}
  %23 = result(%22) {index = 1}
  %24 = result(%22) {index = 2}
  %25 = result(%22) {index = 3}
  extent %25 [kinds, 5*hits]"""
# name, nodes, values that become outputs, whether no rows at all are possible
CASES = [
    ("rows", "", [9, 6, 10], EMPTY),
    ("arithmetic", "%20 = mul(%9, %9)\n%21 = add(%20, %9)\n%22 = cast(%21) {to = f16}", [21, 22], EMPTY),
    (
        "sums",
        "%20 = reduce_sum(%9) {axes = [0]}\n%21 = reduce_prod(%9)\n%22 = reduce_sum(%9) {axes = [1]}",
        [20, 21, 22],
        EMPTY,
    ),
    (
        "largest",
        "%20 = reduce_max(%9) {axes = [0], keepdims = true}\n%21 = reduce_min(%10) {axes = [1]}",
        [20, 21],
        EMPTY,
    ),
    (
        "means",
        "%20 = reduce_mean(%9) {axes = [0]}\n%21 = reduce_mean(%9)\n%22 = cast(%9) {to = i32}\n"
        "%23 = reduce_mean(%22) {axes = [0]}",
        [20, 21, 23],
        EMPTY,
    ),
    (
        "sugar",
        "%20 = reduce_l2(%9) {axes = [0]}\n%21 = reduce_l1(%9)\n%22 = reduce_logsumexp(%9) {axes = [0]}",
        [20, 21, 22],
        FULL,
    ),
    (
        "places",
        "%20 = argmax(%9) {axis = 0}\n%21 = argmin(%10) {axis = 1, keepdims = true}",
        [20, 21],
        FULL,
    ),
    (
        "running sums",
        "%20 = cumsum(%9) {axis = 0}\n%21 = cumsum(%10) {axis = 1, reverse = true}",
        [20, 21],
        EMPTY,
    ),
    (
        "products",
        "%20 = matmul(%10, %9)\n%21 = matmul(%9, %10)\n%22 = matmul(%9, %9) {transpose_a = true}\n"
        "%23 = matmul(%21, %9)",
        [20, 21, 22, 23],
        EMPTY,
    ),
    (
        "softmax",
        "%20 = softmax(%9) {axis = 0}\n%21 = log_softmax(%10)\n%22 = softmax(%9)",
        [20, 21, 22],
        EMPTY,
    ),
    ("norms", "%20 = layer_norm(%10)\n%21 = rms_norm(%10)\n%22 = layer_norm(%9)", [20, 21, 22], FULL),
    (
        "attention",
        "%20 = reshape(%9) {shape = [1, hits, 5]}\n%21 = attention(%20, %20, %20)\n"
        "%22 = attention(%20, %20, %20) {causal = true}\n%23 = expand(%9) {shape = [1, 1, hits, 5]}\n"
        '%24 = input "q" : f32[1, 1, 3, 5]\n%25 = input "m" : f32[3, 1]\n%26 = reduce_sum(%9) {axes = [1]}\n'
        "%27 = add(%25, %26)\n%28 = attention(%24, %23, %23, %27)",
        [21, 22, 28],
        FULL,
    ),
    (
        "pictures",
        "%20 = reshape(%10) {shape = [1, 5, hits]}\n%21 = const : f32[2, 5, 3] = {WEIGHTS}\n"
        "%22 = conv(%20, %21) {pads = [1, 1]}\n%23 = max_pool(%20) {kernel = [2], pads = [1, 1]}\n"
        "%24 = reshape(%9) {shape = [hits, 1, 5]}\n%25 = avg_pool(%24) {kernel = [2]}\n"
        "%26 = avg_pool(%20) {kernel = [2], pads = [1, 1]}",
        [22, 23, 25, 26],
        EMPTY,
    ),
    (
        "cuts",
        "%20 = slice(%9) {starts = [2], ends = [100], axes = [0]}\n"
        "%21 = slice(%9) {starts = [-2], ends = [100]}\n"
        "%22 = slice(%10) {starts = [-1], ends = [-100], axes = [1], steps = [-1]}\n"
        "%23 = slice(%9) {starts = [0, 1], ends = [-1, 4]}",
        [20, 21, 22, 23],
        EMPTY,
    ),
    (
        "padding",
        "%20 = const : f32[] = {7}\n%21 = pad(%9, %20) {pads = [1, 0, 2, 3]}\n"
        "%22 = pad(%10) {pads = [0, -1, 0, 4]}",
        [21, 22],
        EMPTY,
    ),
    (
        "joined",
        "%20 = concat(%9, %8, %9) {axis = 0}\n%21 = concat(%8, %9) {axis = 0}\n"
        "%22 = concat(%10, %10) {axis = 1}",
        [20, 21, 22],
        EMPTY,
    ),
    (
        "regrouped",
        "%20 = reshape(%9) {shape = [5*hits]}\n%21 = reshape(%10) {shape = [5*hits]}\n%22 = cumsum(%21)\n"
        "%23 = reshape(%21) {shape = [hits, 5]}\n%24 = reshape(%10) {shape = [5, 1, hits]}",
        [20, 22, 23, 24],
        EMPTY,
    ),
    (
        "chosen",
        "%20 = const : i64[3] = {-1, 0, -2}\n%21 = gather(%9, %20)\n%22 = gather(%10, %20) {axis = 1}",
        [21, 22],
        FULL,
    ),
    (
        "best",
        "%20 = top_k(%9) {k = [min(3, hits)], axis = 0}\n%21 = result(%20) {index = 1}\n"
        "%22 = top_k(%10) {k = [hits], axis = 1, largest = false}\n%23 = result(%22) {index = 1}",
        [20, 21, 22, 23],
        EMPTY,
    ),
    ("different", UNIQUE, [22, 23, 24], EMPTY),
    (
        "written",
        '%20 = scatter(%8, %7, %9) {reduction = "add"}\n%21 = const : i64[3] = {0, -1, 40}\n'
        "%22 = slice(%8) {starts = [0], ends = [3]}\n%23 = scatter(%9, %21, %22)\n"
        "%24 = const : i64[2] = {100, 1}\n"
        "%25 = slice(%8) {starts = [0, 0], ends = [1, 2]}\n",
        [20, 23],
        FULL,
    ),
    (
        "boxes",
        "symbol boxes [0, 24] multiple 1\n%20 = slice(%9) {starts = [0], ends = [4], axes = [1]}\n"
        "%21 = reshape(%20) {shape = [1, hits, 4]}\n%22 = slice(%10) {starts = [0], ends = [2]}\n"
        "%23 = reshape(%22) {shape = [1, 2, hits]}\n%24 = const : i64[] = {12}\n%25 = const : f32[] = {0.1}\n"
        "%26 = nms(%21, %23, %24, %25) {size = [boxes]}\n%27 = result(%26) {index = 1}\n"
        "extent %27 [boxes, 2*hits]",
        [26],
        EMPTY,
    ),
    (
        "nested",
        "symbol more [0, 60] multiple 1\n%20 = gt(%9, %2)\n%21 = cast(%20) {to = i64}\n"
        "%22 = reduce_sum(%21)\n"
        "%23 = nonzero(%20) {size = [more]}\n%24 = cast(%23) {to = f32}\n%25 = reduce_mean(%24)\n"
        "extent %22 [more, 5*hits]",
        [23, 25],
        EMPTY,
    ),
    (
        "repeated elements",
        '%20 = pad(%9) {pads = [1, 0, 2, 0], mode = "edge"}\n'
        '%21 = pad(%9) {pads = [0, 2, 1, 0], mode = "edge"}',
        [20, 21],
        FULL,
    ),
]
REFUSED = [
    (
        "mean of windows",
        "%20 = reshape(%10) {shape = [1, 5, hits]}\n"
        "%21 = avg_pool(%20) {kernel = [2], pads = [1, 1], ceil_mode = true, count_include_pad = true}",
        [21],
        "avg_pool does not work along an axis whose size the model computes (hits): padding that counts",
    ),
    (
        "shrinking size",
        "%20 = const : f32[] = {1}\n%21 = expand(%20) {shape = [12 - hits]}",
        [21],
        "a size of -hits + 12 is not largest where the sizes that the model computes are",
    ),
]


def graph(case, limit):
    name, nodes, outputs = case[:3]
    weights = ", ".join(str(i % 7 - 3) for i in range(30))
    text = HEAD.format(limit=limit) + "".join(
        "  " + line.strip() + "\n" for line in nodes.replace("WEIGHTS", weights).split("\n") if line.strip()
    )
    return text + "".join(f'  output "y{i}" = %{i}\n' for i in outputs) + "}\n"


def main():
    rlxc = sys.argv[1]
    failures, number = 0, 0
    print(f"1..{len(CASES) + len(REFUSED)}")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.rlx")

        def verify(case, limit, *options):
            with open(path, "w", encoding="utf-8") as f:
                f.write(graph(case, limit))
            return subprocess.run(
                [rlxc, "verify", path, *options], capture_output=True, text=True, timeout=120, check=False
            )

        for case in CASES:
            number += 1
            runs = [verify(case, "0", "--random", "3"), verify(case, "-50", "--random", "4", "-O0")]
            if case[3] == EMPTY:
                runs.append(verify(case, "50", "--random", "5"))
            bad = [r for r in runs if r.returncode != 0]
            failures += bool(bad)
            print("not ok" if bad else "ok", number, "-", case[0])
            for r in bad:
                print("# " + (r.stdout + r.stderr).replace("\n", "\n# "))
        for case in REFUSED:
            number += 1
            r = verify(case, "0")
            ok = r.returncode == 1 and case[3] in r.stderr
            failures += not ok
            print("ok" if ok else "not ok", number, "- refused:", case[0])
            if not ok:
                print("# " + (r.stdout + r.stderr).replace("\n", "\n# "))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
