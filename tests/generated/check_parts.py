#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Headers that have only what their models need, for models that have different things: C99 and C++ without
warnings, the calls that they must have, and none that they have no use for; types and statuses are the
same in all of them. Usage: check_parts.py RLXC"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.abspath(__file__)) + "/../.."
sys.path.insert(0, ROOT + "/tests/common")
import tap  # noqa: E402
from emitted import flags_of  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
MODELS, RUNTIME = ROOT + "/models", ROOT + "/tests/runtime"
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]
LANGUAGES = ["gcc", "-std=c99"], ["clang++", "-x", "c++", "-std=c++11"]
ALWAYS = {"rlx_init", "rlx_close", "rlx_input", "rlx_output", "rlx_run", "rlx_status_text"}
CALLS = {"rlx_run_slots", "rlx_run_sized", "rlx_run_named"}
PARAMS, STATES = {"rlx_set_param", "rlx_missing_param"}, {"rlx_reset", "rlx_read_state"}
SHAPES = {"rlx_input_bytes", "rlx_output_shape", "rlx_read_output_at"}
SYMBOLS, BUCKETS = {"rlx_set_symbol", "rlx_find_symbol"}, {"rlx_bucket", "rlx_run_padded"}
HANDLES, CHECKS = {"rlx_bind_handle", "rlx_feed_handle"}, {"rlx_failed_check"}
PROFILE, LOOK, TABLES = {"rlx_set_profile"}, {"rlx_value_data"}, {"rlx_buffer_at"}
SETS, WEIGHTS = {"rlx_run_set"}, {"rlx_check_weights"}
THREADS, POOL, MOE = {"rlx_set_parallel_for"}, {"rlx_threads_start"}, {"rlx_moe_capture"}
FULL = {"rlx_clone", "rlx_commit", "rlx_error_text", "rlx_run_typed", "rlx_make_handle", "rlx_take_snapshot"}
OPEN = SYMBOLS | BUCKETS | SHAPES
# Model, options, and what it has beside what each has.
CASES = [
    (f"{MODELS}/digits/digits.json", ["--dim", "batch=1"], set()),
    (f"{MODELS}/digits/digits.json", ["--dim", "batch=1", "--one-file"], set()),
    (f"{MODELS}/digits/digits.json", ["--dim", "batch=1", "--output-set", "a=probs"], SETS),
    (f"{MODELS}/lstm_stream.json", [], STATES),
    (f"{MODELS}/transformer.json", ["--weights", "file"], WEIGHTS | STATES),
    (f"{MODELS}/transformer.json", ["--weights", "incbin"], WEIGHTS | STATES),
    (f"{MODELS}/transformer.json", ["--weights", "rodata", "--threads", "2"], THREADS | POOL | STATES),
    (f"{MODELS}/transformer.json", ["--weights", "rodata", "--threads", "2", "--pool", "caller"],
     THREADS | STATES),
    (f"{RUNTIME}/sizes.json", ["--dynamic"], OPEN | PARAMS | STATES),
    (f"{RUNTIME}/buckets.json", ["--bucket", "seq=4,8,16", "--bucket", "batch=1,3"],
     OPEN | PARAMS | STATES),
    (f"{RUNTIME}/setparam.json", ["--dim", "n=4"], PARAMS),
    (f"{RUNTIME}/bounds.json", ["--dim", "hits=3", "--dim", "steps=4"], CHECKS | SHAPES | STATES),
    (f"{RUNTIME}/handles.json", ["--handle", "table", "--handle", "bias", "--handle", "cache=grown"],
     HANDLES | PARAMS | STATES | SHAPES),
    (f"{RUNTIME}/look.json", ["--keep", "inner", "--profile", "--embed-source"],
     PROFILE | LOOK | PARAMS | STATES),
    (f"{RUNTIME}/plan.json", ["--tables", "--bucket", "rows=4,16"], TABLES | OPEN | PARAMS | STATES),
    (f"{RUNTIME}/everything.json", ["--dim", "rows=8", "--moe-resident", "2"],
     MOE | PARAMS | STATES | CHECKS),
]
OPTIONAL = OPEN.union(PARAMS, STATES, HANDLES, CHECKS, PROFILE, LOOK, TABLES, SETS, WEIGHTS, THREADS, POOL,
                      MOE)


