# SPDX-License-Identifier: Apache-2.0
"""Runs one case through rlxc, or a peer, and says whether it passed, was refused, is wrong, or crashed.

A peer is another implementation, counted on the same cases with the same comparison: ONNX Runtime and
emx-onnx-cgen, where they are installed. What a peer raises counts as refused.
"""
import importlib.util
import re
import warnings

import numpy as np

import rlxc

PASSED, UNSUPPORTED, RANDOM, WRONG, CRASHED = "passed", "unsupported", "random", "wrong", "crashed"
RANDOM_OPERATORS = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
                    "RandomUniformLike"}
# The suite computes what it expects of these when it is loaded, with NumPy's FFT: where the exact result is 0
# it holds the rounding of that FFT, which depends on the machine and exceeds the suite's tolerance of 1e-7.
FFT_OPERATORS = {"DFT", "STFT"}
FFT_TOLERANCE = 2.0 ** -21      # of the largest magnitude
TIME_LIMIT = 240        # seconds for the compiler, and again for the C compiler


def one_line(error):
    """The error of a diagnostic, without its place and its notes."""
    for line in str(error).splitlines():
        found = re.search(r"\berror(?:\[\w+\])?: (.*)", line)
        if found:
            return found.group(1)[:300]
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def compare_relative(got, want, tolerance):
    """Within a share of the largest magnitude."""
    for g, w in zip(got, want, strict=True):
        np.testing.assert_equal(g.dtype, w.dtype)
        np.testing.assert_array_equal(g.shape, w.shape)
        largest = np.max(np.abs(w))
        error = np.max(np.abs(g - w))
        if not error <= tolerance * largest:
            raise AssertionError(f"largest error {error:.3g} of magnitude {largest:.3g}")


def operators_of(model):
    return {node.op_type for node in model.graph.node}


def compare(case, got, want, model=None):
    if case.rtol is None:       # random weights
        return compare_relative(got, want, 1e-4)
    if model is not None and operators_of(model) & FFT_OPERATORS:
        return compare_relative(got, want, FFT_TOLERANCE)
    from onnx.backend.test.runner import Runner
    for g, w in pairs(list(got), list(want)):
        if w.dtype.kind in "US":        # the suite has strings as objects in most places
            w = w.astype(object)
        Runner.assert_similar_outputs([w], [g], case.rtol, case.atol)


def pairs(got, want):
    """The arrays of two structures that must be the same: the suite's own comparison cannot take an optional
    without a value, nor a sequence of scalars."""
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)):
            raise AssertionError(f"got {type(got).__name__}, want a sequence")
        if len(got) != len(want):
            raise AssertionError(f"got {len(got)} values, want {len(want)}")
        return [pair for g, w in zip(got, want, strict=True) for pair in pairs(g, w)]
    if (want is None) != (got is None) or isinstance(got, (list, tuple)):
        raise AssertionError(f"got {type(got).__name__}, want {type(want).__name__}")
    return [] if want is None else [(np.asarray(got), np.asarray(want))]


def short(error):
    text = " ".join(str(error).split())
    return text[:300]


def load(case):
    warnings.simplefilter("ignore")
    return case.load()


def judge(case, cc="auto"):
    """(status, reason)"""
    try:
        model, path, data_sets = load(case)
    except Exception as e:
        return CRASHED, f"the case cannot be loaded: {short(e)}"
    try:
        compiled = rlxc.compile(path or model, cc=cc, time_limit=TIME_LIMIT)
        for inputs, want in data_sets:
            compare(case, compiled(*inputs), want, model)
    except rlxc.CompileError as e:
        return UNSUPPORTED, one_line(e)
    except (rlxc.CompilerCrash, rlxc.CompilerTimeout) as e:
        return CRASHED, short(e)
    except rlxc.CCompilerError as e:
        return WRONG, "the C compiler refuses the generated code: " + one_line(e)
    except rlxc.RunError as e:
        return WRONG, short(e)
    except rlxc.RlxcError as e:
        return UNSUPPORTED, one_line(e)
    except AssertionError as e:
        return judge_random(model, compiled, data_sets) or (WRONG, short(e))
    except Exception as e:
        return WRONG, f"{type(e).__name__}: {short(e)}"
    return PASSED, ""


def judge_random(model, compiled, data_sets):
    """The stored outputs of a random operator came from NumPy's generator, which the standard does not name.
    Types and shapes must agree, and where only a few values are possible (Bernoulli) all must be of them."""
    if not RANDOM_OPERATORS & operators_of(model):
        return None
    for inputs, want in data_sets:
        for g, w in pairs(compiled(*inputs), list(want)):
            possible = np.unique(w)
            few = possible.size <= 2
            if g.dtype != w.dtype or g.shape != w.shape or (few and not np.isin(g, possible).all()):
                return None
    return RANDOM, "the standard leaves the generator open: the stored values are those of NumPy's"


# --- peers ---------------------------------------------------------------------------------------

def prepare_ort(model, path):
    import onnxruntime as ort
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = ort.InferenceSession(path or model.SerializeToString(), settings,
                                   providers=["CPUExecutionProvider"])
    names = [v.name for v in session.get_inputs()]
    return lambda inputs: session.run(None, dict(zip(names, inputs, strict=False)))


def prepare_emx(model, path):
    del path
    from emx_onnx_cgen.onnx_backend.backend import EmxOnnxCgenBackend
    return EmxOnnxCgenBackend.prepare(model, "CPU").run


PEERS = {"onnxruntime": prepare_ort, "emx_onnx_cgen": prepare_emx}


def find_peers():
    return [name for name in PEERS if importlib.util.find_spec(name)]


def judge_peer(case, peer):
    """(status, reason)"""
    try:
        model, path, data_sets = load(case)
    except Exception as e:
        return CRASHED, f"the case cannot be loaded: {short(e)}"
    try:
        run = PEERS[peer](model, path)
        results = [(run(inputs), want) for inputs, want in data_sets]
    except Exception as e:
        return UNSUPPORTED, f"{type(e).__name__}: {short(e)}"
    try:
        for got, want in results:
            compare(case, list(got), want, model)
    except Exception as e:
        return WRONG, short(e)
    return PASSED, ""
