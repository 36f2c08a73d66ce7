#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rlxc chat through pipes and a terminal: turns, reuse of what was read, commands, the end of the context,
Ctrl-C, and messages that look like control tokens. Usage: check_chat.py RLXC; prints TAP."""

import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/language"
sys.path[:0] = [str(EXAMPLE), str(ROOT / "tests/common"), str(ROOT / "tests/llm")]
try:
    import numpy
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
import make_model  # noqa: E402
import models  # noqa: E402
import reference  # noqa: E402
import tap  # noqa: E402

RLXC = pathlib.Path(sys.argv[1]).resolve()
FOLDER = tempfile.TemporaryDirectory()
HERE = pathlib.Path(FOLDER.name)
PAIRS, RANDOM = HERE / "pairs.gguf", HERE / "random.gguf"
CONTROL = ["<|im_start|>", "<|im_end|>"]
SIGNS = "abcdefghijklmnopqrstuvwxyzHTIW<>|_/.,?!:'0123456789\n"
FLAT = "{% for m in messages %}{{ m.content ~ (' ' if not loop.last) }}{% endfor %}"


def write_models():
    """One of pairs, which says what is known beforehand; and one whose tokens depend on all before them."""
    make_model.main(PAIRS, [EXAMPLE / "sample.txt"])
    m = models.llama()
    tokens = ["<unk>", "<s>", "</s>", *CONTROL, "\u2581", *SIGNS]
    tokens += [f"spare{i}" for i in range(models.VOCAB - len(tokens))]
    m.entries |= {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(i) for i in range(len(tokens))],
        "tokenizer.ggml.token_type": [2, 3, 3, 3, 3] + [1] * (len(tokens) - 5),
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    }
    lists = lambda value: isinstance(value, list) and isinstance(value[0], str)
    texts = {key: value for key, value in m.entries.items() if lists(value)}
    plain = {key: value for key, value in m.entries.items() if not lists(value)}
    RANDOM.write_bytes(with_texts(models.gguf_file, plain, texts, m.tensors))
    (HERE / "flat.jinja").write_text(FLAT)


def with_texts(writer, entries, texts, tensors):
    """As gguf_file.make, which has no lists of strings."""
    own = writer.entry

    def entry(key, value):
        if key not in texts:
            return own(key, value)
        parts = b"".join(writer.text(part) for part in value)
        head = (writer.ARRAY).to_bytes(4, "little") + (writer.STRING).to_bytes(4, "little")
        return writer.text(key) + head + len(value).to_bytes(8, "little") + parts

    writer.entry = entry
    try:
        return writer.make(entries | texts, tensors)
    finally:
        writer.entry = own


def chat(model, lines, *words, status=0):
    text = "".join(line + "\n" for line in lines)
    done = subprocess.run(
        [RLXC, "chat", model, *words], input=text.encode(), capture_output=True, timeout=300
    )
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


def chat_json(model, lines, *words):
    return json.loads(chat(model, lines, *words, "--json")[0])


def flat(*words):
    return ["--template", HERE / "flat.jinja", "--temperature", "0", *words]


def test_turns():
    out, said = chat(PAIRS, ["The cat", "The river"], *flat("-n", "8"))
    assert out == " likes the river is like the river is\n is like the river is like the river\n", out
    assert not said, said  # no progress in pipes
    run = subprocess.run(
        [RLXC, "run", PAIRS, "--prompt", "The cat", "-n", "8", "--temperature", "0"], capture_output=True
    )
    assert out.startswith(run.stdout.decode())
    first = chat(PAIRS, ["The cat"], "--template", HERE / "flat.jinja", "--seed", "5", "-n", "20")[0]
    assert first == chat(PAIRS, ["The cat"], "--template", HERE / "flat.jinja", "--seed", "5", "-n", "20")[0]


def test_reuse():
    """The second answer is that of a model that reads all at once, but only new tokens are read for it."""
    both = chat_json(RANDOM, ["Hi", "What?"], "-n", "6", "--temperature", "0", "--context", "100")
    roles = [m["role"] for m in both["messages"]]
    assert roles == ["user", "assistant", "user", "assistant"], roles
    first, last = both["messages"][1]["content"], both["messages"][3]["content"]
    whole = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in both["messages"][:3])
    (HERE / "whole.jinja").write_text(whole.replace("{", "{{ '{' }}") + "<|im_start|>assistant\n{# #}\n")
    alone = chat_json(
        RANDOM,
        ["x"],
        "-n",
        "6",
        "--temperature",
        "0",
        "--context",
        "100",
        "--template",
        HERE / "whole.jinja",
    )
    assert alone["messages"][1]["content"] == last, (alone, both)
    one = chat_json(RANDOM, ["Hi"], "-n", "6", "--temperature", "0", "--context", "100")
    assert one["messages"][1]["content"] == first
    assert (
        both["prompt_tokens"]
        <= alone["prompt_tokens"] + 6
        < one["prompt_tokens"] + alone["prompt_tokens"]
    )


def test_system():
    said = chat_json(RANDOM, ["Hi"], "--system", "be so", "-n", "2")
    assert said["messages"][0] == {"role": "system", "content": "be so"}
    plain = chat_json(RANDOM, ["Hi"], "-n", "2")
    assert said["prompt_tokens"] == plain["prompt_tokens"] + len("system\nbe so\n") + 2
    reset = chat_json(RANDOM, ["Hi", "/reset", "Hi"], "--system", "be so", "-n", "2")
    assert [m["role"] for m in reset["messages"]] == ["system", "user", "assistant"]


def test_control_tokens():
    """What users write is text, also where it looks like a control token; halves that meet are text too."""
    length = lambda text: chat_json(RANDOM, [text], "-n", "1")["prompt_tokens"]
    assert length("<|im_end|>") == length("aaaaaaaaaa")
    assert length("a<|im_start|>b<|im_end|>") == length("a" * 24)
    assert length("<|im_<|im_end|>end|>") == length("a" * 20)


def test_commands():
    out, said = chat(PAIRS, ["/nope", "/help", "", "//In the", "/quit", "The cat"], *flat("-n", "3"))
    assert out.count("\n") == 1 and "there is no command /nope" in said and "/reset" in said, (out, said)


def test_context():
    lines = ["The cat", "The river", "/reset", "The cat"]
    out, said = chat(PAIRS, lines, *flat("--context", "16"), status=1)
    assert "is full" in said and "the context 16" in said and "--context" in said, said
    assert len(out.splitlines()) == 2 and out.splitlines()[0] == out.splitlines()[1]
    assert "is full" in chat(PAIRS, ["The cat"], *flat("--context", "16"))[1]


def test_refused():
    none = HERE / "none.gguf"
    none.write_bytes(PAIRS.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_nothing_"))
    said = chat(none, ["x"], status=1)[1]
    assert "no chat template" in said and "--template" in said and "chatml" in said, said
    said = chat(ROOT / "models/mlp.json", ["x"], "--template", "chatml", status=2)[1]
    assert "expected a language model" in said, said
    assert "--temperature" in chat(PAIRS, [], *flat(), "--temperature", "-1", status=2)[1]
    (HERE / "no.jinja").write_text("{{ raise_exception('only cats') }}")
    assert "only cats" in chat(PAIRS, ["x"], "--template", HERE / "no.jinja", status=1)[1]


def test_perplexity():
    """As computed in doubles from the definition, in windows."""
    text = HERE / "text.txt"
    text.write_text("what is it? the end of it.\nHi! " * 4)
    ids = [1] + [5 if c == " " else 6 + SIGNS.index(c) for c in text.read_text()]
    for context in (100, 40):
        words = ["--text", text, "--context", str(context), "--json"]
        done = subprocess.run([RLXC, "perplexity", RANDOM, *words], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        said, losses = json.loads(done.stdout), []
        for at in range(0, len(ids) - 1, context):
            part = ids[at : at + context]
            logits = reference.Reference(models.llama()).logits(numpy.array(part))
            probability = reference.softmax(logits)
            losses += [-numpy.log(probability[i, part[i + 1]]) for i in range(len(part) - 1)]
        assert said["tokens"] == len(losses), (said, len(losses))
        expected = numpy.exp(numpy.mean(losses))
        assert abs(said["perplexity"] / expected - 1) < 1e-4, (said, expected)
    text.write_text("")
    for words in ([], ["--text", text], ["--text", HERE / "nosuch"]):
        assert subprocess.run([RLXC, "perplexity", RANDOM, *words], capture_output=True).returncode in (1, 2)


def flush_nothing(terminal):
    """A terminal drops what is printed just after Ctrl-C, and that may be the line that is waited for."""
    modes = termios.tcgetattr(terminal)
    modes[3] |= termios.NOFLSH
    termios.tcsetattr(terminal, termios.TCSANOW, modes)


class Terminal:
    """rlxc chat in a terminal of its own, where Ctrl-C does what it does for people: a test that was started
    in the background inherits that it is ignored."""

    def __init__(self, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            flush_nothing(0)
            os.environ["TERM"] = "xterm"
            os.execv(RLXC, [str(RLXC), "chat", *map(str, words)])
        self.seen = ""

    def wait_for(self, text, seconds=200):
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            assert ready, f"waited for {text!r}, saw {self.seen[-2000:]!r}"
            try:
                self.seen += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:
                raise AssertionError(f"ended before {text!r}: {self.seen[-2000:]!r}") from None
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self, seconds=200):
        end = time.monotonic() + seconds
        while (ended := os.waitpid(self.pid, os.WNOHANG)) == (0, 0):
            assert time.monotonic() < end, f"goes on: {self.seen[-2000:]!r}"
            time.sleep(0.01)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(ended[1])


def test_terminal():
    t = Terminal(PAIRS, *flat("--context", "60000"))
    t.wait_for("> ")
    t.type("The cat\n")
    t.wait_for("is like the river")
    t.type("\x03")
    t.wait_for("(stopped)")
    t.wait_for("tokens/s")
    t.wait_for("> ")
    t.type("/reset\n")
    t.wait_for("> ")
    t.type("The river\n")
    t.wait_for("is like the")
    t.type("\x03")
    t.wait_for("> ")
    t.type("/quit\n")
    assert t.end() == 0


def test_terminal_ends():
    """Ctrl-C at the prompt ends the program as it always does; the end of the input ends it too."""
    t = Terminal(PAIRS, *flat("-n", "2"))
    said = t.wait_for("context 512 tokens")
    assert "weights " in said and "caches 0." in said, said
    t.wait_for("> ")
    t.type("\x03")
    code = t.end()
    assert code == -signal.SIGINT, code
    t = Terminal(PAIRS, *flat("-n", "2"))
    t.wait_for("> ")
    t.type("\x04")
    code = t.end()
    assert code == 0, code


if __name__ == "__main__":
    write_models()
    sys.exit(tap.run_tests(globals()))
