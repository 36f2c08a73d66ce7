#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generated tokenizers against the packages `tokenizers` and `sentencepiece`, over vocabularies that these
train here: the same tokens for 10 000 random texts each, the text back, streams of whole characters, bytes
that are no UTF-8, and time that grows with the text only. Also refused vocabularies.
Usage: check_tokens.py RLXC [CASE...]"""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "common"), str(HERE)]
import in_venv  # noqa: E402

try:
    import sentencepiece  # noqa: F401
    import tokenizers  # noqa: F401
except ImportError:
    in_venv.enter_or_skip("tokenizers or sentencepiece")

import tap  # noqa: E402
import vocabularies as v  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
N_TEXTS = 4000
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wundef", "-Werror"]
SANITIZE = ["-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FRAME, CONTROL = 1, 2


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, check=False, **options)


def must(*command, **options):
    done = run(*command, **options)
    assert done.returncode == 0, f"{command[0]}: {done.stderr.decode(errors='replace')[:2000]}"
    return done.stdout


def generate(folder, name, data):
    """The folder with tok.h and tok.c of a vocabulary's file."""
    folder = folder / name.replace(".", "_")
    folder.mkdir()
    (folder / name).write_bytes(data)
    must(RLXC, "tokenizer", folder / name, "-o", folder, "--name", "tok")
    return folder


def build(folder, name="program", flags=()):
    program = folder / name
    must("cc", "-std=c99", *WARN, *(flags or ("-O2",)), "-I", folder, HERE / "tokens_main.c",
         folder / "tok.c",
         "-o", program)
    return program


def check_compilers(folder):
    for compiler in (["gcc", "-std=c99"], ["clang", "-std=c99"], ["g++", "-xc++", "-std=c++11"],
                     ["clang++", "-xc++", "-std=c++20"]):
        must(*compiler, *WARN, "-c", folder / "tok.c", "-o", folder / "tok.o")


class Answers:
    def __init__(self, program, texts, flags):
        request = b"".join(struct.pack("<BI", flags, len(t)) + t for t in texts)
        self.data, self.at = must(program, input=request, timeout=500), 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def __iter__(self):
        while self.at < len(self.data):
            n = struct.unpack("<I", self.take(4))[0]
            tokens = list(struct.unpack(f"<{n}i", self.take(4 * n)))
            yield tokens, *(self.take(struct.unpack("<I", self.take(4))[0]) for _ in range(2))


def compare(program, texts, flags, expected, back):
    """expected: text -> tokens, None: any; back: text -> bytes that decoding gives."""
    answers = list(Answers(program, [t if isinstance(t, bytes) else t.encode() for t in texts], flags))
    assert len(answers) == len(texts), f"{len(answers)} answers to {len(texts)} texts"
    for text, (tokens, decoded, streamed) in zip(texts, answers):
        wanted = expected(text)
        assert wanted is None or tokens == wanted, f"{text!r}: {tokens}, expected {wanted}"
        whole = back(text)
        assert decoded == whole, f"{text!r}: decoded as {decoded!r}"
        # A stream has no begin of a text, so the added space stays, and it knows no end of a special token.
        wanted = whole.decode(errors="replace")
        same = streamed.decode().replace(" ", "") == wanted.replace(" ", "")
        assert same, f"{text!r}: streamed {streamed!r}"


def texts_of(seed, with_special):
    rng = random.Random(seed)
    return [v.random_text(rng, with_special) for _ in range(N_TEXTS)]


def broken_texts(seed):
    rng = random.Random(seed)
    return [v.broken_bytes(rng) for _ in range(1000)]


def spread(text):
    return text if isinstance(text, bytes) else text.encode()


# --- byte-level BPE ------------------------------------------------------------------------------

def check_bpe(folder, pre):
    peer = v.train_bpe(pre)
    gguf = generate(folder, pre + ".gguf", v.gguf(v.bpe_metadata(peer, pre)))
    own_json = generate(folder, pre + ".json", peer.to_str().encode())
    check_compilers(gguf)
    with_control, without = build(gguf), build(own_json)
    compare(with_control, texts_of(1, True), CONTROL, lambda t: peer.encode(t).ids, spread)
    compare(without, texts_of(2, True), CONTROL, lambda t: peer.encode(t).ids, spread)
    plain = texts_of(3, False)
    compare(with_control, plain, 0, lambda t: peer.encode(t).ids, spread)
    careful = build(gguf, "careful", SANITIZE)
    compare(careful, broken_texts(4), 0, lambda t: None, spread)
    compare(careful, texts_of(5, True)[:1000], CONTROL, lambda t: peer.encode(t).ids, spread)


