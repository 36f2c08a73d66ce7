#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/classify: the held-out digits as PNG files get the classes that models/digits gives them;
cropping, scaling, mean and std of images of three channels, in both layouts, are what they should be;
wrong files and models are refused. An ONNX network for digits of ../shared/models, where it is. Exits with
77 without libpng.
Usage: check_classify.py RLXC"""

import json
import math
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

RLXC = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MNIST = ROOT.parent / "shared/models/onnx/mnist_cntk/model.onnx"
FLAGS = "CFLAGS=-O1 -Wall -Wextra -Wconversion -Wshadow -Werror -fsanitize=address,undefined"
TIME_LIMIT = 120


def run(*command, cwd, status=0):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
    assert done.returncode == status, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def build(folder, *words):
    run("rm", "-rf", "build/model.c", "build/classify", cwd=folder)
    run("make", f"RLXC={RLXC}", FLAGS, *words, cwd=folder)


def write_png(path, pixels):
    """Rows of tuples: 1 grey, 3 RGB, 4 RGB and alpha."""
    kind = {1: 0, 3: 2, 4: 6}[len(pixels[0][0])]
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), 8, kind, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(v for p in row for v in p) for row in pixels))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b""))


def right_share(text):
    rows = re.findall(r"_is_(\d)\.png: (\d) ", text)
    return sum(a == b for a, b in rows) / len(rows), len(rows)


def check_digits(folder):
    build(folder, "OPTIONS=--cpu native")
    run(sys.executable, "make_samples.py", "build/all", "360", cwd=folder)
    files = sorted(str(p.relative_to(folder)) for p in (folder / "build/all").iterdir())
    share, n = right_share(run("build/classify", "--top", "1", *files, cwd=folder))
    assert n == 360 and share >= 0.99, share
    # Dark on white is the same image inverted; names of classes come from a file.
    write_png(folder / "white.png", [[(255,)] * 30] * 30)
    write_png(folder / "black.png", [[(0,)] * 30] * 30)
    (folder / "names").write_text("".join(f"digit {i}\n" for i in range(10)))
    white = run("build/classify", "--invert", "--labels", "names", "white.png", cwd=folder)
    black = run("build/classify", "--labels", "names", "black.png", cwd=folder)
    assert white.split(":")[1] == black.split(":")[1] and black.count("digit ") == 3, (white, black)
    (folder / "bad.png").write_bytes((folder / "white.png").read_bytes()[:60])
    assert "bad.png: " in run("build/classify", "bad.png", "white.png", cwd=folder, status=1)
    assert "names: " in run("build/classify", "names", cwd=folder, status=1)
    assert "cannot read none" in run("build/classify", "--labels", "none", "white.png", cwd=folder, status=1)
    for words in [], ["--top", "0", "white.png"], ["--std", "1,0,1", "white.png"], ["--other", "white.png"]:
        assert "usage: " in run("build/classify", *words, cwd=folder, status=2), words


def write_means(path, shape, axes):
    """The mean of each channel, as logits."""
    path.write_text(json.dumps({
        "rlxc": 1, "name": "means", "inputs": {"x": {"dtype": "f32", "shape": shape}},
        "nodes": [{"name": "y", "op": "reduce_mean", "inputs": ["x"], "axes": axes, "keepdims": False}],
        "outputs": ["y"]}))


def shares(text):
    return {int(c): float(p) for c, p in re.findall(r"(\d) ([\d.]+) %", text)}


def softmax(values):
    total = sum(map(math.exp, values))
    return {i: 100 * math.exp(v) / total for i, v in enumerate(values)}


def check_close(found, wanted):
    assert found.keys() == wanted.keys(), (found, wanted)
    assert all(abs(found[i] - wanted[i]) < 0.06 for i in found), (found, wanted)


def check_channels(folder):
    # The middle third has other colours than the sides; half of it is transparent in the last file.
    side, middle = (250, 10, 90), (40, 200, 120)
    write_png(folder / "rgb.png", [[side] * 8 + [middle] * 8 + [side] * 8] * 8)
    write_png(folder / "alpha.png", [[(*middle, 255)] * 4 + [(*middle, 0)] * 4] * 8)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2)
    options = ["--mean", "0.1,0.2,0.3", "--std", "0.5,0.25,2"]
    for shape, axes in ([1, 3, 5, 5], [2, 3]), ([1, 5, 5, 3], [1, 2]):
        write_means(folder / "means.json", shape, axes)
        build(folder, "MODEL=means.json")
        # The square in the middle, scaled from 8 to 5 pixels: of one colour.
        found = shares(run("build/classify", *options, "rgb.png", cwd=folder))
        check_close(found, softmax([(v / 255 - m) / s for v, m, s in zip(middle, mean, std)]))
        found = shares(run("build/classify", "--scale", "2", "alpha.png", cwd=folder))
        check_close(found, softmax([v / 255 for v in middle]))
    # A wide input: sides and middle count by their area; half of the crop is half of each side.
    write_means(folder / "means.json", [1, 3, 4, 12], [2, 3])
    build(folder, "MODEL=means.json")
    found = shares(run("build/classify", "rgb.png", cwd=folder))
    check_close(found, softmax([(2 * a + b) / 3 / 255 for a, b in zip(side, middle)]))
    found = shares(run("build/classify", "--crop", "0.5", "rgb.png", cwd=folder))
    check_close(found, softmax([(a + 2 * b) / 3 / 255 for a, b in zip(side, middle)]))
    write_means(folder / "means.json", [1, 2, 4, 12], [2, 3])
    build(folder, "MODEL=means.json")
    assert "the model must take one image" in run("build/classify", "rgb.png", cwd=folder, status=1)


def check_mnist(folder):
    if not MNIST.exists():
        print("mnist_cntk: skipped, it is not here")
        return
    build(folder, f"MODEL={MNIST}")
    files = sorted(str(p.relative_to(folder)) for p in (folder / "build/all").iterdir())[:50]
    share, _ = right_share(run("build/classify", "--scale", "255", *files, cwd=folder))
    print(f"mnist_cntk: {100 * share:.0f} % of 50 digits of 8 x 8 pixels right")
    assert share >= 0.5, share  # it was trained with digits that have a margin and thin lines


def main():
    if shutil.which("pkg-config") is None or subprocess.run(["pkg-config", "--exists", "libpng"]).returncode:
        print("skipped: no libpng")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top) / "examples/classify"
        shutil.copytree(ROOT / "examples/classify", folder, ignore=shutil.ignore_patterns("build"))
        shutil.copytree(ROOT / "models/digits", pathlib.Path(top) / "models/digits")
        check_digits(folder)
        check_mnist(folder)
        check_channels(folder)


main()
