# SPDX-License-Identifier: Apache-2.0
"""Language models with random weights, of the shape of TinyLlama-1.1B, as GGUF files: F16 is written here,
the other types by `rlxc quantize`."""

import pathlib
import struct
import subprocess
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "llm"))
import gguf_file  # noqa: E402

WIDTH, HEADS, KV_HEADS, FFN, VOCAB, CONTEXT = 2048, 32, 4, 5632, 32000, 4096
ALIGNMENT = 32


def entries(layers):
    numbers = {
        "block_count": layers,
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "feed_forward_length": FFN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0,
        "rope.dimension_count": WIDTH // HEADS,
        "vocab_size": VOCAB,
    }
    named = {f"llama.{key}": value for key, value in numbers.items()}
    return {"general.architecture": "llama", **named, "tokenizer.ggml.model": "none"}


def tensors(layers):
    """(name, shape) of all tensors."""
    narrow = KV_HEADS * WIDTH // HEADS
    yield "token_embd", (VOCAB, WIDTH)
    for i in range(layers):
        for name, shape in (
            ("attn_norm", (WIDTH,)),
            ("attn_q", (WIDTH, WIDTH)),
            ("attn_k", (narrow, WIDTH)),
            ("attn_v", (narrow, WIDTH)),
            ("attn_output", (WIDTH, WIDTH)),
            ("ffn_norm", (WIDTH,)),
            ("ffn_gate", (FFN, WIDTH)),
            ("ffn_up", (FFN, WIDTH)),
            ("ffn_down", (WIDTH, FFN)),
        ):
            yield f"blk.{i}.{name}", shape
    yield "output_norm", (WIDTH,)
    yield "output", (VOCAB, WIDTH)


def values(rng, shape):
    if len(shape) == 1:
        return (1 + 0.1 * rng.standard_normal(shape)).astype("<f4")
    return (rng.standard_normal(shape, "f4") * shape[1] ** -0.5).astype("<f2")


def describe(layers):
    """The begin of the file, and the size of its data."""
    data, described, n = 0, b"", 0
    for name, shape in tensors(layers):
        data += -data % ALIGNMENT
        kind = gguf_file.F32 if len(shape) == 1 else gguf_file.F16
        described += gguf_file.text(name + ".weight") + struct.pack("<I", len(shape))
        described += b"".join(struct.pack("<Q", size) for size in reversed(shape))
        described += struct.pack("<IQ", kind, data)
        data += int(numpy.prod(shape)) * (4 if len(shape) == 1 else 2)
        n += 1
    keys = entries(layers)
    head = b"GGUF" + struct.pack("<IQQ", 3, n, len(keys))
    head += b"".join(gguf_file.entry(key, value) for key, value in keys.items()) + described
    return head + bytes(-len(head) % ALIGNMENT)


def write_f16(path, layers):
    rng = numpy.random.default_rng(1)
    with open(path, "wb") as f:
        f.write(describe(layers))
        for _, shape in tensors(layers):
            f.write(bytes(-f.tell() % ALIGNMENT))
            values(rng, shape).tofile(f)


def make(rlxc, folder, kind, layers):
    """The path of a model whose weights are of a type of `rlxc quantize`; what is there is not made again."""
    path, whole = (pathlib.Path(folder, f"llm-{layers}-{name}.gguf") for name in (kind, "f16"))
    if path.exists():
        return path
    if not whole.exists():
        part = whole.with_suffix(".part")
        write_f16(part, layers)
        part.rename(whole)
    if kind != "f16":
        command = [rlxc, "quantize", whole, "-o", path, "--type", kind]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path