def check_characters(folder, kind):
    peer = v.train_characters(kind)
    generated = generate(folder, kind.replace(" ", "_") + ".json", peer.to_str().encode())
    check_compilers(generated)

    def expected(text):
        return peer.encode(text).ids

    unknown, mark = peer.token_to_id("<unk>"), "\u2581"

    def back(text):
        return spread(text).replace(mark.encode(), b" ")

    def is_same(text):  # what Metaspace does not add, the decoder cannot take back
        found = expected(text)
        return unknown not in found and not (kind in ("first", "always") and text.startswith((" ", mark)))

    texts, plain = texts_of(31, True), texts_of(32, False)
    program, careful = build(generated), build(generated, "careful", SANITIZE)
    for tried, flags in ((texts, CONTROL), (plain, 0)):
        answers = Answers(program, [t.encode() for t in tried], flags)
        for text, (tokens, _, _) in zip(tried, answers, strict=True):
            assert tokens == expected(text), f"{text!r}: {tokens}, expected {expected(text)}"
    if kind in ("prepend", "never"):
        compare(careful, [t for t in plain if is_same(t)][:1500], 0, expected, back)
        compare(careful, broken_texts(33), 0, lambda t: None, back)
    assert any(unknown in expected(t) for t in plain) == (kind == "without bytes")


def control_is_text(folder):
    """Without the flag a control token in a text is letters and signs; a user's token is cut all the same."""
    peer = v.train_bpe("llama-bpe")
    program = build(generate(folder, "control.gguf", v.gguf(v.bpe_metadata(peer, "llama-bpe"))))
    (tokens, decoded, _), = Answers(program, [b"<|im_start|>user<tool_call>"], 0)
    control = {peer.token_to_id(t) for t in v.CONTROL}
    assert not control & set(tokens) and tokens[-1] == peer.token_to_id("<tool_call>"), tokens
    assert decoded == b"<|im_start|>user<tool_call>"
    (tokens, _, _), = Answers(program, [b"<|im_start|>user"], CONTROL)
    assert tokens[0] == peer.token_to_id("<|im_start|>"), tokens


# --- SentencePiece -------------------------------------------------------------------------------

def split_special(text, with_control):
    """The text as special tokens and what lies between them; of two that begin at a place, the longer one."""
    names = sorted(v.USER + (v.CONTROL if with_control else []), key=len, reverse=True)
    at = begin = 0
    while at < len(text):
        found = next((n for n in names if text.startswith(n, at)), None)
        if found is None:
            at += 1
            continue
        if begin < at:
            yield text[begin:at], False
        yield found, True
        at = begin = at + len(found)
    if begin < at:
        yield text[begin:], False


def check_spm(folder, name, spm, adds_space, with_bytes):
    gguf = generate(folder, name, v.gguf(v.spm_metadata(spm, adds_space)))
    check_compilers(gguf)

    def expected(with_control):
        def tokens(text):
            found = []
            for part, is_special in split_special(text, with_control):
                found += [spm.piece_to_id(part)] if is_special else spm.encode(part)
            return found

        return tokens

    def back(text):
        return spread(text).replace("\u2581".encode(), b" ")

    program = build(gguf)
    if not with_bytes:
        texts = [t for t in texts_of(7, True) if all(not spm.is_unknown(i) for i in expected(True)(t))]
        assert len(texts) > 1000, "too few texts without unknown characters"
        compare(program, texts, CONTROL, expected(True), back)
        answers = Answers(program, [t.encode() for t in texts_of(8, False)], 0)
        for text, (tokens, _, _) in zip(texts_of(8, False), answers):
            assert tokens == expected(False)(text), f"{text!r}: {tokens}"
        return
    compare(program, texts_of(6, True), CONTROL, expected(True), back)
    compare(program, texts_of(7, False), 0, expected(False), back)
    careful = build(gguf, "careful", SANITIZE)
    compare(careful, broken_texts(8), 0, lambda t: None, back)
    compare(careful, texts_of(9, True)[:1000], CONTROL, expected(True), back)


