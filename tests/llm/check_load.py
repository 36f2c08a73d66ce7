#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that pack the weights of a GGUF file or a folder themselves (`rlxc compile --weights load`;
load_test.c says what they promise): the weights are those that the compiler packs, of every format, for the
file that was compiled with and for another one; other models, cut and damaged files are refused.
Usage: check_load.py RLXC"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
try:
    import numpy
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
import gguf_file  # noqa: E402
import models  # noqa: E402
import small_vocab  # noqa: E402
import tap  # noqa: E402
from emitted import SANITIZE, flags_of  # noqa: E402
from folder_file import Folder  # noqa: E402
from lora_file import Adapter  # noqa: E402
from reference import Reference  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory()
STRICT = ["-std=c99", "-D_POSIX_C_SOURCE=200112L", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
SETTINGS, VOCABULARY, TENSORS, VALUES, FORMAT = -44, -45, -46, -47, -42
F64 = 28
FLOATS = {"f32": gguf_file.F32, "f16": gguf_file.F16, "bf16": gguf_file.BF16}
# of each type with blocks that rlxc packs: number, elements and bytes of a block
TYPES = [(2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (10, 256, 84), (11, 256, 110),
         (12, 256, 144), (13, 256, 176), (14, 256, 210), (20, 32, 18), (23, 256, 136),
         (35, 256, 66), (39, 32, 17)]


def all_formats(seed):
    """A llama with blocks of random bytes, a product of each type, and a table of frequencies."""
    model = models.llama(width=256, heads=4, kv=2, head=64, ffn=256, freqs=True)
    rng, types = numpy.random.default_rng(seed), iter(TYPES)
    for i, (name, shape, kind, content) in enumerate(model.tensors):
        if len(shape) == 2 and name.startswith("blk."):
            number, elements, size = next(types)
            blocks = rng.integers(0, 256, shape[0] * shape[1] // elements * size, "u1")
            model.tensors[i] = (name, shape, number, blocks.tobytes())
        elif name.endswith("norm.weight"):
            model.tensors[i] = (name, shape, kind, rng.random(shape, "f4").tobytes())
    assert next(types, None) is None
    return model


def place(name):
    folder = pathlib.Path(FOLDER.name, name)
    folder.mkdir(exist_ok=True)
    return folder


def write(path, model):
    path.write_bytes(model.file())
    return path


def with_vocabulary(model):
    model.entries |= small_vocab.entries()
    return model


def compile_model(path, out, weights, *options):
    sizes = ["--context", "48", *options]
    command = [RLXC, "compile", path, "-o", out, "--name", "m", "--weights", weights, *sizes]
    done = subprocess.run(command, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()


def build(folder, *flags):
    """flags: in place of those of the sanitizers for memory."""
    command = ["cc", *flags_of(folder / "m.c", "-O0"), *STRICT, *(flags or SANITIZE), "-I.", "m.c"]
    command += [HERE / "load_test.c", "-o", "p", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=500)
    assert done.returncode == 0, done.stderr.decode()[-3000:]


def run(folder, mode, *files):
    done = subprocess.run([folder / "p", mode, *files], capture_output=True, timeout=300)
    assert done.returncode == 0, f"{mode}: {done.returncode} {done.stderr.decode()[-3000:]}"
    return done.stdout


def packed(path, *options):
    """The weights as the compiler packs them."""
    folder = place("packed")
    compile_model(path, folder, "file", *options)
    return (folder / "m.weights").read_bytes()[:-8]


def check_weights_of(folder, model, file, *options):
    expected = packed(model, *options)
    assert run(folder, "weights", file)[:len(expected)] == expected, model


def check_weights(folder, path, *options):
    check_weights_of(folder, path, path, *options)


def status(folder, model):
    return int(run(folder, "status", write(folder / "other.gguf", model)))


def test_formats():
    folder = place("formats")
    one, two = (write(folder / f"{i}.gguf", all_formats(i)) for i in (1, 2))
    compile_model(one, folder, "load")
    build(folder)
    check_weights(folder, one)
    check_weights(folder, two)
    run(folder, "cut", one)
    run(folder, "damage", one)
    run(folder, "arguments", one)


def test_others():
    """Files that are not like the one that was compiled with."""
    folder = place("formats")
    (folder / "text.gguf").write_text("no model")
    assert int(run(folder, "status", folder / "text.gguf")) == FORMAT
    other = all_formats(1)
    other.number("rope.freq_base", 12345.0)
    assert status(folder, other) == SETTINGS
    other = all_formats(1)
    other.entries |= small_vocab.entries()
    assert status(folder, other) == VOCABULARY
    other = all_formats(1)
    other.entries["general.name"] = "a name and no more"
    assert status(folder, other) == 0
    for change in (lambda t: t.pop(), lambda t: t.append(t[0]), lambda t: t.reverse() or t.pop(),
                   lambda t: t.append(("more", (32,), gguf_file.F32, bytes(128)))):
        other = all_formats(1)
        change(other.tensors)
        assert status(folder, other) == TENSORS
    other = all_formats(1)
    i = [name for name, *_ in other.tensors].index("rope_freqs.weight")
    name, shape, kind, content = other.tensors[i]
    other.tensors[i] = (name, shape, kind, (numpy.frombuffer(content, "<f4") * 2).tobytes())
    assert status(folder, other) == VALUES
    other = all_formats(1)
    other.tensors.reverse()
    assert status(folder, other) == 0


def test_sessions():
    folder = place("sessions")
    model = with_vocabulary(models.MODELS["llama_q8_0"]())
    one = write(folder / "1.gguf", model)
    model.tensors = [(*t[:3], t[3][::-1] if t[0].endswith("norm.weight") else t[3]) for t in model.tensors]
    two = write(folder / "2.gguf", model)
    compile_model(one, folder, "load", "--cpu", "native")
    build(folder)
    got = numpy.array(run(folder, "logits", one).split(), "f8")
    expected = Reference(model).logits([1, 30, 9, 44, 17, 60, 3])[-1]
    assert numpy.linalg.norm(got - expected) <= 1e-5 * numpy.linalg.norm(expected)
    run(folder, "sessions", one, two)


def test_experts():
    folder = place("experts")
    path = write(folder / "1.gguf", models.MODELS["mixtral_q8_0"]())
    compile_model(path, folder, "load")
    build(folder)
    check_weights(folder, path)


def test_threads():
    folder = place("threads")
    path = write(folder / "1.gguf", models.llama(gguf_file.Q8_0, width=512, heads=8, head=64, ffn=1024))
    compile_model(path, folder, "load", "--threads", "2")
    assert "define M_THREADS 2" in " ".join((folder / "m.h").read_text().split())
    build(folder)
    check_weights(folder, path, "--threads", "2")


def float_model(kind, seed, **sizes):
    """Large enough that 16 bits stay 16 bits, with sizes that are no multiples of panels."""
    model = models.llama(kind, width=160, heads=5, kv=5, head=32, ffn=224, **sizes)
    rng = numpy.random.default_rng(seed)
    for i, (name, shape, own, _) in enumerate(model.tensors):
        values = 1 + 0.1 * rng.standard_normal(shape) if "norm" in name else rng.standard_normal(shape)
        model.tensors[i] = (name, shape, own, gguf_file.pack(values, own)[0])
    return model


def test_floats():
    """Panels, of weights that the compiler has not seen too, and for several ways to lay them."""
    for name, kind in FLOATS.items():
        for cpu in ("generic", "native"):
            folder = place(name + cpu)
            one, two = (write(folder / f"{i}.gguf", float_model(kind, i)) for i in (1, 2))
            compile_model(one, folder, "load", "--cpu", cpu)
            assert "rlx_load_layout load_layouts" in (folder / "m.c").read_text()
            build(folder)
            check_weights(folder, one, "--cpu", cpu)
            check_weights(folder, two, "--cpu", cpu)
    folder = place("f16generic")
    run(folder, "cut", folder / "1.gguf")
    run(folder, "damage", folder / "1.gguf")


def weight_bytes(path, *options):
    command = [RLXC, "inspect", path, "--context", "48", "--no-code", "--json", *options]
    done = subprocess.run(command, capture_output=True, check=True, timeout=300)
    return json.loads(done.stdout)["weight_bytes"]


def test_tied():
    """An embedding that is the product with the vocabulary too is stored once, whoever packs it."""
    sizes = dict(width=256, heads=4, kv=2, head=64, ffn=256)
    for name, kind in {"q8_0": gguf_file.Q8_0, **FLOATS}.items():
        folder = place(f"tied{name}")
        tied, other = (models.qwen("qwen2", kind, **sizes) for _ in range(2))
        other.product("output", models.VOCAB, sizes["width"])
        table = len(next(t[3] for t in tied.tensors if t[0] == "token_embd.weight"))
        one, two = write(folder / "1.gguf", tied), write(folder / "2.gguf", other)
        for options in ([], ["--weights", "load"]):
            options += ["--cpu", "x86-64-v3"]
            saved = weight_bytes(two, *options) - weight_bytes(one, *options)
            assert table <= saved < 1.3 * table, (name, options, saved, table)
        compile_model(one, folder, "load", "--cpu", "native")
        build(folder)
        check_weights(folder, one, "--cpu", "native")


def test_float_experts():
    for name, kind in FLOATS.items():
        folder = place(name + "experts")
        one, two = (write(folder / f"{i}.gguf", float_model(kind, i, experts=4)) for i in (1, 2))
        compile_model(one, folder, "load")
        build(folder)
        check_weights(folder, two)


def parts_of(folder, model, n):
    paths = []
    for i, content in enumerate(gguf_file.make_parts(model.entries, model.tensors, n)):
        paths.append(folder / f"m-{i + 1:05}-of-{n:05}.gguf")
        paths[-1].write_bytes(content)
    return paths


def test_parts():
    """Files in parts, in any order, by shares: compiled with the parts, and with the one file."""
    model = all_formats(1)
    for name, parts in (("parts", 3), ("whole", 1)):
        folder = place(name)
        files = parts_of(folder, model, 3)
        one = write(folder / "1.gguf", model)
        compile_model(files[0] if parts == 3 else one, folder, "load")
        build(folder)
        expected = packed(one)
        for shares, given in (("1", [one]), ("7", files), ("3", files[::-1]), ("64", [one])):
            assert run(folder, "parts", shares, *given)[:len(expected)] == expected, (shares, given)
        for given, why in ((files[:2], TENSORS), ([*files, files[1]], TENSORS), (files[1:], SETTINGS)):
            assert int(run(folder, "parts", "2", *given)) == why, given
        other = all_formats(2)
        assert run(folder, "parts", "5", *parts_of(folder, other, 2))[:len(expected)] != expected


def test_shares_of_floats():
    folder = place("f16generic")
    model = float_model(gguf_file.F16, 1)
    expected = packed(write(folder / "1.gguf", model))
    for shares in ("1", "2", "5", "64"):
        got = run(folder, "parts", shares, *parts_of(folder, model, 2))
        assert got[:len(expected)] == expected, shares


def test_together():
    folder = place("together")
    for name, model in (("blocks", all_formats(1)), ("floats", float_model(gguf_file.F16, 1, experts=4))):
        path = write(folder / f"{name}.gguf", model)
        compile_model(path, folder, "load")
        build(folder, "-fsanitize=thread", "-g", "-pthread", "-DTOGETHER")
        expected = packed(path)
        assert run(folder, "together", path)[:len(expected)] == expected, name


def test_adapters():
    """They are a part of the code."""
    for name in ("llama", "llama_q8_0", "llama_bf16", "qwen2"):
        folder, model = place("adapters"), models.MODELS[name]()
        path, lora = write(folder / "1.gguf", model), folder / "lora.gguf"
        lora.write_bytes(Adapter(model, r"(attn_[qkv]|ffn_(gate|up|down))\.", seed=1).file())
        compile_model(path, folder, "load", "--lora", lora)
        build(folder)
        check_weights(folder, path, "--lora", lora)


def folder_model(seed, arch="llama", **more):
    """Sizes that are no multiples of panels, norms that differ."""
    sizes = dict(width=160, heads=5, kv=5, head=32, ffn=224) | more
    model = models.llama(**sizes) if arch == "llama" else models.qwen(arch, **sizes)
    rng = numpy.random.default_rng(seed)
    for name, values in model.weights.items():
        model.weights[name] = (1 * ("norm" in name) + 0.1 * rng.standard_normal(values.shape)).astype("f4")
    return model


def write_folder(path, model, dtype, parts=1, **more):
    shutil.rmtree(path, ignore_errors=True)
    hf = Folder(model, dtype)
    hf.config |= more
    hf.write(path, parts)
    return sorted(path.glob("*.safetensors"))


def test_folders():
    """Every type, in files in any order, of the folder that was compiled with and of another one."""
    for dtype in ("F32", "F16", "BF16"):
        folder = place(f"hf{dtype}")
        one, two = (folder / name for name in ("one", "two"))
        first = write_folder(one, folder_model(1), dtype, 3)
        second = write_folder(two, folder_model(2), dtype)
        compile_model(one, folder, "load")
        build(folder)
        expected, other = packed(one), packed(two)
        assert expected != other
        for shares, given in (("1", first), ("5", first[::-1]), ("2", [*first, one / "config.json"])):
            assert run(folder, "parts", shares, *given)[:len(expected)] == expected, (dtype, given)
        assert run(folder, "weights", second[0])[:len(other)] == other, dtype
        for given, why in ((first[:2], TENSORS), ([*first, first[1]], TENSORS)):
            assert int(run(folder, "parts", "2", *given)) == why, given
    run(folder, "cut", second[0])
    run(folder, "damage", second[0])
    run(folder, "arguments", second[0])


def test_folders_of_others():
    folder = place("hfBF16")
    files = write_folder(folder / "other", folder_model(1), "BF16", rope_theta=12345.0)
    config = folder / "other" / "config.json"
    assert int(run(folder, "parts", "1", *files, config)) == SETTINGS
    files = write_folder(folder / "other", folder_model(1), "BF16", transformers_version="4.99")
    assert run(folder, "parts", "1", config, *files)[:4096] == packed(folder / "other")[:4096]
    config.write_text("[1]")
    assert int(run(folder, "parts", "1", config, *files)) == FORMAT
    (folder / "text").write_text("no model")
    assert int(run(folder, "status", folder / "text")) == FORMAT
    for change in ({"dtype": "F32"}, {"width": 192, "heads": 6, "kv": 6}):
        dtype = change.pop("dtype", "BF16")
        file = write_folder(folder / "other", folder_model(1, **change), dtype)[0]
        assert int(run(folder, "status", file)) == TENSORS


def test_folders_of_experts():
    """Of which each is a tensor of its own, in one file in order, and in several."""
    for dtype, parts in (("F32", 1), ("BF16", 3), ("F16", 2)):
        folder = place(f"hf{dtype}experts")
        one, two = folder / "one", folder / "two"
        model, other = (folder_model(i, experts=4) for i in (1, 2))
        if dtype != "F32":  # matrices of 16 bits with so few elements are a part of the code
            other.weights |= {name: w for name, w in model.weights.items() if "ffn_gate_inp" in name}
        write_folder(one, model, dtype, parts)
        files = write_folder(two, other, dtype, 2)
        compile_model(one, folder, "load")
        build(folder)
        expected = packed(two)
        assert run(folder, "parts", "3", *files)[:len(expected)] == expected, dtype


def test_folders_of_each_kind():
    """Tied embeddings, products that are turned, and what is folded into constants."""
    for name in ("qwen2", "gemma2", "gpt2", "phi3", "mamba", "bert"):
        folder = place(f"hf{name}")
        files = write_folder(folder / "one", (models.MODELS | models.ENCODERS)[name](), "F32")
        compile_model(folder / "one", folder, "load")
        build(folder)
        check_weights_of(folder, folder / "one", files[0])


def refused(path, *options):
    command = [RLXC, *options[:1], path, "--weights", "load", *options[1:]]
    done = subprocess.run(command, capture_output=True, timeout=300)
    assert done.returncode != 0, done
    return done.stderr.decode()


def test_refused():
    folder = place("refused")
    path = write(folder / "1.gguf", models.MODELS["llama_q8_0"]())
    assert "--weights load: expected compile or inspect with it" in refused(path, "verify")
    assert "not with GPU targets" in refused(path, "inspect", "--target", "vulkan")
    assert "weights in the program" in refused(path, "inspect", "--arena", "static")
    graph = folder / "g.rlx"
    graph.write_text('graph "g" {\n  %1 = input "x" : f32[4]\n  %2 = exp(%1)\n  output "y" = %2\n}\n')
    assert "GGUF" in refused(graph, "inspect")
    large = models.llama(width=1024, heads=8, kv=8, head=128, ffn=2304, layers=1)
    i = [name for name, *_ in large.tensors].index("blk.0.ffn_up.weight")
    large.tensors[i] = (*large.tensors[i][:2], F64, bytes(1024 * 2304 * 8))
    message = refused(write(folder / "f64.gguf", large), "inspect")
    assert "bytes of constants would be in the code, 'blk.0.ffn_up.weight' with 9437184" in message, message


def test_narrow():
    """Where sizes have 32 bits."""
    compiler = shutil.which("arm-none-eabi-gcc")
    if compiler is None:
        raise tap.Skipped("no arm-none-eabi-gcc")
    folder = place("narrow")
    compile_model(write(folder / "1.gguf", models.MODELS["llama"]()), folder, "load")
    command = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-mcpu=cortex-a9",
               "-mfpu=neon", "-mfloat-abi=hard", "-I.", "m.c"]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr.decode()[-3000:]


def test_inspect():
    """The memory that inspect prints is that of the code."""
    folder = place("formats")
    inspect = [RLXC, "inspect", folder / "1.gguf", "--weights", "load", "--context", "48", "--no-code"]
    done = subprocess.run([*inspect, "--json"], capture_output=True, check=True, timeout=300)
    said = next(line for line in (folder / "m.h").read_text().splitlines() if "M_WEIGHT_BYTES" in line)
    assert said.split()[2].rstrip("u") in done.stdout.decode(), said


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
