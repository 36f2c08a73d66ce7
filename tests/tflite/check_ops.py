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
import struct
import subprocess
import sys
import tempfile

import cases
import flatbuffer

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = HERE / "expected.json"
DESCRIPTIONS = {"f32": "<f4", "f16": "<f2", "i32": "<i4", "i64": "<i8", "i16": "<i2", "i8": "|i1", "u8": "|u1", "bool": "|b1"}
CODES = {"<f4": "f", "<f2": "e", "<i4": "i", "<i8": "q", "<i2": "h", "|i1": "b", "|u1": "B", "|b1": "?"}


def write_npy(path, type_name, shape, values):
    text = f"{{'descr': '{DESCRIPTIONS[type_name]}', 'fortran_order': False, 'shape': ({''.join(f'{n},' for n in shape)})}}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + flatbuffer.pack(type_name, values))


def read_npy(path):
    data = path.read_bytes()
    start = 10 + struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10:start].decode())
    code = CODES[header["descr"]]
    count = (len(data) - start) // struct.calcsize(code)
    return list(header["shape"]), list(struct.unpack_from(f"<{count}{code}", data, start))


def run_rlxc(rlxc, c, folder):
    """Results by name, or the message."""
    model = folder / "model.tflite"
    model.write_bytes(c.model.encode())
    inputs = []
    for name, type_name, shape, values in c.feeds:
        write_npy(folder / f"{name}.npy", type_name, shape, values)
        inputs.append(f"--input={name}={folder / name}.npy")
    done = subprocess.run([rlxc, "run", model, "--output-dir", folder / "out", *inputs], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip() or f"exit status {done.returncode}"
    return {path.stem: read_npy(path) for path in (folder / "out").glob("*.npy")}


def run_litert(c, plain):
    import numpy
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if plain else OpResolverType.AUTO
    interpreter = Interpreter(model_content=c.model.encode(), experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    for detail, (_, type_name, shape, values) in zip(interpreter.get_input_details(), c.feeds, strict=True):
        array = numpy.frombuffer(flatbuffer.pack(type_name, values), DESCRIPTIONS[type_name]).reshape(shape)
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    found = {}
    for i, detail in enumerate(interpreter.get_output_details()):
        array = interpreter.get_tensor(detail["index"])
        found[f"y{i}"] = (list(array.shape), array.flatten().tolist())
    return found


def difference(found, expected, tolerance):
    """None, or what differs."""
    if isinstance(found, str) or isinstance(expected, str):
        return f"{found!r:.300}, expected {expected!r:.100}"
    for name, (shape, values) in expected.items():
        if name not in found:
            return f"{name} is missing"
        if list(found[name][0]) != list(shape):
            return f"{name}: shape {found[name][0]}, expected {shape}"
        most = max((abs(v) for v in values), default=0) or 1
        limit = tolerance * most if any(isinstance(v, float) for v in values) else tolerance
        errors = [abs(a - b) for a, b in zip(found[name][1], values, strict=True)]
        wrong = sum(not e <= limit for e in errors)
        if wrong:
            return f"{name}: {wrong} of {len(errors)} differ, by up to {max(errors)}, limit {limit}"
    return None


def attempt(function, *args):
    try:
        return function(*args)
    except (RuntimeError, ValueError) as error:
        return str(error).strip().splitlines()[-1]


def main():
    rlxc, names = sys.argv[1], [a for a in sys.argv[2:] if not a.startswith("--")]
    update, live = "--update" in sys.argv, "--litert" in sys.argv
    stored = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    failed, new = 0, {}
    chosen = [k for k in cases.CASES if not names or k[0].startswith(tuple(names))]
    if not (update or live):
        print(f"1..{len(chosen)}")
    for i, (name, tolerance, function) in enumerate(chosen):
        c = cases.make(name, tolerance, function)
        if update:
            new[name] = run_litert(c, False)
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = run_rlxc(rlxc, c, pathlib.Path(folder))
        if live:
            default, plain = attempt(run_litert, c, False), attempt(run_litert, c, True)
            a, b = difference(found, default, tolerance), difference(found, plain, tolerance)
            if a:
                print(f"{name}: {a}\n    without XNNPACK: {b}")
            failed += a is not None
            continue
        wrong = difference(found, stored[name], tolerance)
        print(f"{'not ok' if wrong else 'ok'} {i + 1} - {name}" + (f"\n# {wrong}" if wrong else ""))
        failed += wrong is not None
    if update:
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in new.items())
        EXPECTED.write_text("{\n" + lines + "\n}\n")
    if live:
        print(f"{len(chosen) - failed} of {len(chosen)} agree with LiteRT")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
