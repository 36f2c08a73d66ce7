#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single operators of .tflite (cases.py): `rlxc run` must give LiteRT's results, which expected.json has.
Integers must be equal, and floats as near as the case says.

  check_ops.py RLXC [NAME...]            the cases whose names begin so; all of them without names
  check_ops.py RLXC --update             writes expected.json anew (needs ai-edge-litert and numpy)
  check_ops.py RLXC --litert [NAME...]   compares with LiteRT itself, also with its kernels without XNNPACK
"""

import ast
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import cases
import flatbuffer

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected.json"
DESCRIPTIONS = {
    "f32": "<f4",
    "f16": "<f2",
    "i32": "<i4",
    "u32": "<u4",
    "i64": "<i8",
    "i16": "<i2",
    "i8": "|i1",
    "u8": "|u1",
    "bool": "|b1",
}
# Bytes whose results are those of LiteRT's reference kernels: its default is in floats and differs rarely.
REFERENCE = re.compile(r"log_softmax_\w*[iu]8$")
CHUNK = 24  # cases in one model: it takes about as long as two or three alone
CODES = {
    "<f4": "f",
    "<f2": "e",
    "<i4": "i",
    "<u4": "I",
    "<i8": "q",
    "<i2": "h",
    "|i1": "b",
    "|u1": "B",
    "|b1": "?",
}


def write_npy(path, type_name, shape, values):
    sizes = "".join(f"{n}," for n in shape)
    text = f"{{'descr': '{DESCRIPTIONS[type_name]}', 'fortran_order': False, 'shape': ({sizes})}}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    path.write_bytes(
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(text))
        + text.encode()
        + flatbuffer.pack(type_name, values)
    )


def read_npy(path):
    data = path.read_bytes()
    start = 10 + struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10:start].decode())
    code = CODES[header["descr"]]
    count = (len(data) - start) // struct.calcsize(code)
    return list(header["shape"]), list(struct.unpack_from(f"<{count}{code}", data, start))


def run_rlxc(rlxc, together, options=()):
    """The results of cases that share a model, each as a list in the order of its outputs; or the message."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = folder / "model.tflite"
        model.write_bytes(together[0].model.encode())
        inputs = []
        for name, type_name, shape, values in (feed for c in together for feed in c.feeds):
            write_npy(folder / f"{name}.npy", type_name, shape, values)
            inputs.append(f"--input={name}={folder / name}.npy")
        command = [rlxc, "run", model, "--output-dir", folder / "out", *options, *inputs]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip() or f"exit status {done.returncode}"
        return [[read_npy(folder / "out" / f"{y}.npy") for y in c.results] for c in together]


def run_alone(rlxc, name, function):
    found = run_rlxc(rlxc, [cases.make(name, function)])
    return found if isinstance(found, str) else found[0]


def run_chunk(rlxc, chunk):
    """The results of some cases. A model that fails is taken apart, so that the others are still tested."""
    model = flatbuffer.Model()
    found = run_rlxc(rlxc, [cases.make(name, function, model) for name, _, function in chunk])
    return [run_alone(rlxc, name, f) for name, _, f in chunk] if isinstance(found, str) else found


def run_litert(c, plain):
    import numpy
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if plain else OpResolverType.AUTO
    kind = OpResolverType.BUILTIN_REF if REFERENCE.match(c.name) else kind
    interpreter = Interpreter(model_content=c.model.encode(), experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    for detail, (_, type_name, shape, values) in zip(interpreter.get_input_details(), c.feeds, strict=True):
        array = numpy.frombuffer(flatbuffer.pack(type_name, values), DESCRIPTIONS[type_name]).reshape(shape)
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    results = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    return [(list(array.shape), array.flatten().tolist()) for array in results]


def difference(found, expected, tolerance):
    """None, or what differs."""
    if isinstance(found, str) or isinstance(expected, str):
        return f"{found!r:.300}, expected {expected!r:.100}"
    for i, ((found_shape, found_values), (shape, values)) in enumerate(zip(found, expected, strict=True)):
        if list(found_shape) != list(shape):
            return f"result {i}: shape {found_shape}, expected {shape}"
        most = max((abs(v) for v in values), default=0) or 1
        limit = tolerance * most if any(isinstance(v, float) for v in values) else tolerance
        errors = [abs(a - b) for a, b in zip(found_values, values, strict=True)]
        wrong = sum(not e <= limit for e in errors)
        if wrong:
            return f"result {i}: {wrong} of {len(errors)} differ, by up to {max(errors)}, limit {limit}"
    return None


def attempt(function, *args):
    try:
        return function(*args)
    except (RuntimeError, ValueError) as error:
        return str(error).strip().splitlines()[-1]


def update():
    new = {name: run_litert(cases.make(name, function), False) for name, _, function in cases.CASES}
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in new.items())
    EXPECTED.write_text("{\n" + lines + "\n}\n")


def compare_live(rlxc, chosen):
    agreed = 0
    for name, tolerance, function in chosen:
        c = cases.make(name, function)
        found, default = run_alone(rlxc, name, function), attempt(run_litert, c, False)
        wrong = difference(found, default, tolerance)
        agreed += not wrong
        if wrong:
            plain = difference(found, attempt(run_litert, c, True), tolerance)
            print(f"{name}: {wrong}\n    without XNNPACK: {plain}")
    print(f"{agreed} of {len(chosen)} agree with LiteRT")
    return agreed != len(chosen)


def compare_stored(rlxc, chosen):
    stored, failed = json.loads(EXPECTED.read_text()), 0
    print(f"1..{len(chosen)}", flush=True)
    for at in range(0, len(chosen), CHUNK):
        chunk = chosen[at : at + CHUNK]
        for i, (found, (name, tolerance, _)) in enumerate(zip(run_chunk(rlxc, chunk), chunk, strict=True)):
            wrong = difference(found, stored[name], tolerance)
            failed += wrong is not None
            print(f"{'not ok' if wrong else 'ok'} {at + i + 1} - {name}" + (f"\n# {wrong}" if wrong else ""))
    return failed != 0


def main():
    rlxc, names = sys.argv[1], tuple(a for a in sys.argv[2:] if not a.startswith("--"))
    chosen = [case for case in cases.CASES if not names or case[0].startswith(names)]
    if "--update" in sys.argv:
        return update()
    return (compare_live if "--litert" in sys.argv else compare_stored)(rlxc, chosen)


if __name__ == "__main__":
    sys.exit(main())
