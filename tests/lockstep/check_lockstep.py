#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random calls on random models with random options, in step with a plain program of the same model
(lockstep_test.c). Each day has other models; a number of them prints which take the same again.
Usage: check_lockstep.py RLXC TARGET COUNT [LIBRARY]; LIBRARY: the fake libcuda.so.1, for targets with cuda.
LOCKSTEP_FIRST: number of the first model. LOCKSTEP_KEEP: a folder for the files of those that fail.

Exit 77: what the target needs is not here."""

import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "../common"), str(HERE / "../gpu")]
from emitted import QUICK, SANITIZE, flags_of  # noqa: E402
from lockstep_models import make_model, make_options  # noqa: E402
from rotation import DAY, say  # noqa: E402

RLXC, TARGET, COUNT = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3])
LIBRARY = os.path.abspath(sys.argv[4]) if len(sys.argv) > 4 else None
FIRST = int(os.environ.get("LOCKSTEP_FIRST", DAY * 100))
KEEP = os.environ.get("LOCKSTEP_KEEP")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
MISSING = "no NVRTC", "without glslang", "no driver, or no device that can run the code"
TIME_LIMIT = 300
RUNS, STEPS = 6, 400


class Failure(Exception):
    """A program said that something is wrong, or was ended."""


def attempt(command, folder, **env):
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT, check=False,
        env={**os.environ, **env}
    )
    said = done.stdout + done.stderr
    if done.returncode != 0 and any(text in said for text in MISSING):
        print("SKIPPED:", said.strip())
        sys.exit(77)
    if done.returncode != 0:
        raise Failure(" ".join(map(str, command)) + "\n" + said[:2000])
    return done.stdout


def compile_both(number, folder):
    """False: the model has what the target, or the option, refuses."""
    graph, both = make_model(number, "metal" in TARGET)
    (folder / "model.json").write_text(json.dumps(graph), encoding="ascii")
    options = ["--target", TARGET, *make_options(number, graph, TARGET.split(",", maxsplit=1)[0])]
    if "cuda" in TARGET:
        options = [o for o in options if o != "--one-file"] + ["--gpu", "sm_90a"]  # it would leave no .cu
    print(number, *both, "|", *options, flush=True)
    command = [RLXC, "compile", "--api=full", "model.json", "-o", ".", *both]
    try:
        attempt([*command, "--name", "plain", "-O", "0", "--no-fuse"], folder)
        attempt([*command, "--name", "subject", *options], folder)
    except Failure as failure:
        if "error[E02" not in str(failure):
            raise
        print("  refused:", str(failure).splitlines()[1][:200])
        return False
    (folder / "rlx_stubs.h").write_text(attempt([RLXC, "header"], folder), encoding="ascii")
    return True


def metal_library(folder):
    """What executes Metal's text on the CPU."""
    model = HERE / "../../models/mlp.json"
    attempt([RLXC, "verify", model, "--target", "metal"], folder, XDG_CACHE_HOME=str(folder))
    return glob.glob(f"{folder}/rlxc/metal-*/")[0][:-1] + ".so"


def check(number, folder, library):
    if not compile_both(number, folder):
        return
    env, sanitize, define = {}, SANITIZE, ["-DRLX_CUDA_FILL=255"]
    if "cuda" in TARGET:
        import on_fake_cuda as fake

        fake.build_kernels(LIBRARY, "subject", str(folder))
        env = fake.environment(LIBRARY, str(folder), number % 1000 + 1)
    if "vulkan" in TARGET or "metal" in TARGET:  # what the drivers keep is not ours
        sanitize = ["-g", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    if "metal" in TARGET:
        define, env = [f'-DRLX_METAL_LIBRARY="{library}"'], {"RLX_METAL_CPU": "check,leaks"}
    flags = [*WARNINGS, *flags_of(folder / "subject.c", QUICK), *sanitize, *define, "-std=gnu99", "-pthread"]
    sources = [HERE / "lockstep_test.c", *sorted(p.name for p in folder.glob("*.c"))]
    attempt(["cc", *flags, "-I.", *sources, "-o", "p", "-lm", "-ldl"], folder)
    for seed in range(RUNS):
        attempt(["./p", str(number * RUNS + seed), str(STEPS)], folder, **env)


def main():
    bad = []
    say()
    with tempfile.TemporaryDirectory() as top:
        library = metal_library(top) if "metal" in TARGET else None
        for number in range(FIRST, FIRST + COUNT):
            folder = pathlib.Path(top) / str(number)
            folder.mkdir()
            try:
                check(number, folder, library)
            except (Failure, subprocess.SubprocessError) as failure:
                bad.append(number)
                print(failure, flush=True)
                if KEEP:
                    shutil.copytree(folder, f"{KEEP}/{TARGET}_{number}", dirs_exist_ok=True)
            shutil.rmtree(folder)
    if bad:
        sys.exit(f"wrong with LOCKSTEP_FIRST={bad[0]}" + "".join(f", {n}" for n in bad[1:]))


main()
