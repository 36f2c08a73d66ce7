#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real networks, where they lie beside the tree (../shared/models/onnx; else skipped, status 77): `rlxc run`
gets the inputs of their stored cases and nothing else, and must give the stored outputs; a language model
generates the stored tokens with its cache fed back. Usage: check_networks.py RLXC [NETWORK...]

Outputs may differ by 1e-4 of their largest magnitude; or by 2.5e-7, because the stored outputs of sigmoids
near 0 come from a program whose sigmoid has that absolute error.
"""

import array
import ast
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("RLXC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
NETWORKS = ROOT / "../shared/models/onnx"
HERE = pathlib.Path(__file__).resolve().parent
TIME_LIMIT = 300
CODES = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|b1": "B", "|u1": "B", "|i1": "b"}
PAST = 63  # tokens that the cache holds: more than are generated


def read_npy(path):
    """(shape, flat values) of a .npy file."""
    data = path.read_bytes()
    size = 2 if data[6] == 1 else 4
    start = 8 + size + int.from_bytes(data[8 : 8 + size], "little")
    header = ast.literal_eval(data[8 + size : start].decode("latin-1"))
    values = array.array(CODES[header["descr"]])
    values.frombytes(data[start:])
    return header["shape"], values


def wrong_output(found, stored):
    """None, or how two outputs differ."""
    (shape, a), (stored_shape, b) = read_npy(found), read_npy(stored)
    if shape != stored_shape or a.typecode != b.typecode:
        return f"{shape} {a.typecode}, stored {stored_shape} {b.typecode}"
    error = max((abs(x - y) for x, y in zip(a, b, strict=True)), default=0)
    magnitude = max((abs(y) for y in b), default=0)
    if math.isnan(sum(a)) or error > max(1e-4 * magnitude, 2.5e-7):
        return f"error {error} of magnitude {magnitude}"
    return None


def check_case(rlxc, network, names, case, folder):
    inputs = [f"--input={name}={case / f'input_{i}.npy'}" for i, name in enumerate(names["inputs"])]
    subprocess.run(
        [rlxc, "run", network / "model.onnx", "--output-dir", folder, *inputs],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=TIME_LIMIT,
    )
    for i, name in enumerate(names["outputs"]):
        problem = wrong_output(
            pathlib.Path(folder, re.sub("[/:]", "_", name) + ".npy"), case / f"output_{i}.npy"
        )
        if problem:
            yield f"{network.name} {case.name}: output '{name}': {problem}"


def names_of(rlxc, network):
    """Names of inputs and outputs in order: as the manifest says, or as rlxc finds them."""
    known = json.loads((NETWORKS / "manifest.json").read_text(encoding="utf-8")).get(network.name)
    if known:
        return {kind: [x["name"] for x in known[kind]] for kind in ("inputs", "outputs")}
    out = subprocess.run(
        [rlxc, "inspect", "--json", "--no-code", network / "model.onnx"],
        check=True,
        capture_output=True,
        timeout=TIME_LIMIT,
    )
    found = json.loads(out.stdout)
    return {kind: [x["name"] for x in found[kind]] for kind in ("inputs", "outputs")}


def generate(rlxc, network, folder):
    """One token a run, with a cache of PAST tokens that starts out masked."""
    expected = json.loads((network / "expected_greedy60.json").read_text(encoding="utf-8"))["greedy_tokens"]
    sizes = [f"--dim={name}" for name in ("B=1", "T=1", f"P={PAST}", f"S={PAST + 1}")]
    subprocess.run(
        [rlxc, "compile", network / "model.onnx", "-o", folder, "--name", "net", *sizes],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=TIME_LIMIT,
    )
    subprocess.run(
        [
            os.environ.get("CC", "cc"),
            "-O2",
            "-std=gnu11",
            "-I.",
            HERE / "generate.c",
            "net.c",
            "-o",
            "generate",
            "-lm",
        ],
        check=True,
        cwd=folder,
        timeout=TIME_LIMIT,
    )
    out = subprocess.run(
        [folder + "/generate", str(expected[0]), str(len(expected) - 1)],
        check=True,
        capture_output=True,
        timeout=TIME_LIMIT,
    )
    tokens = [int(word) for word in out.stdout.split()]
    if tokens != expected:
        yield f"{network.name}: generated {tokens}, expected {expected}"


def check_network(rlxc, network):
    cases = sorted(network.glob("case_*"))
    names = names_of(rlxc, network) if cases else None
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            yield from check_case(rlxc, network, names, case, folder)
    if (network / "expected_greedy60.json").exists():
        with tempfile.TemporaryDirectory() as folder:
            yield from generate(rlxc, network, folder)


def main(args):
    rlxc = os.path.abspath(args[0])
    networks = sorted(
        p.parent for p in NETWORKS.glob("*/model.onnx") if not args[1:] or p.parent.name in args[1:]
    )
    if not networks:
        print(f"no networks in {NETWORKS}: skipped")
        return 77
    problems = []
    for network in networks:
        try:
            problems += check_network(rlxc, network)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
            problems.append(f"{network.name}: {e}")
    print("\n".join(problems) or f"{len(networks)} networks: as stored")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
