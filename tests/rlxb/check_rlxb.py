#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The .rlxb format as docs/FORMAT.md describes it, by a reader and a writer of its own.

`check_rlxb.py RLXC`: what rlxc writes is read here byte by byte, what is written here rlxc reads; a file of
2 GB (sparse) opens in milliseconds; files that are wrong end in a message. Prints TAP.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

MAGIC = b"\x89RLXB\r\n\x1a"
MASK = (1 << 64) - 1
SOURCE = pathlib.Path(os.environ.get("RLXC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
MOST_MS = 150  # more than a small file takes; machines that test are busy


def mix(h, word):
    h = ((h ^ word) * 0x9E3779B97F4A7C15) & MASK
    return h ^ h >> 29


def checksum(data, seed=0):
    h = mix(seed, len(data))
    for i in range(0, len(data), 8):
        h = mix(h, int.from_bytes(data[i : i + 8], "little"))
    h = mix(h, h >> 32)
    return h ^ h >> 32


def u32(*values):
    return struct.pack(f"<{len(values)}I", *values)


def i64(*values):
    return struct.pack(f"<{len(values)}q", *values)


def file_of(graph_of, tensors, version=1):
    """The bytes of a file but for the tensors; graph_of(table): the graph section with that table of tensors.
    tensors: their sizes and checksums. Also where they begin, and the length of the whole."""

    def table(begin):
        at, rows, offsets = begin, [], []
        for size, total in tensors:
            offsets.append(at)
            rows.append(struct.pack("<QQQ", at, size, total))
            end = at + size
            at = (end + 63) // 64 * 64
        return u32(len(rows)) + b"".join(rows), offsets, end if tensors else begin

    size = len(graph_of(table(0)[0]))
    begin = (64 + size + 63) // 64 * 64
    rows, offsets, end = table(begin)
    graph = graph_of(rows)
    head = MAGIC + struct.pack("<IIQQQQ", version, 0, end if tensors else 64 + size, size, begin, 0)
    head += struct.pack("<QQ", checksum(graph, checksum(head)), 0)
    return head + graph, offsets, end


def gather_model(rows, total):
    """y = w[index], with w f32[rows, 4] in the file; the symbol n has the range 1 to 8."""
    words = "n 2*n model input index name i64 const f32 data w gather y axis"
    strings = words.split()
    at = {s: i for i, s in enumerate(strings)}
    text = b"".join(u32(len(s)) + s.encode() + b"\0" for s in strings)
    index = u32(at["input"], 0, at["i64"], 1) + i64(-(1 << 63)) + u32(1, at["name"], 4, at["index"])
    w = u32(at["const"], at["w"] + 1, at["f32"], 2) + i64(rows, 4) + u32(1, at["data"], 8, 1)
    y = u32(at["gather"], at["y"] + 1, 2, 2, 1, 1, at["axis"], 1) + i64(0)
    lists = u32(1, 1, 0, 0, 1, at["y"], 3, 0, 0)  # inputs, params, states, outputs, checks, extents

    def graph_of(table):
        symbols = u32(1, at["n"]) + i64(1, 8, 1, 2)
        dims = u32(1, at["2*n"])
        graph = u32(at["model"], 3) + index + w + y + lists
        return u32(len(strings)) + text + table + symbols + dims + graph + u32(0)

    return file_of(graph_of, [(rows * 16, total)])


class Reader:
    """Names, tensors and nodes of what rlxc wrote."""

    def __init__(self, data):
        self.data, self.at = data, 64
        assert data[:8] == MAGIC and struct.unpack("<II", data[8:16]) == (1, 0)
        length, size, begin = struct.unpack("<QQQ", data[16:40])
        assert length == len(data) and begin == (64 + size + 63) // 64 * 64
        (total,) = struct.unpack("<Q", data[48:56])
        assert total == checksum(data[64 : 64 + size], checksum(data[:48]))
        self.strings = [self.text() for _ in range(self.u32())]
        self.tensors = [struct.unpack("<QQQ", self.take(24)) for _ in range(self.u32())]
        for offset, size, total in self.tensors:
            assert offset % 64 == 0 and offset >= begin
            assert checksum(data[offset : offset + size]) == total

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def text(self):
        n = self.u32()
        assert self.data[self.at + n] == 0
        return self.take(n + 1)[:-1].decode()


def run(*args):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, check=False, timeout=120)


def check_read_here(rlxc, folder):
    """Tensors of a model as rlxc writes them, against its .safetensors file."""
    model = SOURCE / "models" / "decoder.json"
    assert run(rlxc, "convert", model, folder / "d.rlxb").returncode == 0
    reader = Reader((folder / "d.rlxb").read_bytes())
    assert "matmul" in reader.strings and reader.tensors
    raw = (SOURCE / "models" / "decoder.safetensors").read_bytes()
    n = int.from_bytes(raw[:8], "little")
    mine = {reader.data[o : o + size] for o, size, _ in reader.tensors}
    for name, t in json.loads(raw[8 : 8 + n]).items():
        begin, end = t.get("data_offsets", (0, 0))
        assert end - begin < 4096 or raw[8 + n + begin : 8 + n + end] in mine, name


def check_written_here(rlxc, folder):
    """A file that is put together here."""
    data = struct.pack("<20f", *range(20))
    head, offsets, _ = gather_model(5, checksum(data))
    (folder / "g.rlxb").write_bytes(head.ljust(offsets[0], b"\0") + data)
    assert run(rlxc, "check", folder / "g.rlxb").returncode == 0
    assert run(rlxc, "convert", folder / "g.rlxb", folder / "g.json").returncode == 0
    got = json.loads((folder / "g.json").read_text())
    assert got["name"] == "model" and got["inputs"] == {"index": {"dtype": "i64", "shape": ["2*n"]}}, got
    assert got["symbols"] == {"n": {"min": 1, "max": 8, "default": 2}}, got
    assert got["nodes"] == [{"name": "y", "op": "gather", "inputs": ["w", "index"], "axis": 0}], got
    assert (folder / "g.safetensors").read_bytes().endswith(data)


def time_opening(rlxc, path, rows):
    """Bytes of a file of so many rows of zeros that are not on the disk, and milliseconds of rlxc inspect."""
    head, _, end = gather_model(rows, 0)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(end)
    times = []
    for _ in range(5):
        begin = time.monotonic()
        out = run(rlxc, "inspect", path)
        times.append((time.monotonic() - begin) * 1000)
        assert out.returncode == 0, out.stderr
    return end, min(times)


def check_large_opens(rlxc, folder):
    """2 GB take no longer than a few rows."""
    _, least = time_opening(rlxc, folder / "small.rlxb", 1 << 4)
    end, most = time_opening(rlxc, folder / "large.rlxb", 1 << 27)
    print(f"# {end} bytes: `rlxc inspect` takes {most:.1f} ms, {least:.1f} for a small file")
    assert most < least + MOST_MS


def check_shards(rlxc, folder):
    """Weights in two .safetensors files, named by an index."""

    def write(name, tensor, values):
        data = struct.pack(f"<{len(values)}f", *values)
        head = {tensor: {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, len(data)]}}
        text = json.dumps(head).encode()
        (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)

    def check(weight_map):
        text = json.dumps({"metadata": {}, "weight_map": weight_map})
        (folder / "s.safetensors.index.json").write_text(text)
        return run(rlxc, "convert", folder / "s.json")

    write("s-1.safetensors", "a", [1, 2])
    write("s-2.safetensors", "b", [3, 4])
    index = {"file": "s.safetensors.index.json"}
    model = {"rlxc": 1, "inputs": {}, "weights": {"a": index, "c": index | {"tensor": "b"}}, "nodes": []}
    (folder / "s.json").write_text(json.dumps(model | {"outputs": ["a", "c"]}))
    good = check({"a": "s-1.safetensors", "b": "s-2.safetensors"})
    assert good.returncode == 0, good.stderr
    weights = json.loads(good.stdout)["weights"]
    assert weights["a"]["data"] == [1, 2] and weights["c"]["data"] == [3, 4], weights
    for weight_map, words in (
        ({"a": "s-1.safetensors"}, "names no file for the tensor 'b'"),
        ({"a": "s-1.safetensors", "b": "../s-2.safetensors"}, "no .safetensors file in its folder"),
        ({"a": "s-1.safetensors", "b": 2}, "the file of 'b' is not a string"),
        ([], "expected the member 'weight_map'"),
        ({"a": "s-1.safetensors", "b": "s-1.safetensors"}, "holds no tensor 'b'"),
    ):
        wrong = check(weight_map)
        assert wrong.returncode == 1 and "E0105" in wrong.stderr and words in wrong.stderr, wrong.stderr


