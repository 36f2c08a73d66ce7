#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# docs/CLI.md must be what `rlxc --help-markdown` prints. With --update it is written anew. Exit codes of a
# few wrong and right command lines are checked as well. Usage: check_cli.py RLXC [--update]
import json
import math
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import tempfile

rlxc = os.path.abspath(sys.argv[1])
root = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
page = os.path.join(root, "docs", "CLI.md")
text = subprocess.run([rlxc, "--help-markdown"], check=True, capture_output=True, text=True).stdout
if "--update" in sys.argv:
    with open(page, "w") as f:
        f.write(text)

failed = []
with open(page) as f:
    if f.read() != text:
        failed.append("docs/CLI.md is out of date: run with --update")

model = os.path.join(root, "models", "gelu_example.json")
COMMANDS = {
    0: [
        ["--help"],
        ["--version"],
        ["compile", "--help"],
        ["explain", "E0204"],
        ["ops", "matmul"],
        ["passes"],
        ["targets"],
        ["cache", "--cache", "/nonexistent"],
        ["inspect", model],
        ["convert", model],
    ],
    1: [
        ["ops", "matmull"],
        ["check", "/nonexistent"],
        ["compile", root, "-o", "/nonexistent"],
        ["inspect", model, "--dim", "n=3"],
        ["inspect", model, "--bucket", "n=3"],
        ["run", model],
        ["run", model, "--input", "x=" + model],
        ["run", model, "--input", "y=" + model],
    ],
    2: [
        [],
        ["compil"],
        ["cache", "purge", "--cache", "/nonexistent"],
        ["cache", "show", "clear", "--cache", "/nonexistent"],
        ["cache", "--cache", "none"],
        ["compile"],
        ["compile", model, model],
        ["compile", model, "--cpu", "z80"],
        ["compile", model, "--target", "z80"],
        ["compile", model, "--gpu", "sm_80"],
        ["compile", model, "--target", "cuda", "--gpu", "gtx"],
        ["compile", model, "--target", "cuda", "--gpu", "sm_80,sm_80"],
        ["compile", model, "--target", "cuda", "--gpu", "text", "--threads", "2"],
        ["compile", model, "--target", "cuda", "--gpu", "text", "--plan", "fast"],
        ["compile", model, "--plan", "latency"],
        ["compile", model, "--name", "1st"],
        ["compile", model, "--name", "int"],
        ["compile", model, "--weights", "here"],
        ["compile", model, "--arena", "static", "--weights", "file"],
        ["compile", model, "--api", "some"],
        ["compile", model, "--output-set", "a"],
        ["compile", model, "--output-set", "a=no_such_output"],
        ["compile", model, "--output-set", "1st="],
        ["compile", model, "--output-set", "a=", "--output-set", "a="],
        ["compile", model, "--moe-resident", "two"],
        ["compile", model, "--moe-resident", "0"],
        ["compile", model, "--moe-resident", "-1"],
        ["compile", model, "--moe-resident", "1048577"],
        ["compile", model, "--bucket", "seq"],
        ["compile", model, "--bucket", "seq=4,0"],
        ["compile", model, "--bucket", "seq=4,4"],
        ["compile", model, "--bucket", "seq=4", "--bucket", "seq=8"],
        ["compile", model, "--bucket", "seq=4", "--dim", "seq=8"],
        ["compile", model, "--bucket", "seq=4", "--dim", "seq=0..8"],
        ["compile", model, "--bucket", "seq=4,8", "--dim", "seq=5..8"],
        ["compile", model, "--bucket", "seq=4", "--dim", "seq=dynamic"],
        ["compile", model, "--bucket", "seq=4", "--dim", "seq=past+1"],
        ["compile", model, "--bucket", "seq=4", "--arena-at", "seq=2"],
        ["compile", model, "--bucket", "seq=4", "--buckets", "batch=2"],
        ["compile", model, "--bucket", "a=1,2,3,4,5,6,7,8", "--bucket", "b=1,2,3,4,5,6,7,8,9"],
        ["compile", model, *(word for i in range(9) for word in ("--bucket", f"n{i}=1"))],
        ["compile", model, "--buckets", "a,b=1x2,3"],
        ["compile", model, "--buckets", "a,b=1x2,2x1"],
        ["compile", model, "--buckets", "a,b=1x2,1x2"],
        ["compile", model, "--keep", "no_such_node"],
        ["compile", model, "--handle", "no_such_input"],
        ["compile", model, "--handle", "x=no_such_output"],
        ["compile", model, "--handle", "x", "--handle", "x"],
        ["compile", model, "--stop-after", "fuze"],
        ["inspect", model, "--jsn"],
        ["inspect", model, "--json=yes"],
        ["inspect", model, "-O4"],
        ["inspect", model, "--spare-ram", "1e99"],
        ["inspect", model, "--accuracy", "1.5"],
        ["inspect", model, "--dim", "n"],
        ["inspect", model, "--dim", "n=5..3"],
        ["inspect", model, "--shape", "x=2,y"],
        ["inspect", model, "--value", "x"],
        ["inspect", model, "--value", "x=1,,2"],
        ["inspect", model, "--value", "x=1,2"],
        ["run", model, "--random", "x"],
        ["run", model, "--input", model],
        ["verify", model, "--tolerance", "-1"],
        ["verify", model, "--accuracy", "-1"],
        ["verify", model, "--stop-after", "fold"],
        ["explain", "E9999"],
        ["dev-place"],
        ["passes", "fold"],
        ["targets", "c"],
    ],
}
scratch = tempfile.TemporaryDirectory()  # where a command that should fail would write
for args, code in [(args, code) for code, lines in COMMANDS.items() for args in lines]:
    got = subprocess.run([rlxc, *args], capture_output=True, cwd=scratch.name)
    if got.returncode != code:
        failed.append(f"rlxc {' '.join(args)}: exit code {got.returncode}, expected {code}")
    if code != 0 and not got.stderr:
        failed.append(f"rlxc {' '.join(args)}: failed without a message")
    if b"\x1b" in got.stdout + got.stderr or b"\r" in got.stderr:
        failed.append(f"rlxc {' '.join(args)}: colours or progress in a pipe")

