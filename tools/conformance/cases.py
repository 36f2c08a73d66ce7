# SPDX-License-Identifier: Apache-2.0
"""The cases of ONNX's own backend test suite, as the installed package onnx has them.

A case is loaded lazily, in the process that runs it: its model (bytes or a path) and its data sets, each a
list of inputs and a list of expected outputs. Node cases come from memory (load_node_model_tests) or, where
the package ships them as files (until 1.22), from there.
"""
import glob
import os
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

SUITES = ("node", "simple", "pytorch-operator", "pytorch-converted", "light", "light-random")
DATA = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")


class Case:
    """One case. load() -> (model: ModelProto, path or None, [(inputs, outputs)])"""

    def __init__(self, suite, name, rtol=1e-3, atol=1e-7, load=None):
        self.suite, self.name, self.rtol, self.atol, self.load = suite, name, rtol, atol, load


# --- node cases in memory ------------------------------------------------------------------------

def normal(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def memory_cases():
    from onnx.backend.test.loader import load_node_model_tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_node_model_tests()

    def loader(test):
        return lambda: (test.model, None, [([normal(v) for v in ins], [normal(v) for v in outs])
                                           for ins, outs in test.data_sets])
    return [Case("node", t.name, t.rtol, t.atol, loader(t)) for t in found]


# --- cases in files ------------------------------------------------------------------------------

def load_value(path, kind):
    with open(path, "rb") as f:
        data = f.read()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def load_values(folder, what, infos):
    n = len(glob.glob(os.path.join(folder, what + "_*.pb")))
    return [load_value(os.path.join(folder, f"{what}_{i}.pb"), infos[i].type) for i in range(n)]


def folder_case(suite, folder):
    def load():
        path = os.path.join(folder, "model.onnx")
        model = onnx.load(path)
        sets = sorted(glob.glob(os.path.join(folder, "test_data_set*")))
        return model, path, [(load_values(s, "input", model.graph.input),
                              load_values(s, "output", model.graph.output)) for s in sets]
    rtol, atol = 1e-3, 1e-7
    notes = os.path.join(folder, "data.json")
    if os.path.exists(notes):
        import json
        with open(notes, encoding="utf-8") as f:
            data = json.load(f)
        rtol, atol = data.get("rtol", rtol), data.get("atol", atol)
    return Case(suite, os.path.basename(folder), rtol, atol, load)


def folder_cases(suite, data=DATA):
    return [folder_case(suite, os.path.dirname(path))
            for path in sorted(glob.glob(os.path.join(data, suite, "*", "model.onnx")))]


# --- the light networks --------------------------------------------------------------------------

def ramp(info):
    """The input that the suite itself makes for these networks."""
    shape = tuple(d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim)
    n = int(np.prod(shape))
    return (np.arange(n).reshape(shape) / n).astype(np.float32)


def free_inputs(model):
    weights = {w.name for w in model.graph.initializer}
    return [v for v in model.graph.input if v.name not in weights]


def light_case(path):
    def load():
        model = onnx.load(path)
        want = [load_value(path.replace(".onnx", f"_output_{i}.pb"), v.type)
                for i, v in enumerate(model.graph.output)]
        return model, path, [([ramp(v) for v in free_inputs(model)], want)]
    return Case("light", os.path.basename(path)[:-5], 1e-3, 1e-7, load)


def fill_constants(model, rng):
    """Replaces what makes constant weights (ConstantOfShape of a stored shape) by random tensors.

    Scaled so that activations neither vanish nor explode; variances of batch norms stay positive.
    """
    stored = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    positive = {n.input[4] for n in model.graph.node if n.op_type == "BatchNormalization"}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in stored:
            kept.append(node)
            continue
        shape = tuple(int(d) for d in stored[node.input[0]])
        fan_in = max(1, int(np.prod(shape[1:])))
        if node.output[0] in positive:
            w = rng.uniform(0.5, 1.5, shape)
        else:
            w = rng.standard_normal(shape) * ((2.0 / fan_in) ** 0.5 if len(shape) > 1 else 0.1)
        model.graph.initializer.append(numpy_helper.from_array(w.astype(np.float32), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def light_random_case(path):
    def load():
        import onnxruntime as ort
        rng = np.random.default_rng(1)
        model = fill_constants(onnx.load(path), rng)
        inputs = [rng.standard_normal(ramp(v).shape).astype(np.float32) for v in free_inputs(model)]
        settings = ort.SessionOptions()
        settings.log_severity_level = 3     # else it tells of every shape that is left over
        session = ort.InferenceSession(model.SerializeToString(), settings,
                                       providers=["CPUExecutionProvider"])
        want = session.run(None, {v.name: x for v, x in zip(free_inputs(model), inputs, strict=True)})
        return model, None, [(inputs, want)]
    return Case("light-random", os.path.basename(path)[:-5], None, None, load)


# --- all -----------------------------------------------------------------------------------------

def cases_of(suite):
    if suite == "node":
        return folder_cases("node") or memory_cases()
    if suite.startswith("light"):
        make = light_case if suite == "light" else light_random_case
        return [make(path) for path in sorted(glob.glob(os.path.join(DATA, "light", "*.onnx")))]
    return folder_cases(suite)
