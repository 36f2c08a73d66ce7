#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# rlxc diff: of models with options, folders with generated code, and reports of inspect and bench.
# Usage: check_diff.py RLXC
import json
import pathlib
import tempfile

from common import DIGITS, call, call_json


def figures(entry):
    return {f["name"]: (f["a"], f["b"]) for f in entry["figures"]}


def check_models():
    """The same model, fused and not: what inspect says is what diff compares."""
    same = call_json("diff", DIGITS, DIGITS)
    assert same["same"] and same["kernels_a"] == 7 and same["figures"] == [], same
    assert call("diff", DIGITS, DIGITS)[1] == "no difference: 7 kernels\n"
    d = call_json("diff", DIGITS, DIGITS, "--b", "--no-fuse  --cpu generic")
    fused, single = (call_json("inspect", DIGITS, *o) for o in ([], ["--no-fuse"]))
    assert not d["same"] and d["kernels_b"] == len(single["kernels"]) > d["kernels_a"], d
    assert figures(d)["bytes"] == (fused["bytes"], single["bytes"]), d["figures"]
    a, b = ({k["nodes"] for k in x["kernels"]} for x in (fused, single))
    assert {k["nodes"] for k in d["removed"]} == a - b and {k["nodes"] for k in d["added"]} == b - a, d
    text = call("diff", DIGITS, DIGITS, "--b", "--no-fuse")[1]
    assert f"kernels                  7 -> {len(single['kernels'])}: " in text, text
    assert "\n  - k0_conv_relu (conv1 = conv, relu1 = relu), macs 9216" in text, text


def check_kernel_text(folder):
    """One model with another constant: one kernel, one line."""
    for name, k in [("one", 2.5), ("two", 3.5)]:
        model = {
            "rlxc": 1,
            "inputs": {"x": {"dtype": "f32", "shape": [5]}},
            "nodes": [{"name": "y", "op": "mul", "inputs": ["x", k]}],
            "outputs": ["y"],
        }
        (folder / f"{name}.json").write_text(json.dumps(model))
        call_json("compile", folder / f"{name}.json", "-o", folder / name, "--name", "m")
    for suffix in ["", ".json"]:
        d = call_json("diff", folder / f"one{suffix}", folder / f"two{suffix}")
        (changed,) = d["changed"]
        assert (changed["lines_added"], changed["lines_removed"]) == (1, 1), (suffix, d)
        assert d["added"] == d["removed"] == [] and changed["nodes"] == "y = mul", d
        text = call("diff", folder / f"one{suffix}", folder / f"two{suffix}")[1]
        assert "  ~ k0_mul (y = mul), text +1 -1 lines\n" in text, text


def check_mixed(folder):
    """A folder, a report and a model of one compile have the same figures, as far as each knows them."""
    call_json("compile", DIGITS, "-o", folder / "out")
    (folder / "inspect.json").write_text(call("inspect", DIGITS, "--json")[1])
    for a in [folder / "out", folder / "inspect.json", DIGITS]:
        for b in [folder / "inspect.json", DIGITS]:
            d = call_json("diff", a, b)
            assert not [f for f in d["figures"] if f["name"] != "text_bytes"], (a, b, d)
            assert d["added"] == d["removed"] == d["changed"] == [], (a, b, d)


def check_times(folder):
    """Reports of bench: times of kernels."""
    for name, us in [("slow", 4.0), ("fast", 1.0)]:
        kernel = {"name": "k0", "nodes": "y = mul", "us": us}
        (folder / f"{name}.json").write_text(json.dumps({"us": us + 1, "kernels": [kernel]}))
    d = call_json("diff", folder / "slow.json", folder / "fast.json")
    assert figures(d) == {"us": (5, 2)} and figures(d["changed"][0]) == {"us": (4, 1)}, d
    text = call("diff", folder / "slow.json", folder / "fast.json")[1]
    assert text.startswith("us                       5 -> 2 (-3, -60.0 %)\n"), text


def check_wrong(folder):
    for args, code, expected in [
        ([DIGITS], 2, "expected two"),
        ([DIGITS, "/nonexistent"], 1, "E0001"),
        ([folder, DIGITS], 2, "one NAME.c and NAME.h, found 0"),
        ([DIGITS, DIGITS, "--b", "--no-fuze"], 2, "did you mean '--no-fuse'?"),
        ([DIGITS, DIGITS, "--b", "x"], 2, "expected options only"),
    ]:
        got, out, err = call("diff", *args)
        assert got == code and out == "" and expected in err, (args, got, err)


with tempfile.TemporaryDirectory() as name:
    path = pathlib.Path(name)
    check_models()
    check_wrong(path)
    check_kernel_text(path)
    check_mixed(path)
    check_times(path)
