#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of docs/VALIDATION.md. Faults that are planted in emitted C are found, each by its rule; all
models keep the rules, also with some of many options, which change from day to day (rotation.py) as those of
real networks do; the bound of the stack holds against gcc's figures; certificates are the same wherever they
are made. Usage: check_validate.py RLXC"""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
from rotation import part_of, say  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
MODELS = ROOT + "/models"
SHARED = os.path.dirname(ROOT) + "/shared/models/onnx"
TINY = os.path.dirname(ROOT) + "/shared/models/mlperf_tiny"
os.environ.pop("RLXC_LIBCLANG", None)  # which keeps the other tests quick
failed = []
checks = 0


def check(what, is_right, text=""):
    global checks
    checks += 1
    if not is_right:
        failed.append(f"{what}\n{text}")


def rlxc(*args, **more):
    return subprocess.run([RLXC, *args], capture_output=True, text=True, **more)


# --- planted faults ---

# What is planted, before the first kernel or at the beginning of one; a rule that must be named; options.
OUTSIDE = [
    (
        "goto",
        "static int f(int n)\n{\nagain:\n    if (n > 0)\n        goto again;\n    return n;\n}\n",
        "no goto",
    ),
    (
        "malloc",
        "#include <stdlib.h>\nstatic void *f(void)\n{\n    return malloc(4);\n}\n",
        "parses as C99",
    ),
    (
        "own malloc",
        "extern void *malloc(size_t n);\nstatic void *f(void)\n{\n    return malloc(4);\n}\n",
        "symbols",
    ),
    ("builtin", "static void *f(size_t n)\n{\n    return __builtin_malloc(n);\n}\n", "symbols"),
    (
        "printf",
        'extern int printf(const char *t, ...);\nstatic void f(void)\n{\n    printf("x");\n}\n',
        "symbols",
    ),
    ("address", "extern int rand(void);\nstatic int (*const f)(void) = rand;\n", "symbols"),
    ("implicit", "static int f(void)\n{\n    return getpid();\n}\n", "parses as C99"),
    ("threads", "#include <pthread.h>\n", "parses as C99"),
    ("recursion", "static int f(int n)\n{\n    return n < 1 ? 0 : f(n - 1) + 1;\n}\n", "reach itself"),
    (
        "mutual recursion",
        "static int g(int n);\nstatic int f(int n)\n{\n    return n < 1 ? 0 : g(n);\n}\n"
        "static int g(int n)\n{\n    return f(n - 1);\n}\n",
        "reach itself",
    ),
    (
        "recursion by dispatch",
        "static rlx_status f(rlx_ctx *ctx)\n{\n    return ctx->model->dispatch(ctx);\n}\n"
        "rlx_status (*const table[])(rlx_ctx *) = {f};\n",
        "reach itself",
    ),
    ("global", "static int stray;\nint *f(void);\nint *f(void)\n{\n    return &stray;\n}\n", "lasts beyond"),
    ("static", "int f(void);\nint f(void)\n{\n    static int n = 0;\n    return ++n;\n}\n", "lasts beyond"),
    ("pointer", "static int f(int (*g)(void))\n{\n    return g();\n}\n", "no pointer"),
    (
        "computed pointer",
        "static int f(void *p)\n{\n    return (*(int (**)(void))p)();\n}\n",
        "no pointer",
    ),
    ("C++", "static int *f(void *p)\n{\n    return p;\n}\n", "parses as C++11"),
    ("unused", "static int f(void)\n{\n    int n;\n    return 1;\n}\n", "parses as C99"),
]
LOOPS = [
    ("for (;;)\n        n++;", False),
    ("while (n != 7)\n        n += 2;", False),
    ("for (i = 0; i < n; i++)\n        n++;", False),
    ("for (i = 0; i < n; i++)\n        i--;", False),
    ("for (i = 0; i < n; i--)\n        k++;", False),
    ("for (i = 0; i < n; i += k)\n        m++;", False),
    ("for (i = 0; i <= n; i++)\n        k++;", False),
    ("for (i = 0; i < *p; i++)\n        p[i] = n;", False),
    ("for (i = n; i >= 0; i--)\n        k++;", False),
    ("for (i = 0; i < n || k; i++)\n        m++;", False),
    ("while (i < n) {\n        if (k)\n            continue;\n        i++;\n    }", False),
    ("while (i < n) {\n        if (k)\n            i++;\n    }", False),
    ("for (i = 0; i < n; i++)\n        p = &n, *p = i + 2;", False),
    ("for (i = 0; i < n; i *= 2)\n        k++;", False),
    ("do\n        k++;\n    while (k);", False),
    ("for (i = 0; i < n; i++)\n        k++;", True),
    ("for (i = 0; i < 8; i += 2)\n        k++;", True),
    ("while (n-- > 0)\n        k++;", True),
    ("for (i = 1; i < n; i *= 2)\n        k++;", True),
    ("for (; n != 0; n >>= 1)\n        k++;", True),
    ("while (i < n && k) {\n        k--;\n        i++;\n    }", True),
    ("for (i = n; i > 0; i--)\n        k++;", True),
]


def dev_validate(folder, text):
    with open(folder + "/plain.c", "w", encoding="ascii") as f:
        f.write(text)
    return rlxc("dev-validate", *(folder + "/plain" + end for end in (".c", ".h", "_rlx.h")))


def check_planted(folder):
    done = rlxc("compile", MODELS + "/gelu_example.json", "-o", folder, "--name", "plain", "--no-validate")
    check("compile", done.returncode == 0, done.stderr)
    with open(folder + "/plain.c", encoding="ascii") as f:
        text = f.read()
    done = dev_validate(folder, text)
    check("nothing planted", done.returncode == 0, done.stderr)
    before = text.index("RLX_KERNEL void k0")
    for what, planted, rule in OUTSIDE:
        done = dev_validate(folder, text[:before] + planted + text[before:])
        found = done.returncode == 1 and re.search("the rule: .*" + re.escape(rule), done.stderr)
        check("planted " + what, found, done.stderr)
    for i, (loop, ends) in enumerate(LOOPS):
        function = (
            f"unsigned loop{i}(unsigned n, unsigned *p);\nunsigned loop{i}(unsigned n, unsigned *p)\n{{\n"
            f"    unsigned i = 0, k = 0, m = 0;\n    {loop}\n    *p = m;\n    return i + k + n;\n}}\n"
        )
        done = dev_validate(folder, text[:before] + function + text[before:])
        is_found = "no bound of this loop" in done.stderr
        check(f"loop: {loop}", done.returncode == (0 if ends else 1) and is_found != ends, done.stderr)
    done = dev_validate(folder, "static int n;\n" + text.replace("= 0; c < 4; c++", "= 0; c < 4; c--"))
    check("two faults", done.stderr.count("error[E0501]") >= 2, done.stderr)


# --- what is emitted ---


def variants():
    models = sorted(glob.glob(MODELS + "/*.json") + glob.glob(MODELS + "/*/*.json"))
    options = [
        [],
        ["--cpu", "x86-64-v3", "--threads", "4"],
        ["--cpu", "x86-64-v4", "--profile"],
        ["--cpu", "x86-64-v4-amx", "--accuracy", "1e-3", "--threads", "3", "--pool", "caller"],
        ["--cpu", "armv8-a", "--arena", "static"],
        ["--cpu", "rv64gcv", "--api", "core"],
        ["--cpu", "wasm-simd128"],
        ["--link-runtime", "--embed-source"],
        ["--target", "cuda", "--gpu", "text"],
        ["--target", "metal,c"],
    ]
    for i, m in enumerate(models):  # each model as it is, and with some of the options in turn
        yield m, []
        for k in part_of(range(4), 2):
            yield m, options[1 + (i + 2 * k) % (len(options) - 1)]
    runtime = ROOT + "/tests/runtime/"
    yield runtime + "everything.json", ["--dynamic"]
    yield runtime + "everything.json", ["--threads", "3"]
    yield runtime + "sizes.json", ["--dynamic", "--arena-at", "seq=20", "--target", "cuda", "--gpu", "text"]
    yield runtime + "buckets.json", ["--bucket", "seq=4,8,16", "--bucket", "batch=1,3"]
    yield runtime + "handles.json", ["--handle", "table", "--handle", "bias", "--handle", "cache=grown"]


SIZES = {
    "silero_vad": ["--dim", "batch=1", "--dim", "sequence=512"],
    "stories260k_kv": ["--dim", "B=1", "--dim", "T=1", "--dim", "S=32", "--dim", "P=31"],
    "tiny_gpt2": [
        *("--dim", "batch_size=1", "--dim", "seq_len=4"),
        *("--dim", "total_seq_len=4", "--dim", "past_seq_len=0"),
    ],
}


def certify(model, options, folder, name="m"):
    done = rlxc("compile", model, "-o", folder, "--name", name, "--certify", *options)
    check(f"certify {model} {options}", done.returncode == 0, done.stderr)
    if done.returncode != 0:
        return None
    with open(f"{folder}/{name}.certificate.json", encoding="utf-8") as f:
        return json.load(f)



def check_emitted(folder):
    say()
    for model, options in variants():
        c = certify(model, options, folder)
        if c is None:
            continue
        v = c["validation"]
        what = f"{model} {options}"
        check(what + ": rules", len(v["rules"]) == 8 and all(r["holds"] for r in v["rules"]))
        check(what + ": findings", v["findings"] == [] and v["functions"] > 10)
        check(what + ": kernels", len(c["kernels"]) > 0 and all(k["bytes"] > 0 for k in c["kernels"]))
        check(what + ": stack", any(s["bytes"] > 0 for s in v["stack"]))
    networks = sorted(glob.glob(SHARED + "/*/model.onnx"))
    if not networks:
        print("../shared/models/onnx: skipped, not here")
    for model in networks:
        sizes = SIZES.get(os.path.basename(os.path.dirname(model)), [])
        for options in part_of([[], ["--cpu", "x86-64-v3", "--threads", "2"]], 2):
            certify(model, sizes + options, folder)
    check_firmware_networks(folder)


def check_firmware_networks(folder):
    """Their functions in assembler have C text beside it, which is what can be read."""
    names = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "vww_96_int8")
    networks = [f"{TINY}/{name}.tflite" for name in names]
    if not os.path.isdir(TINY):
        print("../shared/models/mlperf_tiny: skipped, not here")
        return
    for model in networks:
        for cpu in part_of(["cortex-m4", "cortex-m55", "rv32imafcv"], 3):
            certify(model, ["--cpu", cpu], folder)
    streamed = ["--cpu", "cortex-m4", "--stream-input", "input_1_int8", "--ram", "22400"]
    certify(f"{TINY}/vww_96_int8.tflite", streamed, folder)


# --- certificates ---


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def check_certificate(folder):
    model = MODELS + "/digits/digits.json"
    options = ["--cpu", "x86-64-v4", "--weights", "file"]
    c = certify(model, options, folder + "/a", "digits")
    copies = shutil.copytree(MODELS + "/digits", folder + "/copy")
    certify(copies + "/digits.json", options, folder + "/b", "digits")
    for f in c["outputs"]:
        check("hash of " + f["file"], f["sha256"] == digest(folder + "/a/" + f["file"]))
    for f in c["inputs"]:
        check("hash of " + f["file"], f["sha256"] == digest(f"{MODELS}/digits/{f['file']}"))
    names = {f["file"] for f in c["inputs"] + c["outputs"]}
    check("files", {"digits.json", "digits.c", "digits_rlx.h", "digits.weights"} <= names, str(names))
    for suffix in ("json", "txt"):
        texts = []
        for place in "ab":
            with open(f"{folder}/{place}/digits.certificate.{suffix}", encoding="utf-8") as f:
                texts.append(f.read())
        check(f"{suffix} does not depend on places", texts[0] == texts[1])
        check(f"{suffix} names no place", ROOT not in texts[0] and folder not in texts[0])
    given = [(o["option"], o["value"]) for o in c["options"]]
    check("options", ("--cpu", "x86-64-v4") in given and ("--weights", "file") in given, str(given))
    check("flash", c["flash"]["weight_bytes"] == 0 and c["ram"]["arena_bytes"] > 0)


# --- the stack ---


def call_graph(folder, name, flags, level):
    """gcc's own: bytes of each frame, and who calls whom."""
    command = ["gcc", "-std=c99", level, *flags, "-fcallgraph-info=su", "-c", name + ".c", "-o", name + ".o"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        return None, None
    with open(f"{folder}/{name}.ci", encoding="utf-8") as f:
        text = f.read()
    frame, calls = {}, {}
    for title, label in re.findall(r'node: \{ title: "([^"]*)" label: "([^"]*)"', text):
        size = re.search(r"\\n(\d+) bytes", label)
        frame[title.split(":")[-1]] = int(size[1]) if size else 0
    for source, to in re.findall(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"', text):
        calls.setdefault(source.split(":")[-1], set()).add(to.split(":")[-1])
    return frame, calls


def stack_of(function, frame, calls, path=()):
    """The deepest path; pointers lead to dispatch, as those of runs do. 8: the return address."""
    if function in path:
        return 0
    to = ["dispatch" if f == "__indirect_call" else f for f in calls.get(function, ())]
    deepest = max([stack_of(f, frame, calls, (*path, function)) for f in to], default=0)
    return frame.get(function, 0) + 8 + deepest


def check_stack(folder):
    for model in ("mlp", "lstm", "transformer", "digits/digits"):
        for cpu in ("generic", "x86-64-v4"):
            name = os.path.basename(model)
            c = certify(f"{MODELS}/{model}.json", ["--cpu", cpu], folder, name)
            bound = {s["entry"]: s["bytes"] for s in c["validation"]["stack"]}
            for level in ("-O0", "-O2"):
                frame, calls = call_graph(folder, name, c["cc_flags"].split(), level)
                if frame is None:
                    print("gcc makes no graphs of calls: skipped")
                    return
                need = stack_of(name, frame, calls)
                what = f"{name} {cpu} {level}: gcc needs {need} bytes, the bound is {bound[name]}"
                check(what, 50 < need <= bound[name])


# --- microcontrollers ---


def check_counted(c):
    """What QEMU counted, and what gcc says of its frames and sections."""
    run, code = c["run"], c["machine_code"]
    kernels = [k for k in c["kernels"] if "instructions" in k]
    check("kernels are counted", len(kernels) == len(c["kernels"]), str(c["kernels"]))
    parts = sum(k["instructions"] * k["times"] for k in kernels)
    check("the run is its kernels, and what they call", 0 < parts <= run["instructions"], str(run))
    check("versions", "QEMU" in run["versions"] and "GCC" in code["version"], str(run) + str(code))
    stack = {e["entry"]: e for e in code["call_graph"]}["run"]
    check("the path", stack["path"].startswith("run > dispatch > k"), str(stack))
    check("the bound holds", 0 < run["stack_bytes"] <= stack["bytes"] or stack["not_counted"], str(stack))
    sections = code["sections"]
    check("sections", sections["text"] > 0 and sections["rodata_weights"] == c["flash"]["weight_bytes"])


def check_costs(folder):
    model = MODELS + "/digits/digits.json"
    options = ["--cpu", "cortex-m4", "--weights", "rodata"]
    c = certify(model, options, folder + "/here", "digits")
    place = c["placement"]
    check("the gap", place["is_optimal"] == (place["gap_bytes"] == 0), str(place))
    check("any schedule", 0 < place["any_schedule_bytes"] <= place["arena_bytes"], str(place))
    if shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm"):
        check_counted(c)
    else:
        print("arm-none-eabi-gcc, qemu-system-arm: skipped, not here")
    os.mkdir(folder + "/bin")
    none = {**os.environ, "PATH": folder + "/bin"}
    done = rlxc("compile", model, "-o", folder + "/none", "--name", "m", "--certify", *options, env=none)
    check("without compilers", done.returncode == 0, done.stderr)
    with open(folder + "/none/m.certificate.json", encoding="utf-8") as f:
        c = json.load(f)
    check("why not", c["run"]["counted_by"] is None and "no C compiler" in c["run"]["why"], str(c["run"]))
    check("the estimate", c["run"]["estimated_instructions"] > 1e6 and c["run"]["estimate_error_percent"] > 0)
    check("of kernels", all(k["estimated_instructions"] > 0 for k in c["kernels"]), str(c["kernels"]))
    check("no sections", c["machine_code"]["compiler"] is None)


# --- the command line ---


def check_options(folder):
    model = MODELS + "/mlp.json"
    none = {**os.environ, "RLXC_LIBCLANG": "none"}
    for option in ("--validate", "--certify"):
        done = rlxc("compile", model, "-o", folder + "/none", option, env=none)
        check(option + " without libclang", done.returncode == 3 and "libclang" in done.stderr, done.stderr)
        check(option + " without libclang writes nothing", not os.path.exists(folder + "/none/mlp.c"))
    done = rlxc("compile", model, "-o", folder, env=none)
    check("compile without libclang", done.returncode == 0 and done.stderr == "", done.stderr)
    done = rlxc("compile", model, "-o", folder, "--validate", "--no-validate")
    check("both", done.returncode == 2, done.stderr)
    done = rlxc("compile", model, "-o", folder, "--validate")
    check("--validate", "no recursion" in done.stdout and "stack at most" in done.stdout, done.stdout)
    done = rlxc("compile", model, "-o", folder, "--validate", "--json")
    check("--json", json.loads(done.stdout)["validation"]["findings"] == [], done.stdout)
    plain = rlxc("compile", model, "-o", folder)
    check("by default nothing is said", plain.stderr == "" and "valid" not in plain.stdout, plain.stdout)


def main():
    with tempfile.TemporaryDirectory() as folder:
        if rlxc("compile", MODELS + "/mlp.json", "-o", folder, "--validate").returncode == 3:
            print("no libclang is installed: skipped")
            return 77
        for step in (check_planted, check_emitted, check_certificate, check_stack, check_costs,
                     check_options):
            place = f"{folder}/{step.__name__}"
            os.mkdir(place)
            step(place)
    for text in failed:
        print(text, file=sys.stderr)
    print(f"{checks - len(failed)} of {checks} checks passed")
    return 1 if failed else 0


sys.exit(main())