# Everything that is wrong with sizes is said at once.
SYMBOLS = {"b": {"max": 64}, "s": {"min": 8, "max": 512, "multiple": 8}, "t": {"default": 3}}
symbolic = os.path.join(scratch.name, "symbolic.json")
with open(symbolic, "w") as f:
    x = {"dtype": "f32", "shape": ["b", "s", "t"]}
    json.dump({"rlxc": 1, "symbols": SYMBOLS, "inputs": {"x": x}, "nodes": [], "outputs": ["x"]}, f)
experts = os.path.join(scratch.name, "experts.json")
with open(experts, "w") as f:
    shape = {"router": [2, 3], "up": [3, 2, 2]}
    layer = {"name": "y", "op": "moe", "inputs": ["x", "router", "up", "up", "up"], "k": 1}
    weights = {
        name: {"dtype": "f32", "shape": s, "data": [0.5] * math.prod(s)} for name, s in shape.items()
    }
    inputs = {"x": {"dtype": "f32", "shape": [2, 2]}}
    json.dump({"rlxc": 1, "inputs": inputs, "weights": weights, "nodes": [layer], "outputs": ["y"]}, f)
vector = os.path.join(scratch.name, "vector.npy")
with open(vector, "wb") as f:
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + "\n"
    f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + bytes(8))
# Six inputs, all of whose sizes are open, and a product of the last two.
open_sizes = os.path.join(scratch.name, "open.onnx")
digits = os.path.join(root, "models", "digits", "digits.onnx")


