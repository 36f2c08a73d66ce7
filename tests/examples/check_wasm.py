#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The models of this project as WebAssembly modules with its vectors (--cpu wasm-simd128), in headless
Chromium, on the cases of models/cases: 1e-5 of the largest value of an output is the most that they may be
off. Exits with 77 where there is no Chromium or no linker for WebAssembly. Usage: check_wasm.py RLXC"""

import base64
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "pages"))
import browser

RLXC = pathlib.Path(sys.argv[1]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODELS = ("gelu_example", "mlp", "lstm", "lstm_stream", "transformer", "voice/voice")
CLANG = ("clang", "--target=wasm32", "-O2", "-msimd128", "-mbulk-memory", "-ffreestanding", "-nostdlib",
         "-Wall", "-Wextra", "-Werror", "-Wl,--no-entry", "-Wl,--stack-first", "-Wl,--allow-undefined", "-I",
         ROOT / "examples/web/libc")
TIME_LIMIT = 120


def compile_to(folder, model):
    return [RLXC, "compile", ROOT / f"models/{model}.json", "-o", folder, "--name", "m",
            "--cpu", "wasm-simd128"]


# Weights are in the module, whatever their size: there is no .incbin.
def check_refused(folder):
    done = subprocess.run([*compile_to(folder, "mlp"), "--weights", "incbin"], capture_output=True, text=True,
                          timeout=TIME_LIMIT, check=False)
    assert done.returncode == 2 and "takes in no files" in done.stderr, (done.returncode, done.stderr)


def build(folder, model):
    subprocess.run(compile_to(folder, model), check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    subprocess.run([*CLANG, "-I", folder, folder / "m.c", HERE / "wasm_model.c", "-o", folder / "m.wasm"],
                   check=True, timeout=TIME_LIMIT)
    code = (folder / "m.wasm").read_bytes()
    # 0xfd begins the instructions of vectors; a module of a network without them would have few such bytes.
    assert code.count(b"\xfd") > 50, f"{model} has no vector instructions"
    return code


def text_of(data):
    return base64.b64encode(data).decode()


def read_case(model, kind):
    """Elements of the .npy files by name."""
    found = {}
    for path in sorted((ROOT / "models/cases" / model.split("/")[-1]).glob(f"{kind}_*.npy")):
        data = path.read_bytes()
        found[path.stem.split("_", 1)[1]] = text_of(data[10 + int.from_bytes(data[8:10], "little"):])
    return found


def main():
    missing = [tool for tool in ("clang", "wasm-ld") if shutil.which(tool) is None]
    if missing or browser.find() is None:
        print("skipped: no", ", ".join(missing or ["Chromium"]))
        sys.exit(77)
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        check_refused(folder)
        models = {model: {"wasm": text_of(build(folder, model)), "inputs": read_case(model, "input"),
                          "outputs": read_case(model, "output")} for model in MODELS}
        script = f"const MODELS = {json.dumps(models)};\n" + (HERE / "wasm_models.js").read_text()
        page = folder / "page.html"
        page.write_text(f"<!doctype html><meta charset=utf-8><body><script>{script}</script></body>")
        window = browser.Browser()
        try:
            window.open(page.as_uri())
            results = json.loads(window.run("result.textContent"))
        finally:
            window.close()
    print(json.dumps(results, indent=1))
    assert set(results) == set(MODELS)
    for model, result in results.items():
        assert "error" not in result and result["runs"] >= 3, (model, result)
        assert float(result["worst"]) < 1e-5, (model, result)


main()
