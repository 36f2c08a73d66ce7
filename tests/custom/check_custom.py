#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Custom ops (docs/CUSTOM.md) from the outside: the texts agree on all targets, they run only where that is
allowed, ways around them (files, ONNX, threads, no fusion) lead to the same, and what is wrong is said.
tests/runtime/custom_test.c has the values. Usage: check_custom.py RLXC"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import in_venv  # noqa: E402

try:
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    in_venv.enter()
    onnx = None

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
EXAMPLE = os.path.join(ROOT, "examples/custom/model.json")
HARD = os.path.join(ROOT, "tests/runtime/custom.json")
ALLOW = "--allow-custom"
os.environ.pop("RLXC_LIBCLANG", None)
failed = []
OP = {"name": "twice", "operands": ["x: f32[n]"], "results": ["y: f32[n]"], "elements": "n",
      "c": "    y[i] = 2.0f * x[i];"}


def rlxc(*args):
    return subprocess.run([RLXC, *args], capture_output=True, text=True, check=False)


def expect(what, done, code, *texts):
    said = done.stdout + done.stderr
    if done.returncode != code or any(t not in said for t in texts):
        failed.append(f"{what}: exit {done.returncode}, expected {code} and {texts}\n{said}")


def model_of(op, inputs=("x",), shape=(3,), **node):
    return {"rlxc": 1, "custom": [op], "inputs": {n: {"dtype": "f32", "shape": list(shape)} for n in inputs},
            "nodes": [{"op": op["name"], "inputs": list(inputs), "outputs": ["y"], **node}], "outputs": ["y"]}


def write(folder, name, document):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(document, f)
    return path


def check_targets():
    for target in "c", "vulkan", "metal":
        for path in EXAMPLE, HARD:
            done = rlxc("verify", path, ALLOW, "--target", target)
            if "without glslang" in done.stderr or "no device" in done.stderr:
                print(f"no {target} here")
                break
            expect(f"verify --target {target}", done, 0, "ok")
    expect("cuda", rlxc("compile", EXAMPLE, "-o", "out", "--target", "cuda", "--gpu", "text"), 0)
    for more in (["--no-fuse", "-O", "0"], ["--threads", "3"], ["--cpu", "generic"]):
        expect(f"verify {more}", rlxc("verify", HARD, ALLOW, *more), 0, "ok")
    expect("certify", rlxc("compile", EXAMPLE, "-o", "out", "--certify"), 0, "no recursion")


def check_permission(folder):
    for command in "run", "verify", "bench", "bisect", "tune":
        more = ["--random", "1"] if command == "run" else []
        done = rlxc(command, EXAMPLE, *more)
        expect(f"{command} without {ALLOW}", done, 2, "custom ops", ALLOW)
    # Not even where all operands are constants may compiling run a text.
    constant = model_of(OP)
    constant["weights"] = {"x": {"dtype": "f32", "data": [1, 2, 3]}}
    del constant["inputs"]
    path = write(folder, "constant.json", constant)
    expect("compile", rlxc("compile", path, "-o", "out", "--name", "constant"), 0)
    with open("out/constant.c", encoding="ascii") as f:
        if OP["c"].strip() not in f.read():
            failed.append("the op on constants is not in the code")


def check_files(folder):
    """The declaration as attributes of nodes, in every format."""
    for name in "a.rlxb", "a.json":
        path = os.path.join(folder, name)
        expect(f"convert to {name}", rlxc("convert", EXAMPLE, path), 0)
        expect(f"verify of {name}", rlxc("verify", path, ALLOW), 0, "ok")
    dumped = rlxc("compile", EXAMPLE, "-o", "out", "--stop-after", "extent", "--dump", "extent").stderr
    text = os.path.join(folder, "a.rlx")
    with open(text, "w", encoding="utf-8") as f:
        f.write(dumped[dumped.index("graph "):])
    expect("verify of IR text", rlxc("verify", text, ALLOW), 0, "ok")


def check_onnx(folder):
    if onnx is None:
        print("no onnx: the importer is not tested")
        return
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Relu", ["x"], ["r"]),
             helper.make_node("half_of", ["r"], ["y"], domain="my.ops", factor=0.25)]
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, [5])],
                              [info("y", TensorProto.FLOAT, [3])])
    path = os.path.join(folder, "m.onnx")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    op = {"name": "half_of", "operands": ["x: f32[n]"], "results": ["y: f32[ceil(n / 2)]"],
          "attributes": {"factor": {"type": "float"}}, "elements": "ceil(n / 2)",
          "c": "    y[i] = factor * x[2 * i];"}
    declared = write(folder, "ops.json", {"custom": [op]})
    expect("onnx", rlxc("verify", path, "--custom", declared, ALLOW), 0, "ok")
    expect("onnx, not declared", rlxc("verify", path, ALLOW), 1, "half_of", "my.ops")
    expect("onnx, refused", rlxc("verify", path, "--custom", declared), 2, ALLOW)
    expect("--custom of JSON", rlxc("compile", EXAMPLE, "-o", "out", "--custom", declared), 2, "--custom")


def check_python():
    """The Python package refuses texts as well, until it is told otherwise."""
    if onnx is None:
        return
    text = ("import rlxc, sys, numpy as np\n"
            "m = rlxc.compile(sys.argv[1], cc='quick', allow_custom=sys.argv[2] == 'yes')\n"
            "print(m(x=np.ones((6, 4), 'f4'), w=np.zeros(4, 'f4'), ids=np.arange(7, dtype='i4'))[2])\n")
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools/python"), "RLXC": RLXC}
    for allow, code, said in ("no", 1, "allow_custom=True"), ("yes", 0, "[0 3 6]"):
        done = subprocess.run([sys.executable, "-c", text, EXAMPLE, allow], env=env, capture_output=True,
                              text=True, check=False)
        expect(f"Python, allowed: {allow}", done, code, said)


