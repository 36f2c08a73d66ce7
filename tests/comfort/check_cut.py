#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# rlxc cut: parts of models give the same values as the whole model, with all that they need and nothing else;
# names that are wrong or useless are said to be. Usage: check_cut.py RLXC
import json
import tempfile

from common import DIGITS, ROOT, call, call_json, write_npy


def cut(folder, model, *args):
    """The part, as JSON."""
    report = call_json("cut", model, *args, "-o", f"{folder}/part.json")
    part = json.load(open(f"{folder}/part.json"))
    assert report["inputs"] == list(part["inputs"]) and report["outputs"] == list(part["outputs"]), report
    return part


def check_same_values(folder):
    """The model cut in two: what the first half gives is what the second half takes."""
    env = {"XDG_CACHE_HOME": folder}
    dim = ["--dim", "batch=3", "--cpu", "generic"]
    halves = [(["--to", "pool2"], "image", "pool2"), (["--from", "pool2"], "pool2", "probs")]
    given = ["--random", "7"]
    for options, takes, gives in halves:
        part = cut(folder, DIGITS, *options)
        assert list(part["inputs"]) == [takes] and gives in part["outputs"], part["inputs"]
        assert part["inputs"][takes]["shape"][0] == "batch", part["inputs"]
        to = ["--output-dir", f"{folder}/part"]
        code, _, err = call("run", f"{folder}/part.json", *dim, *given, *to, **env)
        assert code == 0, err
        given = ["--input", f"pool2={folder}/part/pool2.npy"]
    code, _, err = call("run", DIGITS, *dim, "--random", "7", "--output-dir", f"{folder}/whole", **env)
    assert code == 0, err
    assert open(f"{folder}/part/probs.npy", "rb").read() == open(f"{folder}/whole/probs.npy", "rb").read()


def check_content(folder):
    part = cut(folder, DIGITS, "--from", "relu1", "--to", "relu2", "--to", "conv2")
    assert [n["name"] for n in part["nodes"]] == ["conv2", "relu2"], part["nodes"]
    assert set(part["weights"]) == {"conv2_w", "conv2_b"}, part["weights"]
    assert part["outputs"] == ["relu2", "conv2"], part["outputs"]
    part = cut(folder, DIGITS, "--from", "relu1", "--to", "relu2", "--dim", "batch=2")
    assert part["inputs"]["relu1"]["shape"] == [2, 16, 8, 8], part["inputs"]
    code, text, _ = call("cut", DIGITS, "--from", "logits", "--to", "probs")
    assert code == 0 and list(json.loads(text)["inputs"]) == ["logits"], text
    numbered = json.loads(call("cut", DIGITS, "--from", "%20")[1])
    assert list(numbered["inputs"]) == ["%20"], numbered["inputs"]


def write(folder, name, **members):
    with open(f"{folder}/{name}.json", "w") as f:
        json.dump({"rlxc": 1, **members}, f)
    return f"{folder}/{name}.json"


def check_states(folder):
    """States become inputs."""
    f32 = {"dtype": "f32", "shape": [2]}
    model = write(
        folder,
        "state",
        inputs={"x": f32},
        params={"p": {**f32, "data": [1, 2]}},
        states={"s": {**f32, "data": [3, 4], "next": "sum"}},
        nodes=[
            {"name": "sum", "op": "add", "inputs": ["x", "s"]},
            {"name": "y", "op": "mul", "inputs": ["sum", "p"]},
        ],
        outputs=["y"],
    )
    part = cut(folder, model, "--to", "sum")
    assert list(part["inputs"]) == ["x", "s"] and "states" not in part and "params" not in part, part
    part = cut(folder, model, "--from", "sum")
    assert list(part["inputs"]) == ["sum"] and part["params"]["p"]["data"] == [1, 2], part


def check_results(folder):
    """Nodes with several results: each is a value of its own."""
    model = write(
        folder,
        "top",
        inputs={"x": {"dtype": "f32", "shape": [8]}},
        nodes=[
            {"name": None, "outputs": ["v", "i"], "op": "top_k", "inputs": ["x"], "axis": 0, "k": [3]},
            {"name": "w", "op": "neg", "inputs": ["v"]},
            {"name": "j", "op": "neg", "inputs": ["i"]},
        ],
        outputs=["w", "j"],
    )
    text = open(model).read().replace('"name": null, ', "")
    open(model, "w").write(text)
    part = cut(folder, model, "--from", "v", "--to", "w")
    assert list(part["inputs"]) == ["v"] and [n["op"] for n in part["nodes"]] == ["neg"], part
    part = cut(folder, model, "--from", "i", "--to", "j")
    assert list(part["inputs"]) == ["i"] and [n["op"] for n in part["nodes"]] == ["neg"], part
    part = cut(folder, model, "--from", "v")  # i comes from x all the same
    assert list(part["inputs"]) == ["x", "v"], part
    assert [n["op"] for n in part["nodes"]] == ["top_k", "neg", "neg"], part
    assert call("check", f"{folder}/part.json")[0] == 0
    cut(folder, model, "--from", "v")
    assert call_json("cut", model, "--from", "v", "-o", f"{folder}/part.rlxb")["inputs"] == ["x", "v"]
    assert call("convert", f"{folder}/part.rlxb")[1] == call("cut", model, "--from", "v")[1]


