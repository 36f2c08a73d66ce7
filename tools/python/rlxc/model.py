# SPDX-License-Identifier: Apache-2.0
"""compile() and CompiledModel: a model as a function on NumPy arrays.

Generated code has fixed sizes. A model whose sizes are not all given is compiled when it is first called,
for the shapes of that call; later calls with other shapes make further variants, and a few of them are
kept. Where the values of an operand decide about shapes (a Reshape or TopK whose operand is an input), the
variant is compiled for the values given and checks at run time that they are the same; other values make a
variant of their own.
"""
import contextlib
import mmap
import os
import re
import tempfile

import numpy as np

from rlxc import native, tool, wire
from rlxc.errors import CompileError, RlxcError, RunError

MAX_VARIANTS = 16
MAX_VALUES = 64             # inputs with more elements never shape a result
QUICK_BYTES = 1 << 20       # models with more weights and arena than that are worth an optimising compiler


def compile(model, *, cpu=None, dims=None, values=None, cc="auto", options=(), time_limit=None):
    """Compiles a model and returns it as a function on NumPy arrays.

    model: path of a file (.onnx, .json, .rlx), the bytes of an ONNX file, or an onnx.ModelProto.
    cpu: as `rlxc compile --cpu`; default: native where cc is "fast", else generic.
    dims: sizes of named dimensions, as {"batch": 1}; others are taken from the arrays of a call.
    values: values of inputs that shape the result, as {"axes": [0, 1]}; others are taken from a call.
    cc: "quick" (tcc, or cc -O0), "fast" (cc with the options that the generated file asks for), "auto"
        (quick for small models, fast for others), or a command such as "clang -O2".
    options: further options for `rlxc compile`.
    time_limit: seconds for the compiler and again for the C compiler.
    """
    return CompiledModel(model, cpu, dims or {}, values or {}, cc, list(options), time_limit)


def number(x):
    return str(int(x)) if np.asarray(x).dtype.kind in "iub" else repr(float(x))


def join(values):
    return ",".join(number(x) for x in np.asarray(values).reshape(-1))


def is_large(report):
    """Of the text that `rlxc compile` prints: is the model worth an optimising compiler?"""
    return sum(int(n) for n in re.findall(r"\b(?:arena|weights) (\d+)", report)) > QUICK_BYTES