def check_refusals(folder):
    cases = [
        ("vulkan", model_of(OP), ["--target", "vulkan"], ("twice", "vulkan", "glsl")),
        ("no text", model_of({k: v for k, v in OP.items() if k != "c"}), [], ("twice", "target c")),
        ("rank", model_of(OP, shape=(3, 2)), [], ("twice", "operand 'x' must have 1 axes, not 2")),
        ("count", model_of(OP, ("x", "z")), [], ("takes at most 1 input", "/nodes/0/inputs")),
        ("rule", model_of({**OP, "results": ["y: f32[n +]"]}), [], ("/custom/0/results/0", "is no size")),
        ("size", model_of({**OP, "results": ["y: f32[m]"]}), [], ("/custom/0/results/0", "'m' in 'm'")),
        ("type", model_of({**OP, "operands": ["x: f16[n]"]}), [], ("/custom/0/operands/0", "'f16'")),
        ("name", model_of({**OP, "operands": ["for: f32[n]"]}), [], ("/custom/0/operands/0", "'for'")),
        ("include", model_of({**OP, "c": "#include <stdio.h>"}), [], ("/custom/0/c", "directives")),
        ("asm", model_of({**OP, "c": '__asm__(".incbin \"/dev/zero\"");'}), [], ("/custom/0/c", "__asm__")),
        ("attribute of C", model_of({**OP, "c": '__attribute__((section("x\\n.incbin"))) static int a;'}), [],
         ("/custom/0/c", "'__attribute__'")),
        ("attribute of C23", model_of({**OP, "c": '[ /**/ [gnu::section("x")]] static int a;'}), [],
         ("/custom/0/c", "attributes")),
        ("digraph", model_of({**OP, "c": '<:<:gnu::section("x"):>:> static int a;'}), [],
         ("/custom/0/c", "attributes")),
        ("line of clang", model_of({**OP, "c": "// one\r#include </dev/zero>\n"}), [],
         ("/custom/0/c", "carriage return")),
        ("comment of one line or two", model_of({**OP, "c": '// \r /* \n asm(""); // */'}), [],
         ("/custom/0/c", "carriage return")),
        ("backslash in a trigraph", model_of({**OP, "c": '/* *??/\n/ asm(""); /* */'}), [],
         ("/custom/0/c", "'??/'")),
        ("quote in a number", model_of({**OP, "c": "int a = 1'0; asm(\"\"); // '\n"}), [],
         ("/custom/0/c", "a ' in a number")),
        ("macro that joins words", model_of({**OP, "c": '__CONCAT(a,sm)(".incbin \\"/dev/zero\\"");'}), [],
         ("/custom/0/c", "'__CONCAT' is not allowed")),
        ("assembler of MSVC", model_of({**OP, "c": "_asm { nop }"}), [], ("/custom/0/c", "'_asm'")),
        ("label of the assembler", model_of({**OP, "c": "extern __REDIRECT(f, (void), x;.incbin);"}), [],
         ("/custom/0/c", "'__REDIRECT'")),
        ("word of the system", model_of({**OP, "c": "_Join(a, sm)"}), [], ("/custom/0/c", "'_Join'")),
        ("braces in digraphs", model_of({**OP, "c": "y[i] = x[i]; %> void f(void) <% "}), [],
         ("/custom/0/c", "'%>'")),
        ("word of C", model_of({**OP, "operands": ["restrict: f32[n]"]}), [], ("'restrict'",)),
        ("word of C++", model_of({**OP, "operands": ["this: f32[n]"]}), [], ("'this'",)),
        ("negative scratch", model_of({**OP, "scratch": ["s: f32[n - 99]"]}), [],
         ("twice", "axis 0 of 's' would have -9")),
        ("joined", model_of({**OP, "c": "// one \\ \n}"}), [], ("/custom/0/c", "ends with \\")),
        ("raw", model_of({**OP, "c": 'R"( " } )";'}), [], ("/custom/0/c", "'R'")),
        ("brace", model_of({**OP, "c": "} void f(void) {"}), [], ("/custom/0/c", "closes")),
        ("own op", model_of({**OP, "name": "relu"}), [], ("/custom/0/name", "already an op 'relu'")),
        ("file", model_of({**OP, "c": {"file": "../x.c"}}), [], ("/custom/0/c/file", "folder of the model")),
        ("open size", model_of(OP, shape=("s",)), ["--dim", "s=1..8"], ("twice", "s")),
        ("attribute", model_of(OP, alpha=1), [], ("/nodes/0/alpha",)),
        ("malloc", model_of({**OP, "c": "    char *p = malloc(4);\n    y[i] = p[0];"}), ["--validate"],
         ("malloc", "text of a custom op")),
    ]
    for what, model, more, texts in cases:
        path = write(folder, "wrong.json", model)
        done = rlxc("compile", path, "-o", "wrong", *more)
        if "libclang" in done.stderr and "--validate" in more:
            print("no libclang: rules of texts are not tested")
            continue
        expect(what, done, 1, *texts)
        if os.path.exists("wrong"):
            failed.append(f"{what}: something was written")
    needs = {**OP, "attributes": {"k": {"type": "int"}}}
    expect("required", rlxc("check", write(folder, "wrong.json", model_of(needs))), 1, "k", "/nodes/0")


with tempfile.TemporaryDirectory() as top:
    os.chdir(top)
    check_targets()
    check_permission(top)
    check_files(top)
    check_onnx(top)
    check_refusals(top)
    check_python()
for problem in failed:
    print(problem)
print(f"{len(failed)} problems")
sys.exit(1 if failed else 0)
