#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# rlxc run, verify, bench, bisect and tune with parameters that are given or random; names, types and shapes
# that are wrong are said to be. Usage: check_params.py RLXC
import json
import struct
import tempfile

from common import DIGITS, call, call_json, write_npy

F32 = {"dtype": "f32", "shape": [3]}
MODEL = {
    "rlxc": 1,
    "symbols": {"b": {"max": 8}},
    "inputs": {"x": {"dtype": "f32", "shape": ["b", 2]}},
    "params": {
        "w": {"dtype": "f32", "shape": [2, 3]},
        "a=b": {**F32, "data": [1, 2, 3]},
        "at": {"dtype": "i64", "shape": [2]},
        "h": {"dtype": "f16", "shape": [3]},
    },
    "nodes": [
        {"name": "product", "op": "matmul", "inputs": ["x", "w"]},
        {"name": "moved", "op": "add", "inputs": ["product", "a=b"]},
        {"name": "wide", "op": "cast", "inputs": ["h"], "to": "f32"},
        {"name": "scaled", "op": "mul", "inputs": ["moved", "wide"]},
        {"name": "y", "op": "gather", "inputs": ["scaled", "at"], "axis": 1},
    ],
    "outputs": ["y"],
}


def write_other(path, descr, code, values):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({len(values)},), }}".ljust(117) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack(f"<{len(values)}{code}", *values))


def write_files(folder):
    with open(f"{folder}/model.json", "w") as f:
        json.dump(MODEL, f)
    write_npy(f"{folder}/x.npy", [2, 2], [1, 2, 3, 4])
    write_npy(f"{folder}/w.npy", [2, 3], [1, 0, 2, 0, 1, 3])
    write_npy(f"{folder}/b.npy", [3], [10, 20, 30])
    write_npy(f"{folder}/flat.npy", [6], [0] * 6)
    write_other(f"{folder}/at.npy", "<i8", "q", [2, 0])
    write_other(f"{folder}/h.npy", "<f2", "e", [1, 2, 0.5])


def given(folder, **files):
    names = {"b": "a=b"}
    return [word for k, v in files.items() for word in ("--param", f"{names.get(k, k)}={folder}/{v}.npy")]


def first(report):
    return report["outputs"][0]["first"]


def check_values(folder, target):
    """y = ((x . w + b) * h)[:, at]"""
    model, x = f"{folder}/model.json", ["--input", f"x={folder}/x.npy", "--target", target]
    env = {"XDG_CACHE_HOME": folder}
    needed = given(folder, w="w", at="at", h="h")
    report = call_json("run", model, *x, *needed, **env)
    assert first(report) == [5.5, 2, 10.5, 4], report  # b keeps its initial value
    report = call_json("run", model, *x, *needed, *given(folder, b="b"), **env)
    assert first(report) == [19, 11, 24, 13], report
    report = call_json("verify", model, *x, *needed, *given(folder, b="b"), **env)
    assert report["ok"] and report["outputs"][0]["max_magnitude"] == 24, report


def check_random(folder):
    model, env = f"{folder}/model.json", {"XDG_CACHE_HOME": folder}
    x = ["--input", f"x={folder}/x.npy"]
    some = given(folder, w="w", h="h")
    report = call_json("run", model, *x, *some, "--random", "3", **env)
    assert set(first(report)) <= {2, 8, 4, 12}, report  # only `at` is random, and 0 or 1
    one, same, other = (first(call_json("run", model, *x, "--random", n, **env)) for n in (1, 1, 2))
    assert one == same != other, (one, same, other)
    for args in [
        ["verify", model],
        ["verify", model, "--dim", "b=dynamic"],
        ["bench", model, "--dim", "b=2", "--runs", "2"],
        ["bisect", model, "--dim", "b=2"],
        ["tune", model, "--dim", "b=2", "-o", f"{folder}/model.tune"],
    ]:
        dim = [] if "--dim" in args else x
        for more in [], given(folder, w="w", b="b"):
            code, _, err = call(*args, *dim, *more, **env)
            assert code == 0, (args, more, err)


def check_wrong(folder):
    x = ["run", f"{folder}/model.json", "--input", f"x={folder}/x.npy"]
    for args, code, expected in [
        ([*x, *given(folder, w="w", at="at")], 1, "'h' (f16[3]) is missing: give --param h=FILE.npy"),
        ([*x, "--param", f"v={folder}/w.npy"], 1, "no such parameter\nrlxc: note: it has: w, "),
        ([*x, "--param", f"x={folder}/x.npy"], 1, "no such parameter"),
        ([*x, "--param", "w"], 2, "--param w: expected NAME=FILE.npy"),
        ([*x, "--param", "w=/nonexistent"], 1, "cannot read '/nonexistent'"),
        ([*x, "--param", f"w={folder}/model.json"], 1, "model.json"),
        ([*x, *given(folder, w="flat")], 1, "parameter 'w' is f32[2, 3], but"),
        ([*x, *given(folder, h="b")], 1, "parameter 'h' is f16[3], but"),
        ([*x, *given(folder, w="w"), *given(folder, w="w")], 2, "w.npy: given twice"),
        ([*x, "--random", "one"], 2, "expected a whole number"),
        (["run", DIGITS, "--random", "1", "--param", "w=w"], 1, "parameter\nrlxc: note: it has none"),
    ]:
        got, out, err = call(*args)
        assert got == code and out == "" and expected in err, (args, got, out, err)


UNREAD = {
    "rlxc": 1,
    "inputs": {"x": {"dtype": "f32", "shape": [2, 2]}, "mean": {"dtype": "f32", "shape": [2, 1]}},
    "nodes": [{"name": "y", "op": "neg", "inputs": ["x"]}],
    "outputs": ["y"],
}


def check_unread(folder):
    """Inputs that no node reads need no value; given ones are checked all the same."""
    with open(f"{folder}/unread.json", "w") as f:
        json.dump(UNREAD, f)
    model, x = f"{folder}/unread.json", ["--input", f"x={folder}/x.npy"]
    assert first(call_json("run", model, *x, XDG_CACHE_HOME=folder)) == [-1, -2, -3, -4]
    assert call_json("verify", model, *x, XDG_CACHE_HOME=folder)["ok"]
    for args, expected in [
        ([], "input 'x' (f32[2, 2]) is missing"),
        ([*x, "--input", f"mean={folder}/x.npy"], "input 'mean' is f32[2, 1], but"),
    ]:
        code, _, err = call("run", model, *args)
        assert code == 1 and expected in err and ("mean" in expected or "mean" not in err), (args, err)


with tempfile.TemporaryDirectory() as name:
    write_files(name)
    check_unread(name)
    for where in "c", "metal":
        check_values(name, where)
    check_random(name)
    check_wrong(name)
