# SPDX-License-Identifier: Apache-2.0
"""A graph compiled by rlxc for CUDA or Vulkan and loaded into this process, for benchmarks beside peers.

A benchmark wants nothing copied between host and device: matrices are params (set once), what a run is for
is a state that keeps its value (`kept`: what depends on params alone is computed once, and no run would have
anything to do), and results are states (`result`). Timing is by events of the device (harness.c,
harness_vulkan.c)."""

import ctypes
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import numpy

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
HARNESS = {"cuda": "harness.c", "vulkan": "harness_vulkan.c"}
FLUSH_BYTES = 256 << 20  # several times the largest cache


def params(**types):
    """{"a": ("bf16", [4, 8])} as the member of a graph description."""
    return {name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in types.items()}


def kept(**types):
    """The same as the member "states": values that are set once, and that no run may take as known."""
    return {name: tensor | {"next": name} for name, tensor in params(**types).items()}


def split(types, *varying):
    """{"a": (...), "b": (...)} as members of a graph description: those of `varying` as states, the others as
    params."""
    states = {name: of for name, of in types.items() if name in varying}
    others = {name: of for name, of in types.items() if name not in varying}
    return {"params": params(**others), "states": kept(**states)}


def result(graph, value, dtype, shape):
    """Keeps a value on the device: a state that a run leaves, instead of an output that a run copies."""
    graph.setdefault("states", {})["result"] = {"dtype": dtype, "shape": list(shape), "next": value}
    if "outputs" not in graph:
        graph["nodes"].append({"name": "done", "op": "add", "inputs": ["tick", 1]})
        graph["states"]["tick"] = {"dtype": "i32", "shape": [], "next": "done"}
        graph["outputs"] = ["done"]
    return graph


def compiled(graph, folder, name="m", rlxc=None, gpu="sm_90a", options=(), target="cuda", files=()):
    """Makes NAME.so in a folder; returns what `rlxc compile --json` says. files: what the graph names."""
    rlxc = rlxc or os.environ.get("RLXC") or ROOT / "build" / "rlxc"
    for path in files:
        shutil.copy(path, folder)
    (folder / f"{name}.json").write_text(json.dumps({"rlxc": 1, "name": name} | graph))
    command = [str(rlxc), "compile", f"{name}.json", "-o", ".", "--name", name]
    command += ["--target", target, "--api=full", "--json", *options, *(["--gpu", gpu] if gpu else [])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    command = ["cc", "-O0", "-w", "-shared", "-fPIC", "-Wl,-z,defs", "-include", f"{name}.c"]
    command += [str(HERE / HARNESS[target]), "-o", f"{name}.so", "-lm", "-ldl"]
    subprocess.run(command, check=True, cwd=folder)
    return json.loads(done.stdout)


class Ours:
    def __init__(self, *args, **options):
        self._compile(*args, **options)
        self.start()

    @classmethod
    def prepared(cls, *args, **options):
        """The compiled graph, which uses the device only from start() on."""
        self = cls.__new__(cls)
        self._compile(*args, **options)
        return self

    def _compile(self, graph, name="m", **options):
        """options: those of compiled()."""
        self.folder = tempfile.TemporaryDirectory()
        made = compiled(graph, pathlib.Path(self.folder.name), name, **options)
        self._load(f"{self.folder.name}/{name}.so", name, made)

    def _load(self, path, name, made):
        self.name, self.made, self.lib = name, made, ctypes.CDLL(path)

    @classmethod
    def loaded(cls, path, made, name="m"):
        """A library of compiled(), perhaps made elsewhere; it uses the device from start() on."""
        self = cls.__new__(cls)
        self.folder = None
        self._load(path, name, made)
        return self

    def start(self):
        self.lib.bench_ctx_bytes.restype = ctypes.c_size_t
        self.ctx = ctypes.create_string_buffer(self.lib.bench_ctx_bytes())
        self.blocks = [numpy.zeros(self.made[b] + 64, numpy.uint8) for b in ("arena_bytes", "state_bytes")]
        at = [b.ctypes.data + -b.ctypes.data % 64 for b in self.blocks]
        sizes = [ctypes.c_size_t(self.made[b]) for b in ("arena_bytes", "state_bytes")]
        init = getattr(self.lib, f"{self.name}_init")
        self._check(init(self.ctx, ctypes.c_void_p(at[0]), sizes[0], ctypes.c_void_p(at[1]), sizes[1]))

    def _check(self, status):
        if status != 0:
            raise RuntimeError(f"status {status}")

    # Bytes of a param or a state in its own type.
    def set_value(self, name, array):
        array = numpy.ascontiguousarray(array)
        self._check(
            self.lib.bench_set_value(
                self.ctx, name.encode(), ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
            )
        )

    def set_input(self, slot, array):
        """For the next run, which consumes it."""
        array = numpy.ascontiguousarray(array)
        self.lib.bench_input.restype = ctypes.c_void_p
        ctypes.memmove(self.lib.bench_input(self.ctx, slot), array.ctypes.data, array.nbytes)

    def read_output(self, slot, dtype, shape):
        out = numpy.empty(shape, dtype)
        self.lib.bench_output.restype = ctypes.c_void_p
        ctypes.memmove(out.ctypes.data, self.lib.bench_output(self.ctx, slot), out.nbytes)
        return out

    def read_state(self, name, dtype, shape):
        out = numpy.empty(shape, dtype)
        self._check(
            self.lib.bench_read_state(
                self.ctx, name.encode(), ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(out.nbytes)
            )
        )
        return out

    def run(self):
        """One run through the API."""
        self._check(self.lib.bench_run(self.ctx))

    def runs(self, n):
        self._check(self.lib.bench_runs(self.ctx, n))

    def threads(self, step):
        """Threads in a group of a launch."""
        return self.lib.bench_threads(self.ctx, step)

    def chain(self, times=1, threads=0):
        """From now on a run is its launches one behind the other: those of kernels with so many threads in a
        group, or all."""
        self._check(self.lib.bench_chain(self.ctx, threads, times))

    def times(self, n=20, runs=1, flush=0):
        """Microseconds a run, of n samples of `runs` runs each."""
        us = (ctypes.c_float * n)()
        self._check(self.lib.bench_times(self.ctx, n, runs, ctypes.c_size_t(flush), us))
        return list(us)

    def kernels(self, n=20):
        """[(name, microseconds)] of all launches of a run, each timed by itself."""
        count = self.lib.bench_kernel_count(self.ctx)
        us = (ctypes.c_float * count)()
        self._check(self.lib.bench_kernels(self.ctx, n, us))
        self.lib.bench_kernel_name.restype = ctypes.c_char_p
        return [(self.lib.bench_kernel_name(self.ctx, i).decode(), us[i]) for i in range(count)]

    def close(self):
        self.lib.bench_close(self.ctx)
        if self.folder is not None:
            self.folder.cleanup()


def median(times):
    return statistics.median(times)


def to_bf16(array):
    """f32 to the bits of bf16, to nearest even."""
    bits = numpy.ascontiguousarray(array, numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def from_bf16(bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)
