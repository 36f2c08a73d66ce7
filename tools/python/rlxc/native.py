# SPDX-License-Identifier: Apache-2.0
"""Builds generated C into a shared library, loads it and runs it.

The library holds the generated file and a few functions that hand its rlx_model descriptor over, field by
field: so that this module depends on rlx.h's names and not on the layout of its structs. Element types and
statuses are known by the names of rlx.h's enums, read from the generated header.
"""
import _ctypes
import contextlib
import ctypes
import math
import os
import re
import shlex
import shutil
import subprocess

import numpy as np

from rlxc import values
from rlxc.errors import CCompilerError, RlxcError, RunError

MAX_RANK = 8        # RLX_MAX_RANK
NAME = "model"      # --name
TENSOR_KINDS = ("inputs", "outputs", "params", "states")
GLUE = r"""
#include "model.c"
#define RLXPY __attribute__((visibility("default")))
RLXPY const void *rlxpy_model(void) { return &model_model; }
RLXPY size_t rlxpy_ctx_bytes(void) { return sizeof(rlx_ctx); }
RLXPY void rlxpy_sizes(uint64_t *out)
{
    out[0] = model_model.arena_bytes;
    out[1] = model_model.state_bytes;
    out[2] = model_model.weight_bytes;
    out[3] = model_model.n_inputs;
    out[4] = model_model.n_outputs;
    out[5] = model_model.n_params;
    out[6] = model_model.n_states;
}
RLXPY const char *rlxpy_tensor(int kind, uint32_t i, int64_t *out)
{
    const rlx_tensor *const lists[4] = {model_model.inputs, model_model.outputs, model_model.params,
                                        model_model.states};
    const rlx_tensor *const t = &lists[kind][i];
    int k;
    out[0] = (int64_t)t->dtype;
    out[1] = t->rank;
    out[2] = (int64_t)t->offset;
    out[3] = (int64_t)t->bytes;
    for (k = 0; k < t->rank; k++)
        out[4 + k] = t->shape[k];
    return t->name;
}
RLXPY int rlxpy_init(void *ctx, void *arena, size_t arena_bytes, void *state, size_t state_bytes,
                     const void *weights, size_t weight_bytes)
{
    return (int)rlx_init((rlx_ctx *)ctx, &model_model, arena, arena_bytes, state, state_bytes, weights,
                         weight_bytes);
}
RLXPY int rlxpy_run(void *ctx) { return (int)rlx_run((rlx_ctx *)ctx); }
RLXPY int rlxpy_reset(void *ctx) { return (int)rlx_reset((rlx_ctx *)ctx); }
RLXPY int rlxpy_set_param(void *ctx, const char *name, const void *data, size_t bytes, int dtype)
{
    return (int)rlx_set_param_typed((rlx_ctx *)ctx, name, data, bytes, (rlx_dtype)dtype);
}
RLXPY int rlxpy_output_shape(void *ctx, uint32_t slot, int64_t *shape)
{
    return (int)rlx_output_shape((const rlx_ctx *)ctx, slot, shape);
}
RLXPY const char *rlxpy_status_text(int status) { return rlx_status_text((rlx_status)status); }
"""
NUMPY_NAMES = {"F32": "float32", "F16": "float16", "F64": "float64", "BF16": "bfloat16", "BOOL": "bool",
               "F8E4M3FN": "float8_e4m3fn", "F8E4M3FNUZ": "float8_e4m3fnuz", "F8E5M2": "float8_e5m2",
               "F8E5M2FNUZ": "float8_e5m2fnuz", "F8E8M0": "float8_e8m0fnu", "F4E2M1": "float4_e2m1fn",
               **{f"{c}{n}": f"{'u' if c == 'U' else ''}int{n}" for c in "IU" for n in (2, 4, 8, 16, 32, 64)}}


# --- building ------------------------------------------------------------------------------------

