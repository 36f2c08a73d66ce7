#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole models with --target vulkan: what is generated compiles without a warning as C99 and C++; runs agree
with the reference evaluator (skipped where there is no device; Debian's mesa-vulkan-drivers has one that runs
on CPUs); without a driver a context says so. Usage: check_vulkan.py RLXC; prints TAP."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import tap
from tap import result

RLXC = sys.argv[1]
ROOT = os.environ.get("RLXC_SOURCE", ".")
MODELS = ["gelu_example", "mlp", "transformer", "lstm", "lstm_stream", "digits/digits"]
COMPILERS = ["gcc -std=c99", "clang -std=c99", "g++ -x c++ -std=c++11", "clang++ -x c++ -std=c++11"]
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror"
NETWORKS = ["mnist_cntk", "dtln_1"]  # of ../shared/models/onnx, where that is
NO_DEVICE = "no driver, or no device that can run the code"


def run(command, **env):
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **env}
    )
    return done.returncode, done.stdout + done.stderr


def verify(model, **env):
    return run([RLXC, "verify", f"{ROOT}/models/{model}.json", "--target", "vulkan"], **env)


def write_long_run(path):
    """So many launches that a run is submitted in two parts; the loop behind them keeps it from being
    recorded once."""
    lines = ['graph "long" {', '  %1 = input "x" : f32[5, 3]', '  %2 = input "s" : f32[3]']
    lines += ["  %3 = const : i64[] = {5}", "  %4 = const : bool[] = {true}"]
    lines += [f"  %{i} = softmax(%{1 if i == 5 else i - 1})" for i in range(5, 155)]
    body = ['"i" : i64[]', '"go" : bool[]', '"sum" : f32[3]', '"all" : f32[5, 3]']
    lines += ['  %155 = loop(%3, %4, %2, %154) {body = graph "body" {']
    lines += [f"    %{i + 1} = input {text}" for i, text in enumerate(body)]
    lines += ["    %5 = gather(%4, %1) {axis = 0}", "    %6 = add(%3, %5)", '    output "go_on" = %2']
    lines += ['    output "sum" = %6', '    output "row" = %6', "  }, carried = 1, max_trips = [5]}"]
    lines += ['  output "sum" = %155', "}"]
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")


def check_one_file(folder):
    """Weights and kernels of more than 64 KB are files, and the text of kernels is; with --one-file there is
    NAME.c, which needs nothing else."""
    compiled = [RLXC, "compile", f"{ROOT}/models/decoder.json", "--target", "vulkan", "-o"]
    files = ["decoder.c", "decoder.h", "decoder.comp", "decoder.k7_attention", "decoder.weights"]
    for options, names in ([], files), (["--one-file"], files[:2]):
        place = f"{folder}/{len(names)}"
        status, said = run([*compiled, place, *options])
        is_right = status == 0 and set(os.listdir(place)) >= set(names)
        is_right = is_right and (options == [] or len(os.listdir(place)) == len(names))
        result(is_right, f"files {options}", said + str(os.path.isdir(place) and os.listdir(place)))
    status, said = run(["cc", "-O0", "-c", f"{folder}/2/decoder.c", "-o", f"{folder}/d.o"])
    result(status == 0, "--one-file needs no other file", said)
    for options in (["--weights", "file"], ["--weights", "incbin"], ["--moe-resident", "2"]):
        status, said = run([*compiled, f"{folder}/no", "--one-file", *options])
        result(status == 2 and "--one-file" in said, f"--one-file {options}", said)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{ROOT}/models/mlp.json"
        status, said = run([RLXC, "compile", path, "--target", "vulkan", "-o", folder, "--name", "mlp"])
        if "without glslang" in said:
            print("1..0 # SKIP rlxc was built without glslang (tools/setup installs it)")
            return 77
        result(status == 0, "mlp is compiled", said)
        for compiler in [c for c in COMPILERS if shutil.which(c.split()[0])]:
            command = f"{compiler} {WARNINGS} -c {folder}/mlp.c -o {folder}/mlp.o"
            status, said = run(command.split())
            result(status == 0, f"its C with {compiler}", said)
        check_one_file(folder)
    status, said = verify("mlp", VK_ICD_FILENAMES="/nonexistent", VK_DRIVER_FILES="/nonexistent")
    result(status != 0 and NO_DEVICE in said, "without a driver", said)
    has_device = NO_DEVICE not in verify("mlp")[1]
    if not has_device:
        print("SKIPPED: no Vulkan device here (tools/setup installs one)", file=sys.stderr)
    for model in MODELS:
        status, said = verify(model) if has_device else (0, "")
        result(status == 0, f"{model} is right", said, "" if has_device else "no Vulkan device")
    paths = [f"{ROOT}/../shared/models/onnx/{name}/model.onnx" for name in NETWORKS]
    for path in [path for path in paths if has_device and os.path.exists(path)]:
        status, said = run([RLXC, "verify", path, "--target", "vulkan"])
        result(status == 0, path, said)
    if has_device:
        with tempfile.TemporaryDirectory() as folder:
            write_long_run(f"{folder}/long.rlx")
            status, said = run([RLXC, "verify", f"{folder}/long.rlx", "--target", "vulkan"])
            result(status == 0, "a long run in two parts", said)
    return tap.end()


sys.exit(main())
