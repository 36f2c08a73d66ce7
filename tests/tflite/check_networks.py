#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks of MLPerf Tiny, where they lie beside the tree (../shared/models/mlperf_tiny; else skipped,
status 77): `rlxc run` must give LiteRT's stored results, integers to the bit, and with `--rounding double`
those of double.json (make_double.py).

Usage: check_networks.py RLXC"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from check_ops import read_npy

ROOT = pathlib.Path(os.environ.get("RLXC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
NETWORKS = ROOT / "../shared/models/mlperf_tiny"


DOUBLE = pathlib.Path(__file__).with_name("double.json")


def check(rlxc, model, case, folder, double=None):
    """double: what two roundings give."""
    text = subprocess.run(
        [rlxc, "inspect", "--no-code", model], check=True, capture_output=True, text=True
    ).stdout
    name = re.search(r"^input +([^:]+):", text, re.M).group(1)
    command = [rlxc, "run", model, f"--input={name}={case / 'input_0.npy'}", "--output-dir", folder]
    command += ["--rounding", "double"] if double else []
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (found,) = pathlib.Path(folder).glob("*.npy")
    (shape, a), (stored_shape, b) = read_npy(found), read_npy(case / "output_0.npy")
    b = double or b
    error = max(abs(x - y) for x, y in zip(a, b, strict=True))
    most = max(map(abs, b))
    limit = 0 if isinstance(b[0], int) else 2e-6 * most
    return (
        None
        if shape == stored_shape and error <= limit
        else f"{shape}: error {error} of {most}, limit {limit}"
    )


def main():
    cases = sorted((NETWORKS / "cases").glob("*/case_*"))
    if not cases:
        print(f"skipped: there are no networks in {NETWORKS}")
        return 77
    failed = 0
    doubles = json.loads(DOUBLE.read_text())
    for case in cases:
        name = f"{case.parent.name}/{case.name}"
        for double in (None, doubles[name]) if name in doubles else (None,):
            with tempfile.TemporaryDirectory() as folder:
                wrong = check(sys.argv[1], NETWORKS / f"{case.parent.name}.tflite", case, folder, double)
            how = ", two roundings" if double else ""
            print(f"{case.parent.name} {case.name}{how}: {wrong or 'as stored'}", flush=True)
            failed += wrong is not None
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
