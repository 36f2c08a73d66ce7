# SPDX-License-Identifier: Apache-2.0
"""A model of Whisper's form with random weights, as a folder, and what it computes, in doubles."""

import json
import pathlib

import numpy
from folder_file import Folder
from reference import ERF, layer_norm, softmax

VOCAB, WIDTH, HEADS, FFN, BINS, ROWS, CONTEXT = 80, 64, 4, 96, 20, 25, 40
LAYERS = {"encoder": 2, "decoder": 3}
SAMPLES, HOP, WINDOW, RATE = 2 * ROWS * 160, 160, 400, 16000
CONFIG = {
    "model_type": "whisper", "is_encoder_decoder": True, "vocab_size": VOCAB, "d_model": WIDTH,
    "num_mel_bins": BINS, "encoder_layers": LAYERS["encoder"], "decoder_layers": LAYERS["decoder"],
    "num_hidden_layers": LAYERS["encoder"], "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_ffn_dim": FFN, "decoder_ffn_dim": FFN,
    "max_source_positions": ROWS, "max_target_positions": CONTEXT, "activation_function": "gelu",
    "scale_embedding": False, "eos_token_id": 2, "bos_token_id": 1,
}  # fmt: skip


class Whisper:
    def __init__(self):
        self.rng, self.w = numpy.random.default_rng(5), {}
        self.add("model.encoder.conv1", (WIDTH, BINS, 3), True)
        self.add("model.encoder.conv2", (WIDTH, WIDTH, 3), True)
        self.add("model.encoder.embed_positions", (ROWS, WIDTH), False)
        self.add("model.decoder.embed_positions", (CONTEXT, WIDTH), False)
        self.add("model.decoder.embed_tokens", (VOCAB, WIDTH), False)
        for part, layers in LAYERS.items():
            for i in range(layers):
                self.add_layer(f"model.{part}.layers.{i}.", part == "decoder")
            self.norm(f"model.{part}.layer_norm")

    def add(self, name, shape, has_bias):
        columns = numpy.prod(shape[1:])
        self.w[f"{name}.weight"] = self.rng.standard_normal(shape) * 1.5 / numpy.sqrt(columns)
        if has_bias:
            self.w[f"{name}.bias"] = 0.2 * self.rng.standard_normal(shape[0])

    def norm(self, name):
        self.w[f"{name}.weight"] = 1 + 0.1 * self.rng.standard_normal(WIDTH)
        self.w[f"{name}.bias"] = 0.2 * self.rng.standard_normal(WIDTH)

    def add_layer(self, p, is_decoder):
        for branch in ["self_attn", *(["encoder_attn"] if is_decoder else [])]:
            self.norm(f"{p}{branch}_layer_norm")
            for name in ("q", "k", "v", "out"):
                self.add(f"{p}{branch}.{name}_proj", (WIDTH, WIDTH), name != "k")
        self.norm(p + "final_layer_norm")
        self.add(p + "fc1", (FFN, WIDTH), True)
        self.add(p + "fc2", (WIDTH, FFN), True)

    def write(self, path, vocabulary=None):
        folder = Folder.__new__(Folder)
        folder.dtype, folder.tensors, folder.config = "F32", self.w, CONFIG
        folder.write(path)
        sound = {"sampling_rate": RATE, "hop_length": HOP, "n_fft": WINDOW, "feature_size": BINS}
        pathlib.Path(path, "preprocessor_config.json").write_text(json.dumps(sound))
        if vocabulary:
            pathlib.Path(path, "tokenizer.json").write_text(json.dumps(vocabulary))

    # --- what it computes ---

    def of(self, name):
        return self.w[name].astype("f4").astype("f8")

    def product(self, x, name):
        y = x @ self.of(f"{name}.weight").T
        return y + self.of(f"{name}.bias") if f"{name}.bias" in self.w else y

    def normed(self, x, name):
        return layer_norm(x, self.of(f"{name}.weight"), self.of(f"{name}.bias"), 1e-5)

    def attention(self, x, others, name, is_causal):
        def heads(y):
            return y.reshape(len(y), HEADS, -1).transpose(1, 0, 2)

        q, k, v = (heads(self.product(y, f"{name}.{part}_proj")) for part, y in
                   (("q", x), ("k", others), ("v", others)))  # fmt: skip
        scores = q @ k.transpose(0, 2, 1) / numpy.sqrt(WIDTH // HEADS)
        if is_causal:
            scores = numpy.where(numpy.tri(len(x), dtype=bool), scores, -numpy.inf)
        mixed = (softmax(scores) @ v).transpose(1, 0, 2).reshape(len(x), WIDTH)
        return self.product(mixed, f"{name}.out_proj")

    def layer(self, x, p, encoded):
        y = self.normed(x, p + "self_attn_layer_norm")
        x = x + self.attention(y, y, p + "self_attn", encoded is not None)
        if encoded is not None:
            y = self.normed(x, p + "encoder_attn_layer_norm")
            x = x + self.attention(y, encoded, p + "encoder_attn", False)
        y = gelu(self.product(self.normed(x, p + "final_layer_norm"), p + "fc1"))
        return x + self.product(y, p + "fc2")

    def convolved(self, x, name, stride):
        padded = numpy.pad(x, ((0, 0), (1, 1)))
        seen = numpy.lib.stride_tricks.sliding_window_view(padded, 3, axis=1)[:, ::stride]
        y = numpy.einsum("ctk,ock->ot", seen, self.of(f"{name}.weight"))
        return gelu(y + self.of(f"{name}.bias")[:, None])

    def encoded(self, mel):
        x = self.convolved(self.convolved(mel, "model.encoder.conv1", 1), "model.encoder.conv2", 2).T
        x = x + self.of("model.encoder.embed_positions.weight")
        for i in range(LAYERS["encoder"]):
            x = self.layer(x, f"model.encoder.layers.{i}.", None)
        return self.normed(x, "model.encoder.layer_norm")

    def logits(self, tokens, encoded):
        embedding = self.of("model.decoder.embed_tokens.weight")
        x = embedding[tokens] + self.of("model.decoder.embed_positions.weight")[: len(tokens)]
        for i in range(LAYERS["decoder"]):
            x = self.layer(x, f"model.decoder.layers.{i}.", encoded)
        return self.normed(x, "model.decoder.layer_norm") @ embedding.T


def gelu(x):
    return x * (1 + ERF(x / numpy.sqrt(2))) / 2


# --- spectrograms ---


def hertz_of(pitch):
    """Slaney's scale: 15 steps of 200 / 3 Hz, then each of them a 27th of a factor of 6.4."""
    return numpy.where(pitch < 15, pitch * 200 / 3, 1000 * 6.4 ** ((pitch - 15) / 27))


def bands(bins):
    most = 15 + 27 * numpy.log(8) / numpy.log(6.4)
    edge = hertz_of(numpy.linspace(0, most, bins + 2))
    hertz = numpy.linspace(0, RATE / 2, WINDOW // 2 + 1)
    rise = (hertz[:, None] - edge[:-2]) / (edge[1:-1] - edge[:-2])
    fall = (edge[2:] - hertz[:, None]) / (edge[2:] - edge[1:-1])
    return numpy.clip(numpy.minimum(rise, fall), 0, None) * 2 / (edge[2:] - edge[:-2])


def mel(samples, bins=BINS):
    padded = numpy.pad(samples, WINDOW // 2, mode="reflect")
    seen = numpy.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][:-1]
    fade = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(WINDOW) / WINDOW)
    energy = numpy.abs(numpy.fft.rfft(seen * fade)) ** 2 @ bands(bins)
    x = numpy.log10(numpy.maximum(energy, 1e-10))
    return (numpy.maximum(x, x.max() - 8).T + 4) / 4
