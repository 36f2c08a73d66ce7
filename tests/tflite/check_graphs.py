#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole .tflite models (graphs.py): `rlxc run` must give their results. Files that are damaged or contradict
themselves must end in a message. Usage: check_graphs.py RLXC"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import cases
import flatbuffer
from check_ops import read_npy, write_npy
from graphs import ASSIGN, CALL_ONCE, GRAPHS, READ, VAR_HANDLE


def run(rlxc, name, folder):
    model, feeds, expected, options = GRAPHS[name]()
    path = folder / "model.tflite"
    path.write_bytes(model.encode())
    inputs = []
    for feed, type_name, shape, values in feeds:
        write_npy(folder / f"{feed}.npy", type_name, shape, values)
        inputs.append(f"--input={feed}={folder / feed}.npy")
    for i, option in enumerate(options):
        if isinstance(option, dict):  # declarations of custom ops
            options[i] = folder / "ops.json"
            options[i].write_text(json.dumps({"custom": [option]}))
    command = [rlxc, "run", path, "--output-dir", folder / "out", *inputs, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr
    found = {key: read_npy(folder / "out" / f"{key}.npy")[1] for key in expected}
    is_same = all(
        len(found[key]) == len(values)
        and all(abs(a - b) <= (1e-7 if isinstance(b, float) else 0) for a, b in zip(found[key], values))
        for key, values in expected.items()
    )
    return None if is_same else f"{found}, expected {expected}"


def one_operator(number, tensors, options_type=0, options=None, **place):
    """A model of one operator on (type, shape, more) tensors, of which the last is the result."""
    model = flatbuffer.Model()
    g = model.graph()
    for i, (type_name, shape, more) in enumerate(tensors):
        g.tensor(f"t{i}", type_name, shape, **more)
    last = len(tensors) - 1
    g.operator(number, list(range(last)), [last], options_type, options, **place)
    g.inputs = [i for i, (_, _, more) in enumerate(tensors[:-1]) if "data" not in more]
    g.outputs = [last]
    return model.encode()


def variable_of(first, read, assigned):
    """A variable that begins as `first`, is read as `read` and becomes `assigned`, each (type, shape)."""
    model = flatbuffer.Model()
    g, start = model.graph(), model.graph()
    name = {1: "sum"}
    handle, value = g.tensor("handle", "resource", [1]), g.tensor("value", *read)
    x = g.tensor("x", *assigned)
    g.operator(CALL_ONCE, [], [], 103, {0: ("i32", 1)})
    g.operator(VAR_HANDLE, [], [handle], 111, name)
    g.operator(READ, [handle], [value], 112)
    g.operator(ASSIGN, [handle, x], [], 113)
    g.inputs, g.outputs = [x], [value]
    handle = start.tensor("handle", "resource", [1])
    start.operator(VAR_HANDLE, [], [handle], 111, name)
    start.operator(ASSIGN, [handle, start.tensor("c", *first, data=[1] * first[1][0])], [], 113)
    return model.encode()


ROOT = pathlib.Path(os.environ.get("RLXC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
F2 = ("f32", [2], {})
BYTES = ("i8", [2], {"scale": 0.5, "zero": 0})
SPREAD = [
    ("i32", [4], {"data": [1, 32, 32, 1]}),
    *[("i8", [1, 1, 1, 1], {"scale": 0.5, "zero": 0})] * 3,
]
DETECTOR = {"max_detections": 3, "num_classes": 2, "max_classes_per_detection": 1} | {
    f"{name}_scale": 1.0 for name in "yxhw"
}


def detector(options, columns=3):
    """A detector's last operator with one result of the four."""
    shapes = [1, 6, 4], [1, 6, columns], [6, 4], [1, 3, 4]
    options = flatbuffer.flex_map(options)
    return one_operator("TFLite_Detection_PostProcess", [("f32", s, {}) for s in shapes], options=options)


def suppression(sigma):
    """NON_MAX_SUPPRESSION_V5 with one result of the three."""
    numbers = [("i32", [], {"data": [3]})] + [("f32", [], {"data": [v]}) for v in (0.5, 0.1, sigma)]
    return one_operator(121, [("f32", [6, 4], {}), ("f32", [6], {}), *numbers, ("i32", [3], {})], 96)


STRIDES = {0: ("i8", 0), 1: ("i32", 32), 2: ("i32", 32)}
REFUSED = {
    "weights that would grow": (one_operator(67, SPREAD, 49, STRIDES), "strides of 32 by 32 are not"),
    "empty graph": (flatbuffer.Model().encode(), "the file has no graph"),
    "unknown operator": (one_operator(999, [F2, F2]), "operator code 999 is not supported"),
    "custom operator": (one_operator("Own", [F2, F2]), "the custom operator 'Own' is not supported, and no"),
    "custom operator without a name": (one_operator(32, [F2, F2]), "the custom operator '' is not"),
    "unknown option": (one_operator(0, [F2, F2, F2], 11, {9: ("i32", 1)}), "option 9 is not supported"),
    "options of another": (one_operator(0, [F2, F2, F2], 21), "options are those of another operator"),
    "options of the other union": (
        one_operator(0, [F2, F2, F2], 21, at=11),
        "options are those of another operator",
    ),
    "detector without classes": (detector(DETECTOR | {"num_classes": 0}), "'num_classes' is 0, not a number"),
    "detector without scales": (detector(DETECTOR | {"h_scale": 0.0}), "'h_scale' is 0, not a number above"),
    "detector of other classes": (detector(DETECTOR, columns=5), "5 scores of each box for 2 classes"),
    "soft suppression": (suppression(0.5), "a sigma (of soft suppression) of 0.5 is not supported"),
    "diagonal of another size": (
        one_operator(115, [("f32", [3, 4], {}), ("f32", [1], {}), ("f32", [3, 4], {})], 90),
        "expected a diagonal of 3 elements for each matrix",
    ),
    "ids of the run": (
        one_operator(125, [("f32", [2, 3], {}), ("i32", [2], {}), ("f32", [2, 3], {})], 100),
        "ids that are known when the model is compiled",
    ),
    "too many segments": (
        one_operator(125, [F2, ("i64", [2], {"data": [0, 2**63 - 1]}), F2], 100),
        "9223372036854775807 segments",
    ),
    "too many operands": (one_operator(8, [F2, F2, F2]), "operand 1 is not supported"),
    "missing operand": (one_operator(0, [F2, F2]), "operand 1 is missing"),
    "wrong type": (one_operator(8, [F2, ("i32", [2], {})]), "is of type f32, but the file says INT32"),
    "short constant": (one_operator(0, [F2, ("f32", [2], {"data": [1.0]}), F2]), "has 4 bytes, expected 8"),
    "negative scale": (
        one_operator(0, [BYTES, BYTES, ("i8", [2], {"scale": -1.0, "zero": 0})]),
        "has the scale -1",
    ),
    "zero point": (
        one_operator(0, [BYTES, BYTES, ("i8", [2], {"scale": 1.0, "zero": 999})]),
        "zero point 999",
    ),
    "moved scale": (
        one_operator(22, [BYTES, ("i32", [1], {"data": [2]}), ("i8", [2], {"scale": 1.0, "zero": 0})]),
        None,
    ),
    "sums of two zero points": (
        one_operator(106, [BYTES, BYTES, ("i8", [2], {"scale": 0.5, "zero": 1}), BYTES], 82),
        "operands 0 and 2 must have the same scale and zero point",
    ),
    "sums of halfwords": (
        one_operator(106, [("i16", [2], {"scale": 0.5, "zero": 0})] * 3, 82),
        "of 8 bits",
    ),
    "axis": (one_operator(70, [F2, ("i32", [1], {"data": [7]}), F2]), "axis 7 is out of range"),
    "many axes": (
        one_operator(22, [F2, ("i32", [9], {"data": [1] * 8 + [2]}), F2]),
        "the result has 9 axes; at most 8 are possible",
    ),
    "range without end": (
        one_operator(96, [("f32", [], {"data": [v]}) for v in (0.0, float("nan"), 1.0)] + [F2]),
        "from 0 to nan in steps of 1",
    ),
    "variable of two types": (
        variable_of(("i8", [2]), ("f32", [2]), ("f32", [2])),
        "variable 'sum' begins as i8, but is read as FLOAT32",
    ),
    "variable of two shapes": (
        variable_of(("f32", [2]), ("f32", [2]), ("f32", [3])),
        "variable 'sum' is f32[2], but it becomes f32[3]",
    ),
    "bias of another size": (
        one_operator(9, [("f32", [1, 4], {}), ("f32", [2, 4], {}), ("f32", [1], {}), ("f32", [1, 2], {})], 8),
        "has another number of elements",
    ),
    "sub-graph": (
        one_operator(118, [("bool", [1], {}), F2, F2], 92, {0: ("i32", 5), 1: ("i32", 6)}),
        "sub-graph 5 does not exist",
    ),
    "itself": (one_operator(31, [F2, F2], 16), "nested more than"),
}


def refused(rlxc, data, message, folder):
    path = folder / "bad.tflite"
    path.write_bytes(data)
    done = subprocess.run([rlxc, "check", path], capture_output=True, text=True, check=False)
    if message is None:
        return None if done.returncode == 0 else done.stderr
    if done.returncode != 1 or message not in done.stderr:
        return f"exit status {done.returncode}: {done.stderr}, expected '{message}'"
    return None


def truncated(rlxc, folder):
    """Every beginning of a model ends in a message."""
    data = cases.make("conv_same_i8", dict((n, f) for n, _, f in cases.CASES)["conv_same_i8"]).model.encode()
    paths = []
    for size in range(0, len(data) - 8, 37):
        paths.append(folder / f"cut{size}.tflite")
        paths[-1].write_bytes(data[:size])
    done = subprocess.run([rlxc, "check", "--json", *paths], capture_output=True, text=True, check=False)
    good = done.stdout.count('"ok": true')
    return None if done.returncode == 1 and good == 0 else f"exit status {done.returncode}, {good} accepted"


def long_names(rlxc, folder):
    """Names of 3000 characters without a space do not spread over the lines of the C file."""
    model = flatbuffer.Model()
    g = model.graph()
    x, h, y = (g.tensor(letter * 3000, "f32", [2]) for letter in "xhy")
    g.operator(28, [x], [h])
    g.operator(14, [h], [y])
    g.inputs, g.outputs = [x], [y]
    (folder / "m.tflite").write_bytes(model.encode())
    command = [rlxc, "compile", folder / "m.tflite", "-o", folder / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        return done.stderr
    lines = (folder / "out" / "m.c").read_text().splitlines()
    return None if len(lines) < 400 else f"{len(lines)} lines"


def wrong_shape(rlxc, folder):
    """--shape names an input, and all of its axes."""
    (folder / "m.tflite").write_bytes(GRAPHS["open_size"]()[0].encode())
    for shape, message in (
        ("y=2,3", "--shape y=2,3: the model has no such input"),
        ("x=2,3,4", "--shape x=2,3,4 has 3 sizes, but the input has 2 axes"),
    ):
        command = [rlxc, "compile", folder / "m.tflite", "-o", folder / "out", "--shape", shape]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 1 or message not in done.stderr or (folder / "out").exists():
            return f"{shape}: exit status {done.returncode}: {done.stderr}, expected '{message}'"
    return None


def undocumented():
    """docs/TFLITE.md names every operator of the table, and no other."""
    table = (ROOT / "compiler/import/tflite/tfl_ops.def").read_text()
    rows = re.findall(r"^\| ([A-Z0-9_, ]+) \|", (ROOT / "docs/TFLITE.md").read_text(), re.M)
    named = {name for row in rows for name in row.split(", ")}
    known = set(re.findall(r"^TFL_(?:OP|EW|NEW)\(\d+, +(\w+)", table, re.M))
    return None if named == known else f"only one of both has {sorted(named ^ known)}"


def main():
    rlxc, failed, number = sys.argv[1], 0, 0
    print(f"1..{len(GRAPHS) + len(REFUSED) + 4}", flush=True)
    tests = [(name, lambda d, n=name: run(rlxc, n, d)) for name in GRAPHS]
    tests += [(f"refused: {k}", lambda d, v=v: refused(rlxc, *v, d)) for k, v in REFUSED.items()]
    tests.append(("truncated files", lambda d: truncated(rlxc, d)))
    tests.append(("long names", lambda d: long_names(rlxc, d)))
    tests.append(("shapes of inputs", lambda d: wrong_shape(rlxc, d)))
    tests.append(("operators of the page", lambda _: undocumented()))
    for name, test in tests:
        with tempfile.TemporaryDirectory() as folder:
            wrong = test(pathlib.Path(folder))
        number += 1
        failed += wrong is not None
        print(
            f"{'not ok' if wrong else 'ok'} {number} - {name}" + (f"\n# {wrong!r}" if wrong else ""),
            flush=True,
        )
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