def check_metadata(rlxc, folder):
    """What files with weights say about themselves, and the order of tensors, outlive convert and cut."""

    def write(name, notes, tensors):
        head, data = {"__metadata__": notes}, b""
        for tensor, n in tensors.items():
            head[tensor] = {"dtype": "F32", "shape": [n], "data_offsets": [len(data), len(data) + 4 * n]}
            data += struct.pack(f"<{n}f", *range(ord(tensor[0]), ord(tensor[0]) + n))
        text = json.dumps(head).encode()
        (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)

    def header(path):
        raw = path.read_bytes()
        return json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])

    write("n1.safetensors", {"format": "pt", "licence": "\u00e9"}, {"odd": 21, "even": 20, "late": 33})
    write("n2.safetensors", {"format": "tf", "more": "x"}, {"other": 20})
    weights = {t: {"file": "n1.safetensors"} for t in ("odd", "even", "late")}
    weights["other"] = {"file": "n2.safetensors"}
    nodes = [{"name": "y", "op": "add", "inputs": ["even", "other"]}]
    model = {"rlxc": 1, "inputs": {}, "weights": weights, "nodes": nodes, "outputs": ["odd", "y", "late"]}
    (folder / "n.json").write_text(json.dumps(model))
    assert run(rlxc, "convert", folder / "n.json", folder / "m.json").returncode == 0
    assert list(header(folder / "m.safetensors")) == ["__metadata__", "odd", "even", "late", "other"]
    notes = {"format": "pt", "licence": "\u00e9", "more": "x"}
    assert header(folder / "m.safetensors")["__metadata__"] == notes
    assert run(rlxc, "cut", folder / "m.json", "--to", "y", "-o", folder / "c.json").returncode == 0
    assert header(folder / "c.safetensors")["__metadata__"] == notes


