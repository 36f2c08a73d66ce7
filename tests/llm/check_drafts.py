#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions with drafts (--drafts; draft_test.c says what they promise), with the sanitizers; a draft by a
second model; `rlxc run` and `chat` with --draft; and what is refused. Usage: check_drafts.py RLXC; prints
TAP."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parent.parent / "examples/language"
sys.path[:0] = [str(HERE), str(HERE.parent / "common"), str(EXAMPLE)]
try:
    import numpy  # noqa: F401
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
import make_model  # noqa: E402
import models  # noqa: E402
import small_vocab  # noqa: E402
import tap  # noqa: E402
from emitted import QUICK, SANITIZE, flags_of  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory()


def placed(name, kind="llama", **sizes):
    model = models.MODELS[kind]() if not sizes else getattr(models, kind)(**sizes)
    model.entries |= small_vocab.entries()
    folder = pathlib.Path(FOLDER.name, name)
    folder.mkdir()
    (folder / "m.gguf").write_bytes(model.file())
    return folder


def compiled(folder, *options, status=0):
    command = [RLXC, "compile", folder / "m.gguf", "-o", folder, "--cpu", "native", *options]
    done = subprocess.run(command, capture_output=True, timeout=300)
    assert done.returncode == status, done.stderr.decode()
    return done.stderr.decode()


def build(folder, sources, name="p"):
    command = ["cc", *flags_of(folder / "m.c", QUICK), "-std=c99", "-Wall", "-Wextra", "-Wconversion"]
    command += ["-Werror", *SANITIZE, "-I.", *sources, "-o", name, "-lm"]
    subprocess.run(command, check=True, cwd=folder, timeout=500)
    done = subprocess.run([f"./{name}"], cwd=folder, capture_output=True, timeout=300)
    assert done.returncode == 0, (folder, done.stderr.decode()[-2000:])
    return done.stdout.decode()


def test_promises():
    """With the sizes that rlxc chooses, with others, and with weights in blocks."""
    for kind, options in (
        ("llama", ["--drafts", "4"]),
        ("gemma3", ["--drafts", "3", "--dim", "T=1..5", "--dim", "P=0..47"]),
        ("llama_q8_0", ["--drafts", "4"]),
    ):
        folder = placed(f"promises_{kind}", kind)
        compiled(folder, *options)
        build(folder, ["m.c", HERE / "draft_test.c"])


def test_second_model():
    """A model that guesses all, because it is the same, and one that guesses nothing."""
    for other, most_runs in (("llama", 9), ("qwen3", 39)):
        folder = placed(f"two_{other}")
        compiled(folder, "--drafts", "4")
        (folder / "k.gguf").write_bytes((placed(f"of_{other}", other) / "m.gguf").read_bytes())
        command = [RLXC, "compile", folder / "k.gguf", "-o", folder, "--cpu", "native"]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        runs = int(build(folder, ["m.c", "k.c", HERE / "two_models_test.c"]))
        assert runs <= most_runs, (other, runs)


def said(command, *words, status=0, given=""):
    done = subprocess.run([RLXC, *command, *words], input=given.encode(), capture_output=True, timeout=300)
    assert done.returncode == status, (words, done.returncode, done.stderr.decode())
    return (done.stdout if status == 0 else done.stderr).decode()


def pairs():
    """The model of examples/language, which repeats itself."""
    file = pathlib.Path(FOLDER.name, "pairs.gguf")
    if not file.exists():
        make_model.main(file, [EXAMPLE / "sample.txt"])
    return file


def test_commands():
    file = pairs()
    for more in (["--temperature", "0"], ["--seed", "5"], ["--temperature", "0", "--repeat-penalty", "1.3"]):
        words = ["--prompt", "The cat", "-n", "40", "--json", *more]
        plain = json.loads(said(["run", file], *words))
        for draft in (["ngram"], [file], [file, "--drafts", "3"], ["ngram", "--dim", "T=1..7", "--dim",
                      "P=0..99"]):  # fmt: skip
            got = json.loads(said(["run", file], *words, "--draft", *draft))
            assert got["text"] == plain["text"] and got["tokens"] == plain["tokens"], (draft, got, plain)
            assert got["runs"] < plain["runs"] or draft[0] == "ngram", (draft, got)
    plain = json.loads(said(["run", file], "--prompt", "The cat", "-n", "60", "--temperature", "0", "--json"))
    got = json.loads(said(["run", file], "--prompt", "The cat", "-n", "60", "--temperature", "0", "--json",
                          "--draft", "ngram"))  # fmt: skip
    assert plain["runs"] == 60 and got["runs"] < 25 and got["text"] == plain["text"], got
    talk = ["-n", "30", "--temperature", "0"]
    lines = "The cat\nIn the evening\n"
    for draft in ("ngram", file):
        expected = said(["chat", file], *talk, given=lines)
        assert said(["chat", file], *talk, "--draft", draft, given=lines) == expected


def test_context():
    """To the end of the context, of the model and of the one that guesses."""
    words = ["--prompt", "The cat", "-n", "500", "--temperature", "0", "--context", "40", "--json"]
    plain = json.loads(said(["run", pairs()], *words))
    for draft in ("ngram", pairs()):
        got = json.loads(said(["run", pairs()], *words, "--draft", draft))
        assert got["text"] == plain["text"] and got["tokens"] == 37, got


def test_rings():
    """Rows of rings that guesses have taken are not seen afterwards."""
    file = placed("rings", "gemma3") / "m.gguf"
    words = ["--prompt", "the cat the cat", "-n", "30", "--temperature", "0", "--context", "40", "--json"]
    plain = json.loads(said(["run", file], *words))
    for draft in ("ngram", file):
        got = json.loads(said(["run", file], *words, "--windows", "ring", "--draft", draft))
        assert got["text"] == plain["text"] and got["runs"] < plain["runs"], (got, plain)


def test_refused():
    folder, file = placed("refused"), pairs()
    for words in (["--drafts", "0"], ["--drafts", "65"], ["--drafts", "2", "--outputs", "all"],
                  ["--drafts", "2", "--outputs", "last,embedding"]):  # fmt: skip
        assert "--drafts" in compiled(folder, *words, status=2)
    for words in (["--context", "1"], ["--context", "32768", "--slots", "512"]):
        assert "no room for guesses" in compiled(folder, "--drafts", "2", *words, status=2)
    other = placed("ssm", "mamba")
    assert "cannot go back" in compiled(other, "--drafts", "2", status=2)
    text = ["--prompt", "The cat", "-n", "2"]
    assert "another one than that of the model" in said(
        ["run", file], *text, "--draft", folder / "m.gguf", status=2
    )
    assert "--draft here" in said(["run", file], *text, "--drafts", "3", status=2)
    assert "is for --prompt" in said(["run", file], "--random", "1", "--draft", "ngram", status=2)
    assert "E0001" in said(["run", file], *text, "--draft", folder / "none.gguf", status=1)


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
