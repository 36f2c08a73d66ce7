# SPDX-License-Identifier: Apache-2.0
"""Runs a generated library in memory that nothing else may touch: arena and state between guard pages, the
arena filled with different bytes before every run, two contexts in turn. The outputs may depend on none of
this, and must be what odd_models.STATES says. A process of its own, because a wrong write ends it.
Usage: odd_guard.py LIBRARY MODEL"""
import ctypes as c
import random
import struct
import sys

import odd_models

PAGE, PROT_NONE, PROT_RW, PRIVATE_ANONYMOUS = 4096, 0, 3, 0x22
RUNS, F32, F16, BF16, F64 = 4, 0, 1, 2, 3
ELEMENT_BYTES = [4, 2, 2, 8, 8, 4, 2, 1, 8, 4, 2, 1, 1]

libc = c.CDLL(None)
libc.mmap.restype = c.c_void_p
libc.mmap.argtypes = [c.c_void_p, c.c_size_t, c.c_int, c.c_int, c.c_int, c.c_long]
libc.mprotect.argtypes = [c.c_void_p, c.c_size_t, c.c_int]


class Tensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_int), ("rank", c.c_int), ("shape", c.c_int64 * 8)]
    _fields_ += [("offset", c.c_size_t), ("bytes", c.c_size_t)]


class Model(c.Structure):
    _fields_ = [("name", c.c_char_p), ("compiler", c.c_char_p)]
    _fields_ += [(n, c.c_size_t) for n in ("arena_bytes", "state_bytes", "weight_bytes")]
    _fields_ += [("weights", c.c_void_p), ("state_init", c.c_void_p), ("flags_offset", c.c_size_t)]
    _fields_ += [(n, c.c_uint32) for n in ("n_inputs", "n_outputs", "n_params", "n_states", "n_kernels")]
    _fields_ += [(n, c.POINTER(Tensor)) for n in ("inputs", "outputs", "params", "states")]
    _fields_ += [("param_has_init", c.c_void_p), ("kernels", c.c_void_p)]
    _fields_ += [("dispatch", c.CFUNCTYPE(None, c.c_void_p))]


class Context(c.Structure):
    _fields_ = [("model", c.POINTER(Model))] + [(n, c.c_void_p) for n in ("arena", "state", "weights")]


class Block:
    """n bytes at a multiple of 64, directly before or behind a guard page, the rest of the pages filled."""

    def __init__(self, n, at_end, fill):
        self.n, self.fill = n, fill
        self.size = max(1, -(-n // PAGE)) * PAGE
        start = libc.mmap(None, self.size + 2 * PAGE, PROT_RW, PRIVATE_ANONYMOUS, -1, 0)
        libc.mprotect(start, PAGE, PROT_NONE)
        libc.mprotect(start + PAGE + self.size, PAGE, PROT_NONE)
        self.low = start + PAGE
        self.at = self.low + (self.size - (n + 63) // 64 * 64 if at_end else 0)
        self.refill()

    def refill(self):
        c.memset(self.low, self.fill, self.size)

    def check(self, what):
        before = c.string_at(self.low, self.at - self.low)
        behind = c.string_at(self.at + self.n, self.low + self.size - self.at - self.n)
        if (before + behind).strip(bytes([self.fill])):
            sys.exit(f"wrote outside the {what}")


class Instance:
    def __init__(self, model, at_end, fill):
        self.model = model
        self.arena = Block(model.arena_bytes, at_end, fill)
        self.state = Block(model.state_bytes, not at_end, 0xA5)
        if model.state_init:
            c.memmove(self.state.at, model.state_init, model.state_bytes)
        else:
            c.memset(self.state.at, 0, model.state_bytes)
        self.context = Context(c.pointer(model), self.arena.at, self.state.at, model.weights)

    def run(self, inputs):
        self.arena.refill()
        for i, data in enumerate(inputs):
            c.memmove(self.arena.at + self.model.inputs[i].offset, data, len(data))
        self.model.dispatch(c.byref(self.context))
        self.arena.check("arena")
        self.state.check("state block")
        outputs = [self.model.outputs[i] for i in range(self.model.n_outputs)]
        return [c.string_at(self.arena.at + t.offset, t.bytes) for t in outputs]


def random_bytes(tensor, rng):
    n = tensor.bytes // ELEMENT_BYTES[tensor.dtype]
    numbers = [rng.gauss(0, 1) for _ in range(n)]
    if tensor.dtype in (F32, F16, F64):
        return struct.pack(f"<{n}" + {F32: "f", F16: "e", F64: "d"}[tensor.dtype], *numbers)
    if tensor.dtype == BF16:
        return b"".join(struct.pack("<f", v)[2:] for v in numbers)
    return b"".join(int(v > 0).to_bytes(ELEMENT_BYTES[tensor.dtype], "little") for v in numbers)


def floats(data):
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def check_states(name, inputs_of_runs, outputs_of_runs):
    states = []
    for state in odd_models.MODELS[name]["states"].values():
        n = 1
        for size in state.get("shape", []):
            n *= size
        states.append(state.get("data") or [0.0] * n)
    for run, (inputs, outputs) in enumerate(zip(inputs_of_runs, outputs_of_runs)):
        wanted, states = odd_models.STATES[name]([floats(data) for data in inputs], states)
        for slot, (want, data) in enumerate(zip(wanted, outputs)):
            got = floats(data)
            if len(got) != len(want) or any(abs(a - b) > 1e-5 for a, b in zip(got, want)):
                sys.exit(f"run {run}, output {slot}: {got} instead of {want}")


def main(library, name):
    model = Model.in_dll(c.CDLL(library), name + "_model")
    rng = random.Random(name)
    tensors = [model.inputs[i] for i in range(model.n_inputs)]
    runs, others = ([[random_bytes(t, rng) for t in tensors] for _ in range(RUNS)] for _ in range(2))
    seen = []
    for at_end in (False, True):
        for fill in (0x00, 0xFF, 0x7F):
            one, other = Instance(model, at_end, fill), Instance(model, not at_end, fill ^ 0xFF)
            seen.append([(one.run(a), other.run(b)) for a, b in zip(runs, others)])
            if seen[-1] != seen[0]:
                sys.exit(f"the outputs depend on what was in the arena ({fill:#x}), or on another context")
    if name in odd_models.STATES:
        check_states(name, runs, [one for one, _ in seen[0]])
        check_states(name, others, [other for _, other in seen[0]])


main(*sys.argv[1:])
