# SPDX-License-Identifier: Apache-2.0
"""Our side of vs_peers: compiles a model with rlxc and the C compiler and loads the result."""

import ctypes
import os
import pathlib
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
TIME_LIMIT = 900


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * 8),
        ("offset", ctypes.c_size_t),
        ("bytes", ctypes.c_size_t),
    ]


class Kernel(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("nodes", ctypes.c_char_p),
        ("macs", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("flops", ctypes.c_uint64),
        ("level", ctypes.c_uint32),
        ("parts", ctypes.c_uint32),
        ("source", ctypes.c_void_p),
    ]


class Model(ctypes.Structure):
    """rlx_model of runtime-lite, as far as it is read here."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("compiler", ctypes.c_char_p),
        ("arena_bytes", ctypes.c_size_t),
        ("state_bytes", ctypes.c_size_t),
        ("weight_bytes", ctypes.c_size_t),
        ("weights", ctypes.c_void_p),
        ("state_init", ctypes.c_void_p),
        ("flags_offset", ctypes.c_size_t),
        ("n_inputs", ctypes.c_uint32),
        ("n_outputs", ctypes.c_uint32),
        ("n_params", ctypes.c_uint32),
        ("n_states", ctypes.c_uint32),
        ("n_kernels", ctypes.c_uint32),
        ("inputs", ctypes.POINTER(Tensor)),
        ("outputs", ctypes.POINTER(Tensor)),
        ("params", ctypes.POINTER(Tensor)),
        ("states", ctypes.POINTER(Tensor)),
        ("param_has_init", ctypes.c_void_p),
        ("kernels", ctypes.POINTER(Kernel)),
    ]


def run(command, folder=None, cores=None):
    """Runs a compiler on all cores that the machine has for us; its messages are in the exception."""
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {(done.stderr or done.stdout).strip()[-600:]}")


def flags_of(c_file):
    """The flags that the first lines of a generated file name."""
    with open(c_file, encoding="utf-8") as f:
        line = next(line for line in f if line.startswith("// Compile with:"))
    return line.split("cc ", 1)[1].split(" -c ")[0].split()


def generate(rlxc, model, folder, threads, options, cores=None):
    """model.onnx to NAME.c in a folder; (flags, seconds)."""
    command = [rlxc, "compile", model, "-o", folder, "--name", "m", "--cpu", "native", *options]
    if threads > 1:
        command += ["--threads", str(threads)]
    start = time.monotonic()
    run(command, cores=cores)
    return flags_of(os.path.join(folder, "m.c")), time.monotonic() - start


def link(folder, flags, threads=1, cores=None):
    """The shared object of m.c and the driver."""
    out = os.path.join(folder, "m.so")
    defines = ["-DMODEL=m", '-DMODEL_H="m.h"', f"-DTHREADS={threads}", "-I."]
    sources = [str(HERE / "driver.c"), "m.c"]
    cc = os.environ.get("CC", "cc")
    run([cc, *flags, "-shared", "-fPIC", *defines, *sources, "-o", out, "-lm"], folder, cores)
    return out


def build(rlxc, model, folder, threads=1, options=(), cores=None):
    """A loaded Network."""
    flags, rlxc_s = generate(rlxc, model, folder, threads, options, cores)
    start = time.monotonic()
    net = Network(link(folder, flags, threads, cores))
    net.compile_s = {"rlxc": round(rlxc_s, 2), "cc": round(time.monotonic() - start, 2)}
    net.c_bytes = os.path.getsize(os.path.join(folder, "m.c"))
    return net


class Network:
    """A generated model in a shared object."""

    def __init__(self, path):
        lib = ctypes.CDLL(path)
        lib.vs_model.restype = ctypes.POINTER(Model)
        lib.vs_input.restype = lib.vs_output.restype = ctypes.c_void_p
        lib.vs_run.restype = ctypes.c_double
        status = lib.vs_init()
        if status:
            raise RuntimeError(f"rlx_init: status {status}")
        self.lib, self.model = lib, lib.vs_model().contents
        kernels = [self.model.kernels[i] for i in range(self.model.n_kernels)]
        self.macs = sum(k.macs for k in kernels)
        self.n_kernels = len(kernels)

    def set_inputs(self, inputs):
        """inputs: name -> array."""
        for i in range(self.model.n_inputs):
            t = self.model.inputs[i]
            x = inputs[t.name.decode()]
            if x.nbytes != t.bytes:
                raise RuntimeError(f"input '{t.name.decode()}' has {t.bytes} bytes, not {x.nbytes}")
            ctypes.memmove(self.lib.vs_input(i), x.ctypes.data, x.nbytes)

    def keep_intact(self):
        """From now on, inputs are put back before each run only if runs change them."""
        if self.lib.vs_keep_intact() < 0:
            raise RuntimeError("rlx_run failed")

    def time(self, n):
        """Seconds of one of n runs."""
        seconds = self.lib.vs_run(n)
        if seconds < 0:
            raise RuntimeError("rlx_run failed")
        return seconds

    def outputs(self, like):
        """After a run: arrays with the shapes and types of `like`, a list in the order of the graph."""
        import numpy as np

        found = []
        for i, y in enumerate(like):
            bytes_ = ctypes.string_at(self.lib.vs_output(i), y.nbytes)
            found.append(np.frombuffer(bytes_, y.dtype).reshape(y.shape))
        return found

    def results(self, like):
        """The same where rows lie apart, as their number or length is only known after a run."""
        import numpy as np

        found = []
        for i, y in enumerate(like):
            t = self.model.outputs[i]
            bytes_ = ctypes.string_at(self.lib.vs_output(i), t.bytes)
            whole = np.frombuffer(bytes_, y.dtype).reshape(list(t.shape)[: t.rank])
            found.append(whole[tuple(slice(0, n) for n in y.shape)])
        return found

    def io_bytes(self):
        """(inputs, outputs)"""
        m = self.model
        return (
            [m.inputs[i].bytes for i in range(m.n_inputs)],
            [m.outputs[i].bytes for i in range(m.n_outputs)],
        )
