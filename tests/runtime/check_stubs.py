#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One program (stubs_test.c) for models of all kinds, as C99 and C++: with rlx_stubs.h it has every call, and
the calls that a model has no use for say so. Usage: check_stubs.py RLXC; prints TAP."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
import tap
from tap import result

RLXC = os.path.abspath(sys.argv[1])
MODELS = os.path.join(HERE, "../../models")
LANGUAGES = ["cc", "-std=c99"], ["c++", "-x", "c++", "-std=c++11"]
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-O0"]
OPEN, EXPERTS, SHARED = {"symbols", "buckets"}, {"moe"}, {"parallel", "threads"}
SOME = OPEN | EXPERTS | SHARED | {"tables"}
MORE = {"errors", "runs", "links", "params", "typed", "times"}  # with --api full alone
PARAMS, STATES, SHAPES, FILES = {"values"}, {"states"}, {"shapes", "read"}, {"weights"}
OTHERS = {"profile", "devices", "sets", "handles"} | PARAMS | STATES | SHAPES | FILES
FULL = ["--api", "full"]
# Model, options, and what it does not have.
CASES = [
    (f"{MODELS}/mlp.json", FULL, SOME),
    (f"{MODELS}/mlp.json", [], SOME | MORE | OTHERS),
    (f"{MODELS}/mlp.json", ["--api", "core"], SOME | MORE | OTHERS | {"calls"}),
    (f"{MODELS}/mlp.json", ["--api", "core", "--profile"], (SOME | MORE | OTHERS | {"calls"}) - {"profile"}),
    (f"{MODELS}/lstm_stream.json", FULL, SOME),
    (f"{MODELS}/lstm_stream.json", [], (SOME | MORE | OTHERS) - STATES),
    (f"{HERE}/plan.json", ["--bucket", "rows=4,16", "--tables", *FULL], EXPERTS | SHARED),
    (f"{HERE}/sizes.json", ["--dynamic", "--link-runtime", *FULL], SOME - OPEN),
    (f"{HERE}/sizes.json", ["--dynamic"], (SOME | MORE | OTHERS) - OPEN - SHAPES - PARAMS - STATES),
    (f"{HERE}/everything.json", ["--dim", "rows=8", *FULL], SOME - EXPERTS),
    (f"{HERE}/look.json", FULL, SOME),
    (f"{MODELS}/transformer.json", ["--threads", "2", *FULL], SOME - SHARED),
    (f"{MODELS}/transformer.json", ["--threads", "2", "--pool", "caller", *FULL], SOME - {"parallel"}),
    (f"{MODELS}/mlp.json", ["--target", "cuda,c", "--gpu", "text", *FULL], SOME),
    (f"{MODELS}/mlp.json", ["--target", "vulkan,c", *FULL], SOME),
    (f"{MODELS}/mlp.json", ["--target", "metal,c"],
     SOME | {"errors", "runs", "links", "params", "typed", "sets", "handles", "states"}),
]
TEXT = "the call is for what the model was compiled without"


def run(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def check(folder, model, options, absent):
    name = " ".join([os.path.basename(model), *options])
    status, said = run([RLXC, "compile", model, "-o", ".", "--name", "m", "--no-validate", *options], folder)
    if "without glslang" in said:
        result(True, name, skipped="rlxc was built without glslang")
        return
    for language in LANGUAGES:
        defines = ['-DHEADER="m.h"', "-DMODEL=m_model", "-I.", "-I" + HERE + "/../../runtime-lite"]
        files = [f"{HERE}/stubs_test.c", "m.c", "-o", "p", "-lm", "-pthread"]
        if status == 0:
            status, said = run([*language, *WARN, *defines, *files], folder)
        if status == 0:
            status, said = run(["./p"], folder)
        lines = said.splitlines()
        is_right = {line for line in lines if line != TEXT} == absent
        has_text = (TEXT in lines) == ("symbols" in absent and "errors" not in absent)
        result(status == 0 and is_right and has_text, f"{name}: {language[0]}", said)


def main():
    header = subprocess.run([RLXC, "header"], check=True, capture_output=True, text=True).stdout
    calls = re.findall(r"^static inline [^;{]*?\b(rlx_\w+)\(", header, re.M)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in ("rlx_stubs.h", header), ("all_calls.h", "".join(f"(void){c};\n" for c in calls)):
            with open(f"{folder}/{name}", "w", encoding="ascii") as f:
                f.write(text)
        result(len(calls) > 50 and "rlx_set_symbol" in calls, "rlx_stubs.h has the calls", calls)
        status, said = run(["cc", "-fsyntax-only", "rlx_stubs.h"], folder)
        result(status != 0 and "include the header of a model" in said, "alone it says what it needs", said)
        for case in CASES:
            check(folder, *case)
    return tap.end()


sys.exit(main())
