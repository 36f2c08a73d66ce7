#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generated tokenizers of WordPiece and unigram, and what vocabularies make of texts first (normal forms,
small letters, accents, spaces, maps), against the packages `tokenizers` and `sentencepiece` over vocabularies
that these train here. Usage: check_words.py RLXC [CASE...]"""

import base64
import json
import pathlib
import random
import struct
import sys
import unicodedata

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import check_tokens as c  # noqa: E402
import vocabularies as v  # noqa: E402

N_TEXTS = 500
# What both sides know alike: the packages have other versions of Unicode.
STRANGE = ["\u0301\u0323a\u0323\u0301", "각힣 가", "\u1100\u1161\u11a8", "\ufdfa", "ﬁ½²Ⅷ", "Å\u212b",
           "İI\u0130ı", "ΑΣ ΌΔΟΣ", "\u0344\u0958\ufb2d", "ẛ\u0323", "q\u0307\u0323", "ÀÉîõü ČŠŽ",
           "\u200b\u00ad\ufeff", "你好，世界！", "\t\u3000x", "don't ... (a-b) $5 #hash", "\U0001d15f",
           "㌀", "\ufffd", "x" * 120, "\x07\x7f", "､｡ｶﾞ"]


def texts_of(seed, *more):
    rng = random.Random(seed)
    texts = [v.random_text(rng, False) for _ in range(N_TEXTS)]
    pool = [*STRANGE, *v.ODD, *more]
    texts += ["".join(rng.choices([*pool, " ", " a", "B"], k=rng.randrange(1, 7)))
              for _ in range(N_TEXTS // 2)]
    return [t for t in texts if all(is_old(ch) for ch in t)]


def is_old(ch):
    return unicodedata.category(ch) != "Cn"


def same(folder, data, name, texts, expected, flags=c.CONTROL, careful=True):
    """Tokens as the peer has them; and any bytes without a fault of memory."""
    generated = c.generate(folder, name, data)
    c.check_compilers(generated)
    program = c.build(generated, "careful", c.SANITIZE) if careful else c.build(generated)
    answers = c.Answers(program, [t.encode() for t in texts], flags)
    for text, (tokens, _, _) in zip(texts, answers, strict=True):
        wanted = expected(text)
        assert tokens == wanted, f"{text!r}: {tokens}, expected {wanted}"
    broken = [v.broken_bytes(random.Random(i)) for i in range(300)]
    assert len(list(c.Answers(program, broken, 0))) == 300
    return program


# --- WordPiece -----------------------------------------------------------------------------------

BERT = {"lowercase": True, "cased": False}


def train_wordpiece(lowercase, **options):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, **options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=1200, show_progress=False, limit_alphabet=200,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.train_from_iterator(v.corpus(), trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def wordpiece_metadata(tokenizer):
    vocab = tokenizer.get_vocab()
    names = sorted(vocab, key=vocab.get)
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    tokens = [t if t in special else t[2:] if t.startswith("##") else "\u2581" + t for t in names]
    return {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [3 if t in special else 1 for t in tokens],
            "tokenizer.ggml.unknown_token_id": 1, "tokenizer.ggml.bos_token_id": 2,
            "tokenizer.ggml.seperator_token_id": 3}


def check_wordpiece(folder, kind):
    peer = train_wordpiece(BERT[kind], **({} if kind == "lowercase" else {"strip_accents": False}))

    def expected(text):
        return peer.encode(text).ids

    texts = texts_of(41, "[MASK]", "[CLS] a")
    same(folder, peer.to_str().encode(), f"{kind}.json", texts, expected, c.FRAME | c.CONTROL)
    if kind == "lowercase":
        data = v.gguf(wordpiece_metadata(peer))
        same(folder, data, "bert.gguf", texts, expected, c.FRAME | c.CONTROL, False)
    unknown = sum(peer.token_to_id("[UNK]") in expected(t) for t in texts)
    assert 0 < unknown < len(texts) * 0.9, f"{unknown} of {len(texts)} texts with unknown words"


# --- unigram -------------------------------------------------------------------------------------

def train_unigram(metaspace, normalizer, byte_fallback=False):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.Unigram())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = metaspace
    single = [f"<0x{i:02X}>" for i in range(256)] if byte_fallback else []
    trainer = trainers.UnigramTrainer(vocab_size=900 + len(single), show_progress=False, unk_token="<unk>",
                                      special_tokens=["<pad>", "</s>", "<unk>", *single])
    tokenizer.train_from_iterator([line[:60] for line in v.corpus()[-1500:]], trainer)
    document = json.loads(tokenizer.to_str())
    document["model"]["byte_fallback"] = byte_fallback
    document["added_tokens"] = [t for t in document["added_tokens"] if t["content"] not in single]
    return Tokenizer.from_str(json.dumps(document))


def unigram_kinds():
    from tokenizers import Regex, normalizers, pre_tokenizers

    meta, mark = pre_tokenizers.Metaspace, "\u2581"
    runs = normalizers.Replace(Regex(" {2,}"), mark)
    return {
        "always": (meta(mark, prepend_scheme="always"), None),
        "whole": (meta(mark, prepend_scheme="first", split=False), normalizers.NFKC(), True),
        "never": (meta(mark, prepend_scheme="never"), normalizers.Sequence(
            [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])),
        "trimmed": (meta(mark, prepend_scheme="always"), normalizers.Sequence(
            [normalizers.NFD(), normalizers.Strip(left=False, right=True), runs])),
        "words": (pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta(mark)]), normalizers.NFC()),
    }


def check_unigram(folder, kind):
    peer = train_unigram(*unigram_kinds()[kind])
    same(folder, peer.to_str().encode(), f"{kind}.json", texts_of(42), lambda t: peer.encode(t).ids)


def charsmap(spm):
    """The map in the serialized model: field 3 (normalizer_spec), field 2."""
    def fields(data):
        at = 0
        while at < len(data):
            key, at = varint(data, at)
            if key & 7 == 2:
                n, at = varint(data, at)
                yield key >> 3, data[at : at + n]
                at += n
            elif key & 7 == 0:
                _, at = varint(data, at)
            else:
                at += 4 if key & 7 == 5 else 8

    def varint(data, at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at

    spec = next(x for number, x in fields(spm.serialized_model_proto()) if number == 3)
    return next((x for number, x in fields(spec) if number == 2), b"")


def unigram_metadata(spm, collapses):
    data = v.spm_metadata(spm)
    del data["tokenizer.ggml.bos_token_id"]
    return {**data, "tokenizer.ggml.model": "t5", "tokenizer.ggml.remove_extra_whitespaces": collapses,
            "tokenizer.ggml.precompiled_charsmap": list(charsmap(spm))}


def train_sentencepiece(rule, collapses, **options):
    return v.train_spm(model_type="unigram", normalization_rule_name=rule, user_defined_symbols=[],
                       remove_extra_whitespaces=collapses, vocab_size=1000, byte_fallback=False, **options)


def check_sentencepiece(folder, rule, collapses):
    """The map of the file itself, as sentencepiece applies it."""
    peer = train_sentencepiece(rule, collapses)
    # \u2581 in a text counts as a space there only behind other steps.
    texts = [t for t in texts_of(43) if "\u2581" not in t and "\0" not in t]
    data = unigram_metadata(peer, collapses)
    same(folder, v.gguf(data), f"{rule}.gguf", texts, lambda t: peer.encode(t), 0)
    if collapses:
        document = json_of(peer, data)
        texts = [t for t in texts if "\x85" not in t and "\x1c" not in t]  # Strip knows more white space
        data = json.dumps(document).encode()
        same(folder, data, f"{rule}.json", texts, lambda t: peer.encode(t), 0, False)


def json_of(peer, data):
    pieces = [[peer.id_to_piece(i), peer.get_score(i)] for i in range(peer.vocab_size())]
    special = [i for i in range(peer.vocab_size()) if peer.is_control(i)]
    coded = base64.b64encode(charsmap(peer)).decode()
    steps = [{"type": "Precompiled", "precompiled_charsmap": coded},
             {"type": "Strip", "strip_left": True, "strip_right": True},
             {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]
    return {"model": {"type": "Unigram", "unk_id": peer.unk_id(), "vocab": pieces, "byte_fallback": False},
            "added_tokens": [{"id": i, "content": peer.id_to_piece(i), "special": True} for i in special],
            "normalizer": {"type": "Sequence", "normalizers": steps},
            "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always",
                              "split": False}}


# --- BPE with steps before it --------------------------------------------------------------------

def check_bpe(folder, form):
    from tokenizers import normalizers

    peer = v.train_bpe("qwen2")
    peer.normalizer = {"NFC": normalizers.NFC(), "NFKC lower": normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase()])}[form]
    texts = texts_of(44)
    data = peer.to_str().encode()
    same(folder, data, f"bpe {form}.json".replace(" ", "_"), texts, lambda t: peer.encode(t).ids)


def check_forms(folder):
    """Every character alone and behind a letter, in all four forms."""
    from tokenizers import normalizers

    every = [chr(i) for i in range(0x20, 0x30000) if is_old(chr(i)) and not 0xD800 <= i < 0xE000]
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        peer = v.train_bpe("gpt-2")
        peer.normalizer = getattr(normalizers, form)()
        program = c.build(c.generate(folder, f"{form}.json", peer.to_str().encode()))
        texts = ["".join(every[i : i + 40]) for i in range(0, len(every), 40)]
        rng = random.Random(form)
        marks = [ch for ch in every if unicodedata.category(ch) == "Mn"]
        texts += ["e" + "".join(rng.choices(marks, k=5)) for _ in range(500)]
        answers = c.Answers(program, [t.encode() for t in texts], 0)
        for text, (_, decoded, _) in zip(texts, answers, strict=True):
            assert decoded.decode() == unicodedata.normalize(form, text), (form, text)


# --- time and refusals ---------------------------------------------------------------------------

def check_time(folder, kind):
    if kind == "bert":
        data = train_wordpiece(True).to_str().encode()
    else:
        peer = train_sentencepiece("nmt_nfkc", True)
        data = v.gguf(unigram_metadata(peer, True))
    program = c.build(c.generate(folder, f"time_{kind}.{'json' if kind == 'bert' else 'gguf'}", data))
    for unit in ("a", "'", "漢A", "e\u0301\u0323", "\u0301", "\ufdfa"):
        c.check_growth(program, unit, (1 << 15, 1 << 18), 32)


def refused():
    words = {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": ["[UNK]", "\u2581a", "b"],
             "tokenizer.ggml.token_type": [3, 1, 1], "tokenizer.ggml.unknown_token_id": 0}
    unigram = {"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": ["<unk>", "\u2581", "b"],
               "tokenizer.ggml.scores": [0.0, -1.0, -2.0], "tokenizer.ggml.token_type": [2, 1, 1]}

    def trie(*units, texts=b"x\0"):
        return list(struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts)

    def but(base, **changes):
        return {**base, **{"tokenizer.ggml." + key: value for key, value in changes.items()}}

    loop = trie(*[0] * 0x62, *[1 << 8 | 0x62] * 30)
    yield None, "", words
    yield None, "", unigram
    yield None, "", but(unigram, precompiled_charsmap=trie(1 << 10, *[0] * 0x70))
    yield "no scores", "scores", {k: x for k, x in unigram.items() if not k.endswith("scores")}
    yield "an unknown token beyond", "number 7", but(words, unknown_token_id=7)
    yield "an empty map", "length", but(unigram, precompiled_charsmap=[1, 2])
    yield "a map that is too short", "length", but(unigram, precompiled_charsmap=[255, 255, 255, 0] + [0] * 9)
    yield "a map of texts", "list of bytes", but(unigram, precompiled_charsmap="x")
    yield "a score without end", "score of token", but(unigram, scores=[0.0, -1.0, float("-inf")])
    yield "a map behind its end", "behind its end", but(unigram, precompiled_charsmap=loop)


def refused_json():
    words = json.loads(train_wordpiece(True).to_str())
    unigram = {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["\u2581", -1.0]]},
               "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581"}}

    yield None, "", json.dumps(words)
    yield None, "", json.dumps(unigram)
    yield "another prefix", "##", v.but(words, ["model", "continuing_subword_prefix"], "@@")
    yield "words of no length", "max_input_chars", v.but(words, ["model", "max_input_chars_per_word"], 0)
    yield "another cut of words", "BertPreTokenizer", v.but(words, ["pre_tokenizer", "type"], "Whitespace")
    yield "a frame without numbers", "cls and sep", v.but(words, ["post_processor", "cls"], ["[CLS]"])
    yield "a token without a score", "its score", v.but(unigram, ["model", "vocab"], [["a"]])
    yield "a vocabulary as an object", "the list", v.but(unigram, ["model", "vocab"], {})
    yield "an id beyond", "number 9", v.but(unigram, ["model", "unk_id"], 9)
    yield "no spaces", "U+2581", v.but(unigram, ["pre_tokenizer"], None)
    yield "a map that is none", "base64", v.but(unigram, ["normalizer"], {
        "type": "Precompiled", "precompiled_charsmap": "?"})
    yield "too many steps", "16 steps", v.but(unigram, ["normalizer"], {
        "type": "Sequence", "normalizers": [{"type": "NFC"}] * 17})


c.CASES = {f"wordpiece {kind}": (check_wordpiece, kind) for kind in BERT} | {
    f"unigram {kind}": (check_unigram, kind) for kind in ("always", "whole", "never", "trimmed", "words")} | {
    "sentencepiece nmt_nfkc": (check_sentencepiece, "nmt_nfkc", True),
    "sentencepiece nfkc_cf": (check_sentencepiece, "nfkc_cf", False),
    "bpe NFC": (check_bpe, "NFC"), "bpe NFKC lower": (check_bpe, "NFKC lower"), "forms": (check_forms,),
    "time of bert": (check_time, "bert"), "time of t5": (check_time, "t5"),
    "refused GGUF": (c.check_refused, refused(), ".gguf"),
    "refused tokenizer.json": (c.check_refused, refused_json(), ".json"),
}

if __name__ == "__main__":
    sys.exit(c.main())
