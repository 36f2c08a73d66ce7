# SPDX-License-Identifier: Apache-2.0
"""Quantised models for benchmarks, made from float models with random calibration data: what they compute
means nothing, how fast they are is the point. Needs onnx and onnxruntime.

    python3 quantised.py FLOAT.onnx BYTES.onnx
"""

import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import version_converter
from onnxruntime import InferenceSession
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
from onnxruntime.quantization import quant_pre_process, quantize_static

OPSET = 13  # the first one with scales per channel
RUNS = 4  # of calibration


class RandomInputs(CalibrationDataReader):
    """Normal numbers for every input of a model; sizes that are open are 1."""

    def __init__(self, path):
        inputs = InferenceSession(path, providers=["CPUExecutionProvider"]).get_inputs()
        self.shapes = {i.name: [d if isinstance(d, int) and d > 0 else 1 for d in i.shape] for i in inputs}
        self.run = 0

    def get_next(self):
        self.run += 1
        rng = np.random.default_rng(self.run)
        values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in self.shapes.items()}
        return values if self.run <= RUNS else None


def newer(model):
    """The model in an opset that has scales per channel."""
    model.ir_version = max(model.ir_version, 8)
    version = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    return version_converter.convert_version(model, OPSET) if version < OPSET else model


def quantise(source, target):
    """Writes `source` with u8 activations and i8 weights, one scale a channel, between QuantizeLinear and
    DequantizeLinear. A Softmax at the end stays in floats."""
    with tempfile.TemporaryDirectory() as folder:
        converted, prepared = os.path.join(folder, "converted.onnx"), os.path.join(folder, "prepared.onnx")
        model = newer(onnx.load(source))
        onnx.save(model, converted)
        quant_pre_process(converted, prepared, skip_symbolic_shape=True)
        floats = [n.name for n in onnx.load(prepared).graph.node if n.op_type == "Softmax"]
        quantize_static(
            prepared,
            target,
            RandomInputs(prepared),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=floats,
        )


if __name__ == "__main__":
    quantise(*sys.argv[1:3])
