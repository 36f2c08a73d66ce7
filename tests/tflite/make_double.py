#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes double.json: what the networks of MLPerf Tiny give where each product is rounded in two steps. That
is what LiteRT's reference kernels compute, apart from FULLY_CONNECTED, whose products they round once today.
So the network that has nothing else is computed here, from its tensors, by the rule of gemmlowp, as the
kernel of TensorFlow Lite for microcontrollers does.

Usage: make_double.py > double.json   needs the packages ai-edge-litert and numpy, and the networks
(check_networks.py)"""

import json
import math
import sys

import numpy as np
from ai_edge_litert import interpreter as litert
from check_networks import NETWORKS


def interpreter(model):
    made = litert.Interpreter(
        str(model),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    made.allocate_tensors()
    return made


def factor(real):
    part, shift = math.frexp(real)
    q = math.floor(part * 2**31 + 0.5)
    return (q // 2, shift + 1) if q == 2**31 else (q, shift)


def scaled(x, real):
    """x * real: the doubled upper half of a product, then a shift; halves go away from zero in both."""
    q, shift = factor(real)
    product = (x << max(shift, 0)) * q
    high = (abs(product) + 2**30 - (product < 0)) >> 31 if product >= 0 else -((-product + 2**30 - 1) >> 31)
    right = max(-shift, 0)
    rest, mask = high & ((1 << right) - 1), (1 << right) - 1
    return (high >> right) + (rest > (mask >> 1) + (high < 0))


def fully_connected(net, x):
    """The layers of a network that has no others, each with one scale."""
    tensors = {t["index"]: t for t in net.get_tensor_details()}
    for op in net._get_ops_details():
        if op["op_name"] != "FULLY_CONNECTED":
            raise SystemExit(f"{op['op_name']} is not expected")
        of_x, of_w, of_y = (tensors[i] for i in (*op["inputs"][:2], op["outputs"][0]))
        (x_scale, x_zero), (y_scale, y_zero) = of_x["quantization"], of_y["quantization"]
        real = float(np.float32(x_scale) * np.float32(of_w["quantization"][0])) / float(np.float32(y_scale))
        weights, bias = (net.get_tensor(i).astype(np.int64) for i in op["inputs"][1:3])
        sums = weights @ (x.reshape(-1).astype(np.int64) - x_zero) + bias
        x = np.array([min(max(scaled(int(v), real) + y_zero, -128), 127) for v in sums])
    return x


def result(name, case):
    net = interpreter(NETWORKS / f"{name}.tflite")
    x = np.load(case / "input_0.npy")
    if name == "ad01_int8":
        return fully_connected(net, x)
    net.set_tensor(net.get_input_details()[0]["index"], x)
    net.invoke()
    return net.get_tensor(net.get_output_details()[0]["index"]).reshape(-1)


def main():
    found = {}
    for case in sorted((NETWORKS / "cases").glob("*/case_*")):
        if np.load(case / "input_0.npy").dtype == np.int8:
            found[f"{case.parent.name}/{case.name}"] = result(case.parent.name, case).tolist()
    json.dump(found, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
