# SPDX-License-Identifier: Apache-2.0
"""compile() and CompiledModel: a model as a function on NumPy arrays.

Generated code has fixed sizes. A model whose sizes are not all given is compiled when it is first called,
for the shapes of that call; later calls with other shapes make further variants, and a few of them are
kept. Where the values of an operand decide about shapes (a Reshape or TopK whose operand is an input), the
variant is compiled for the values given and checks at run time that they are the same; other values make a
variant of their own.
"""
import contextlib
import json
import mmap
import os
import re
import shutil
import tempfile
import weakref

import numpy as np

from rlxc import native, tool, values, wire
from rlxc.errors import CompileError, RlxcError, RunError

MAX_VARIANTS = 16
MAX_VALUES = 64             # inputs with more elements never shape a result
# As `rlxc check` says it.
UNSUPPORTED = re.compile(r"error\[E0206\]: .*operator '.*' \(domain .*\) is not supported")
STRING_BYTES = 64           # `rlxc compile --string-bytes`
# Models with more weights and arena, or multiply-adds, are worth an optimising compiler.
QUICK_BYTES, QUICK_MACS = 4 << 20, 10_000_000


def compile(model, *, cpu=None, dims=None, values=None, cc="auto", options=(), time_limit=None,
            allow_custom=False):
    """Compiles a model and returns it as a function on NumPy arrays.

    model: path of a file (.onnx, .json, .rlx), the bytes of an ONNX file, or an onnx.ModelProto.
    cpu: as `rlxc compile --cpu`; default: native where cc is "fast", else generic.
    dims: sizes of named dimensions, as {"batch": 1}; others are taken from the arrays of a call.
    values: values of inputs that shape the result, as {"axes": [0, 1]}; others are taken from a call.
    cc: "quick" (tcc, or cc -O0), "fast" (cc with the options that the generated file asks for), "auto"
        (quick for small models, fast for others), or a command such as "clang -O2".
    options: further options for `rlxc compile`.
    time_limit: seconds for the compiler and again for the C compiler.
    allow_custom: run the text of custom ops that the model brings along, which can do all that you can.
    """
    return CompiledModel(model, cpu, dims or {}, values or {}, cc, list(options), time_limit, allow_custom)


def numbers(array):
    """An array as the text of --value; None where it has numbers that cannot be written so."""
    array = np.asarray(array)
    if array.dtype.kind in "iub":
        return ",".join(str(int(x)) for x in array.reshape(-1))
    try:
        flat = [float(x) for x in array.reshape(-1)]
    except (TypeError, ValueError):
        return None
    return ",".join(map(repr, flat)) if np.all(np.isfinite(flat)) else None


def is_large(report):
    """Is the model worth an optimising compiler?"""
    return report["arena_bytes"] + report["weight_bytes"] > QUICK_BYTES or report["macs"] > QUICK_MACS


