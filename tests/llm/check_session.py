#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions in the code of `rlxc compile model.gguf` (session_test.c says what they promise): models with
random weights and a small vocabulary, with address, undefined-behaviour and thread sanitizers, with an
allocator that ends the program, in C99, in C++, and in parts; and what the command refuses.
Usage: check_session.py RLXC"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STORIES = ROOT.parent / "shared/models/gguf"
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
try:
    import numpy
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
import models  # noqa: E402
import small_vocab  # noqa: E402
import tap  # noqa: E402
from emitted import QUICK, SANITIZE, flags_of  # noqa: E402
from reference import Reference  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory()
TESTS = ["save", "damaged", "fork", "reuse", "shift", "stops", "context", "logprobs",
         "arguments"]
STRICT = ["-std=c99", "-D_POSIX_C_SOURCE=200112L", "-Wall", "-Wextra", "-Wconversion", "-Wshadow"]


def with_vocabulary(model):
    model.entries |= small_vocab.entries()
    return model


def place(name):
    folder = pathlib.Path(FOLDER.name, name)
    folder.mkdir(exist_ok=True)
    return folder


def compiled(name, model, *options):
    """The folder, and what the command says as JSON."""
    folder = place(name)
    (folder / "m.gguf").write_bytes(model.file())
    command = [RLXC, "compile", folder / "m.gguf", "-o", folder, "--cpu", "native", "--json", *options]
    done = subprocess.run(command, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return folder, json.loads(done.stdout)


def build(folder, *flags, sources=("m.c",), name="p"):
    level = QUICK if "-g" in flags else "-O1"
    command = ["cc", *flags_of(folder / "m.c", level), *STRICT, "-Werror", *flags, "-I.", *sources]
    command += [HERE / "session_test.c", "-o", name, "-lm", "-pthread"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=500)
    assert done.returncode == 0, done.stderr.decode()


def run(folder, what, name="p", given="", status=0):
    done = subprocess.run([folder / name, what], input=given.encode(), capture_output=True, timeout=300)
    assert done.returncode == status, f"{what}: {done.returncode} {done.stderr.decode()[-2000:]}"
    return done.stdout.decode()


def check_logits(folder, model, allowed=1e-5):
    tokens = [(7 * i * i + 3 * i + 1) % models.VOCAB for i in range(29)]
    expected = Reference(model).logits(tokens)[-1]
    for piece in (29, 7, 1):
        got = numpy.array(run(folder, "logits", given=f"{piece} {' '.join(map(str, tokens))}").split(), "f8")
        apart = numpy.linalg.norm(got - expected) / numpy.linalg.norm(expected)
        assert apart <= allowed, (piece, apart)


def test_promises():
    """Of caches of both types, of states of fixed size, and where a run takes few tokens."""
    for name, kind, options in (
        ("llama", "llama", ["--context", "48"]),
        ("gemma3", "gemma3", ["--kv", "f16"]),
        ("qwen2moe", "qwen2moe", ["--dim", "T=1..5", "--dim", "P=0..47"]),
        ("mamba", "mamba", ["--context", "48"]),
        ("mamba2", "mamba2", ["--context", "48"]),
    ):
        model = with_vocabulary(models.MODELS[kind]())
        folder, _ = compiled(name, model, *options)
        allowed = ["-DALLOWED=2e-3"] if "f16" in options else []
        build(folder, *SANITIZE, *allowed, *(["-DFIXED=1"] if kind.startswith("mamba") else []))
        check_logits(folder, model, 2e-3 if "f16" in options else 1e-5)
        for what in TESTS:
            run(folder, what)


def test_threads():
    folder, _ = compiled("threads", with_vocabulary(models.MODELS["llama"]()))
    build(folder, "-fsanitize=thread", "-g")
    run(folder, "threads")


def test_memory():
    """Nothing is allocated, and the process has no more than inspect says, and 2 MB."""
    sizes = dict(layers=4, width=256, heads=8, kv=8, head=32, ffn=512)
    model = with_vocabulary(models.llama(**sizes))
    model.number("context_length", 1024)
    folder, said = compiled("memory", model, "--context", "1024")
    wraps = [f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc")]
    build(folder, "-DNO_ALLOCATION", *wraps)
    run(folder, "allocator", status=1)
    inspect = [RLXC, "inspect", folder / "m.gguf", "--cpu", "native", "--context", "1024", "--no-code"]
    text = subprocess.run(inspect, capture_output=True, check=True, timeout=300).stdout.decode()
    facts = subprocess.run([*inspect, "--json"], capture_output=True, check=True, timeout=300).stdout
    session = json.loads(facts)["session_bytes"]
    assert said["session_bytes"] == session and f"session {session} bytes: " in text, (said, text)
    saved, rss, unit = run(folder, "memory").split()
    taken = int(rss) * 1024 - int(saved)
    print(f"# session {session}, process {taken} and {saved} of the saved session")
    assert unit == "kB" and session > 8 << 20 and taken <= session + (2 << 20), (session, taken)


def test_forms():
    """In parts, with all calls of runtime-lite and with few, and with weights that the program maps."""
    model = with_vocabulary(models.MODELS["llama_q8_0"]())
    folder, _ = compiled("split", model, "--split", "3", "--api", "full")
    build(folder, sources=("m.c", "m_2.c", "m_3.c"))
    run(folder, "fork")
    build(folder, "-DM_WHOLE")
    run(folder, "save")
    folder, _ = compiled("core", model, "--api", "core", "--one-file")
    build(folder)
    run(folder, "save")
    text = '#include "m.c"\nint main() { rlx_session s; return m_open(&s, 0, 0, 0, 0) == 0; }\n'
    (folder / "x.cc").write_text(text)
    flags = [flag for flag in flags_of(folder / "m.c", "-O0")]
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Wconversion", "-Werror", *flags, "x.cc", "-o", "x"]
    done = subprocess.run([*command, "-lm"], cwd=folder, capture_output=True, timeout=500)
    assert done.returncode == 0, done.stderr.decode()


def test_example():
    """The program of docs/LLM.md, with the model of examples/language, and what examples/phone does."""
    sys.path.insert(0, str(ROOT / "examples/language"))
    import make_model

    folder = place("example")
    make_model.main(folder / "pairs.gguf", [ROOT / "examples/language/sample.txt"])
    command = [RLXC, "compile", folder / "pairs.gguf", "-o", folder, "--name", "model", "--context", "64"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
    blocks = (ROOT / "docs/LLM.md").read_text(encoding="utf-8").split("```c\n")
    (code,) = [b.split("```")[0] for b in blocks if "int main" in b.split("```")[0]]
    (folder / "example.c").write_text(code)
    for source in (folder / "example.c", ROOT / "examples/phone/phone.c"):
        command = ["cc", *flags_of(folder / "model.c", QUICK), "-std=gnu11", "-Wall", "-Wextra"]
        command += ["-Wconversion", "-Werror", *SANITIZE, "-I.", source, "model.c", "-o", source.stem, "-lm"]
        subprocess.run(command, check=True, cwd=folder, timeout=300)
    done = subprocess.run([folder / "example"], capture_output=True, check=True, timeout=60)
    assert len(done.stdout) > 60 and done.stderr == b"\nthe context is full\n", done
    check_phone(folder / "phone", folder / "talk")


def check_phone(phone, kept):
    def talk(lines, *words, status=0):
        done = subprocess.run([phone, *words], input=lines.encode(), capture_output=True, timeout=60)
        assert done.returncode == status, (words, done)
        return done.stdout.decode()

    greedy = ["--temperature", "0", "-n", "8"]
    assert talk("The cat\n", *greedy) == " likes the river is like the river is\n"
    assert talk("cat\n", "--prefix", "The ", *greedy) == " likes the river is like the river is\n"
    assert talk("The cat\n", "--stop", " is", *greedy) == " likes the river\n"
    # What is kept goes on as what was never interrupted, also when the talk outgrows the context.
    lines = ["The cat\n", "In the evening\n", "The river\n"]
    whole = talk("".join(lines), "-n", "40", "--seed", "3", "--temperature", "0")
    parts = [talk(line, "-n", "40", "--temperature", "0", "--keep", kept) for line in lines]
    assert whole == "".join(parts) and len(whole.split("\n")) == 4, (whole, parts)
    kept.write_bytes(kept.read_bytes()[:-8])
    talk("The cat\n", "--keep", kept, status=1)
    talk("", "--other", status=2)


def test_stories():
    if not STORIES.exists():
        print("# test_stories: skipped, no shared models")
        return
    expected = json.loads((STORIES / "derived_expected_greedy60.json").read_text())["greedy_tokens"]
    for kind in ("F32", "Q8_0"):
        folder = place(kind)
        command = [RLXC, "compile", STORIES / f"derived_stories260K-{kind}.gguf", "-o", folder, "--name", "m"]
        subprocess.run([*command, "--cpu", "native"], check=True, stdout=subprocess.DEVNULL, timeout=300)
        build(folder)
        got = [expected[0], *map(int, run(folder, "greedy").split())]
        assert got == expected if kind == "F32" else got[:20] == expected[:20], (kind, got)


def refused(*words, model):
    folder = place("refused")
    (folder / "m.gguf").write_bytes(model.file())
    command = [RLXC, "compile", folder / "m.gguf", "-o", folder / "out", *words]
    return subprocess.run(command, capture_output=True, timeout=300)


def has_session(folder):
    return "m_feed_text" in (folder / "m.h").read_text()


def test_wishes():
    plain, model = models.MODELS["llama"](), with_vocabulary(models.MODELS["llama"]())
    assert not has_session(compiled("plain", plain)[0])
    assert not has_session(compiled("no", model, "--session", "no")[0])
    assert has_session(compiled("yes", model, "--session", "yes")[0])
    assert not has_session(compiled("fixed", model, "--dim", "T=1", "--dim", "P=4")[0])
    said = refused("--session", "yes", model=plain)
    assert said.returncode == 2 and b"the file has no vocabulary" in said.stderr
    assert not place("refused").joinpath("out/m.c").exists()
    said = refused("--session", "yes", "--dim", "T=1", "--dim", "P=4", model=model)
    assert said.returncode == 2 and b"T and P" in said.stderr
    for other, *words in (("gemma2", "--windows", "ring"), ("gpt_oss",)):
        other = with_vocabulary(models.MODELS[other]())
        said = refused("--session", "yes", *words, model=other)
        assert said.returncode == 2 and b"one row for each token" in said.stderr, said
        assert refused(*words, model=other).returncode == 0 and not has_session(place("refused") / "out")
    assert refused("--session", "maybe", model=model).returncode == 2
    model.entries["tokenizer.ggml.tokens"].append("more")
    model.entries["tokenizer.ggml.scores"].append(-99.0)
    model.entries["tokenizer.ggml.token_type"].append(1)
    said = refused(model=model)
    assert said.returncode == 0 and b"81 tokens, and the model logits for 80" in said.stderr, said.stderr
    model.entries["tokenizer.ggml.tokens"][5] = ""
    said = refused(model=model)
    assert said.returncode == 0 and b"no sessions in the generated code" in said.stderr
    assert refused("--session", "yes", model=model).returncode == 2


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