# --- time ----------------------------------------------------------------------------------------

def check_growth(program, unit, sizes, most):
    """The longer text takes at most so many times as long. Each counts by the best of three; the longer one
    is not tried again when it was quick enough."""
    def seconds(n):
        return (float(must(program, unit, n, timeout=300).split()[1]) for _ in range(3))

    short, tried = min(seconds(sizes[0])), []
    for long in seconds(sizes[1]):
        tried.append(long)
        if long < most * max(short, 0.002):
            return
    raise AssertionError(f"{unit!r}: {short} s for {sizes[0]} bytes, {tried} for {sizes[1]}")


def check_time(folder, name, data):
    """Sixteen times the text takes at most 64 times as long. n log n gives 20, and twice that where the
    longer text no longer fits the caches; a square needs 256."""
    program = build(generate(folder, name, data))
    for unit in ("a", " ", "'", "1", "<", "<|im_", "é", "漢A", "\n", "aA", " \n"):
        check_growth(program, unit, (1 << 16, 1 << 20), 64)


# --- refused -------------------------------------------------------------------------------------

def refused():
    """What is wrong, what the message says, metadata."""
    good = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": ["a", "b", "ab"],
            "tokenizer.ggml.merges": ["a b"]}
    spm = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["<unk>", "a", "b"],
           "tokenizer.ggml.scores": [0.0, 1.0, 2.0], "tokenizer.ggml.token_type": [2, 1, 1]}

    def but(base, **changes):
        return {**base, **{"tokenizer.ggml." + key: value for key, value in changes.items()}}

    yield None, "", good
    yield None, "", spm
    yield "an unknown cut", "cut in a way that rlxc does not know", but(good, pre="my-own")
    yield "a cut that is nearly known", "gpt-2", but(good, pre="gpt2x")
    yield "no cut", "how its BPE cuts", {k: x for k, x in good.items() if not k.endswith(".pre")}
    yield "another model", "of the kind", but(good, model="rwkv")
    yield "no model", "of what kind", {}
    yield "an empty token", "is empty", but(good, tokens=["a", "b", "ab", ""])
    yield "a token twice", "token 0 too", but(good, tokens=["a", "b", "ab", "a"])
    yield "a long token", "1024", but(good, tokens=["a", "b", "ab", "c" * 1025])
    yield "an id beyond the tokens", "number 3", but(good, bos_token_id=3)
    yield "a huge id", "the number of a token", but(good, eos_token_id=0xFFFFFFFF)
    yield "a merge of no tokens", "is no token", but(good, merges=["a c"])
    yield "a merge that makes none", "what it makes", but(good, merges=["b a"])
    yield "a merge of one", "two tokens", but(good, merges=["ab"])
    yield "a merge twice", "twice", but(good, merges=["a b", "a b"])
    yield "too few types", "types", but(good, token_type=[1, 1])
    yield "a wrong type", "1 to 6", but(good, token_type=[1, 1, 9])
    yield "types of text", "list of numbers", but(good, token_type=["1", "1", "1"])
    yield "tokens of numbers", "list of strings", but(good, tokens=[1, 2, 3])
    yield "no scores", "scores", {k: x for k, x in spm.items() if not k.endswith("scores")}
    yield "a score that is none", "not a number", but(spm, scores=[0.0, float("nan"), 1.0])
    yield "a byte token of another form", "<0x0A>", but(spm, token_type=[2, 6, 1])
    yield "a byte token twice", "stands for this byte", but(
        spm, tokens=["<unk>", "<0xAB>", "<0xab>"], token_type=[2, 6, 6])
    yield "special tokens of one text", "the text of token", but(
        spm, tokens=["<unk>", "\u2581", " "], token_type=[2, 4, 4])
    yield "a byte order of zeros", "1024", but(spm, tokens=["<unk>", "a", b"\0" * 3000])


