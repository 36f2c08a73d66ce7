# SPDX-License-Identifier: Apache-2.0
"""The models of one operator of tflite-micro's integration tests (SEANet), with their stored results."""

import pathlib
import re
import subprocess
import tempfile

import check_ops

FOLDER = "tensorflow/lite/micro/integration_tests/seanet"
NEAR = 1  # how far off tflite-micro's own kernels may be


def find(home):
    """{operator: models}"""
    folders = sorted(path for path in (home / FOLDER).iterdir() if path.is_dir())
    return {folder.name: sorted(folder.glob("*.tflite")) for folder in folders}


def interface(rlxc, model):
    """Names, types and shapes of inputs; or a message."""
    done = subprocess.run([rlxc, "inspect", "--no-code", model], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr
    found = re.findall(r"^input +(.+): (\w+)\[([\d, ]*)\]", done.stdout, re.M)
    return [(name, kind, [int(n) for n in shape.split(",")]) for name, kind, shape in found]


def stored(model, kind):
    """Values of a file beside the model: `kind` is golden, input0 ..."""
    (path,) = model.parent.glob(f"{model.stem}_{kind}_*.csv")
    return [int(word) for word in path.read_text().split(",")]


def run(rlxc, model, options):
    """None: as stored. Else a message, and whether rlxc refused the model."""
    inputs = interface(rlxc, model)
    if isinstance(inputs, str):
        return inputs, True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        given = []
        for i, (tensor, kind, shape) in enumerate(inputs):
            check_ops.write_npy(folder / f"{i}.npy", kind, shape, stored(model, f"input{i}"))
            given.append(f"--input={tensor}={folder / f'{i}.npy'}")
        command = [rlxc, "run", model, "--output-dir", folder / "out", *options, *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr, True
        (found,) = (folder / "out").glob("*.npy")
        shape, values = check_ops.read_npy(found)
    wrong = check_ops.difference([(shape, values)], [(shape, stored(model, "golden"))], NEAR)
    return wrong and (wrong, False)
