#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Variants of a model that are compiled when they are asked for, on hosts that have a C compiler: a bounded
cache whose key is the sizes. The oldest variant leaves when there is no room (first in, first out, however
often it was used).

  from rlx_jit import Jit
  with Jit("model.json", capacity=4) as jit:
      outputs = jit.variant(seq=12, batch=2).run([x_bytes, mask_bytes])

Inputs and outputs are bytes, dense, in the order of the model. A variant has params and states of its own;
weights files with the same content are in memory once. As a program it runs a list of keys on zeros:

  tools/rlx_jit.py MODEL --capacity 2 seq=4 seq=8 seq=4,batch=2 ...
"""

import argparse
import collections
import ctypes
import hashlib
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time

import _ctypes

SHIM = """// What a host that loads the variant needs of the inline functions of its header.
#include "variant.h"
#define EXPORT __attribute__((visibility("default")))
EXPORT size_t jit_ctx_bytes(void);
EXPORT int jit_init(rlx_ctx *ctx, void *arena, void *state, const void *weights, size_t weight_bytes);
EXPORT int jit_close(rlx_ctx *ctx);
EXPORT int jit_run(rlx_ctx *ctx, const void *const *inputs, rlx_slot *slots);
EXPORT size_t jit_input_bytes(const rlx_ctx *ctx, uint32_t slot);
EXPORT int jit_set_param(rlx_ctx *ctx, const char *name, const void *data, size_t bytes, int dtype);
EXPORT const char *jit_text(int status);
EXPORT uint32_t jit_count(int is_output);
size_t jit_ctx_bytes(void) { return sizeof(rlx_ctx); }
int jit_init(rlx_ctx *ctx, void *arena, void *state, const void *weights, size_t weight_bytes)
{
    rlx_status status = rlx_init(ctx, &variant_model, arena, VARIANT_ARENA_BYTES, state, VARIANT_STATE_BYTES,
                                 weights, weight_bytes);
#ifdef VARIANT_THREADS
    static rlx_pool pool;
    if (status == RLX_OK)
        status = variant_threads_start(ctx, &pool);
#endif
    return (int)status;
}
int jit_close(rlx_ctx *ctx)
{
#ifdef VARIANT_THREADS
    rlx_threads_stop(ctx);
#endif
    return (int)rlx_close(ctx);
}
int jit_run(rlx_ctx *ctx, const void *const *inputs, rlx_slot *slots)
{
    return (int)rlx_run_slots(ctx, inputs, slots);
}
size_t jit_input_bytes(const rlx_ctx *ctx, uint32_t slot) { return rlx_input_bytes(ctx, slot); }
int jit_set_param(rlx_ctx *ctx, const char *name, const void *data, size_t bytes, int dtype)
{
    return (int)rlx_set_param_typed(ctx, name, data, bytes, (rlx_dtype)dtype);
}
const char *jit_text(int status) { return rlx_status_text((rlx_status)status); }
uint32_t jit_count(int is_output) { return is_output ? variant_model.n_outputs : variant_model.n_inputs; }
"""


class JitError(RuntimeError):
    """The compiler, the C compiler or a run refused; nothing has changed."""


class _Slot(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_size_t), ("bytes", ctypes.c_size_t)]


def _command(words, folder=None):
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise JitError(f"{words[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _block(n):
    memory = ctypes.create_string_buffer(n + 64)
    return memory, ctypes.addressof(memory) + -ctypes.addressof(memory) % 64


class _Weights:
    """Weights files by content: mapped once, for as long as a variant has them."""

    def __init__(self):
        self.by_content = {}

    def take(self, path):
        if not os.path.exists(path):
            return None
        with open(path, "rb") as f:
            key = hashlib.sha256(f.read()).digest()
            if key not in self.by_content:
                data = mmap.mmap(
                    f.fileno(), 0, access=mmap.ACCESS_COPY
                )  # private: ctypes wants it writable
                self.by_content[key] = [data, ctypes.addressof(ctypes.c_char.from_buffer(data)), 0]
        self.by_content[key][2] += 1
        os.unlink(path)
        return key

    def give(self, key):
        if key is None:
            return
        self.by_content[key][2] -= 1
        if self.by_content[key][2] == 0:
            del self.by_content[key]


class Variant:
    """The model for one key. Valid until it leaves the cache (its runs are refused from then on)."""

    def __init__(self, jit, key, folder):
        words = [
            *jit.rlxc,
            "compile",
            "--api=full",
            jit.model,
            "-o",
            folder,
            "--name",
            "variant",
            "--weights",
            "file",
            "--json",
        ]
        for name, size in key:
            words += ["--dim", f"{name}={size}"]
        made = json.loads(_command(words + list(jit.options)))
        with open(f"{folder}/shim.c", "w", encoding="ascii") as f:
            f.write(SHIM)
        flags = [*jit.cc, "-O3", "-std=gnu99", "-fPIC", "-shared", "-w", *made["cc_flags"].split()]
        parts = sorted(name for name in os.listdir(folder) if name.endswith(".c"))  # --split
        _command([*flags, *parts, "-o", "variant.so", "-lm"], folder)
        self.key, self._weights, self._pool = key, None, jit.weights
        self._is_open = False
        self._code = ctypes.CDLL(f"{folder}/variant.so")
        try:
            self._weights = jit.weights.take(f"{folder}/variant.weights")
            self._init(made)
        except Exception:
            self._close()
            raise

    def _init(self, made):
        code = self._code
        code.jit_ctx_bytes.restype = code.jit_input_bytes.restype = ctypes.c_size_t
        code.jit_text.restype = ctypes.c_char_p
        self._ctx = ctypes.create_string_buffer(code.jit_ctx_bytes())
        self._arena, self._state = _block(made["arena_bytes"]), _block(made["state_bytes"])
        at, n = None, made["weight_bytes"]
        if self._weights is not None:
            at = self._pool.by_content[self._weights][1]
        pointers = [ctypes.c_void_p(p) for p in (self._arena[1], self._state[1], at)]
        self._check(code.jit_init(self._ctx, *pointers, ctypes.c_size_t(n if at is not None else 0)))
        self._is_open = True
        self.input_bytes = [code.jit_input_bytes(self._ctx, i) for i in range(code.jit_count(0))]

    def _check(self, status):
        if status != 0:
            raise JitError(self._code.jit_text(status).decode())

    def run(self, inputs):
        if self._code is None:
            raise JitError("the variant has left the cache")
        if [len(i) for i in inputs] != self.input_bytes:
            raise JitError(f"inputs have {[len(i) for i in inputs]} bytes, not {self.input_bytes}")
        n = self._code.jit_count(1)
        data = (ctypes.c_char_p * (len(inputs) + 1))(*(bytes(i) for i in inputs))
        slots = (_Slot * (n + 1))()
        self._check(self._code.jit_run(self._ctx, data, slots))
        return [ctypes.string_at(self._arena[1] + s.offset, s.bytes) for s in slots[:n]]

    def set_param(self, name, data, dtype=0):
        """dtype: a number of rlx_dtype; 0 is f32."""
        if self._code is None:
            raise JitError("the variant has left the cache")
        self._check(
            self._code.jit_set_param(self._ctx, name.encode(), data, ctypes.c_size_t(len(data)), dtype)
        )

    def _close(self):
        code, self._code = self._code, None
        if code is not None:
            if self._is_open:
                code.jit_close(self._ctx)  # threads, and memory of a device
            _ctypes.dlclose(code._handle)
            self._pool.give(self._weights)


class Jit:
    """rlxc, cc: words of a command. options: more options of `rlxc compile`, such as --cpu native."""

    def __init__(self, model, capacity, rlxc=("rlxc",), cc=("cc",), options=("--cpu", "native")):
        if capacity < 1:
            raise JitError("the capacity must be at least 1")
        self.model, self.capacity = os.path.abspath(model), capacity
        self.rlxc, self.cc, self.options = tuple(rlxc), tuple(cc), tuple(options)
        self.weights = _Weights()
        self.hits = self.misses = self.evictions = 0
        self._variants = collections.OrderedDict()

    def keys(self):
        """Of the variants that are there, the one that leaves next first."""
        return list(self._variants)

    def variant(self, **dims):
        key = tuple(sorted(dims.items()))
        if key in self._variants:
            self.hits += 1
            return self._variants[key]
        folder = tempfile.mkdtemp(prefix="rlx_jit-")
        try:
            made = Variant(self, key, folder)
        finally:
            shutil.rmtree(folder)  # what is loaded or mapped stays until it is closed
        self.misses += 1
        if len(self._variants) == self.capacity:
            self._variants.popitem(last=False)[1]._close()
            self.evictions += 1
        self._variants[key] = made
        return made

    def close(self):
        while self._variants:
            self._variants.popitem()[1]._close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("keys", nargs="+", metavar="NAME=SIZE,...")
    parser.add_argument("--capacity", type=int, default=4)
    parser.add_argument("--rlxc", default="rlxc")
    args = parser.parse_args()
    with Jit(args.model, args.capacity, rlxc=[args.rlxc]) as jit:
        for text in args.keys:
            dims = {name: int(size) for name, size in (pair.split("=") for pair in text.split(","))}
            misses, start = jit.misses, time.perf_counter()
            variant = jit.variant(**dims)
            ready = time.perf_counter()
            variant.run([bytes(n) for n in variant.input_bytes])
            ran = time.perf_counter()
            kind = "compiled" if jit.misses > misses else "cached"
            print(f"{text}: {kind} in {(ready - start) * 1e3:.1f} ms, ran in {(ran - ready) * 1e3:.3f} ms")
        print(f"{jit.hits} hits, {jit.misses} misses, {jit.evictions} evictions")


if __name__ == "__main__":
    try:
        main()
    except JitError as error:
        sys.exit(f"rlx_jit: {error}")
