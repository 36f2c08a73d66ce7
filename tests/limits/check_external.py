#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that a model names: each is in memory once, whatever its tensors call it, and links may not lead out
of the model's folder, except in the folders of downloads that keep files by content.
`check_external.py RLXC`.
"""

import os
import sys
import tempfile

import check_memory as onnx

TENSORS, BYTES, LIMIT = 8000, 60000, 150 << 20
count = failed = 0


def tell(ok, what, text=""):
    global count, failed
    count += 1
    failed += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {what}{'' if ok else ': ' + text}")


def tensor(name, place, size, offset=0):
    """Of u8, or of f32 where it is to lie at an odd place."""
    entries = [("location", place), ("offset", str(offset)), ("length", str(size))]
    external = b"".join(onnx.block(13, onnx.block(1, k) + onnx.block(2, v)) for k, v in entries)
    elements, dtype = (size // 4, 1) if offset else (size, 2)
    head = onnx.number(1, elements) + onnx.number(2, dtype) + onnx.block(8, name)
    return head + external + onnx.number(14, 1)


def write(path, tensors):
    graph = onnx.block(1, onnx.block(1, "w0") + onnx.block(2, "y") + onnx.block(4, "Identity"))
    graph += onnx.block(2, "g") + b"".join(onnx.block(5, t) for t in tensors)
    graph += onnx.block(12, onnx.block(1, "y"))
    with open(path, "wb") as f:
        f.write(onnx.number(1, 8) + onnx.block(7, graph) + onnx.block(8, onnx.number(2, 17)))


def run(rlxc, path):
    """The status, what it printed, and the most memory it had."""
    log = path + ".log"
    with open(log, "wb") as out:
        child = os.posix_spawn(rlxc, [rlxc, "check", path], os.environ,
                               file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), fd) for fd in (1, 2)])
    _, status, usage = os.wait4(child, 0)
    with open(log, encoding="utf-8") as f:
        return os.waitstatus_to_exitcode(status), f.read(), usage.ru_maxrss * 1024


def check_memory(rlxc, folder):
    with open(folder + "/w.bin", "wb") as f:
        f.write(b"a" * BYTES)
    names = ("w.bin", "./w.bin", ".//w.bin")
    cases = {"whole": [(i, 4, 0) for i in range(TENSORS)],
             "odd": [(i, BYTES - 4, 1) for i in range(TENSORS)]}
    for what, rows in cases.items():
        path = f"{folder}/{what}.onnx"
        write(path, [tensor(f"w{i}", names[i % 3], size, offset) for i, size, offset in rows])
        status, text, memory = run(rlxc, path)
        found = f"{status} {memory >> 20} MiB {text}"
        tell(status == 0 and memory < LIMIT, f"a file by three names, {what}", found)


def check_links(rlxc, folder):
    inner, cache = folder + "/inner", folder + "/cache/models--a--b"
    for path in (inner + "/part", cache + "/blobs", cache + "/snapshots/abc/onnx", cache + "/other"):
        os.makedirs(path)
    for path in (folder + "/secret", inner + "/own", cache + "/blobs/1234", cache + "/other/own"):
        with open(path, "wb") as f:
            f.write(b"abcd")
    links = {inner + "/out": "../secret", inner + "/folder": "..", inner + "/in": "own",
             inner + "/part/up": "../own", inner + "/round": "out",
             cache + "/snapshots/abc/onnx/w": "../../../blobs/1234",
             cache + "/snapshots/abc/w": "../../blobs/1234",
             cache + "/snapshots/abc/other": "../../other/own", folder + "/linked": "inner"}
    for path, to in links.items():
        os.symlink(to, path)
    snapshot = cache + "/snapshots/abc"
    cases = [(inner, "own", True), (inner, "in", True), (inner, "part/up", True),
             (folder + "/linked", "in", True), (inner, "out", False), (inner, "round", False),
             (inner, "folder/secret", False),
             (inner, "part/../own", False), (snapshot, "w", True), (snapshot + "/onnx", "w", True),
             (snapshot, "other", False), (folder, "inner/own", True), (folder, "inner/out", True)]
    for i, (where, name, is_fine) in enumerate(cases):
        path = f"{where}/m{i}.onnx"
        write(path, [tensor("w0", name, 4)])
        status, text, _ = run(rlxc, path)
        is_right = status == 0 if is_fine else status == 1 and "is not in the folder of the model" in text
        tell(is_right, f"{os.path.relpath(where, folder)}: {name}", f"{status} {text}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_memory(sys.argv[1], folder)
        check_links(sys.argv[1], folder)
    print(f"1..{count}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
