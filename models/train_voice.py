#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the voice activity detector of models/voice on sound that it synthesises; writes graph, weights,
case.

The detector hears 36 ms of sound at a time (576 samples at 16 kHz, of which the first 64 are the end of
what it heard before) and says how likely somebody speaks. A fixed bank of 24 filters gives levels, an LSTM
follows them, so that it learns what the noise of a place is. Voices are sums of harmonics of a moving
pitch under moving formants, with consonants of noise; backgrounds are coloured noise, hum, clicks and
tones. Needs numpy only. It is apart from make_small.py because its weights come from data, not from a
seed."""
import json
import pathlib
import time

import numpy as np

from tensor_files import save_safetensors

HERE = pathlib.Path(__file__).resolve().parent
RATE, STEP, CONTEXT = 16000, 512, 64
BANDS, TAPS, STRIDE, HIDDEN = 24, 128, 32, 24
CHUNKS = 120        # of a training sequence: 3.84 s
FLOOR = 1e-7        # added to the power of a band: silence has a logarithm too


# --- the fixed part: a bank of filters -----

def make_bank():
    """[2 * BANDS, 1, TAPS]: cosines, then sines, of frequencies evenly spaced on the mel scale, windowed."""
    mel = np.linspace(np.log1p(120 / 700), np.log1p(6800 / 700), BANDS)
    frequency = 700 * np.expm1(mel)[:, None]
    n = np.arange(TAPS) - (TAPS - 1) / 2
    # Higher bands are wider: shorter windows.
    width = np.clip(2.2 * RATE / frequency, 40, TAPS)
    window = np.where(np.abs(n) < width / 2, np.cos(np.pi * n / width) ** 2, 0)
    window /= window.sum(1, keepdims=True)
    angle = 2 * np.pi * frequency * n / RATE
    bank = np.concatenate([window * np.cos(angle), window * np.sin(angle)])
    return bank[:, None].astype(np.float32)


def levels(bank, sound):
    """Logarithms of the power in each band, f64 [chunks, BANDS]."""
    padded = np.concatenate([np.zeros(CONTEXT), sound])
    chunks = np.lib.stride_tricks.sliding_window_view(padded, STEP + CONTEXT)[::STEP]
    frames = np.lib.stride_tricks.sliding_window_view(chunks, TAPS, axis=1)[:, ::STRIDE]
    power = (frames @ bank[:, 0].T.astype(np.float64)) ** 2
    return np.log((power[..., :BANDS] + power[..., BANDS:]).mean(1) + FLOOR)


# --- sound -----

def shaped_noise(rng, n, low, high, slope=0.0):
    """White noise through a band, falling with frequency^-slope; of power 1."""
    spectrum = np.fft.rfft(rng.standard_normal(n))
    f = np.fft.rfftfreq(n, 1 / RATE)
    gain = np.where((f >= low) & (f <= high), np.maximum(f, 40.0) ** -slope, 0)
    sound = np.fft.irfft(spectrum * gain, n)
    return sound / (np.sqrt(np.mean(sound**2)) + 1e-12)


def syllable(rng, pitch):
    """A vowel of 80 to 260 ms, often behind a consonant."""
    n = int(rng.uniform(0.08, 0.26) * RATE)
    t = np.linspace(0, 1, n)
    f0 = pitch * (1 + rng.uniform(-0.15, 0.15) * t + rng.uniform(-0.1, 0.1))
    phase = 2 * np.pi * np.cumsum(f0) / RATE
    sound = np.zeros(n)
    ends = np.array([[rng.uniform(280, 850), rng.uniform(900, 2300), rng.uniform(2400, 3300)] for _ in "ab"])
    formants = ends[0] + (ends[1] - ends[0]) * t[:, None]
    width = np.array([90, 130, 200.0])
    for harmonic in range(1, int(4500 / pitch)):
        f = harmonic * f0[:, None]
        gain = (np.array([1, 0.5, 0.2]) / (1 + ((f - formants) / width) ** 2)).sum(1) + 0.005
        sound += gain * np.sin(harmonic * phase + rng.uniform(0, 2 * np.pi)) / harmonic**0.3
    sound *= np.sin(np.pi * t) ** rng.uniform(0.3, 0.8)
    sound /= np.abs(sound).max()
    if rng.random() < 0.6:
        m = int(rng.uniform(0.03, 0.1) * RATE)
        low = rng.uniform(1500, 4500)
        hiss = shaped_noise(rng, m, low, low + 3500) * np.sin(np.pi * np.linspace(0, 1, m))
        sound = np.concatenate([hiss * rng.uniform(0.03, 0.2), sound])
    return sound * rng.uniform(0.5, 1)


def utterance(rng):
    """Syllables with short gaps, of one voice."""
    pitch, parts = np.exp(rng.uniform(np.log(85), np.log(260))), []
    for _ in range(rng.integers(2, 9)):
        parts += [syllable(rng, pitch * rng.uniform(0.9, 1.12)), np.zeros(int(rng.uniform(0.0, 0.08) * RATE))]
    return np.concatenate(parts[:-1])


def background(rng, n):
    """What is there all the time: noise of some colour and slow changes, at times hum, clicks, tones."""
    sound = shaped_noise(rng, n, 20, 8000, rng.uniform(0, 1.2))
    swell = np.interp(np.arange(n), np.linspace(0, n, 8), rng.uniform(0.6, 1.4, 8))
    sound *= swell
    t = np.arange(n) / RATE
    if rng.random() < 0.3:
        for k in range(1, 8):
            sound += rng.uniform(0, 1) / k * np.sin(2 * np.pi * rng.choice([50, 60]) * k * t)
    for _ in range(rng.integers(0, 4) if rng.random() < 0.5 else 0):
        at, m = rng.integers(0, n - 2000), rng.integers(50, 1000)
        sound[at:at + m] += rng.uniform(2, 12) * rng.standard_normal(m) * np.exp(-np.arange(m) / m * 5)
    for _ in range(rng.integers(0, 3) if rng.random() < 0.4 else 0):
        at, m = rng.integers(0, n - 8000), rng.integers(1500, 8000)
        f = rng.uniform(300, 3000)
        sound[at:at + m] += rng.uniform(1, 6) * np.sin(2 * np.pi * f * np.arange(m) / RATE)
    return sound


def sequence(rng):
    """Sound, and for every chunk whether somebody speaks in at least half of it."""
    n = CHUNKS * STEP
    voice, spoken = np.zeros(n), np.zeros(n)
    at = int(rng.uniform(0.2, 2.0) * RATE) if rng.random() < 0.85 else n
    while at < n - RATE // 4:
        said = utterance(rng)[:n - at]
        voice[at:at + len(said)] += said
        spoken[at:at + len(said)] = 1
        at += len(said) + int(rng.uniform(0.35, 1.5) * RATE)
    noise = background(rng, n)
    loud = np.sqrt(np.mean(voice[spoken > 0] ** 2)) if spoken.any() else 0.2
    ratio = 10 ** (rng.uniform(3, 30) / 20)
    mixed = voice + noise / np.sqrt(np.mean(noise**2)) * loud / ratio
    mixed *= 10 ** (rng.uniform(-35, -3) / 20) / np.abs(mixed).max()
    return mixed, spoken.reshape(CHUNKS, STEP).mean(1) >= 0.5


# --- the trained part: an LSTM and a dense layer, gates in the order input, output, forget, cell -----

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def make_params(rng):
    normal = lambda *shape: rng.normal(0, 1 / np.sqrt(shape[-1]), shape)
    params = {"w": normal(4 * HIDDEN, BANDS), "r": normal(4 * HIDDEN, HIDDEN), "b": np.zeros(4 * HIDDEN),
              "dense": normal(1, HIDDEN), "bias": np.zeros(1)}
    params["b"][2 * HIDDEN:3 * HIDDEN] = 2     # remember, to begin with
    return params


def forward(params, x):
    """x [chunks, batch, BANDS]: what is said for each chunk as logits [chunks, batch], and what backward
    needs."""
    h = c = np.zeros((x.shape[1], HIDDEN))
    saved, logits = [], []
    for step in x:
        z = step @ params["w"].T + h @ params["r"].T + params["b"]
        gates = sigmoid(z[:, :3 * HIDDEN])
        i, o, f = gates[:, :HIDDEN], gates[:, HIDDEN:2 * HIDDEN], gates[:, 2 * HIDDEN:]
        g = np.tanh(z[:, 3 * HIDDEN:])
        c_next = f * c + i * g
        t = np.tanh(c_next)
        saved.append((step, h, c, i, o, f, g, t))
        h, c = o * t, c_next
        logits.append(h @ params["dense"][0] + params["bias"])
    return np.array(logits), saved


def backward(params, dlogits, saved):
    grads = {k: np.zeros_like(v) for k, v in params.items()}
    dh_next = dc_next = 0
    for dlogit, (x, h, c, i, o, f, g, t) in zip(dlogits[::-1], saved[::-1]):
        grads["dense"] += dlogit @ (o * t)
        grads["bias"] += dlogit.sum()
        dh = dlogit[:, None] * params["dense"] + dh_next
        dc = dh * o * (1 - t * t) + dc_next
        dz = np.concatenate([dc * g * i * (1 - i), dh * t * o * (1 - o), dc * c * f * (1 - f),
                             dc * i * (1 - g * g)], 1)
        grads["w"] += dz.T @ x
        grads["r"] += dz.T @ h
        grads["b"] += dz.sum(0)
        dh_next, dc_next = dz @ params["r"], dc * f
    return grads


def train(x, y, steps=700, batch=48, peak=6e-3):
    """Adam with a cosine learning rate; gradients are clipped to a norm of 1."""
    rng = np.random.default_rng(2)
    params = make_params(rng)
    first = {k: np.zeros_like(v) for k, v in params.items()}
    second = {k: np.zeros_like(v) for k, v in params.items()}
    for step in range(1, steps + 1):
        pick = rng.choice(x.shape[1], batch, replace=False)
        logits, saved = forward(params, x[:, pick])
        dlogits = (sigmoid(logits) - y[:, pick]) / y[:, pick].size
        grads = backward(params, dlogits, saved)
        norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
        rate = peak * min(1, step / 30) * 0.5 * (1 + np.cos(np.pi * step / steps))
        for k, g in grads.items():
            g = g / max(1, norm)
            first[k] = 0.9 * first[k] + 0.1 * g
            second[k] = 0.99 * second[k] + 0.01 * g * g
            params[k] -= rate * first[k] / (1 - 0.9**step) / (np.sqrt(second[k] / (1 - 0.99**step)) + 1e-8)
        if step % 100 == 0:
            print(f"step {step:4d}  right {((logits > 0) == y[:, pick]).mean():.4f}", flush=True)
    return params


# --- the files -----

def graph():
    weight = lambda name: {"file": "voice.safetensors", "tensor": name}
    h_shape = [1, 1, HIDDEN]
    nodes = [
        {"name": "sound", "op": "reshape", "inputs": ["input"], "shape": [1, 1, STEP + CONTEXT]},
        {"name": "filtered", "op": "conv", "inputs": ["sound", "bank"], "strides": [STRIDE]},
        {"name": "squares", "op": "square", "inputs": ["filtered"]},
        {"name": "means", "op": "reduce_mean", "inputs": ["squares"], "axes": [2], "keepdims": False},
        {"name": "pairs", "op": "reshape", "inputs": ["means"], "shape": [2, BANDS]},
        {"name": "power", "op": "reduce_sum", "inputs": ["pairs"], "axes": [0], "keepdims": True},
        {"name": "floored", "op": "add", "inputs": ["power", FLOOR]},
        {"name": "levels", "op": "log", "inputs": ["floored"]},
        {"name": "centred", "op": "sub", "inputs": ["levels", "mean"]},
        {"name": "scaled", "op": "mul", "inputs": ["centred", "scale"]},
        {"name": "x", "op": "reshape", "inputs": ["scaled"], "shape": [1, 1, BANDS]},
        {"op": "split", "inputs": ["state"], "axis": 0, "sizes": [1, 1], "outputs": ["h", "c"]},
        {"op": "lstm", "inputs": ["x", "w", "r", "b", "h", "c"], "outputs": ["y", "h_next", "c_next"]},
        {"name": "stateN", "op": "concat", "inputs": ["h_next", "c_next"], "axis": 0},
        {"name": "row", "op": "reshape", "inputs": ["h_next"], "shape": [1, HIDDEN]},
        {"name": "product", "op": "matmul", "inputs": ["row", "dense"]},
        {"name": "logit", "op": "add", "inputs": ["product", "bias"]},
        {"name": "output", "op": "sigmoid", "inputs": ["logit"]},
    ]
    return {
        "rlxc": 1, "name": "voice",
        "inputs": {"input": {"dtype": "f32", "shape": [1, STEP + CONTEXT]},
                   "state": {"dtype": "f32", "shape": [2, *h_shape[1:]]}},
        "weights": {name: weight(name) for name in ("bank", "mean", "scale", "w", "r", "b", "dense", "bias")},
        "nodes": nodes, "outputs": ["output", "stateN"],
    }


def dump_graph(g):
    """One line for each member of a member."""
    parts = []
    for key, value in g.items():
        if isinstance(value, dict):
            rows = [f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            parts.append(f"  {json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n  }")
        elif key == "nodes":
            parts.append('  "nodes": [\n' + ",\n".join(f"    {json.dumps(v)}" for v in value) + "\n  ]")
        else:
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def save(params, bank, mean, scale):
    lstm = {"w": params["w"][None], "r": params["r"][None],
            "b": np.concatenate([params["b"], np.zeros(4 * HIDDEN)])[None]}
    tensors = {"bank": bank, "mean": mean, "scale": scale, **lstm, "dense": params["dense"].T,
               "bias": params["bias"]}
    folder = HERE / "voice"
    folder.mkdir(exist_ok=True)
    save_safetensors(folder / "voice.safetensors", {k: v.astype(np.float32) for k, v in tensors.items()})
    (folder / "voice.json").write_text(dump_graph(graph()))
    return {k: v.astype(np.float32).astype(np.float64) for k, v in tensors.items()}


def save_case(exact, sound, runs=24):
    """models/cases/voice: chunks that follow each other, in f64 and by the direct sums of every filter."""
    state, rows = np.zeros((2, HIDDEN)), []
    padded = np.concatenate([np.zeros(CONTEXT), sound]).astype(np.float32)
    for run in range(runs):
        chunk, before = padded[run * STEP:][:STEP + CONTEXT], state.astype(np.float32)
        power = np.zeros(BANDS)
        places = range(0, STEP + CONTEXT - TAPS + 1, STRIDE)
        for at in places:
            sums = exact["bank"][:, 0] @ chunk[at:at + TAPS].astype(np.float64)
            power += (sums[:BANDS] ** 2 + sums[BANDS:] ** 2) / len(places)
        x = (np.log(power + FLOOR) - exact["mean"]) * exact["scale"]
        h, c = before.astype(np.float64)
        z = exact["w"][0] @ x + exact["r"][0] @ h + exact["b"].reshape(2, -1).sum(0)
        i, o, f = np.split(sigmoid(z[:3 * HIDDEN]), 3)
        c = f * c + i * np.tanh(z[3 * HIDDEN:])
        state = np.array([o * np.tanh(c), c])
        rows.append((chunk[None], before[:, None], sigmoid(state[:1] @ exact["dense"] + exact["bias"]),
                     state[:, None]))
    folder = HERE / "cases/voice"
    folder.mkdir(parents=True, exist_ok=True)
    for name, column in zip(("input_input", "input_state", "output_output", "output_stateN"), zip(*rows)):
        np.save(folder / f"{name}.npy", np.array(column, np.float32))


def make_set(bank, seed, n):
    rng = np.random.default_rng(seed)
    pairs = [sequence(rng) for _ in range(n)]
    return (np.array([levels(bank, sound) for sound, _ in pairs]).transpose(1, 0, 2),
            np.array([label for _, label in pairs]).T.astype(np.float64))


def main():
    start = time.time()
    bank = make_bank()
    x, y = make_set(bank, 30, 640)
    x_held, y_held = make_set(bank, 31, 160)
    print(f"sound made in {time.time() - start:.0f} s; {y.mean():.2f} of it is voice", flush=True)
    mean, scale = x.mean((0, 1)), 1 / x.std((0, 1))
    params = train((x - mean) * scale, y)
    logits, _ = forward(params, (x_held - mean) * scale)
    said = logits > 0
    print(f"held out: {(said == y_held).mean():.4f} of the chunks right; "
          f"{said[y_held == 1].mean():.4f} of voice found, {said[y_held == 0].mean():.4f} false alarms")
    rng = np.random.default_rng(32)
    save_case(save(params, bank, mean, scale), 0.01 * rng.standard_normal(RATE) + np.concatenate(
        [np.zeros(RATE // 4), 0.5 * utterance(rng), np.zeros(RATE)])[:RATE])
    print(f"{time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