def commands_for(cc, flags):
    """The commands to try in turn: tcc is done first, but lacks a few things that gcc and clang have."""
    usual = shlex.split(os.environ.get("CC") or "cc")
    if cc == "quick":
        return [["tcc"], [*usual, "-O0"]] if shutil.which("tcc") else [[*usual, "-O0"]]
    if cc == "fast":
        return [[*usual, "-O3", *flags]]
    return [shlex.split(cc) if isinstance(cc, str) else list(cc)]


def refuse_custom(folder):
    """Raises where the code in the folder has text of the model's own (docs/CUSTOM.md)."""
    for name in os.listdir(folder):
        if name.endswith(".c"):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                if any(line.startswith("// The model's text of '") for line in f):
                    raise RlxcError("the model has custom ops, whose text would run with your rights: "
                                    "compile(..., allow_custom=True) runs them")


def build(folder, cc, flags, time_limit=None):
    """Compiles FOLDER/model.c into a library and returns its path."""
    glue, library = os.path.join(folder, "rlxpy.c"), os.path.join(folder, "rlxpy.so")
    with open(glue, "w", encoding="utf-8") as f:
        f.write(GLUE)
    problem = ""
    for command in commands_for(cc, flags):
        full = [*command, "-std=gnu99", "-shared", "-fPIC", "-w", "-o", library, glue, "-lm"]
        try:
            done = subprocess.run(full, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  errors="replace", timeout=time_limit, check=False)
        except subprocess.TimeoutExpired:
            raise CCompilerError(f"{command[0]}: not done after {time_limit:g} s") from None
        except FileNotFoundError:
            raise CCompilerError(f"{command[0]}: no such C compiler") from None
        if done.returncode == 0:
            return library
        problem = f"{' '.join(full)}\n{done.stderr}"
    raise CCompilerError(problem)


# --- element types -------------------------------------------------------------------------------

def enum_names(header, enum, prefix):
    """Enumerators of an enum of rlx.h in their order, without the prefix."""
    body = re.search(r"typedef enum %s \{(.*?)\}" % enum, header, re.DOTALL)
    if body is None:
        raise RlxcError(f"the generated header has no enum {enum}")
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", body.group(1), flags=re.DOTALL)
    return [word.split("=")[0].strip().removeprefix(prefix) for word in text.split(",") if word.strip()]


def numpy_dtype(name):
    """'F32' -> dtype('float32'). Types that NumPy lacks come from ml_dtypes; without it they are raw bits."""
    plain = NUMPY_NAMES[name]
    with contextlib.suppress(TypeError):
        return np.dtype(plain)
    try:
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, plain))
    except ImportError:
        return np.dtype({"BF16": "uint16", "I4": "int8", "I2": "int8"}.get(name, "uint8"))


def to_bytes(array):
    """The bytes of an array as generated code has them: small integers are extended by their sign."""
    array = np.ascontiguousarray(array).reshape(-1)
    return (array.astype(np.int8) if array.dtype.name in ("int4", "int2") else array).view(np.uint8)


def from_bytes(data, dtype, shape):
    """An array of its own from the first bytes of data."""
    small, data = dtype.name in ("int4", "int2"), data[:dtype.itemsize * math.prod(shape)]
    array = data.view(np.int8).astype(dtype) if small else data.copy().view(dtype)
    return array.reshape(shape)


# --- a loaded library ----------------------------------------------------------------------------

class Tensor:
    """An input, output, parameter or state of a generated program."""

    def __init__(self, name, fields, dtype_names):
        self.name = name
        self.code, rank, self.offset, self.bytes = fields[:4]
        self.shape = tuple(fields[4:4 + rank])
        self.dtype = numpy_dtype(dtype_names[self.code])

    def __repr__(self):
        return f"{self.name}: {self.dtype}{list(self.shape)}"


def aligned(n):
    """A block of n bytes that starts at a multiple of 64."""
    block = np.zeros(n + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start:start + n]


