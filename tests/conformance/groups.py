#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares products with group-affine weights with NumPy: `rlxc run` on JSON models whose raw weights are
packed here, bit by bit, as users of such formats have them. Exits with 77 where NumPy is missing, also in the
environment that RLXC_VENV names. `groups.py RLXC`."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import in_venv  # noqa: E402

try:
    import numpy as np
except ImportError:
    in_venv.enter_or_skip("numpy")


def packed(q, bits):
    """4 bits: eight in a word; 8 bits: four; 6 bits: four in three bytes, the first lowest."""
    if bits == 6:
        four = q.reshape(*q.shape[:-1], -1, 4).astype(np.uint32)
        word = four[..., 0] | four[..., 1] << 6 | four[..., 2] << 12 | four[..., 3] << 18
        data = np.stack([word & 255, word >> 8 & 255, word >> 16], axis=-1).astype(np.uint8)
        return data.reshape(*q.shape[:-1], -1)
    each = 32 // bits
    words = q.reshape(*q.shape[:-1], -1, each).astype(np.uint32)
    shifts = np.arange(each, dtype=np.uint32) * bits
    return np.bitwise_or.reduce(words << shifts, axis=-1).astype("<u4")


def brain(v):
    """Rounded to bf16: the values, and their upper halves."""
    bits = v.astype(np.float32).view(np.uint32)
    upper = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return (upper << 16).astype(np.uint32).view(np.float32), upper.astype("<u2")


def number(v, kind):
    if kind == "bf16":
        return brain(v)
    v = v.astype({"f16": np.float16, "f32": np.float32}[kind])
    return v.astype(np.float32), v


def check(rlxc, folder, bits, group, kind, experts):
    """The largest difference to NumPy, relative to the largest result."""
    rng = np.random.default_rng(bits * 1000 + group + experts)
    rows, columns, groups = 5, 24, 3
    lead = (experts,) if experts else ()
    q = rng.integers(0, 1 << bits, (*lead, columns, groups * group))
    scale, scale_raw = number(rng.normal(size=(*lead, columns, groups)) / 8, kind)
    bias, bias_raw = number(rng.normal(size=(*lead, columns, groups)), kind)
    x = rng.normal(size=(rows, groups * group)).astype(np.float32)
    index = rng.integers(-1, max(experts, 1), rows).astype(np.int32)
    w = packed(q, bits)
    w_type = "u32" if w.dtype == np.dtype("<u4") else "u8"
    weights = {"w": (w, w_type), "s": (scale_raw, kind), "b": (bias_raw, kind)}
    members = {}
    for name, (data, dtype) in weights.items():
        shape = list(data.shape)
        if name == "w" and dtype == "u8":
            shape = [*shape[:-1], groups, shape[-1] // groups]
        data.tofile(os.path.join(folder, f"{name}.bin"))
        members[name] = {"dtype": dtype, "shape": shape, "file": f"{name}.bin"}
    operands = ["x", "w", "i", "s", "b"] if experts else ["x", "w", "s", "b"]
    inputs = {"x": {"dtype": "f32", "shape": list(x.shape)}}
    if experts:
        inputs["i"] = {"dtype": "i32", "shape": [rows]}
    op = "affine_grouped_matmul" if experts else "affine_matmul"
    model = {"rlxc": 1, "inputs": inputs, "weights": members, "outputs": ["y"],
        "nodes": [{"name": "y", "op": op, "inputs": operands, "bits": bits}]}
    with open(os.path.join(folder, "m.json"), "w", encoding="utf-8") as f:
        json.dump(model, f)
    command = [rlxc, "run", os.path.join(folder, "m.json"), "--output-dir", folder]
    for name, v in (("x", x), ("i", index)):
        if name in inputs:
            np.save(os.path.join(folder, f"{name}.npy"), v)
            command += ["--input", f"{name}={os.path.join(folder, name)}.npy"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    got = np.load(os.path.join(folder, "y.npy")).astype(np.float64)
    each = q.reshape(*lead, columns, groups, group) * scale[..., None].astype(np.float64) + bias[..., None]
    each = each.astype(np.float32).astype(np.float64).reshape(q.shape)
    if experts:
        rows = zip(index, x.astype(np.float64))
        want = np.stack([each[e] @ v if e >= 0 else np.zeros(columns) for e, v in rows])
    else:
        want = x.astype(np.float64) @ each.T
    return np.abs(got - want).max() / np.abs(want).max()


def main():
    failed = 0
    for bits in (4, 6, 8):
        for group, kind, experts in ((32, "bf16", 0), (64, "f16", 0), (128, "f32", 0), (64, "bf16", 3)):
            with tempfile.TemporaryDirectory() as folder:
                error = check(sys.argv[1], folder, bits, group, kind, experts)
            is_right = error < 1e-5
            failed += not is_right
            verdict = "ok" if is_right else "not ok"
            print(f"{verdict} - {bits} bits, groups of {group}, {kind}, experts {experts}: {error:.1e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
