#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rlxc tune --target cuda on the driver of fake_cuda.c: kernels do nothing there, and take the longer the
more groups they have. So the fewest groups are the fastest, whatever the cost model thinks.

    check_tune_cuda.py RLXC LIBRARY     exit 77: there is no NVRTC here
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import on_fake_cuda as fake

RLXC, LIBRARY = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
CUDA = ["--target", "cuda", "--gpu", "sm_90a"]
ROWS, COLUMNS, STEPS = 256, 512, 1024
MODEL = {
    "rlxc": 1,
    "name": "m",
    "inputs": {
        "x": {"dtype": "bf16", "shape": [ROWS, STEPS]},
        "w": {"dtype": "bf16", "shape": [COLUMNS, STEPS]},
    },
    "nodes": [
        {"name": "p", "op": "matmul", "inputs": ["x", "w"], "transpose_b": True},
        {"name": "y", "op": "softmax", "inputs": ["p"], "axis": 1},
    ],
    "outputs": ["y"],
}
STUB = """
extern const int barriers_{0};
const int barriers_{0} = 0;
void launch_{0}(void *const *args, const unsigned *id);
void launch_{0}(void *const *args, const unsigned *id) {{ (void)args, (void)id; }}
"""


def build_stubs(folder):
    names = [k[1] for k in fake.KERNEL.finditer((folder / "m.cu").read_text())]
    assert len(names) >= 2, names
    (folder / "kernels.c").write_text("".join(STUB.format(n) for n in names))
    fake.run(["cc", "-shared", "-fPIC", "-o", "kernels.so", "kernels.c"], folder)


def call(folder, *args):
    environment = {**fake.PLAIN, **fake.environment(LIBRARY, folder)}
    done = subprocess.run([RLXC, *args], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=fake.TIME_LIMIT, check=False)
    return done.returncode, done.stdout, done.stderr


def groups(name):
    """Of "128x64x2/6+2": rows by columns, parts of k."""
    rows, columns, splits = (int(v) for v in name.split("/")[0].split("x"))
    return -(-ROWS // rows) * -(-COLUMNS // columns) * splits


def check_tune(folder):
    code, text, error = call(folder, "tune", "m.json", *CUDA, "-o", "m.tune", "--json")
    assert code == 0, error
    report = json.loads(text)
    assert report["gpu"] == "sm_90a", report
    (choice,) = report["choices"]
    times = choice["times"]
    assert choice["question"].startswith("gpu_matmul bf16 256x512x1024"), choice
    assert len(times) > 4 and all(t > 0 for t in times.values()), times
    assert groups(choice["answer"]) == min(map(groups, times)) < groups(choice["estimated"]), choice
    lines = (folder / "m.tune").read_text().splitlines()
    assert lines[1] == "gpu sm_90a" and lines[-1] == f"{choice['question']} -> {choice['answer']}", lines


def check_answer_is_taken(folder):
    before = (folder / "m.cu").read_text()
    code, _, error = call(folder, "compile", "m.json", *CUDA, "-o", "tuned", "--tune", "m.tune")
    assert code == 0 and "measured" not in error, error
    assert (folder / "tuned/m.cu").read_text() != before


def check_refusals(folder):
    _, _, error = call(folder, "compile", "m.json", "--target", "cuda", "--gpu", "sm_80", "-o", "other",
                       "--tune", "m.tune")
    assert "was measured for --gpu sm_90a" in error, error
    (folder / "cpu.tune").write_text("rlxc-tune 1\ncpu generic\n")
    _, _, error = call(folder, "compile", "m.json", *CUDA, "-o", "other", "--tune", "cpu.tune")
    assert "was measured for --cpu generic" in error, error
    for args, why in (
        (["tune", "m.json", "--target", "cuda"], "must name the one GPU to measure on"),
        (["tune", "m.json", "--target", "vulkan"], "does not work with --target vulkan"),
        (["tune", "m.json", "--target", "cuda,c", "--gpu", "sm_90a"], "does not work with --target cuda,c"),
        (["compile", "m.json", "--target", "vulkan", "--tune", "m.tune"], "--tune cannot be combined with"),
    ):
        code, _, error = call(folder, *args)
        assert code != 0 and why in error, (args, code, error)


with tempfile.TemporaryDirectory() as top:
    here = pathlib.Path(top)
    (here / "m.json").write_text(json.dumps(MODEL))
    fake.compile_model(RLXC, str(here / "m.json"), "m", str(here), *CUDA)
    build_stubs(here)
    check_tune(here)
    check_answer_is_taken(here)
    check_refusals(here)