def calls_of(folder):
    headers = [f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".h")]
    text = "".join(open(path, encoding="ascii").read() for path in headers)
    return set(re.findall(r"^static inline [^;{]*?\b(rlx_\w+)\(", text, re.M))


def check(model, options, own, api):
    name = " ".join([os.path.basename(model), *options, *api])
    with tempfile.TemporaryDirectory() as folder:
        command = [RLXC, "compile", model, "-o", folder, "--name", "m", "--no-validate", *options, *api]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = calls_of(folder) if done.returncode == 0 else set()
        wanted = ALWAYS | own | (CALLS if api == [] else set())
        used = {"rlx_run_slots"} if own >= BUCKETS else set()  # rlx_run_padded uses it
        strange = sorted((found & (OPTIONAL | CALLS | FULL)) - wanted - used)
        tap.result(done.returncode == 0 and wanted <= found and not strange, name,
                   f"{done.stderr}lacks {sorted(wanted - found)}, need not have {strange}")
        for language in LANGUAGES:
            if shutil.which(language[0]) is not None:
                command = [*language, *WARN, *flags_of(f"{folder}/m.c"), "m.c"]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                tap.result(done.returncode == 0, f"{name}: {language[0]}", done.stderr)


def members_of(text, name):
    body = re.search(rf"typedef struct {name} {{\n(.*?)\n}} {name};", text, re.S)[1]
    for member in re.sub(r"//.*|\s+", " ", body).split(";"):
        function = re.search(r"\(\*(\w+)\)", member)
        yield from [function[1]] if function else re.findall(r"(\w+)(?:\[\w+\])?\s*(?:,|$)", member)


def layout_of(folder, program):
    with open(f"{folder}/layout.c", "w", encoding="ascii") as f:
        f.write(program)
    subprocess.run(["gcc", "-std=c99", "layout.c", "-o", "layout"], cwd=folder, check=True)
    return subprocess.run([f"{folder}/layout"], capture_output=True, text=True, check=True).stdout


def check_layout():
    """rlx_types.h says twice what members and statuses there are, with comments and in short."""
    with tempfile.TemporaryDirectory() as folder:
        for level in "full", "plan", "core":
            command = [RLXC, "compile", MODELS + "/mlp.json", "-o", f"{folder}/{level}", "--name", "m"]
            subprocess.run([*command, "--api", level], check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/full/m_rlx.h", encoding="ascii") as f:
            text = f.read()
        lines = [f"offsetof({t}, {m})" for t in ("rlx_model", "rlx_ctx") for m in members_of(text, t)]
        lines += [f"sizeof({t})" for t in ("rlx_model", "rlx_ctx", "rlx_tensor", "rlx_kernel")]
        statuses = re.search(r"typedef enum rlx_status {(.*?)}", text, re.S)[1]
        lines += re.findall(r"\bRLX_\w+", re.sub(r"//.*", "", statuses))
        prints = "".join(f'    printf("%s %zu\\n", "{v}", (size_t)({v}));\n' for v in lines)
        program = f'#include "m.h"\n#include <stdio.h>\nint main(void)\n{{\n{prints}    return 0;\n}}\n'
        full = layout_of(f"{folder}/full", program)
        for level in "plan", "core":
            tap.result(len(lines) > 90 and layout_of(f"{folder}/{level}", program) == full,
                       f"the layout of {len(lines)} members and statuses with --api {level}")


check_layout()
for case in CASES:
    for level in [], ["--api", "core"]:
        check(*case, level)
sys.exit(tap.end())
