#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rlxc bench: its figures follow from each other, and what was computed is what inspect says. How fast the
machine is, nobody can know here. Usage: check_bench.py RLXC; prints TAP."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import tap
from tap import result

import models

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.environ.get("RLXC_SOURCE", ".")


def rlxc(*arguments):
    return subprocess.run([RLXC, *arguments], capture_output=True, text=True)


def read(*arguments):
    said = rlxc(*arguments, "--json")
    if said.returncode != 0:
        raise SystemExit(f"Bail out! rlxc {' '.join(arguments)}: {said.stderr}")
    return json.loads(said.stdout)


def near(a, b, relative=1e-2):
    return abs(a - b) <= relative * max(abs(a), abs(b)) + 2e-3


def follows(b):
    """What is wrong with a row or the whole, or None."""
    machine = b["machine"]
    for row in [b, *b["kernels"]]:
        if not row["us_best"] <= row["us_p10"] <= row["us"] <= row["us_p90"]:
            return row
        compute = row["flops"] * 1e-3 / machine["peak_gflops"]
        move = row["bytes"] * 1e-3 / machine["read_gbs"]
        # times are printed with four digits behind the point: of short ones that is not many
        for got, want in (
            (row["gflops"], row["flops"] * 1e-3 / row["us"]),
            (row["gbs"], row["bytes"] * 1e-3 / row["us"]),
            (row["peak_share"], compute / row["us"]),
            (row["roofline_share"], max(compute, move) / row["us"]),
        ):
            if not near(got, want):
                return row, got, want
    if not near(sum(k["share"] for k in b["kernels"]), 1):
        return "shares"
    if not near(sum(k["us"] for k in b["kernels"]), b["kernels_us"]):
        return "sum of times"
    return None


def check_figures(model):
    b = read("bench", model, "--runs", "20")
    i = read("inspect", model, "--cpu", "native")
    result(follows(b) is None, "figures follow from each other", follows(b))
    result(b["runs"] == 20 and b["profiled_runs"] == 20, "--runs 20", b["runs"])
    costs = ("name", "nodes", "macs", "flops", "bytes")
    same = [[k[c] for c in costs] for k in b["kernels"]] == [[k[c] for c in costs] for k in i["kernels"]]
    result(same, "kernels are those of inspect", b["kernels"])
    result([b[c] for c in costs[2:]] == [i[c] for c in costs[2:]], "so are the sums", b["flops"])
    # Other numbers of instructions an element are possible, but not by these factors.
    m = b["machine"]
    result(0.1 < m["peak_gflops"] < 2e4 and 0.1 < m["memory_gbs"] < 2e4, "peak and bandwidth", m)
    size = i["weight_bytes"] + i["arena_bytes"] + i["state_bytes"]
    result(m["read_bytes"] == max(size, 16384), "bandwidth of what the model has", (m, size))


def check_loop(folder):
    path = models.loop(os.path.join(folder, "turns.rlx"))
    b = read("bench", path, "--runs", "5")
    i = read("inspect", path, "--cpu", "native")
    result(len(i["kernels"]) > len(b["kernels"]), "kernels of a loop's body have no row", b["kernels"])
    result(b["flops"] == i["flops"] and b["macs"] == 3 * 64**3, "the loop has what its body computes", b)


def check_seconds(model):
    short, long = (read("bench", model, "--seconds", s) for s in ("0.02", "0.4"))
    ends = 3 <= short["runs"] <= 3 + 2.1e4 / short["us_best"]
    result(ends, "--seconds 0.02", (short["runs"], short["us_best"]))
    result(long["runs"] > 2 * short["runs"], "--seconds 0.4", (short["runs"], long["runs"]))


def check_options():
    decoder = os.path.join(ROOT, "models/decoder.json")
    b = read("bench", decoder, "--dynamic", "--runs", "3")
    result("gflops" not in b and "flops" not in b["kernels"][0], "sizes that are set between runs", b)
    b = read("bench", decoder, "--dim", "T=4", "--dim", "P=8", "--threads", "2", "--runs", "3")
    result(b["threads"] == 2 and follows(b) is None, "--threads 2", follows(b))
    b = read("bench", decoder, "--dim", "P=8", "--bucket", "T=4,16", "--runs", "3")
    result(0 < len(b["kernels"]) < 100, "buckets: kernels of the one that runs", len(b["kernels"]))
    b = read("bench", decoder, "--target", "vulkan,c", "--dim", "T=1", "--dim", "P=8", "--runs", "3")
    on_cpu = b["place"] != "vulkan"
    result(("machine" in b) == on_cpu, "a GPU's figures have no share of the CPU's peak", b["place"])
    for wrong in "--runs 0", "--runs x", "--seconds 0", "--seconds nan", "--seconds -1":
        said = rlxc("bench", decoder, *wrong.split())
        result(said.returncode == 2 and "E0003" in said.stderr, wrong, said.stderr)
    said = rlxc("bench", decoder, "--dim", "T=4", "--dim", "P=8", "--input", "tokens=none.npy")
    result(said.returncode == 1 and said.stdout == "", "an input that is not there", said.stderr)


def main():
    model = os.path.join(ROOT, "models/digits/digits.json")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        check_figures(model)
        check_seconds(model)
        check_loop(folder)
        check_options()
        text = rlxc("bench", model, "--runs", "3").stdout
        result("of the roofline" in text and "k1_conv_relu" in text, "text", text)
        names = os.listdir(os.path.join(folder, "rlxc"))
        left = [name for name in names if not name.endswith((".so", ".so.sum"))]
        result(left == [], "nothing but libraries stays in the cache", left)
    return tap.end()


sys.exit(main())
