#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accuracy 0 turns Winograd off: 3x3 convolutions that take it by default are then the direct sums of the
contract, bit for bit. What these are says a loop of fmaf in C here, which knows nothing of rlxc: the bias,
then kernel rows, columns and channels in rising order.

    check_accuracy.py RLXC
"""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile

# Batch, channels, rows, columns, results; threads. The channels lie next to each other, as between layers.
SHAPES = [((1, 64, 20, 26, 64), 1), ((2, 32, 17, 30, 40), 2)]
CPUS = ["x86-64-v4", "x86-64-v3", "native"]  # those that run here; generic has no vectors to gain with
MODEL = """graph "accuracy" {
  %%1 = input "x" : f32[%d, %d, %d, %d]
  %%2 = const : f32[%d, %d, 3, 3] = {%s}
  %%3 = const : f32[%d] = {%s}
  %%4 = transpose(%%1) {perm = [0, 3, 1, 2]}
  %%5 = conv(%%4, %%2, %%3) {pads = [1, 1, 1, 1]}
  output "y" = %%5
}
"""
SUMS = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
static float *get(FILE *f, size_t n)
{
    float *p = malloc(n * sizeof *p);
    return fread(p, sizeof *p, n, f) == n ? p : (exit(1), p);
}
int main(int argc, char **argv)
{
    const int n = atoi(argv[2]), ic = atoi(argv[3]), h = atoi(argv[4]), w = atoi(argv[5]);
    const int oc = atoi(argv[6]);
    FILE *f = argc == 7 ? fopen(argv[1], "rb") : NULL;
    if (f == NULL)
        return 1;
    const float *x = get(f, (size_t)n * ic * h * w), *k = get(f, (size_t)oc * ic * 9);
    const float *b = get(f, (size_t)oc);
    for (int i = 0; i < n * oc * h * w; i++) {
        const int column = i % w, row = i / w % h, o = i / w / h % oc, image = i / w / h / oc;
        float sum = b[o];
        for (int y = 0; y < 3; y++)
            for (int z = 0; z < 3; z++)
                for (int c = 0; c < ic; c++) {
                    const int r = row + y - 1, s = column + z - 1;
                    if (r >= 0 && r < h && s >= 0 && s < w)
                        sum = fmaf(x[((image * h + r) * w + s) * ic + c], k[((o * ic + c) * 3 + y) * 3 + z],
                                   sum);
                }
        fwrite(&sum, sizeof sum, 1, stdout);
    }
    return 0;
}
"""


def numbers(n, seed):
    """Of 16 bits, so that products are not exact in f32 sums."""
    state, out = seed, []
    for _ in range(n):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(((state >> 40) % 65521 - 32760) / 2**14)
    return out


def pack(values):
    return struct.pack(f"<{len(values)}f", *values)


def write_npy(path, shape, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head = head.ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + pack(values))


def call(rlxc, *args):
    done = subprocess.run([rlxc, *map(str, args)], capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "backslashreplace")


def result(rlxc, folder, args):
    """None: this machine cannot run it."""
    args = ["--input", f"x={folder / 'x.npy'}", "--output-dir", folder / "out", *args]
    code, _, text = call(rlxc, "run", folder / "m.rlx", *args)
    if "E0302" in text:
        return None
    assert code == 0, text
    raw = (folder / "out" / "y.npy").read_bytes()
    return raw[10 + struct.unpack("<H", raw[8:10])[0] :]


def floats(raw):
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def direct_sums(folder, shape, x, weights, bias):
    (folder / "sums.c").write_text(SUMS)
    (folder / "values").write_bytes(pack(x) + pack(weights) + pack(bias))
    cc = os.environ.get("CC", "cc").split()
    subprocess.run([*cc, "-O2", "-o", folder / "sums", folder / "sums.c", "-lm"], check=True, timeout=120)
    command = [folder / "sums", folder / "values", *map(str, shape)]
    return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout


def check_shape(rlxc, folder, shape, threads):
    n, ic, h, w, oc = shape
    x, weights, bias = numbers(n * ic * h * w, 1), numbers(oc * ic * 9, 2), numbers(oc, 3)
    listed = [", ".join(map(repr, values)) for values in (weights, bias)]
    (folder / "m.rlx").write_text(MODEL % (n, h, w, ic, oc, ic, listed[0], oc, listed[1]))
    write_npy(folder / "x.npy", (n, h, w, ic), x)
    want, n_checked = direct_sums(folder, shape, x, weights, bias), 0
    for cpu in CPUS:
        args = ["--cpu", cpu, "--threads", threads]
        got = result(rlxc, folder, [*args, "--accuracy", "0"])
        if got is None:
            continue
        assert got == want, f"{shape} {cpu}: --accuracy 0 does not give the direct sums"
        other = result(rlxc, folder, args)
        assert other != want, f"{shape} {cpu}: direct sums by default as well, so nothing is shown"
        error = max(abs(a - b) for a, b in zip(floats(other), floats(want)))
        largest = max(map(abs, floats(want)))
        assert error <= 1e-5 * largest, f"{shape} {cpu}: error {error / largest:.1e}"
        n_checked += 1
    return n_checked


def main():
    rlxc = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        for shape, threads in SHAPES:
            n = check_shape(rlxc, pathlib.Path(name), shape, threads)
            print(f"{shape}: {n} programs")
            assert n > 0


if __name__ == "__main__":
    main()
