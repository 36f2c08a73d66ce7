#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# What is emitted, as users build it: free of warnings as C99 and C++ with the compilers that are here,
# the header alone, no undefined symbols but memcpy, memset and libm, every --weights and --arena mode,
# two models in one program, and clean under the sanitizers. A model is built for one CPU each day, and
# run under the sanitizers every other day (rotation.py). Usage: check_generated.py RLXC
import glob
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
from emitted import flags_of  # noqa: E402
from rotation import is_taken  # noqa: E402

rlxc = os.path.abspath(sys.argv[1])
root = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
models = sorted(glob.glob(root + "/models/*.json") + glob.glob(root + "/models/*/*.json"))
ALLOWED = {
    "memcpy",
    "memset",
    "expf",
    "logf",
    "log1pf",
    "expm1f",
    "sinf",
    "cosf",
    "tanf",
    "asinf",
    "acosf",
    "atanf",
    "sinhf",
    "coshf",
    "tanhf",
    "asinhf",
    "acoshf",
    "atanhf",
    "erff",
    "powf",
    "atan2f",
    "fmodf",
    "sqrtf",
    "floorf",
    "ceilf",
    "truncf",
    "rintf",
    "fabsf",
    "fmaf",
    "exp",
    "log",
    "sin",
    "cos",
    "tanh",
    "erf",
    "pow",
    "fmod",
    "sqrt",
}
WARN = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
failed = []
tests = 0


