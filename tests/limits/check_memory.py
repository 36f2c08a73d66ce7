#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiling a model with large weights takes less than 1.3 times their size in memory.

Makes a model of matrix products with external data (a sparse file: it takes no room on disk) and one with
the weights inside, written without any library. `check_memory.py RLXC`.
"""

import os
import sys
import tempfile

SIZE, LAYERS, LIMIT = 2048, 12, 1.3
EACH = SIZE * SIZE * 4


# --- protobuf's wire format, as far as it is needed ---


def varint(v):
    out = b""
    while v >= 128:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def number(field, v):
    return varint(field << 3) + varint(v)


def block(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def value_info(name, dims):
    shape = b"".join(block(1, number(1, d)) for d in dims)
    return block(1, name) + block(2, block(1, number(1, 1) + block(2, shape)))


def tensor(name, content):
    return number(1, SIZE) + number(1, SIZE) + number(2, 1) + block(8, name) + content


def first_bytes(i):
    """Weights of a layer are these and then zeros: equal weights would be held once."""
    return bytes([0, 0, 128, 64 + i])


def external(i):
    entries = [("location", "weights.bin"), ("offset", str(i * EACH)), ("length", str(EACH))]
    return b"".join(block(13, block(1, k) + block(2, v)) for k, v in entries) + number(14, 1)


def inside(i):
    return block(9, first_bytes(i).ljust(EACH, b"\0"))


def model(content):
    nodes, initializers, value = b"", b"", "x"
    for i in range(LAYERS):
        nodes += block(1, block(1, value) + block(1, f"w{i}") + block(2, f"y{i}") + block(4, "MatMul"))
        initializers += block(5, tensor(f"w{i}", content(i)))
        value = f"y{i}"
    graph = nodes + block(2, "big") + initializers
    graph += block(11, value_info("x", [1, SIZE])) + block(12, value_info(value, [1, SIZE]))
    return number(1, 8) + block(7, graph) + block(8, number(2, 17))


# --- measuring ---


def write_model(path, content):
    """In a process of its own: what this process has in memory would count for its children."""
    child = os.fork()
    if child == 0:
        with open(path, "wb") as f:
            f.write(model(content))
        os._exit(0)
    os.waitpid(child, 0)


def compile_and_measure(rlxc, path, out):
    with open(path + ".log", "wb") as log:
        child = os.posix_spawn(
            rlxc,
            [rlxc, "compile", path, "-o", out],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, log.fileno(), fd) for fd in (1, 2)],
        )
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"{path}: status {status}\n{open(path + '.log').read()}")
    return usage.ru_maxrss * 1024


def main():
    failed = 0
    print("1..2")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "weights.bin"), "wb") as f:
            f.truncate(EACH * LAYERS)
            for i in range(LAYERS):
                f.seek(i * EACH)
                f.write(first_bytes(i))
        for i, content in enumerate((external, inside), 1):
            path = os.path.join(folder, f"{content.__name__}.onnx")
            write_model(path, content)
            ratio = compile_and_measure(sys.argv[1], path, os.path.join(folder, "out")) / (EACH * LAYERS)
            failed += ratio >= LIMIT
            print(
                f"{'not ok' if ratio >= LIMIT else 'ok'} {i} - weights {content.__name__} the file: "
                f"{ratio:.2f} times {EACH * LAYERS >> 20} MiB"
            )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
