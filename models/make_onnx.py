# SPDX-License-Identifier: Apache-2.0
"""Writes digits/digits.onnx: the network of digits/digits.json as an ONNX model, its weights inside.

Needs the packages onnx and numpy. Writes the same bytes wherever it runs.
"""

import json
import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).resolve().parent / "digits"
OPSET, IR_VERSION = 17, 8
KINDS = {"conv": "Conv", "relu": "Relu", "max_pool": "MaxPool", "flatten": "Flatten", "matmul": "MatMul",
         "add": "Add", "softmax": "Softmax"}
ATTRIBUTES = {"pads": "pads", "strides": "strides", "kernel": "kernel_shape", "axis": "axis"}


def read_weights(path):
    """The tensors of a safetensors file, all of them f32: name -> array."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    return {name: numpy.frombuffer(data[start:], "<f4", (t["data_offsets"][1] - t["data_offsets"][0]) // 4,
                                   t["data_offsets"][0]).reshape(t["shape"])
            for name, t in json.loads(data[8:start]).items()}


def node_of(node):
    attributes = {ATTRIBUTES[k]: v for k, v in node.items() if k in ATTRIBUTES}
    return helper.make_node(KINDS[node["op"]], node["inputs"], [node["name"]], node["name"], **attributes)


def main():
    graph = json.loads((FOLDER / "digits.json").read_text())
    tensors = read_weights(FOLDER / "digits.safetensors")
    weights = [numpy_helper.from_array(numpy.ascontiguousarray(tensors[w["tensor"]]), name)
               for name, w in graph["weights"].items()]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, i["shape"])
              for name, i in graph["inputs"].items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 10])
               for name in graph["outputs"]]
    model = helper.make_model(
        helper.make_graph([node_of(n) for n in graph["nodes"]], graph["name"], inputs, outputs, weights),
        opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    (FOLDER / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))


main()