def check_wrong_files(rlxc, folder):
    """Each ends in a message with its code, and with exit code 1."""
    data = struct.pack("<20f", *range(20))
    head, offsets, _ = gather_model(5, checksum(data))
    good = head.ljust(offsets[0], b"\0") + data
    newer, _, _ = file_of(lambda table: table, [], version=2)
    changed = good[:-1] + b"\1"
    cases = [
        (good[:-1], "E0110", "the file has"),
        (good[:100], "E0110", "the file has"),
        (good[:40], "E0110", "the header alone"),
        (good[:70] + b"\xff" + good[71:], "E0110", "the checksum of header and graph"),
        (newer, "E0110", "version 2"),
        (good[:2], "E0110", "89 52 4c 58 42 0d 0a 1a, with which an .rlxb file begins; found 89 52\n"),
        (b"X" + good[1:], "E0110", "found 58 52 4c 58 42 0d 0a 1a\n"),
        (good.replace(b"\r\n", b"\n"), "E0110", "found 89 52 4c 58 42 0a 1a 01: its line ends were changed"),
        (changed, "E0111", "the checksum of the 80 bytes"),
    ]
    for i, (content, code, words) in enumerate(cases):
        path = folder / f"wrong{i}.rlxb"
        path.write_bytes(content)
        out = run(rlxc, "check", path)
        assert out.returncode == 1 and code in out.stderr and words in out.stderr, (i, out.stderr)
        out = run(rlxc, "convert", path, folder / "none.json")
        assert out.returncode == 1 and not (folder / "none.json").exists()
    assert run(rlxc, "inspect", folder / f"wrong{len(cases) - 1}.rlxb").returncode == 0  # does not read it


def main():
    rlxc = pathlib.Path(sys.argv[1]).resolve()
    checks = [check_read_here, check_written_here, check_large_opens, check_shards, check_metadata]
    checks += [check_wrong_files]
    print(f"1..{len(checks)}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for i, check in enumerate(checks):
            try:
                check(rlxc, pathlib.Path(folder))
                print(f"ok {i + 1} - {check.__name__}")
            except AssertionError as e:
                failed = 1
                print(f"not ok {i + 1} - {check.__name__}\n# {e}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
