#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the small convolutional network of models/digits; writes weights, held-out images and reference.

Needs numpy and scikit-learn (for the digits data only). Layers, gradients and the optimiser are written out
here so that anybody can rerun it without a framework. Every random choice has a fixed seed and the held-out
images take no part in any choice: the number of epochs is fixed and the last weights are kept.
It is apart from make_small.py because its weights come from data, not from a seed.
"""
import argparse
import pathlib
import time

import numpy as np
from sklearn.datasets import load_digits

from tensor_files import save_safetensors

HERE = pathlib.Path(__file__).resolve().parent
HELD_OUT = 360
EXPECTED = 16  # held-out images whose exact logits are stored
CONVS = [("conv1", 1, 16), ("conv2", 16, 32), ("conv3", 32, 32)]
POOL_AFTER = {"conv2", "conv3"}


def load_split():
    """Images as f32 [n, 1, 8, 8] in 0..1 (multiples of 1/16, so exact), and labels.

    The last 360 of a shuffle are held out.
    """
    data = load_digits()
    images = (data.images / 16.0).astype(np.float32)[:, None]
    labels = data.target.astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:-HELD_OUT], order[-HELD_OUT:]
    return images[train], labels[train], images[test], labels[test]


# --- layers: each forward returns (result, what backward needs) -----

def conv_forward(x, w, b):
    """3x3, pad 1, stride 1, NCHW, by im2col: rows are pixels, columns are (channel, ky, kx)."""
    n, c, h, wd = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    cols = np.ascontiguousarray(taps.transpose(0, 2, 3, 1, 4, 5)).reshape(n * h * wd, c * 9)
    y = cols @ w.reshape(len(w), -1).T + b
    return y.reshape(n, h, wd, len(w)).transpose(0, 3, 1, 2), (cols, x.shape)


def conv_backward(dy, w, saved):
    cols, (n, c, h, wd) = saved
    rows = np.ascontiguousarray(dy.transpose(0, 2, 3, 1)).reshape(-1, len(w))
    dw = (rows.T @ cols).reshape(w.shape)
    dcols = (rows @ w.reshape(len(w), -1)).reshape(n, h, wd, c, 3, 3)
    dx = np.zeros((n, c, h + 2, wd + 2), dy.dtype)
    for ky in range(3):
        for kx in range(3):
            dx[:, :, ky:ky + h, kx:kx + wd] += dcols[:, :, :, :, ky, kx].transpose(0, 3, 1, 2)
    return dx[:, :, 1:-1, 1:-1], dw, rows.sum(0)


def pool_forward(x):
    """2x2 maximum; the gradient is shared where several inputs tie."""
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = blocks.max((3, 5))
    hit = (blocks == y[:, :, :, None, :, None]).astype(x.dtype)
    return y, hit / hit.sum((3, 5), keepdims=True)


def pool_backward(dy, share):
    n, c, h, _, w, _ = share.shape
    return (share * dy[:, :, :, None, :, None]).reshape(n, c, h * 2, w * 2)


# --- the network -----

def make_params(rng):
    params = {}
    for name, cin, cout in CONVS:
        params[name + ".weight"] = rng.normal(0, np.sqrt(2 / (9 * cin)), (cout, cin, 3, 3)).astype(np.float32)
        params[name + ".bias"] = np.zeros(cout, np.float32)
    params["dense.weight"] = rng.normal(0, np.sqrt(1 / 128), (128, 10)).astype(np.float32)
    params["dense.bias"] = np.zeros(10, np.float32)
    return params


def forward(params, x):
    saved = []
    for name, _, _ in CONVS:
        x, conv = conv_forward(x, params[name + ".weight"], params[name + ".bias"])
        x = np.maximum(x, 0)
        positive, share = x > 0, None
        if name in POOL_AFTER:
            x, share = pool_forward(x)
        saved.append((conv, positive, share))
    flat = x.reshape(len(x), -1)
    return flat @ params["dense.weight"] + params["dense.bias"], (saved, flat, x.shape)


def backward(params, dlogits, state):
    saved, flat, shape = state
    grads = {"dense.weight": flat.T @ dlogits, "dense.bias": dlogits.sum(0)}
    dx = (dlogits @ params["dense.weight"].T).reshape(shape)
    for (name, _, _), (conv, positive, share) in reversed(list(zip(CONVS, saved))):
        if share is not None:
            dx = pool_backward(dx, share)
        dx, dw, db = conv_backward(dx * positive, params[name + ".weight"], conv)
        grads[name + ".weight"], grads[name + ".bias"] = dw, db
    return grads


# --- training -----

def distort(rng, images):
    """A random affine map an image (rotation, scale, shear, shift), sampled bilinearly, zero outside."""
    n = len(images)
    angle, shear = rng.uniform(-0.2, 0.2, n), rng.uniform(-0.15, 0.15, n)
    sx, sy = rng.uniform(0.88, 1.12, (2, n))
    tx, ty = rng.uniform(-0.8, 0.8, (2, n))
    gy, gx = np.mgrid[0:8, 0:8] - 3.5
    cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    ux = (gx + shear[:, None, None] * gy) * sx[:, None, None]
    uy = gy * sy[:, None, None]
    px = cos * ux - sin * uy + 3.5 + tx[:, None, None] + 1  # + 1: the border added below
    py = sin * ux + cos * uy + 3.5 + ty[:, None, None] + 1
    px, py = np.clip(px, 0, 8.999), np.clip(py, 0, 8.999)
    x0, y0 = px.astype(int), py.astype(int)
    fx, fy = px - x0, py - y0
    padded = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))
    at = np.arange(n)[:, None, None]
    top = padded[at, y0, x0] * (1 - fx) + padded[at, y0, x0 + 1] * fx
    low = padded[at, y0 + 1, x0] * (1 - fx) + padded[at, y0 + 1, x0 + 1] * fx
    return (top * (1 - fy) + low * fy).astype(np.float32)[:, None]


def loss_gradient(logits, labels):
    e = np.exp(logits - logits.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    at = np.arange(len(labels))
    loss = -np.log(p[at, labels] + 1e-12).mean()
    p[at, labels] -= 1
    return loss, p / len(labels)


def train(images, labels, epochs, batch=48, peak=3e-3, decay=0.01):
    """Adam with decoupled weight decay and a cosine learning rate."""
    rng = np.random.default_rng(1)
    params = make_params(rng)
    first = {k: np.zeros_like(v) for k, v in params.items()}
    second = {k: np.zeros_like(v) for k, v in params.items()}
    total, step = epochs * (len(images) // batch), 0
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        losses = []
        for i in range(len(images) // batch):
            pick = order[i * batch:(i + 1) * batch]
            logits, state = forward(params, distort(rng, images[pick]))
            loss, dlogits = loss_gradient(logits, labels[pick])
            grads = backward(params, dlogits.astype(np.float32), state)
            step += 1
            rate = peak * min(1, step / 60) * 0.5 * (1 + np.cos(np.pi * step / total))
            for k, g in grads.items():
                first[k] = 0.9 * first[k] + 0.1 * g
                second[k] = 0.99 * second[k] + 0.01 * g * g
                move = first[k] / (1 - 0.9**step) / (np.sqrt(second[k] / (1 - 0.99**step)) + 1e-8)
                shrink = decay if k.endswith("weight") else 0.0
                params[k] = (params[k] - rate * (move + shrink * params[k])).astype(np.float32)
            losses.append(loss)
        if (epoch + 1) % 10 == 0 or epoch == 0:
            print(f"epoch {epoch + 1:3d}  training loss {np.mean(losses):.4f}", flush=True)
    return params


# --- reference -----

def reference_logits(params, images):
    """The same network in f64, written another way (one shifted product a tap), as a check."""
    x = images.astype(np.float64)
    for name, cin, cout in CONVS:
        w, b = params[name + ".weight"].astype(np.float64), params[name + ".bias"].astype(np.float64)
        n, _, h, wd = x.shape
        y = np.zeros((n, cout, h, wd)) + b[None, :, None, None]
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                ys, xs = slice(max(0, -dy), h - max(0, dy)), slice(max(0, -dx), wd - max(0, dx))
                yi, xi = slice(max(0, dy), h + min(0, dy)), slice(max(0, dx), wd + min(0, dx))
                y[:, :, ys, xs] += np.einsum("oc,nchw->nohw", w[:, :, dy + 1, dx + 1], x[:, :, yi, xi])
        x = np.where(y > 0, y, 0)
        if name in POOL_AFTER:
            x = np.maximum.reduce([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)])
    w, b = params["dense.weight"].astype(np.float64), params["dense.bias"].astype(np.float64)
    return x.reshape(len(x), -1) @ w + b


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def save_case(folder, images, logits):
    """The first held-out images one by one, in the form that README.md describes for every case."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "input_image.npy", images[:EXPECTED, None])
    np.save(folder / "output_logits.npy", logits[:EXPECTED, None].astype(np.float32))
    np.save(folder / "output_probs.npy", softmax(logits[:EXPECTED, None]).astype(np.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "digits")
    args = parser.parse_args()
    train_images, train_labels, test_images, test_labels = load_split()
    start = time.monotonic()
    params = train(train_images, train_labels, args.epochs)
    print(f"trained in {time.monotonic() - start:.0f} s")

    exact = reference_logits(params, test_images)
    fast = forward(params, test_images)[0]
    right = int((exact.argmax(1) == test_labels).sum())
    print(f"held out: {right} of {HELD_OUT} right, {100 * right / HELD_OUT:.2f} %")
    print(f"largest difference f32 from f64 logits: {np.abs(fast - exact).max():.2e}")

    args.out.mkdir(parents=True, exist_ok=True)
    save_safetensors(args.out / "digits.safetensors", params)
    np.save(args.out / "test_images.npy", test_images)
    np.save(args.out / "test_labels.npy", test_labels)
    np.save(args.out / "expected.npy", exact[:EXPECTED].astype(np.float32))
    save_case(args.out.parent / "cases" / "digits", test_images, exact)


if __name__ == "__main__":
    main()