class CompiledModel:
    """A model that can be called. Not for use from several threads at once."""

    def __init__(self, model, cpu, dims, values, cc, options, time_limit):
        self.cpu, self.cc, self.options, self.time_limit = cpu, cc, options, time_limit
        self.dims, self.values = dims, {name: np.asarray(v) for name, v in values.items()}
        self._folder = None
        self._path = self._store(model)
        self._declared = self._read_declared()
        self._variants = []         # (key of shapes, Program), the last used first
        if not self._is_open():
            try:
                self._add((), self._make([]))
            except CompileError:
                if not self._could_need_values():
                    raise

    def _store(self, model):
        if isinstance(model, (str, os.PathLike)):
            path = os.path.abspath(model)
            if not os.path.exists(path):
                raise FileNotFoundError(path)
            return path
        data = model if isinstance(model, (bytes, bytearray, memoryview)) else model.SerializeToString()
        self._folder = tempfile.TemporaryDirectory(prefix="rlxc-")
        path = os.path.join(self._folder.name, "model.onnx")
        with open(path, "wb") as f:
            f.write(data)
        return path

    def _read_declared(self):
        """The inputs as the ONNX file declares them; None for other formats."""
        if not self._path.endswith(".onnx") or os.path.getsize(self._path) == 0:
            return None
        with open(self._path, "rb") as f:
            with contextlib.closing(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)) as data:
                return wire.read_inputs(data)

    def _is_open(self):
        """Is there a size that only a call can give?"""
        return any(v.dims is None or any(not isinstance(d, int) and d not in self.dims for d in v.dims)
                   for v in self._declared or () if v.kind == "tensor")

    def _could_need_values(self):
        return bool(self._declared)

    # --- variants ---

    def _arguments(self, folder, cpu):
        arguments = ["compile", self._path, "-o", folder, "--name", native.NAME, "--weights", "file",
                     "--cpu", cpu, *self.options]
        for name, size in self.dims.items():
            arguments += ["--dim", f"{name}={size}"]
        for name, value in self.values.items():
            arguments += ["--value", f"{name}={join(value)}"]
        return arguments

    def _make(self, arguments, cc=None):
        cc = cc or self.cc
        cpu = self.cpu or ("native" if cc == "fast" else "generic")
        with tempfile.TemporaryDirectory(prefix="rlxc-") as folder:
            report = tool.run([*self._arguments(folder, cpu), *arguments], self.time_limit)
            if cc == "auto":
                if is_large(report):
                    return self._make(arguments, "fast")
                cc = "quick"
            library = native.build(folder, cc, self.time_limit)
            return native.Program(library, folder)

    def _add(self, key, program):
        self._variants.insert(0, (key, program))
        del self._variants[MAX_VARIANTS:]
        return program

    def _sizes(self, named):
        """Options that give the sizes of a call's arrays where the model leaves them open."""
        arguments, seen = [], dict(self.dims)
        for v in self._declared or ():
            array = named.get(v.name)
            if v.kind != "tensor" or array is None:
                continue
            if v.dims is None or any(d is None for d in v.dims) or len(v.dims) != array.ndim:
                arguments += ["--shape", f"{v.name}={','.join(map(str, array.shape))}"]
                continue
            for d, size in zip(v.dims, array.shape, strict=True):
                if isinstance(d, str) and d not in seen:
                    seen[d] = size
                    arguments += ["--dim", f"{d}={size}"]
        return arguments

    def _given(self, named):
        """Options that give the values of a call's small inputs."""
        return [word for name, a in named.items() if a.size <= MAX_VALUES and a.dtype.kind in "iubf"
                and a.size > 0 and name not in self.values for word in ("--value", f"{name}={join(a)}")]

    def _variant(self, key, named):
        """A new variant for a call: by shapes alone if that is enough."""
        sizes, without = self._sizes(named), None
        if all(k != key for k, _ in self._variants):
            try:
                return self._add(key, self._make(sizes))
            except CompileError as e:
                without = e
        try:
            return self._add(key, self._make(sizes + self._given(named)))
        except CompileError as e:
            raise without or e from None

    # --- calling ---

    @property
    def inputs(self):
        """Names of the inputs."""
        if self._declared is not None:
            return [v.name for v in self._declared]
        return [t.name for t in self._variants[0][1].inputs]

    def _name(self, args, kwargs):
        names = self.inputs
        if len(args) > len(names):
            raise TypeError(f"{len(args)} arrays for {len(names)} inputs")
        named = {name: value for name, value in zip(names, args, strict=False)}
        for name, value in kwargs.items():
            if name not in names or name in named:
                raise TypeError(f"{'input given twice' if name in named else 'no input'}: {name!r}")
            named[name] = value
        for name, value in named.items():
            if value is None or isinstance(value, (list, tuple)):
                raise RlxcError(f"input {name!r}: sequences and optionals are not supported yet")
        return {name: np.asarray(value) for name, value in named.items()}

    @staticmethod
    def _fits(program, named):
        return all(t.name in named and named[t.name].shape == t.shape for t in program.inputs)

    @staticmethod
    def _run(program, named):
        values = []
        for t in program.inputs:
            if t.name not in named:
                raise RunError(f"no value for input {t}", "ERR_NAME")
            value = named[t.name]
            if value.dtype != t.dtype or value.shape != t.shape:
                raise RunError(f"input {t}: got {value.dtype}{list(value.shape)}", "ERR_SIZE")
            values.append(value)
        return program.run(values)

    def __call__(self, *args, **kwargs):
        """Runs on arrays, by position or by name; returns a list of arrays."""
        named = self._name(args, kwargs)
        key = tuple((name, a.shape) for name, a in sorted(named.items()))
        for entry in list(self._variants):
            if not self._fits(entry[1], named):
                continue
            try:
                outputs = self._run(entry[1], named)
            except RunError as e:
                if e.status != "ERR_VALUE":
                    raise
                continue
            self._variants.remove(entry)
            self._variants.insert(0, entry)
            return outputs
        return self._run(self._variant(key, named), named)
