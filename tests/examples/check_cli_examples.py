#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of all commands (compiler/cli/examples.def, as docs/CLI.md has them) in a folder with the
files that they name: model.onnx with the input x, the output y, and nodes relu3 and probs; digits.json ...

usage: check_cli_examples.py RLXC. TAP. Needs the package onnx. An example that ends with 3 (what it needs is
not installed: NVRTC, libclang) is skipped.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    own = os.path.join(os.environ.get("RLXC_VENV", "build/venv"), "bin/python")
    if os.path.exists(own) and "IN_VENV" not in os.environ:
        os.execve(own, [own, *sys.argv], dict(os.environ, IN_VENV="1"))
    print("1..0 # SKIP the package onnx is not installed (tools/setup does it)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
LANGUAGE = ROOT / "examples/language"
LAYERS, WIDTH = 3, 16


def make_model(path):
    """x -> (matmul, relu) three times -> softmax -> y."""
    weights = numpy.random.default_rng(1).standard_normal((LAYERS, WIDTH, WIDTH)).astype(numpy.float32) / 4
    nodes, last = [], "x"
    for i in range(LAYERS):
        nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"product{i + 1}"]),
                  helper.make_node("Relu", [f"product{i + 1}"], [f"relu{i + 1}"])]
        last = f"relu{i + 1}"
    nodes += [helper.make_node("Softmax", [last], ["probs"]), helper.make_node("Sqrt", ["probs"], ["y"])]
    graph = helper.make_graph(
        nodes, "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, WIDTH])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def make_files(folder, environment):
    make_model(folder / "model.onnx")
    numpy.save(folder / "x.npy", numpy.linspace(-1, 1, 2 * WIDTH, dtype=numpy.float32).reshape(2, WIDTH))
    for name in ("digits.json", "digits.safetensors"):
        shutil.copy(ROOT / "models/digits" / name, folder)
    shutil.copy(ROOT / "models/mlp.json", folder / "other.json")
    shutil.copy(ROOT / "tests/tokens/small_tokenizer.json", folder / "tokenizer.json")
    (folder / "schema.json").write_text('{"type": "integer"}')
    (folder / "messages.json").write_text('[{"role": "user", "content": "Hello"}]')
    (folder / "questions.txt").write_text("once\nand then\n")
    (folder / "book.txt").write_text((LANGUAGE / "sample.txt").read_text() * 4)
    words = [LANGUAGE / "make_model.py", folder / "model.gguf", LANGUAGE / "sample.txt"]
    subprocess.run([sys.executable, *words], check=True)
    shutil.copy(folder / "model.gguf", folder / "model-f16.gguf")
    (folder / "buffers.csv").write_text("id,lower,upper,size\n1,0,2,64\n2,1,3,128\n")
    for command in ("rlxc run model.onnx --input x=x.npy --output-dir values", "rlxc compile model.onnx",
                    "rlxc compile model.onnx -o out.old --name kws",
                    "rlxc bench model.onnx --seconds 0.1 --json >times.json"):
        subprocess.run(["sh", "-c", command], cwd=folder, env=environment, check=True, capture_output=True)
    shutil.copy(folder / "values/y.npy", folder)


def main():
    text = (ROOT / "docs/CLI.md").read_text()
    examples = re.findall(r"^\* `(rlxc [^`]+)`: ", text, re.M)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="rlxc-cli-") as top:
        folder = pathlib.Path(top, "here")
        folder.mkdir()
        os.symlink(os.path.abspath(sys.argv[1]), f"{top}/rlxc")
        environment = dict(os.environ, PATH=f"{top}:{os.environ['PATH']}", XDG_CACHE_HOME=f"{top}/cache")
        environment.pop("RLXC_LIBCLANG", None)  # other tests do without the validator
        make_files(folder, environment)
        for number, example in enumerate(examples, 1):
            done = subprocess.run(["sh", "-c", example], cwd=folder, env=environment, text=True, check=False,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=200)
            failed += done.returncode not in (0, 3)
            print("ok" if done.returncode in (0, 3) else "not ok", number, "-", example,
                  "# SKIP " + done.stderr.strip().split("\n")[-1] if done.returncode == 3 else "")
            if done.returncode not in (0, 3):
                print("\n".join("# " + line for line in (done.stdout + done.stderr).split("\n")[-12:]))
    print(f"1..{len(examples)}")
    sys.exit(1 if failed or len(examples) < 20 else 0)


main()