def check_extents(folder):
    """Sizes that the model computes: computed in the part, or symbols where an input has them."""
    model = write(
        folder,
        "extent",
        inputs={"x": {"dtype": "f32", "shape": [6]}},
        symbols={"hits": {"min": 0, "max": 6}},
        nodes=[
            {"name": "m", "op": "neg", "inputs": ["x"]},
            {"name": "is", "op": "cast", "inputs": ["m"], "to": "bool"},
            {"name": "wide", "op": "cast", "inputs": ["is"], "to": "i64"},
            {"name": "count", "op": "reduce_sum", "inputs": ["wide"], "axes": [0], "keepdims": True},
            {"name": "at", "op": "nonzero", "inputs": ["m"], "size": ["hits"]},
            {"name": "far", "op": "neg", "inputs": ["at"]},
            {"name": "y", "op": "neg", "inputs": ["far"]},
        ],
        extents=[{"value": "count", "size": ["hits", 6]}],
        outputs=["y"],
    )
    part = cut(folder, model, "--from", "m", "--to", "y")
    assert part["inputs"]["m"] == {"dtype": "f32", "shape": [6]}, part
    assert part["extents"][0]["value"] == "count", part
    assert call("verify", f"{folder}/part.json", XDG_CACHE_HOME=folder)[0] == 0
    part = cut(folder, model, "--from", "at", "--to", "y")
    assert part["inputs"]["at"]["shape"][-1] == "hits" and "extents" not in part, part
    assert [n["name"] for n in part["nodes"]] == ["far", "y"], part
    assert call("verify", f"{folder}/part.json", "--dim", "hits=4", XDG_CACHE_HOME=folder)[0] == 0


def check_checks(folder):
    """Checks of the part's values stay; others are said to be dropped."""
    whole = {"axes": [0], "keepdims": False}
    model = write(
        folder,
        "checks",
        inputs={"x": {"dtype": "f32", "shape": [2]}, "z": {"dtype": "f32", "shape": []}},
        nodes=[
            {"name": "a", "op": "neg", "inputs": ["x"]},
            {"name": "b", "op": "exp", "inputs": ["a"]},
            {"name": "top_x", "op": "reduce_max", "inputs": ["x"], **whole},
            {"name": "small_x", "op": "lt", "inputs": ["top_x", 9]},
            {"name": "top_b", "op": "reduce_max", "inputs": ["b"], **whole},
            {"name": "small_b", "op": "lt", "inputs": ["top_b", "z"]},
        ],
        checks=[{"cond": "small_x", "message": "x below 9"}, {"cond": "small_b", "message": "b below z"}],
        outputs=["b"],
    )
    for ends, kept in [
        (["--to", "a"], ["x below 9"]),  # b is another part, though it comes from x
        (["--from", "a"], []),
        (["--from", "a", "--to", "b"], []),
        (["--to", "b"], ["x below 9"]),  # z is no input of the part
        (["--to", "b", "--to", "small_b"], ["x below 9", "b below z"]),
    ]:
        code, text, err = call("cut", model, *ends)
        assert code == 0, (ends, err)
        assert [c["message"] for c in json.loads(text).get("checks", [])] == kept, (ends, text)
        assert ("are about values that this part lacks" in err) == (len(kept) < 2), err
        assert "z" not in json.loads(text)["inputs"] or len(kept) == 2, text
    cut(folder, model, "--to", "a")
    env = {"XDG_CACHE_HOME": folder}
    write_npy(f"{folder}/x.npy", [2], [1, 9])
    code, _, err = call("run", f"{folder}/part.json", "--input", f"x={folder}/x.npy", **env)
    assert code == 1 and "x below 9" in err, err


def check_wrong():
    for args, expected in [
        (["--from", "reluu1"], "did you mean 'relu1'?"),
        (["--to", "nothing_like_it"], "`rlxc convert"),
        (["--from", "pool3", "--to", "relu1"], "--to relu1: it does not depend on any value of --from"),
        (["--from", "conv1", "--from", "relu1", "--to", "conv2"], "--from conv1: no value of --to"),
        (["--from", "relu1", "--from", "relu1"], "given twice"),
        (["--from", "conv1_w"], "this value is a weight"),
        ([], "expected --from"),
    ]:
        code, out, err = call("cut", DIGITS, *args)
        assert code == 2 and out == "" and expected in err, (args, code, err)


with tempfile.TemporaryDirectory() as name:
    check_same_values(name)
    check_content(name)
    check_states(name)
    check_results(name)
    check_extents(name)
    check_checks(name)
    check_wrong()
