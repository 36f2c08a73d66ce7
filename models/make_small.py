#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes small.safetensors (random weights, fixed seed) and the cases of the small models, by numpy in f64.

The networks are written out here a second time, from their equations and without reading the graphs, so
that a graph, the compiler and the emitted code are all checked by something that shares nothing with them.
Needs numpy only. See README.md for the form of the cases.
"""
import json
import math
import pathlib

import numpy as np

from tensor_files import save_safetensors

HERE = pathlib.Path(__file__).resolve().parent
DIM, HEADS, KV_HEADS, HEAD_DIM, FFN, MAX_SEQ = 64, 4, 2, 16, 128, 64
ROPE_BASE = 10000.0
SEQ, LSTM_IN, LSTM_HIDDEN = 16, 8, 16


def make_weights():
    """Standard deviation 1/sqrt(inputs) keeps activations near 1."""
    rng = np.random.default_rng(20)
    weights = {}

    def normal(name, *shape, fan=None):
        weights[name] = (rng.standard_normal(shape) / math.sqrt(fan or shape[0])).astype(np.float32)

    for name, cols in (("q", DIM), ("k", KV_HEADS * HEAD_DIM), ("v", KV_HEADS * HEAD_DIM), ("o", DIM)):
        normal(f"block.attn.{name}", DIM, cols)
    normal("block.ffn.gate", DIM, FFN)
    normal("block.ffn.up", DIM, FFN)
    normal("block.ffn.down", FFN, DIM)
    for name in ("block.norm1", "block.norm2"):
        weights[name] = (1 + 0.1 * rng.standard_normal(DIM)).astype(np.float32)
    angle = np.outer(np.arange(MAX_SEQ), ROPE_BASE ** (-np.arange(HEAD_DIM // 2) * 2 / HEAD_DIM))
    weights["block.rope.cos"] = np.cos(angle).astype(np.float32)
    weights["block.rope.sin"] = np.sin(angle).astype(np.float32)
    normal("lstm.w", 1, 4 * LSTM_HIDDEN, LSTM_IN, fan=LSTM_IN)
    normal("lstm.r", 1, 4 * LSTM_HIDDEN, LSTM_HIDDEN, fan=LSTM_HIDDEN)
    normal("lstm.b", 1, 8 * LSTM_HIDDEN, fan=16)
    return weights


# --- the networks, in f64 -----

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms_norm(x, weight, epsilon=1e-5):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + epsilon) * weight


def lstm_steps(weights, xs):
    """Gates in the order input, output, forget, cell; both biases are added. Yields (h, c) after each x."""
    w, r = weights["lstm.w"][0], weights["lstm.r"][0]
    bias = weights["lstm.b"][0].reshape(2, -1).sum(0)
    h, c = np.zeros(LSTM_HIDDEN), np.zeros(LSTM_HIDDEN)
    for x in xs:
        i, o, f, g = np.split(w @ x + r @ h + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        yield h, c


def rotate(weights, x, position):
    """Rotary embedding of [heads, HEAD_DIM]: element i turns with element i + HEAD_DIM / 2."""
    cos, sin = weights["block.rope.cos"][position], weights["block.rope.sin"][position]
    low, high = np.split(x, 2, axis=-1)
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


class Decoder:
    """One decoder block, one token a step; its cache grows, where the graph's has a fixed size and a mask."""

    def __init__(self, weights):
        self.w = weights
        self.keys, self.values = [], []

    def step(self, x):
        w, position = self.w, len(self.keys)
        n = rms_norm(x, w["block.norm1"])
        q = rotate(w, (n @ w["block.attn.q"]).reshape(HEADS, HEAD_DIM), position)
        self.keys.append(rotate(w, (n @ w["block.attn.k"]).reshape(KV_HEADS, HEAD_DIM), position))
        self.values.append((n @ w["block.attn.v"]).reshape(KV_HEADS, HEAD_DIM))
        mixed = []
        for head in range(HEADS):
            kv = head // (HEADS // KV_HEADS)
            scores = np.array([q[head] @ key[kv] for key in self.keys]) / math.sqrt(HEAD_DIM)
            mixed.append(softmax(scores) @ np.array([value[kv] for value in self.values]))
        x = x + np.concatenate(mixed) @ w["block.attn.o"]
        n = rms_norm(x, w["block.norm2"])
        gate = n @ w["block.ffn.gate"]
        return x + (gate * sigmoid(gate) * (n @ w["block.ffn.up"])) @ w["block.ffn.down"]


def inline_weights(path):
    """The weights that a graph carries in its text: for these the graph is the only source."""
    graph = json.loads(path.read_text())
    return {k: np.array(v["data"], np.float32).astype(np.float64) for k, v in graph["weights"].items()}


# --- the cases -----

def save_case(name, arrays):
    """The first axis of every array counts the runs; references are rounded once, from f64 to f32."""
    folder = HERE / "cases" / name
    folder.mkdir(parents=True, exist_ok=True)
    for key, array in arrays.items():
        array = np.asarray(array)
        np.save(folder / f"{key}.npy", array.astype(np.float32) if array.dtype == np.float64 else array)


def draw(rng, *shape):
    """Inputs that are exact in f32."""
    return rng.standard_normal(shape).astype(np.float32).astype(np.float64)


def case_gelu():
    w = inline_weights(HERE / "gelu_example.json")
    x = draw(np.random.default_rng(21), 3, 2, 4)
    save_case("gelu_example", {"input_x": x, "output_y": gelu(x @ w["w"] + w["b"])})


def case_mlp():
    w = inline_weights(HERE / "mlp.json")
    x = draw(np.random.default_rng(22), 3, 4, 6)
    h = np.tanh(x @ w["w1"] + w["b1"])
    h = gelu(h @ w["w2"] + w["b2"]) + h
    centred = h - h.mean(-1, keepdims=True)
    h = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w["scale"] + w["shift"]
    save_case("mlp", {"input_x": x, "output_probs": softmax(h @ w["w3"] + w["b3"])})


def case_lstm(weights):
    """The same sequences whole, and one sample a run: the second must give the first one's steps."""
    xs = draw(np.random.default_rng(23), 3, SEQ, LSTM_IN)
    steps = [list(lstm_steps(weights, sequence)) for sequence in xs]
    y = np.array([[h for h, _ in sequence] for sequence in steps])
    c = np.array([sequence[-1][1] for sequence in steps])
    save_case("lstm", {"input_x": xs[:, :, None], "output_y": y[:, :, None, None],
                       "output_h": y[:, -1][:, None, None], "output_c": c[:, None, None]})
    save_case("lstm_stream", {"input_x": xs[0][:, None, None], "output_y": y[0][:, None, None, None]})


def case_transformer(weights, steps=8):
    xs = draw(np.random.default_rng(24), steps, DIM)
    decoder = Decoder(weights)
    y = np.array([decoder.step(x) for x in xs])
    position = np.arange(steps, dtype=np.int64)[:, None]
    save_case("transformer", {"input_x": xs[:, None], "input_position": position, "output_y": y[:, None]})


def main():
    weights = make_weights()
    save_safetensors(HERE / "small.safetensors", weights)
    exact = {name: array.astype(np.float64) for name, array in weights.items()}
    case_gelu()
    case_mlp()
    case_lstm(exact)
    case_transformer(exact)


if __name__ == "__main__":
    main()
