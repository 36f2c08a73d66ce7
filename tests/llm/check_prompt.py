#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rlxc run --prompt: a model of pairs of tokens (examples/language) writes what its pairs say, the same for
the same seed, no more than it may, and refuses what it cannot do. Usage: check_prompt.py RLXC; prints TAP."""

import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/language"
sys.path[:0] = [str(EXAMPLE), str(ROOT / "tests/common")]

import make_model  # noqa: E402
import tap  # noqa: E402

RLXC = pathlib.Path(sys.argv[1]).resolve()
FOLDER = tempfile.TemporaryDirectory()
MODEL = pathlib.Path(FOLDER.name) / "pairs.gguf"
make_model.main(MODEL, [EXAMPLE / "sample.txt"])


def run(*words, status=0):
    done = subprocess.run([RLXC, "run", MODEL, *words], capture_output=True, timeout=300)
    assert done.returncode == status, done.stderr.decode()
    return (done.stdout if status == 0 else done.stderr).decode()


def likeliest(word, n):
    """What follows a word, each time the most frequent token, by the counts themselves."""
    text = " ".join((EXAMPLE / "sample.txt").read_text(encoding="utf-8").split())
    signs, merged, words = make_model.learn_tokens(text)
    tokens = make_model.vocabulary(signs, merged)
    counts = make_model.followers(text, tokens, words)
    at, found = [t[0] for t in tokens].index(make_model.SPACE + word), []
    for _ in range(n):
        most = max(counts[at].values())
        at = min(i for i, count in counts[at].items() if count == most)
        found.append(tokens[at][0])
    return "".join(found).replace(make_model.SPACE, " ") + "\n"


def test_likeliest():
    for word in ("cat", "river", "In"):
        assert run("--prompt", f"The {word}", "-n", "9", "--temperature", "0") == likeliest(word, 9)


def test_seeds():
    first = run("--prompt", "In the", "-n", "20", "--seed", "7")
    assert run("--prompt", "In the", "-n", "20", "--seed", "7") == first
    others = {run("--prompt", "In the", "-n", "20", "--seed", str(s)) for s in range(4)}
    assert len(others) > 1
    one = run("--prompt", "The cat", "-n", "6", "--top-k", "1", "--seed", "9")
    assert one == run("--prompt", "The cat", "-n", "6", "--temperature", "0")


def test_numbers():
    said = json.loads(run("--prompt", "The cat", "-n", "5", "--temperature", "0", "--json"))
    assert said["tokens"] == 5 and said["prompt_tokens"] == 3
    assert said["text"] + "\n" == run("--prompt", "The cat", "-n", "5", "--temperature", "0")
    assert run("--prompt", "The cat", "-n", "0") == "\n"
    assert json.loads(run("--prompt", "", "-n", "2", "--json"))["prompt_tokens"] == 1


def test_context():
    long = json.loads(run("--prompt", "The cat", "-n", "500", "--context", "24", "--json"))
    assert long["prompt_tokens"] + long["tokens"] == 24
    said = run("--prompt", "The cat likes the fish. " * 20, "--context", "24", status=2)
    assert "E0003" in said and "24" in said


def test_grammar():
    grammar = pathlib.Path(FOLDER.name) / "two.gbnf"
    grammar.write_text('root ::= " " word (" " word){3} "."\nword ::= [a-z]+\n')
    texts = {run("--prompt", "The cat", "-n", "80", "--grammar", grammar, "--seed", str(i)) for i in range(6)}
    assert len(texts) > 1
    for text in texts:
        assert re.fullmatch(r"( [a-z]+){4}\.\n", text) or re.fullmatch(r"( [a-z]+){1,4}\n", text), text
    assert any(t.endswith(".\n") for t in texts), texts
    one = pathlib.Path(FOLDER.name) / "one.json"
    one.write_text('{"enum": [17, 23]}')
    numbers = {run("--prompt", "The cat", "--grammar", one, "--seed", str(i)) for i in range(6)}
    assert numbers <= {"17\n", "23\n"}, numbers  # the model has no digits but as bytes
    grammar.write_text('root ::= "(" root ")" | " "')
    said = run("--prompt", "The", "--grammar", grammar, "--context", "40", "--json")
    assert set(json.loads(said)["text"]) <= set("( )"), said
    one.write_text("root ::= (")
    assert "one.json:1:" in run("--prompt", "x", "--grammar", one, status=1)


def test_logprobs():
    words = ("--prompt", "The cat", "-n", "5", "--seed", "3", "--json")
    said = json.loads(run(*words, "--logprobs", "3"))
    plain = json.loads(run(*words))
    assert said["text"] == plain["text"] and "logprobs" not in plain and len(said["logprobs"]) == 5
    for token in said["logprobs"]:
        best = token["best"]
        assert len(best) == 3 and best[0]["logprob"] >= best[1]["logprob"] >= best[2]["logprob"], token
        assert token["logprob"] <= best[0]["logprob"] + 1e-6 and best[0]["logprob"] <= 0, token
        assert all(abs(b["logprob"] - token["logprob"]) < 1e-5 for b in best if b["token"] == token["token"])
    whole = json.loads(run(*words[:3], "1", "--json", "--logprobs", "100"))["logprobs"][0]["best"]
    assert 0.9 < sum(math.exp(b["logprob"]) for b in whole) < 1, "the best 100 tokens are nearly all"
    assert json.loads(run(*words, "--logprobs", "0"))["logprobs"][0]["best"] == []
    assert "--json" in run("--prompt", "x", "--logprobs", "3", status=2)


def test_refused():
    for words in (["--temperature", "-1"], ["--top-p", "2"], ["-n", "x"], ["--repeat-penalty", "0"]):
        assert words[0] in run("--prompt", "x", *words, status=2)
    for words in (["-n", "1.5"], ["--top-k", "0.5"], ["--random", "1"]):
        assert words[0] in run("--prompt", "x", *words, status=2)
    assert "is for --prompt" in run("--random", "1", "--temperature", "0", status=2)
    done = subprocess.run([RLXC, "run", ROOT / "models/mlp.json", "--prompt", "x"], capture_output=True)
    assert done.returncode == 2 and b"expected a language model" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
