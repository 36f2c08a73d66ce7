#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Share of the machine's FMA peak that emitted kernels reach on one thread.

  tools/bench/share.py [--cpu native] [--runs 200] [--json] [MODEL...]

Without models: a 3x3 convolution 56x56x64 -> 64, a 512x512x512 matmul, and more shapes of networks. Each is
compiled with build/rlxc and the system compiler; the peak is measured between the runs, in the same process,
pinned to one core. Multiply-adds are counted as usual, padding included. Emitted convolutions skip the
padding, so for the shapes above the share is corrected: only taps inside the image count. Copies between the
axis order of the model and that of the kernel are in the time.
"""

import argparse
import array
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def raw(path, n):
    random.seed(1)
    values = array.array("f", (random.gauss(0, 0.05) for _ in range(min(n, 65536))))
    while len(values) < n:
        values.extend(values[: n - len(values)])
    with open(path, "wb") as f:
        f.write(values.tobytes())


def graph(folder, name, inputs, weights, nodes):
    text = {
        "rlxc": 1,
        "name": name,
        "inputs": {"x": {"dtype": "f32", "shape": inputs}},
        "weights": {},
        "nodes": nodes,
        "outputs": [nodes[-1]["name"]],
    }
    for key, shape in weights.items():
        n = 1
        for d in shape:
            n *= d
        raw(os.path.join(folder, f"{name}_{key}.bin"), n)
        text["weights"][key] = {"file": f"{name}_{key}.bin", "dtype": "f32", "shape": shape}
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as f:
        json.dump(text, f)
    return path


def conv(folder, name, size, c, o, k, group=1, stride=1):
    return graph(
        folder,
        name,
        [1, c, size, size],
        {"w": [o, c // group, k, k], "b": [o]},
        [
            {
                "name": "y",
                "op": "conv",
                "inputs": ["x", "w", "b"],
                "pads": [k // 2] * 4,
                "group": group,
                "strides": [stride, stride],
            }
        ],
    )


def gemm(folder, name, m, k, n):
    return graph(folder, name, [m, k], {"w": [k, n]}, [{"name": "y", "op": "matmul", "inputs": ["x", "w"]}])


def inside(size, k, stride=1):
    """Share of the taps of a k x k kernel with padding k // 2 that fall inside the image."""
    hits = sum(0 <= o * stride - k // 2 + t < size for o in range((size - 1) // stride + 1) for t in range(k))
    return (hits / (((size - 1) // stride + 1) * k)) ** 2


TAPS = {
    "conv3x3_56x56x64_64": inside(56, 3),
    "conv3x3_28x28x128_128": inside(28, 3),
    "conv3x3_14x14x256_256": inside(14, 3),
    "conv3x3s2_28x28x256_256": inside(28, 3, 2),
    "conv7x7s2_224x224x3_64": inside(224, 7, 2),
    "depthwise3x3_56x56x144": inside(56, 3),
}


def standard(folder):
    return [
        conv(folder, "conv3x3_56x56x64_64", 56, 64, 64, 3),
        gemm(folder, "matmul_512x512x512", 512, 512, 512),
        conv(folder, "conv3x3_28x28x128_128", 28, 128, 128, 3),
        conv(folder, "conv3x3_14x14x256_256", 14, 256, 256, 3),
        conv(folder, "conv1x1_14x14x1024_256", 14, 1024, 256, 1),
        conv(folder, "conv1x1_56x56x64_256", 56, 64, 256, 1),
        conv(folder, "conv1x1_7x7x512_2048", 7, 512, 2048, 1),
        conv(folder, "conv1x1s2_14x14x1024_2048", 14, 1024, 2048, 1, stride=2),
        conv(folder, "conv3x3s2_28x28x256_256", 28, 256, 256, 3, stride=2),
        conv(folder, "conv7x7s2_224x224x3_64", 224, 3, 64, 7, stride=2),
        conv(folder, "depthwise3x3_56x56x144", 56, 144, 144, 3, group=144),
        gemm(folder, "matmul_128x768x3072", 128, 768, 3072),
        gemm(folder, "matmul_64x784x256", 64, 784, 256),
    ]


def measure(folder, model, cpu, runs):
    name = "m_" + "".join(c if c.isalnum() else "_" for c in os.path.basename(os.path.splitext(model)[0]))
    if os.path.basename(model) == "model.onnx":
        name = "m_" + os.path.basename(os.path.dirname(model))
    out = os.path.join(folder, name)
    subprocess.run(
        [os.path.join(ROOT, "build", "rlxc"), "compile", model, "-o", out, "--name", name, "--cpu", cpu],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with open(os.path.join(out, name + ".c")) as f:
        flags = (
            next(line for line in f if line.startswith("// Compile with:"))
            .split("cc ")[1]
            .split(" -c ")[0]
            .split()
        )
    cc = os.environ.get("CC", "cc")
    subprocess.run(
        [
            cc,
            *flags,
            "-I.",
            f"-DMODEL={name}",
            f'-DMODEL_H="{name}.h"',
            os.path.join(ROOT, "tools", "bench", "bench_model.c"),
            name + ".c",
            "-o",
            "bench",
            "-lm",
        ],
        check=True,
        cwd=out,
    )
    row = json.loads(
        subprocess.run(
            [os.path.join(out, "bench"), str(runs)], check=True, capture_output=True, text=True
        ).stdout
    )
    row["name"] = name[2:]
    for key in ("gflops", "share_best", "share_median"):
        row[key] *= TAPS.get(row["name"], 1)
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*")
    p.add_argument("--cpu", default="native")
    p.add_argument("--runs", type=int, default=200)
    p.add_argument("--json", action="store_true")
    a = p.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in a.models or standard(folder):
            row = measure(folder, os.path.abspath(model), a.cpu, a.runs)
            rows.append(row)
            if not a.json:
                print(
                    f"{row['name']:32} {row['ms_best']:9.3f} ms best {row['ms_median']:9.3f} median "
                    f"{row['ms_p90']:9.3f} p90   "
                    f"{row['gflops']:7.1f} GFLOP/s of {row['fma_peak_gflops']:.1f}: "
                    f"{100 * row['share_best']:5.1f} % best, {100 * row['share_median']:5.1f} % median",
                    flush=True,
                )
    if a.json:
        json.dump(rows, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
