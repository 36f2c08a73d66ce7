#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A decode step of a small transformer on GPU targets: how many launches a layer has, and the values of two
layers against the reference evaluator, on a Vulkan device and as Metal text on the CPU.
Usage: check_decode.py RLXC"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools/bench/gpu"))
try:
    import decode
    import numpy
except ImportError:
    # The wheels are in a Python of their own.
    venv = pathlib.Path(os.environ.get("RLXC_VENV", "build/venv")) / "bin" / "python"
    if venv.exists() and not sys.prefix.startswith(str(venv.parents[1].resolve())):
        os.execv(venv, [str(venv), *sys.argv])
    print("1..0 # SKIP numpy is not installed")
    sys.exit(0)

RLXC = os.path.abspath(sys.argv[1])
# The products with the norm before them; rotations, into the cache; attention and its merge; three products.
LAUNCHES_OF_A_LAYER = 7


def write_model(folder, layers):
    """Weights are constants, token and position inputs."""
    c = dataclasses.replace(decode.TINY, layers=layers, dtype="f16")
    graph, logits = decode.graph(c)
    rng = numpy.random.default_rng(1)
    params = graph.pop("params")
    graph["inputs"] = {name: graph["states"].pop(name) for name in ("token", "position")}
    for tensor in graph["inputs"].values():
        del tensor["next"]
    for name, param in params.items():
        shape = param["shape"]
        values = rng.standard_normal(shape) / shape[-1] ** 0.5 if len(shape) > 1 else numpy.ones(shape)
        numpy.save(folder / f"{name}.npy", values.astype(numpy.float16))
        graph["weights"][name] = {"file": f"{name}.npy"}
    path = folder / f"decode{layers}.json"
    path.write_text(json.dumps({"rlxc": 1, "name": "decode", "outputs": [logits]} | graph))
    return path


def count_launches(path):
    text = subprocess.run(
        [RLXC, "inspect", path, "--target", "vulkan"], check=True, capture_output=True, text=True, timeout=100
    ).stdout
    return next(int(line.split()[1].rstrip(",")) for line in text.splitlines() if line.startswith("kernels "))


def check_launches(folder):
    two, three = (count_launches(write_model(folder, layers)) for layers in (2, 3))
    print(f"# {two} launches of two layers, {three} of three")
    return three - two <= LAUNCHES_OF_A_LAYER


def check_values(folder, target):
    path = write_model(folder, 2)
    numpy.save(folder / "token.npy", numpy.array([7], numpy.int64))
    numpy.save(folder / "position.npy", numpy.array([3], numpy.int64))
    inputs = [f"--input={name}={folder / name}.npy" for name in ("token", "position")]
    done = subprocess.run(
        [RLXC, "verify", path, "--target", target, "--tolerance", "5e-3", *inputs],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        print("# " + (done.stdout + done.stderr).replace("\n", "\n# "))
    return done.returncode == 0


def main():
    checks = [("launches", check_launches)]
    for target in ("vulkan", "metal"):
        checks.append((f"values on {target}", lambda folder, target=target: check_values(folder, target)))
    print(f"1..{len(checks)}", flush=True)
    failed = 0
    for number, (name, check) in enumerate(checks, 1):
        with tempfile.TemporaryDirectory() as folder:
            ok = check(pathlib.Path(folder))
        failed += not ok
        print("ok" if ok else "not ok", number, "-", name, flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
