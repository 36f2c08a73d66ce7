#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# rlxc bisect names the node whose kernel a C compiler of ours breaks, also where that is only wrong when it
# is fused; it tells wrong code from wrong expectations. Usage: check_bisect.py RLXC
import json
import os
import shlex
import subprocess
import tempfile

from common import DIGITS, RLXC, broken_compiler, call, call_json, write_npy

ARGS = ["bisect", DIGITS, "--cpu", "generic"]


def check_right(folder):
    report = call_json(*ARGS, XDG_CACHE_HOME=folder)
    assert report["ok"] and report["how"] == "nothing" and report["first"] is None, report
    assert report["nodes"] == 12 and report["compiled"] == 1, report
    code, text, _ = call(*ARGS, XDG_CACHE_HOME=folder)
    assert code == 0 and text == "every value that was compared is as it should be\n", text


def check_kept(folder):
    """A kernel that is wrong for itself: the second of two poolings."""
    env = broken_compiler(folder, "pool3 = max_pool", "float acc = -RLX_INF", "float acc = 3.0f")
    report = call_json(*ARGS, expected=1, **env)
    first = report["first"]
    assert report["how"] == "kept" and report["compiled"] == 2, report
    assert (first["name"], first["op"], first["number"]) == ("pool3", "max_pool", 8), first
    assert first["relative_error"] > 1e-2 > first["tolerance"], first
    (operand,) = report["operands"]
    assert operand["name"] == "relu3" and operand["relative_error"] < 1e-5, operand
    return report["cut"], env


def check_cut_command(folder, command, env):
    """The command that is printed makes a model that shows the fault alone."""
    words = shlex.split(command)
    assert words[:2] == ["rlxc", "cut"] and words[-2:] == ["-o", "cut.json"], words
    subprocess.run([RLXC, *words[1:]], check=True, cwd=folder, capture_output=True)
    part = json.load(open(f"{folder}/cut.json"))
    assert list(part["inputs"]) == ["relu3"] and part["outputs"] == ["pool3"], part
    verify = ["verify", f"{folder}/cut.json", "--cpu", "generic", "--dim", "batch=1"]
    assert call(*verify, **env)[0] == 1 and call(*verify, XDG_CACHE_HOME=folder)[0] == 0


def check_fused(folder):
    """A fault of two nodes in one kernel, which is gone where all values are kept."""
    env = broken_compiler(folder, "conv2 = conv, relu2 = relu", "float a0_0 = conv2_b[t1];",
                          "float a0_0 = conv2_b[t1] + 9.0f;")
    report = call_json(*ARGS, expected=1, **env)
    assert report["how"] == "fused" and report["first"]["name"] == "relu2", report
    assert report["compiled"] <= 2 + 4, report  # 12 nodes
    code, text, _ = call(*ARGS, **env)
    assert code == 1 and "only where nodes are fused" in text and "\nfirst   relu2 = relu, f32[" in text, text


MODEL = {
    "rlxc": 1,
    "inputs": {"x": {"dtype": "f32", "shape": [4]}},
    "nodes": [
        {"name": "twice", "op": "add", "inputs": ["x", "x"]},
        {"name": "a=b", "op": "mul", "inputs": ["twice", "twice"]},
        {"name": "y", "op": "neg", "inputs": ["a=b"]},
    ],
    "outputs": ["y"],
}


def check_expected(folder):
    """Values of another program: the first that differs, whatever the order in which they are given."""
    model, x = f"{folder}/m.json", [1.0, 2.0, 3.0, 4.0]
    with open(model, "w") as f:
        json.dump(MODEL, f)
    square = [4 * v * v for v in x]
    write_npy(f"{folder}/x.npy", [4], x)
    write_npy(f"{folder}/good.npy", [4], [-v for v in square])
    write_npy(f"{folder}/bad.npy", [4], [-v for v in square[:3]] + [0.0])
    write_npy(f"{folder}/bad_square.npy", [4], [v + 1 for v in square])
    args = ["bisect", model, "--input", f"x={folder}/x.npy"]
    env = {"XDG_CACHE_HOME": folder}
    assert call_json(*args, "--against", f"{folder}/good.npy", **env)["ok"]
    report = call_json(*args, "--against", f"y={folder}/bad.npy", expected=1, **env)
    first = report["first"]
    assert report["how"] == "expected" and first["name"] == "y" and first["element"] == 3, report
    assert (first["got"], first["want"]) == (-64.0, 0.0), first
    both = ["--against", f"y={folder}/bad.npy", "--against", f"a=b={folder}/bad_square.npy"]
    report = call_json(*args, *both, expected=1, **env)
    assert report["first"]["name"] == "a=b" and report["first"]["got"] == 4.0, report
    text = call(*args, *both, **env)[1]
    assert "agrees with the reference evaluator, but" in text and "evaluator 4, expected 5" in text, text
    assert call_json(*args, *both, "--tolerance", "2", **env)["ok"]

    write_npy(f"{folder}/values/y.npy", [4], [-v for v in square])
    assert call_json(*args, "--against-dir", f"{folder}/values", **env)["ok"]
    write_npy(f"{folder}/values/twice.npy", [4], [0, 0, 0, 0])
    report = call_json(*args, "--against-dir", f"{folder}/values", expected=1, **env)
    assert report["first"]["name"] == "twice", report
    write_npy(f"{folder}/short.npy", [3], [0, 0, 0])
    report = call_json(*args, "--against", f"{folder}/short.npy", expected=1, **env)
    assert report["first"]["element"] == -1, report


def check_wrong(folder):
    for args, code, expected in [
        (["--against", "pobs=x.npy"], 2, "did you mean 'probs'?"),
        (["--against", "x.npy"], 2, "expected NAME=FILE.npy, as the model has 2 outputs"),
        (["--against", "probs=/nonexistent.npy"], 1, "E0001"),
        (["--against-dir", folder], 1, "named after a value of the model"),
        (["--tolerance", "-1"], 2, "not negative"),
    ]:
        got, _, err = call(*ARGS, *args)
        assert got == code and expected in err, (args, got, err)


def check_verify_is_independent(folder):
    """verify compares with the graph as it was read, not with what passes made of it."""
    nodes = [
        {"name": "a", "op": "add", "inputs": ["x", 1e8]},
        {"name": "b", "op": "add", "inputs": ["a", -1e8]},
    ]
    model = {**MODEL, "nodes": nodes, "outputs": ["b"]}
    with open(f"{folder}/sum.json", "w") as f:
        json.dump(model, f)
    args = ["verify", f"{folder}/sum.json", "--cpu", "generic"]
    assert call(*args, XDG_CACHE_HOME=folder)[0] == 0
    code, text, _ = call(*args, "--fast-math", XDG_CACHE_HOME=folder)
    assert code == 1 and "DIFFERS" in text, text  # the sum of the constants is 0


with tempfile.TemporaryDirectory() as name:
    os.mkdir(f"{name}/values")
    check_right(name)
    check_cut_command(name, *check_kept(name))
    check_fused(name)
    check_expected(name)
    check_wrong(name)
    check_verify_is_independent(name)
