#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Architectures with random weights: rlxc against ONNX Runtime, at two sizes each.

Weights are drawn so that no output is tiny (He's initialisation, batch norms with statistics that do
something, layer scales of 0.5). Errors are relative to the largest magnitude of an output.
"""

import argparse
import os
import subprocess
import sys
import warnings

import numpy as np
import onnxruntime
import torch
import torchvision

LIMIT = 1e-4
IMAGES = "resnet50 mobilenet_v3_small efficientnet_b0 densenet121 convnext_tiny swin_t".split()
TEXTS = "bert gpt2".split()


# --- export ---


def draw_weights(model):
    g = torch.Generator().manual_seed(1)
    for m in model.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.weight.data.uniform_(0.8, 1.2, generator=g)
            m.bias.data.normal_(0, 0.1, generator=g)
            m.running_mean.normal_(0, 0.1, generator=g)
            m.running_var.uniform_(0.8, 1.2, generator=g)
        elif isinstance(m, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
        if isinstance(getattr(m, "layer_scale", None), torch.nn.Parameter):
            m.layer_scale.data.fill_(0.5)


def text_model(name):
    import transformers

    if name == "bert":
        return transformers.BertModel(transformers.BertConfig())
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))


def export(name, path):
    torch.manual_seed(0)
    if name in IMAGES:
        model, names = getattr(torchvision.models, name)(weights=None), ["x"]
        draw_weights(model)
        args, axes = (torch.randn(2, 3, 224, 224),), {0: "batch"}
    else:
        model, names = text_model(name), ["input_ids", "attention_mask"][: 2 if name == "bert" else 1]
        ids = torch.randint(0, 30000, (2, 16))
        args, axes = (ids, torch.ones_like(ids))[: len(names)], {0: "batch", 1: "seq"}
    torch.onnx.export(
        model.eval(),
        args,
        path,
        input_names=names,
        dynamic_axes={n: axes for n in names},
        opset_version=16,
    )


# --- comparison ---


def make_inputs(name, sizes):
    rng = np.random.default_rng(7)
    if name in IMAGES:
        return {"x": rng.standard_normal((sizes[0], 3, 224, 224), dtype=np.float32)}
    inputs = {"input_ids": rng.integers(0, 30000, sizes)}
    if name == "bert":
        mask = np.ones(sizes, np.int64)
        mask[-1, -3:] = 0  # a row with padding
        inputs["attention_mask"] = mask
    return inputs


def run_rlxc(rlxc, path, inputs, sizes, folder):
    command = [rlxc, "run", path, "--output-dir", folder]
    for dim, size in zip(("batch", "seq"), sizes):
        command += ["--dim", f"{dim}={size}"]
    for name, value in inputs.items():
        file = os.path.join(folder, f"input-{name}.npy")
        np.save(file, value)
        command += ["--input", f"{name}={file}"]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


def compare(rlxc, name, path, sizes, folder):
    inputs = make_inputs(name, sizes)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    want = session.run(None, inputs)
    message = run_rlxc(rlxc, path, inputs, sizes, folder)
    if message:
        print(f"{name} {sizes}: not compiled\n{message}")
        return False
    worst = 0.0
    for output, value in zip(session.get_outputs(), want):
        got = np.load(os.path.join(folder, output.name.replace("/", "_").replace(":", "_") + ".npy"))
        scale = float(np.abs(value).max())
        error = float(np.abs(got.astype(np.float64) - value).max()) if got.shape == value.shape else np.inf
        worst = max(worst, error / scale)
        print(f"{name} {sizes} {output.name}: largest {scale:.3g}, relative error {error / scale:.2g}")
    return worst < LIMIT


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rlxc", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("names", nargs="*", help=f"default: {' '.join(IMAGES + TEXTS)}")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    failed = []
    for name in args.names or IMAGES + TEXTS:
        path = os.path.join(args.folder, f"{name}.onnx")
        if not os.path.exists(path):
            export(name, path)
        for sizes in [(1,), (2,)] if name in IMAGES else [(1, 9), (2, 16)]:
            if not compare(args.rlxc, name, path, sizes, args.folder):
                failed.append(f"{name} {sizes}")
    print(f"differ: {', '.join(failed)}" if failed else "all agree")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