def field(number, value):
    """A field of a protobuf message that is short: a number, text or a message."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    value = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2]) + (bytes([len(value)]) if len(value) < 128 else
                                       bytes([len(value) & 127 | 128, len(value) >> 7])) + value


def open_input(k):
    dims = field(1, field(2, f"b{k}")) + field(1, field(2, f"s{k}"))
    return field(11, field(1, f"x{k}") + field(2, field(1, field(1, 1) + field(2, dims))))


with open(open_sizes, "wb") as f:
    product = field(1, "x4") + field(1, "x5") + field(2, "y") + field(4, "MatMul")
    graph = field(1, product) + b"".join(open_input(k) for k in range(6)) + field(12, field(1, "y"))
    f.write(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
# GPUs lack some or all operations of f64.
double = os.path.join(scratch.name, "double.rlx")
with open(double, "w") as f:
    f.write('graph "double" {\n  %1 = input "x" : f64[3, 8]\n  %2 = softmax(%1)\n  output "y" = %2\n}\n')
another_cpu = "x86-64-v3" if platform.machine() == "aarch64" else "armv8-a"
MESSAGES = [
    (
        ["inspect", symbolic],
        1,
        "rlxc: error[E0207]: dimension 'b' (axis 0 of input 'x') needs a size: give it with --dim b=VALUE\n"
        "rlxc: error[E0207]: dimension 's' (axis 1 of input 'x') needs a size: give it with --dim s=VALUE\n",
    ),
    # What is wrong with --input is said, not what is missing for want of it.
    (
        ["run", symbolic, "--input", "y=" + vector],
        1,
        f"rlxc: error[E0402]: --input y={vector}: the graph has no such input\nrlxc: note: it has: x\n",
    ),
    (
        ["run", symbolic, "--input", "x=/nonexistent.npy"],
        1,
        "rlxc: error[E0001]: cannot read '/nonexistent.npy': No such file or directory\n",
    ),
    (
        ["run", symbolic, "--input", "x=" + vector],
        1,
        f"rlxc: error[E0402]: input 'x' is f32[b, s, t], with 3 axes, but {vector} has 1\n",
    ),
    (
        ["run", symbolic, "--input", vector],
        2,
        f"rlxc: error[E0003]: --input {vector}: expected NAME=FILE.npy\n",
    ),
    # Also where the import fails for want of sizes; what the error is about comes first of all that is open.
    (
        ["run", open_sizes, "--input", "y=" + vector],
        1,
        f"{open_sizes}: error[E0402]: --input y: the model has no such input\n"
        f"{open_sizes}: note: it has: x0, x1, x2 and 3 more\n",
    ),
    (
        ["inspect", open_sizes],
        1,
        f"{open_sizes}: error[E0204]: matmul: f32[b4, s4] x f32[b5, s5]: inner dims s4 and b5 differ\n"
        "  at y\n"
        f"{open_sizes}: note: in the node 'y'\n  at y\n"
        f"{open_sizes}: note: the model leaves sizes open; give them with --dim b4=VALUE --dim s4=VALUE"
        " --dim b5=VALUE and 9 more\n",
    ),
    (
        ["inspect", digits, "--dim", "bitch=2"],
        1,
        "rlxc: error[E0207]: --dim bitch: the graph has no symbolic dimension 'bitch'\n"
        "rlxc: note: it has: batch (axis 0 of input 'image')\n",
    ),
    (
        ["inspect", digits, "--dim", "batch=0"],
        0,
        f"{digits}: warning[E0208]: --dim batch=0: no output has an element, so nothing is computed\n",
    ),
    (
        ["inspect", symbolic, "--dim", "b=0"],
        1,
        "rlxc: error[E0208]: --dim b=0: the size must be from 1 to 64\n",
    ),
    (
        ["inspect", symbolic, "--dim", "b=65", "--dim", "s=12"],
        1,
        "rlxc: error[E0208]: --dim b=65: the size must be from 1 to 64\n"
        "rlxc: error[E0208]: --dim s=12: the size must be a multiple of 8\n",
    ),
    (
        ["inspect", symbolic, "--dim", "b=1", "--dim", "b=2"],
        2,
        "rlxc: error[E0003]: --dim b: given twice\n",
    ),
    (["inspect", symbolic, "--dim", "b=1", "--dim", "s=8"], 0, ""),
    # The message names the option that was given.
    (
        ["inspect", model, "--bucket", "zz=4"],
        1,
        "rlxc: error[E0207]: --bucket zz: the graph has no symbolic dimension 'zz'\n",
    ),
    (
        ["inspect", model, "--dim", "zz=4"],
        1,
        "rlxc: error[E0207]: --dim zz: the graph has no symbolic dimension 'zz'\n",
    ),
    *(
        (
            ["compile", double, "-o", scratch.name, "--target", target],
            1,
            f"{double}:3:3: error[E0302]: k0_softmax: {target} has no {lack}\n"
            "    3 |   %2 = softmax(%1)\n"
            "      |   ^~~~~~~~~~~~~~~~\n",
        )
        for target, lack in (("metal", "f64"), ("vulkan", "exp of f64"))
    ),
    (["verify", model, "--cpu", another_cpu], 1, None),
    (["compile", experts, "-o", scratch.name, "--moe-resident", "all"], 0, ""),
    # Not JSON under the name of another format, perhaps over the model itself.
    (
        ["convert", model, "none.npy"],
        2,
        "rlxc: error[E0003]: none.npy: expected NAME.json, NAME.rlxb or NAME.onnx; rlxc writes no .npy\n",
    ),
    (["compile", experts, "-o", scratch.name, "--moe-resident", "3"], 0, ""),
    (
        ["compile", experts, "--moe-resident", "4"],
        2,
        "rlxc: error[E0003]: --moe-resident 4: expected at most 3, the experts of all layers\n",
    ),
    (
        ["compile", model, "--moe-resident", "2"],
        2,
        "rlxc: error[E0003]: --moe-resident 2: "
        "expected a model with experts whose weights are constants\n",
    ),
]
for args, code, text in MESSAGES:
    got = subprocess.run([rlxc, *args], capture_output=True, text=True)
    if got.returncode != code or (text is not None and got.stderr != text):
        failed.append(f"rlxc {' '.join(args)}: exit code {got.returncode}, {got.stderr}")

# What cannot be written is an error, and a C compiler that is missing has an exit code of its own.
with open("/dev/full", "wb") as full:
    if subprocess.run([rlxc, "convert", model], stdout=full, stderr=subprocess.PIPE).returncode != 1:
        failed.append("rlxc convert to a full disk: no error")
with tempfile.TemporaryDirectory() as folder:
    cache = os.path.join(folder, "open", "rlxc")
    os.makedirs(cache)
    os.chmod(cache, 0o777)
    env = {**os.environ, "XDG_CACHE_HOME": os.path.dirname(cache)}
    if subprocess.run([rlxc, "verify", model], env=env, capture_output=True).returncode != 1:
        failed.append("rlxc verify with a cache that others can write to: no error")
    # A compiler of many words.
    words = {"CC": "cc" + " -DWORD" * 60, "XDG_CACHE_HOME": folder}
    for target in [], ["--target", "metal"]:
        got = subprocess.run([rlxc, "verify", model, *target], env=os.environ | words, capture_output=True)
        if got.returncode != 0:
            failed.append(f"rlxc verify {target} with a long CC: {got.returncode}, {got.stderr.decode()}")
    env = {**os.environ, "CC": "/nonexistent/cc", "XDG_CACHE_HOME": folder}
    got = subprocess.run([rlxc, "verify", model], env=env, capture_output=True, text=True)
    if got.returncode != 3 or "'/nonexistent/cc', which CC names, was not" not in got.stderr:
        failed.append(f"rlxc verify without a C compiler: exit code {got.returncode}, {got.stderr}")

    env = {k: v for k, v in env.items() if k != "CC"} | {"PATH": "/nonexistent"}
    got = subprocess.run([rlxc, "verify", model], env=env, capture_output=True, text=True)
    if got.returncode != 3 or "'cc' (CC is not set) was not found" not in got.stderr:
        failed.append(f"rlxc verify without cc: exit code {got.returncode}, {got.stderr}")
    # A home that cannot be made.
    env = {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"} | {"HOME": "/proc/nobody"}
    got = subprocess.run([rlxc, "verify", model], env=env, capture_output=True, text=True)
    if got.returncode != 1 or "name another folder by XDG_CACHE_HOME" not in got.stderr:
        failed.append(f"rlxc verify without a home: exit code {got.returncode}, {got.stderr}")
    # Only what has convolutions was asked for their accuracy.
    for name, has in ("gelu_example.json", False), (os.path.join("digits", "digits.json"), True):
        path = os.path.join(root, "models", name)
        text = subprocess.run([rlxc, "verify", path], capture_output=True, text=True).stdout
        if ("convolutions were asked for" in text) != has or "relative" not in text:
            failed.append(f"rlxc verify {name}: {text}")
        text = subprocess.run([rlxc, "bench", path, "--runs", "3"], capture_output=True, text=True).stdout
        above = any(float(word) > 100 for word in re.findall(r"([\d.]+) %", text))
        if ("shares above 100 %" in text) != above:
            failed.append(f"rlxc bench {name}: {text}")

# Group-affine weights are packed at compile time, also large ones, whose chain of steps is long.
with tempfile.TemporaryDirectory() as folder:
    for group, kernels in ((64, 1),):
        columns = 3072 // group
        tensors = {"w": ("U32", 384, 4), "scale": ("F16", columns, 2), "bias": ("F16", columns, 2)}
        head, at = {}, 0
        for name, (dtype, columns, size) in tensors.items():
            end = at + 3072 * columns * size
            head[name] = {"dtype": dtype, "shape": [3072, columns], "data_offsets": [at, end]}
            at = end
        text = json.dumps(head).encode()
        with open(os.path.join(folder, "w.safetensors"), "wb") as f:
            f.write(len(text).to_bytes(8, "little") + text)
            f.truncate(8 + len(text) + at)
        product = {"name": "y", "op": "affine_matmul", "inputs": ["x", *tensors], "bits": 4}
        weights = {k: {"dtype": v[0].lower(), "shape": [3072, v[1]], "file": "w.safetensors", "tensor": k}
                   for k, v in tensors.items()}
        inputs = {"x": {"dtype": "f32", "shape": [1, 3072]}}
        affine = os.path.join(folder, "affine.json")
        with open(affine, "w") as f:
            json.dump({"rlxc": 1, "inputs": inputs, "weights": weights, "nodes": [product],
                       "outputs": ["y"]}, f)
        command = [rlxc, "inspect", affine, "--no-code", "--json"]
        got = subprocess.run(command, capture_output=True, text=True)
        found = len(json.loads(got.stdout)["kernels"]) if got.returncode == 0 else got.stderr
        if found != kernels:
            failed.append(f"affine product in groups of {group}: {found} kernels, expected {kernels}")

# A disk that is full after the first file: what was there stays as it was, and nothing else is left.
def limit_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (120000, 120000))


with tempfile.TemporaryDirectory() as folder:
    made = ["decoder.c", "decoder.h"]
    for name in made:
        with open(os.path.join(folder, name), "w") as f:
            f.write("old")
    large = os.path.join(root, "models", "decoder.json")
    command = [rlxc, "compile", large, "-o", folder, "--no-validate", "--weights", "rodata"]
    got = subprocess.run(command, preexec_fn=limit_files, capture_output=True, text=True)
    if got.returncode != 1 or got.stderr.count("cannot write") != 1:
        failed.append(f"rlxc compile to a full disk: {got.returncode}, {got.stderr}")
    if sorted(os.listdir(folder)) != made or any(os.path.getsize(os.path.join(folder, n)) != 3 for n in made):
        failed.append(f"rlxc compile to a full disk leaves {os.listdir(folder)}")
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(os.path.join(folder, "digits.c"))
    command = [rlxc, "compile", model, "-o", folder, "--name", "digits", "--no-validate"]
    got = subprocess.run(command, capture_output=True, text=True)
    if got.returncode != 1 or "Is a directory" not in got.stderr or os.listdir(folder) != ["digits.c"]:
        failed.append(f"rlxc compile where a folder has the name of a file: {got}, {os.listdir(folder)}")

digits = os.path.join(root, "models", "digits", "digits.json")
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(os.path.join(folder, "digits.json"))
    command = [rlxc, "convert", digits, os.path.join(folder, "digits.json")]
    got = subprocess.run(command, capture_output=True, text=True)
    if got.returncode != 1 or os.listdir(folder) != ["digits.json"]:
        failed.append(f"rlxc convert where a folder has the name of a file: {got}, {os.listdir(folder)}")

# Nothing but files is replaced: not /dev/null, nor the link /dev/stdout, which root could.
with tempfile.TemporaryDirectory() as folder:
    pipe, *links = (os.path.join(folder, name) for name in ("pipe", "null", "stdout"))
    os.mkfifo(pipe)
    for link, to in zip(links, ("/dev/null", "/proc/self/fd/1")):
        os.symlink(to, link)
    for path in (pipe, *links):
        before = os.lstat(path).st_ino
        got = subprocess.run([rlxc, "convert", digits, path], capture_output=True, text=True)
        is_refused = got.returncode == 1 and "it is not a regular file" in got.stderr
        if not is_refused or os.lstat(path).st_ino != before:
            failed.append(f"rlxc convert to a {os.path.basename(path)}: {got}")
    if len(os.listdir(folder)) != 3:
        failed.append(f"rlxc convert to what is no file leaves {os.listdir(folder)}")

for line in failed:
    print(line, file=sys.stderr)
sys.exit(bool(failed))