class Program:
    """Generated code with its memory: one context."""

    def __init__(self, library, folder, interface):
        self.interface = interface
        self.lib = ctypes.CDLL(library)
        for name in ("rlxpy_tensor", "rlxpy_status_text"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.lib.rlxpy_ctx_bytes.restype = ctypes.c_size_t
        with open(os.path.join(folder, NAME + "_rlx.h"), encoding="utf-8") as f:
            header = f.read()
        self.dtype_names = enum_names(header, "rlx_dtype", "RLX_")
        self.status_names = enum_names(header, "rlx_status", "RLX_")
        sizes = (ctypes.c_uint64 * 7)()
        self.lib.rlxpy_sizes(sizes)
        self.inputs, self.outputs, self.params, self.states = (
            [self.read_tensor(kind, i) for i in range(sizes[3 + kind])] for kind in range(4))
        self.arena, self.state = aligned(sizes[0]), aligned(sizes[1])
        self.weights = self.read_weights(folder, sizes[2])
        self.ctx = aligned(self.lib.rlxpy_ctx_bytes())
        block = [arg for b in (self.arena, self.state, self.weights)
                 for arg in (ctypes.c_void_p(b.ctypes.data if b.size else None), ctypes.c_size_t(b.size))]
        self.check(self.lib.rlxpy_init(ctypes.c_void_p(self.ctx.ctypes.data), *block))

    def __del__(self):
        if hasattr(self, "lib"):
            _ctypes.dlclose(self.lib._handle)

    def read_tensor(self, kind, i):
        fields = (ctypes.c_int64 * (4 + MAX_RANK))()
        name = self.lib.rlxpy_tensor(kind, ctypes.c_uint32(i), fields)
        return Tensor(name.decode(), list(fields), self.dtype_names)

    @staticmethod
    def read_weights(folder, n):
        path = os.path.join(folder, NAME + ".weights")
        return np.memmap(path, np.uint8, "r", shape=(n,)) if n and os.path.exists(path) else aligned(0)

    def check(self, status):
        if status != 0:
            text = self.lib.rlxpy_status_text(status).decode()
            raise RunError("the generated code refused to run: " + text, self.status_names[status])

    def set_param(self, name, value):
        value = np.ascontiguousarray(value)
        for p in self.params:
            if p.name == name:
                if value.dtype != p.dtype or value.nbytes != p.bytes:
                    raise RunError(f"parameter {p}: got {value.dtype}{list(value.shape)}", "ERR_SIZE")
                self.check(self.lib.rlxpy_set_param(ctypes.c_void_p(self.ctx.ctypes.data), name.encode(),
                                                    ctypes.c_void_p(value.ctypes.data),
                                                    ctypes.c_size_t(value.nbytes), p.code))
                return
        raise RunError(f"no parameter {name!r}", "ERR_NAME")

    def reset(self):
        """Back to the initial states."""
        self.check(self.lib.rlxpy_reset(ctypes.c_void_p(self.ctx.ctypes.data)))

    def arrange(self, named):
        """{tensor: array} for the inputs; None when the values have other shapes than they."""
        tensors, arrays = {t.name: t for t in self.inputs}, {}
        for io in self.interface["inputs"]:
            parts = values.split(io, named[io["name"]])
            if parts is None or not all(values.fits(io, tensors[name], a) for name, a in parts.items()):
                return None
            arrays.update((name, values.convert(io, tensors[name], a)) for name, a in parts.items())
        return arrays

    def result(self, slot):
        """An output after a run, in the shape that it has then."""
        t, shape = self.outputs[slot], (ctypes.c_int64 * MAX_RANK)()
        self.check(self.lib.rlxpy_output_shape(ctypes.c_void_p(self.ctx.ctypes.data), ctypes.c_uint32(slot),
                                               shape))
        return from_bytes(self.arena[t.offset:t.offset + t.bytes], t.dtype, tuple(shape[:len(t.shape)]))

    def run(self, named):
        """Runs on {input: value}; returns the outputs, or None when the values do not fit this program."""
        arrays = self.arrange(named)
        if arrays is None:
            return None
        for t in self.inputs:
            self.arena[t.offset:t.offset + t.bytes] = to_bytes(arrays[t.name])
        self.check(self.lib.rlxpy_run(ctypes.c_void_p(self.ctx.ctypes.data)))
        results = {t.name: self.result(slot) for slot, t in enumerate(self.outputs)}
        return [values.join(io, results) for io in self.interface["outputs"]]