def refused_json():
    document = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
                "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}}

    def but(path, value):
        return v.but(document, path, value)

    yield None, "", json.dumps(document)
    yield "broken JSON", "E0101", "{"
    yield "another model", "rlxc reads BPE", but(["model", "type"], "WordLevel")
    yield "a hole in the ids", "number 2", but(["model", "vocab", "ab"], 3)
    yield "a huge id", "4194303", but(["model", "vocab", "ab"], 1e15)
    yield "an id with a fraction", "4194303", but(["model", "vocab", "ab"], 1.5)
    yield "two texts of an id", "two texts", but(["model", "vocab", "ab"], 1)
    yield "no vocabulary", "model.vocab", but(["model", "vocab"], [])
    yield "merges of three", "two texts", but(["model", "merges"], [["a", "b", "c"]])
    yield "a normalizer", "normalizer", but(["normalizer"], {"type": "ByteLevel"})
    yield "bytes that are not there", "byte_fallback", but(["model", "byte_fallback"], True)
    yield "dropout", "dropout", but(["model", "dropout"], 0.1)
    yield "an unknown cut", "pre_tokenizer", but(["pre_tokenizer"], {"type": "Whitespace"})
    yield "an unknown expression", "pre_tokenizer", but(["pre_tokenizer"], {
        "type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated", "invert": False})
    yield "a space before", "pre_tokenizer", but(["pre_tokenizer", "add_prefix_space"], True)
    yield "a template of two texts", "post_processor", but(["post_processor"], {
        "type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"Sequence": {"id": "B"}}]})


def check_refused(folder, cases, suffix):
    path = folder / ("refused" + suffix)
    for what, says, data in cases:
        path.write_bytes(data.encode() if isinstance(data, str) else v.gguf(data))
        done = run(RLXC, "tokenizer", path, "-o", folder / "refused", timeout=60)
        said = done.stderr.decode(errors="replace")
        if what is None:
            assert done.returncode == 0, said
        else:
            assert done.returncode == 1 and says in said and "bug at" not in said, f"{what}: {said}"


def check_command(folder):
    peer = v.train_bpe("gpt-2")
    path = folder / "people.json"
    path.write_text(peer.to_str(), encoding="utf-8")
    text = "Hello <|im_end|> world, it's 漢字\n"
    said = json.loads(must(RLXC, "tokenize", path, "--text", text, "--control", "--json"))
    assert [t["token"] for t in said] == peer.encode(text).ids, said
    lines = must(RLXC, "tokenize", path, input=text.encode()).decode().splitlines()
    assert len(lines) > len(said) and lines[0].split()[0] == str(said[0]["token"]), lines


def check_frame(folder):
    """The tokens that a vocabulary wants at the beginning and at the end come with the flag only."""
    spm = v.train_spm()
    data = {**v.spm_metadata(spm), "tokenizer.ggml.add_eos_token": True}
    program = build(generate(folder, "frame.gguf", v.gguf(data)))
    (tokens, _, _), (nothing, _, _) = Answers(program, [b"a", b""], FRAME)
    assert tokens == [spm.bos_id(), *spm.encode("a"), spm.eos_id()] and nothing == [1, 2], (tokens, nothing)
    (tokens, _, _), = Answers(program, [b"a"], 0)
    assert tokens == spm.encode("a")


def check_spm_kind(folder, name, options, adds_space=True):
    check_spm(folder, name, v.train_spm(**options), adds_space, options.get("byte_fallback", True))


def check_time_of(folder, pre):
    data = v.spm_metadata(v.train_spm()) if pre == "spm" else v.bpe_metadata(v.train_bpe(pre), pre)
    check_time(folder, f"time_{pre}.gguf", v.gguf(data))


CASES = {f"bpe {pre}": (check_bpe, pre) for pre in v.BPE} | {
} | {f"characters {kind}": (check_characters, kind) for kind in v.CHARACTERS} | {
    "spm": (check_spm_kind, "spm.gguf", {}),
    "spm without the space": (check_spm_kind, "nospace.gguf", {"add_dummy_prefix": False}, False),
    "spm without bytes": (check_spm_kind, "nobytes.gguf", {"byte_fallback": False}),
    "control tokens": (control_is_text,),
    "frame": (check_frame,),
    "command": (check_command,),
    "refused GGUF": (check_refused, refused(), ".gguf"),
    "refused tokenizer.json": (check_refused, refused_json(), ".json"),
} | {f"time of {pre}": (check_time_of, pre) for pre in ("spm", "llama-bpe", "gpt-4o", "smollm")}


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or CASES:
            case, *arguments = CASES[name]
            try:
                case(pathlib.Path(folder), *arguments)
            except Exception as e:  # every kind of failure is one failed test
                tap.result(False, name, f"{type(e).__name__}: {e}")
            else:
                tap.result(True, name)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