class CompiledModel:
    """A model that can be called. Not for use from several threads at once."""

    def __init__(self, model, cpu, dims, given, cc, options, time_limit, allow_custom=False):
        self.allow_custom = allow_custom
        self.cpu, self.cc, self.options, self.time_limit = cpu, cc, options, time_limit
        self.dims, self.values = dims, {name: np.asarray(v) for name, v in given.items()}
        self._path = self._store(model)
        self._declared = self._read_declared()
        self._variants = []         # Programs, the last used first
        self._first_error = None    # why the model cannot be compiled before its first call
        if self._is_open():
            self._check_operators()
        else:
            try:
                self._add(self._make([]))
            except CompileError as e:
                if not self._declared:
                    raise
                self._first_error = e

    def _store(self, model):
        if isinstance(model, (str, os.PathLike)):
            path = os.path.abspath(model)
            if not os.path.exists(path):
                raise FileNotFoundError(path)
            return path
        data = model if isinstance(model, (bytes, bytearray, memoryview)) else model.SerializeToString()
        folder = tempfile.mkdtemp(prefix="rlxc-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = os.path.join(folder, "model.onnx")
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
        return any(v.kind != "tensor" or v.dims is None
                   or any(not isinstance(d, int) and d not in self.dims for d in v.dims)
                   for v in self._declared or ())

    def _check_operators(self):
        """What no sizes will help: raises CompileError."""
        try:
            tool.run(["check", self._path], self.time_limit)
        except CompileError as e:
            if UNSUPPORTED.search(str(e)):
                raise

    def __repr__(self):
        def size(dim):
            return "?" if dim is None else str(dim)

        def shape(v):
            return v.name if v.dims is None else f"{v.name}[{', '.join(map(size, v.dims))}]"

        declared = self._declared
        inputs = self.inputs if declared is None else [shape(v) for v in declared]
        n = len(self._variants)
        return (f"<rlxc.CompiledModel {os.path.basename(self._path)!r}, inputs "
                f"{', '.join(inputs) or 'none'}; compiled for {n} set{'' if n == 1 else 's'} of sizes>")

    # --- variants ---

    def _arguments(self, folder, cpu):
        arguments = ["compile", self._path, "--api=full", "-o", folder,
                     "--name", native.NAME, "--json", "--weights",
                     "file", "--cpu", cpu, *self.options]
        for name, size in self.dims.items():
            arguments += ["--dim", f"{name}={size}"]
        for name, value in self.values.items():
            arguments += ["--value", f"{name}={numbers(value)}"]
        return arguments

    def _make(self, arguments, cc=None):
        cc = cc or self.cc
        cpu = self.cpu or ("native" if cc == "fast" else "generic")
        with tempfile.TemporaryDirectory(prefix="rlxc-") as folder:
            report = json.loads(tool.run([*self._arguments(folder, cpu), *arguments], self.time_limit))
            if cc == "auto":
                if is_large(report):
                    return self._make(arguments, "fast")
                cc = "quick"
            if not self.allow_custom:
                native.refuse_custom(folder)
            library = native.build(folder, cc, report["cc_flags"].split(), self.time_limit)
            return native.Program(library, folder, report["interface"])

    def _add(self, program):
        self._variants.insert(0, program)
        del self._variants[MAX_VARIANTS:]
        return program

    @staticmethod
    def _size_of(v, value, seen):
        """Options that give the sizes of one input where the model leaves them open."""
        arguments, is_list = [], isinstance(value, list)
        if v.kind == "optional" or is_list:
            parts = len(value) if is_list else int(value is not None)
            arguments = ["--dim", f"{v.name}={parts}"]
        for i, part in enumerate(value if is_list else [] if value is None else [value]):
            # Elements of a sequence have sizes of their own, whatever they are called.
            if is_list or v.dims is None or len(v.dims) != part.ndim or None in v.dims:
                name = f"{v.name}_{i}" if is_list else v.name
                arguments += ["--shape", f"{name}={','.join(map(str, part.shape))}"]
                continue
            for d, size in zip(v.dims, part.shape, strict=True):
                if isinstance(d, str) and d not in seen:
                    seen.add(d)
                    arguments += ["--dim", f"{d}={size}"]
        return arguments

    def _sizes(self, named):
        seen = set(self.dims)
        arguments = [word for v in self._declared or () if v.name in named
                     for word in self._size_of(v, named[v.name], seen)]
        room = max(map(values.longest, named.values()), default=0)
        if room > STRING_BYTES:
            arguments += ["--string-bytes", str(-(-room // STRING_BYTES) * STRING_BYTES)]
        return arguments

    def _given(self, named):
        """Options that give the values of a call's small inputs."""
        arguments = []
        for name, a in named.items():
            if not isinstance(a, np.ndarray) or values.is_text(a):
                continue
            if a.size > MAX_VALUES or name in self.values:
                continue
            text = numbers(a)
            arguments += ["--value", f"{name}={text}"] if text is not None else []
        return arguments

    def _variant(self, named, needs_values):
        """A new variant for a call: by shapes alone if that is enough."""
        sizes, without = self._sizes(named), self._first_error
        if not needs_values and (sizes or without is None):
            try:
                return self._add(self._make(sizes))
            except CompileError as e:
                without = e
        given = self._given(named)
        if without is not None and not given:
            raise without
        try:
            return self._add(self._make(sizes + given))
        except CompileError as e:
            raise e from without

    # --- calling ---

    @property
    def inputs(self):
        """Names of the inputs."""
        if self._declared is not None:
            return [v.name for v in self._declared]
        return [io["name"] for io in self._variants[0].interface["inputs"]]

    def _name(self, args, kwargs):
        names = self.inputs
        if len(args) > len(names):
            raise TypeError(f"{len(args)} arrays for {len(names)} inputs")
        named = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names or name in named:
                raise TypeError(f"{'input given twice' if name in named else 'no input'}: {name!r}")
            named[name] = value
        missing = [name for name in names if name not in named]
        if missing:
            raise RunError(f"no value for input {missing[0]!r}", "ERR_INPUT")
        return {name: values.as_value(value) for name, value in named.items()}

    def _check_shapes(self, named):
        """What the model declares and the arrays contradict."""
        for v in self._declared or ():
            a = named[v.name]
            if v.kind != "tensor" or v.dims is None:
                continue
            if not isinstance(a, np.ndarray):
                raise RunError(f"input {v.name!r}: expected an array", "ERR_SIZE")
            if len(v.dims) != a.ndim or any(isinstance(d, int) and d != n
                                            for d, n in zip(v.dims, a.shape, strict=True)):
                raise RunError(f"input {v.name!r}: declared as {list(v.dims)}, got {list(a.shape)}",
                               "ERR_SIZE")

    def __call__(self, *args, **kwargs):
        """Runs on arrays, by position or by name; returns a list of arrays.

        A sequence is a list of arrays, an optional without a value None, strings are arrays of str, and what
        ZipMap makes is a list of dicts.
        """
        named = self._name(args, kwargs)
        had_wrong_values = False
        for program in list(self._variants):
            try:
                outputs = program.run(named)
            except RunError as e:
                if e.status != "ERR_VALUE":
                    raise
                had_wrong_values = True
                continue
            if outputs is not None:
                self._variants.remove(program)
                self._variants.insert(0, program)
                return outputs
        self._check_shapes(named)
        outputs = self._variant(named, had_wrong_values).run(named)
        if outputs is None:
            raise RlxcError("the arrays do not fit the program that was made for them")
        return outputs

    def set_param(self, name, value):
        """Sets a parameter of a model that has some."""
        for program in self._variants:
            program.set_param(name, value)

    def reset(self):
        """Back to the initial states."""
        for program in self._variants:
            program.reset()
