#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# The same input gives the same bytes: twice, in another folder, in another locale, with the memory of the
# process laid out differently. Usage: check_determinism.py RLXC
import glob
import os
import shutil
import subprocess
import sys
import tempfile

rlxc = os.path.abspath(sys.argv[1])
root = os.environ.get("RLXC_SOURCE", ".")
models = sorted(glob.glob(root + "/models/*.json") + glob.glob(root + "/models/*/*.json"))
shared = ("mnist_cntk", "dtln_1", "yunet_n_320", "yolox_nano")
models += [
    m for m in (f"{root}/../shared/models/onnx/{name}/model.onnx" for name in shared) if os.path.exists(m)
]


def comma_locale():
    """A locale that is installed and writes 1,5, or None."""
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
    for name in known:
        if name.startswith(("de_", "fr_", "es_")):
            return name
    return None


def compile_model(model, folder, prefix, env):
    os.makedirs(folder)
    done = subprocess.run(
        [*prefix, rlxc, "compile", model, "-o", folder, "--name", "m", "--cpu", "x86-64-v3"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return None, done.stderr
    return {name: open(os.path.join(folder, name), "rb").read() for name in sorted(os.listdir(folder))}, ""


def main():
    failed = 0
    locale = comma_locale()
    ways = [
        ("again", [], {}),
        ("in another locale", [], {"LC_ALL": locale or "C.UTF-8", "LANG": locale or "C.UTF-8"}),
    ]
    if shutil.which("setarch"):
        ways.append(("without address randomisation", ["setarch", os.uname().machine, "-R"], {}))
    ways.append(
        ("with a larger environment", [], {"RLXC_TEST_PADDING": "x" * 5000, "MALLOC_PERTURB_": "90"})
    )
    with tempfile.TemporaryDirectory() as top:
        for i, model in enumerate(models):
            first, why = compile_model(os.path.abspath(model), f"{top}/{i}", [], os.environ)
            if first is None:
                print(f"{model}: {why}", file=sys.stderr)
                failed = 1
                continue
            for k, (what, prefix, env) in enumerate(ways):
                again, _ = compile_model(
                    os.path.abspath(model), f"{top}/{i}_{k}/deeper", prefix, {**os.environ, **env}
                )
                if first is None or again != first:
                    print(f"{model} {what}: other bytes", file=sys.stderr)
                    failed = 1
    if locale is None:
        print("no locale with a decimal comma is installed: C.UTF-8 was used instead")
    return failed


sys.exit(main())