def run(what, command, cwd):
    global tests
    tests += 1
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        failed.append(f"{what}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done


def emit(model, folder, *options):
    name = os.path.splitext(os.path.basename(model))[0]
    run("compile " + name, [rlxc, "compile", model, "-o", folder, "--name", name, *options], root)
    return name, flags_of(f"{folder}/{name}.c")


C = [[x, "-std=c99"] for x in ("gcc", "clang") if shutil.which(x)]
STRICT_CXX = ["-std=c++20", "-Wpedantic", "-Wold-style-cast", "-Wcast-qual",
              "-Wzero-as-null-pointer-constant"]
CXX = [[x, "-x", "c++", "-std=c++11"] for x in ("g++", "clang++") if shutil.which(x)]


def check_header(model, folder):
    name, _ = emit(model, folder)
    with open(f"{folder}/alone.c", "w") as f:
        f.write(f'#include "{name}.h"\nint main(void) {{ return {name}_model.n_inputs == 99u; }}\n')
    for compiler in C + CXX:
        run(f"{name}.h alone", [*compiler, *WARN, "-c", "alone.c", "-o", "alone.o"], folder)


def check_model(model, folder, cpu):
    name, flags = emit(model, folder, "--cpu", cpu)
    for compiler in C + CXX:
        run(f"{name} {cpu}", [*compiler, *flags, *WARN, "-c", name + ".c", "-o", name + ".o"], folder)
    run(f"{name} {cpu}", ["cc", "-std=c99", *flags, "-c", name + ".c", "-o", name + ".o"], folder)
    symbols = run("nm", ["nm", "-u", name + ".o"], folder).stdout.split()
    strange = [s for s in symbols if s != "U" and s not in ALLOWED]
    if strange:
        failed.append(f"{name} {cpu}: undefined symbols {strange}")


PROGRAM = """
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>
static RLX_ALIGNED unsigned char arena[NAME_ARENA_BYTES + 64], state[NAME_STATE_BYTES + 64];
int main(void)
{
    rlx_ctx ctx;
    size_t i;
    memset(arena, 0xA5, sizeof arena);
    if (START != RLX_OK)
        return 1;
    for (i = 0; i < NAME_model.n_inputs; i++)
        memset(rlx_input(&ctx, (uint32_t)i), 0, NAME_model.inputs[i].bytes);
    if (rlx_run(&ctx) != RLX_OK)
        return 2;
    for (i = NAME_model.arena_bytes; i < sizeof arena; i++)
        if (arena[i] != 0xA5)
            return 3;
    return 0;
}
"""


def write_program(folder, name, start):
    text = (
        PROGRAM.replace("START", start)
        .replace("NAME_ARENA", name.upper() + "_ARENA")
        .replace("NAME_STATE", name.upper() + "_STATE")
    )
    with open(f"{folder}/main.c", "w") as f:
        f.write(text.replace("NAME", name))


INIT = "NAME_init(&ctx, arena, NAME_model.arena_bytes, state, NAME_model.state_bytes)"


def check_sanitized(model, folder):
    for cpu in ("generic", "native"):
        name, flags = emit(model, folder, "--cpu", cpu)
        write_program(folder, name, INIT)
        run(
            f"{name} sanitized",
            [
                "cc",
                *flags,
                "-O1",
                "-g",
                "-fsanitize=address,undefined",
                "-fno-sanitize-recover=all",
                "main.c",
                name + ".c",
                "-o",
                "p",
                "-lm",
            ],
            folder,
        )
        run(f"{name} {cpu} sanitized", ["./p"], folder)


def check_modes(model, folder):
    for options, start in (
        (["--weights", "rodata"], INIT),
        (["--weights", "incbin"], INIT),
        (["--link-runtime"], INIT),
        (["--arena", "static"], "(NAME_static() == NULL ? RLX_ERR_NULL : " + INIT + ")"),
    ):
        name, flags = emit(model, folder, *options)
        write_program(folder, name, start)
        run(
            f"{name} {options}",
            ["cc", *flags, "-I" + root + "/runtime-lite", "main.c", name + ".c", "-o", "p", "-lm"],
            folder,
        )
        run(f"{name} {options}", ["./p"], folder)
    name, flags = emit(model, folder, "--weights", "file")
    size = name.upper() + "_WEIGHT_BYTES"
    load = INIT.replace("NAME_init(&ctx, ", "rlx_init(&ctx, &NAME_model, ")
    write_program(folder, name, load.replace("bytes)", f"bytes, weights(), {size})"))
    with open(f"{folder}/main.c") as f:
        text = f.read()
    with open(f"{folder}/main.c", "w") as f:
        f.write(
            text.replace(
                "int main(void)",
                f"""static void *weights(void)
{{
    void *p = aligned_alloc(64, ({size} + 63) / 64 * 64);
    FILE *f = fopen("{name}.weights", "rb");
    return f != NULL && p != NULL && fread(p, 1, {size}, f) == {size} ? p : NULL;
}}

int main(void)""",
            )
        )
    run(f"{name} --weights file", ["cc", *flags, "main.c", name + ".c", "-o", "p", "-lm"], folder)
    run(f"{name} --weights file", ["./p"], folder)


def check_split(folder):
    """In parts, each compiled by itself; as one file; two such models in one program; what is refused."""
    names = []
    for model in (root + "/models/lstm.json", root + "/models/mlp.json"):
        name, flags = emit(model, folder, "--split", "3", "--cpu", "x86-64-v3")
        parts = [f"{name}.c", f"{name}_2.c", f"{name}_3.c"]
        write_program(folder, name, INIT)
        flags = [f for f in flags if not f.endswith(".c")] + ["-std=gnu99", *WARN, "-Wmissing-prototypes"]
        for cc in ("cc", "clang"):
            for p in parts:
                run(f"{name} part", [cc, *flags, "-c", p, "-o", f"{p}.o"], folder)
            objects = [p + ".o" for p in parts]
            run(f"{name} parts", [cc, "main.c", *objects, "-o", "p", "-lm"], folder)
            run(f"{name} parts", ["./p"], folder)
            whole = [f"-D{name.upper()}_WHOLE", f"{name}.c", "main.c", "-o", "p", "-lm"]
            run(f"{name} whole", [cc, *flags, *whole], folder)
            run(f"{name} whole", ["./p"], folder)
        run(f"{name} C++", ["g++", "-std=c++11", "-x", "c++", "-c", parts[1], "-o", "p.o"], folder)
        names.append(name)
    header = [f"{name}.h" for name in names]
    for cxx in CXX:
        included = [word for h in header for word in ("-include", h)]
        command = [*cxx, *WARN, *STRICT_CXX, "-fsyntax-only", *included, os.devnull]
        run("headers in strict C++", command, folder)
        command = [*cxx, "-Wall", "-Wno-unused-function", "-Werror", "-fsyntax-only", f"{names[0]}_rlx.h"]
        run("a header by itself in C++", command, folder)
    two = [f"{n}{s}.c.o" for n in names for s in ("", "_2", "_3")]
    run("two models in parts", ["cc", "-r", "-nostdlib", *two, "-o", "two.o"], folder)
    wanted = {("0",): "from 1 to 64", ("65",): "from 1 to 64", ("x",): "from 1 to 64",
              ("2", "--one-file"): "no --one-file", ("2", "--target", "vulkan"): "--target c"}
    for wrong, text in wanted.items():
        command = [rlxc, "compile", models[0], "-o", folder, "--split", *wrong]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0 or text not in done.stderr:
            failed.append(f"--split {wrong}: {done.stderr}")


def check_two(folder):
    names = [emit(m, folder, "--api=full")[0] for m in models[:2]]
    with open(f"{folder}/two.c", "w") as f:
        f.write("".join(f'#include "{n}.h"\n' for n in names))
        f.write(
            "int main(void) { return " + " + ".join(f"({n}_model.n_inputs == 99u)" for n in names) + "; }\n"
        )
    run(
        "two models",
        ["cc", "-std=c99", *WARN, "two.c", *(n + ".c" for n in names), "-o", "two", "-lm"],
        folder,
    )
    run("two models", ["./two"], folder)


def check_order(folder):
    """Headers of two models, each with what its own model needs: the one that has more comes first, or
    compilers say so."""
    digits, lstm = (emit(f"{root}/models/{m}.json", folder)[0] for m in ("digits/digits", "lstm_stream"))
    linked = emit(f"{root}/models/mlp.json", folder, "--link-runtime")[0]
    orders = [(lstm, digits, True), (digits, lstm, False), (linked, digits, True), (digits, linked, False)]
    for first, second, is_well in orders:
        for compiler in C + CXX:
            with open(f"{folder}/order.c", "w") as f:
                f.write(f'#include "{first}.h"\n#include "{second}.h"\nint main(void) {{ return 0; }}\n')
            command = [*compiler, *WARN, "-I", root + "/runtime-lite", "-fsyntax-only", "order.c"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if (done.returncode == 0) != is_well or (not is_well and "--api full" not in done.stderr):
                failed.append(f"{first}.h before {second}.h: {done.stderr}")


# Rows that end within a vector, of each width that has instructions for such ends.
ENDS = """graph "ends" {
  %1 = input "bytes" : u8[3, 37]
  %2 = input "halves" : f16[3, 37]
  %3 = input "words" : i32[3, 37]
  %4 = add(%1, %1)
  %5 = add(%2, %2)
  %6 = cast(%1) {to = i32}
  %7 = add(%6, %3)
  %8 = cast(%7) {to = i8}
  output "sums" = %4
  output "doubled" = %5
  output "cut" = %8
  output "whole" = %7
}
"""


def check_ends(folder):
    path = f"{folder}/ends.rlx"
    with open(path, "w", encoding="ascii") as f:
        f.write(ENDS)
    for cpu in ("x86-64-v3", "x86-64-v4"):
        check_model(path, folder, cpu)


with tempfile.TemporaryDirectory() as top:
    check_ends(top)
    for i, m in enumerate(models):
        for k, c in enumerate(("generic", "x86-64-v3", "x86-64-v4")):
            if is_taken(i + k, 3):
                check_model(m, f"{top}/{c}", c)
        check_header(m, top + "/header")
        if is_taken(i, 2):
            check_sanitized(m, top + "/san")
    check_modes(root + "/models/digits/digits.json", top + "/modes")
    check_split(top + "/split")
    check_two(top + "/two")
    check_order(top + "/order")
for line in failed:
    print(line, file=sys.stderr)
print(f"{tests - len(failed)} of {tests} steps as expected")
sys.exit(bool(failed))
