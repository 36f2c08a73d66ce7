#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs generated code of steps (--stream) against that of whole runs, bit for bit: the graphs of test_stream,
some random stacks, and networks that are not ours where ../shared/models has them. Our networks run as
generic code, as that of this machine or as that of a microcontroller, by turns from day to day
(rotation.py). Usage:
check_stream.py RLXC TEST_STREAM"""

import ctypes
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import rotation  # noqa: E402

RLXC, TEST_STREAM = map(os.path.abspath, sys.argv[1:3])
HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared/models"
CTX_BYTES = 1024  # more than an rlx_ctx
RANDOM_STACKS = 12
BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "i32": 4, "i64": 8, "bool": 1}
SAME_SUMS = ["-O2", "-fno-tree-vectorize", "--param", "avoid-fma-max-bits=0"]
CPUS = ("generic", "native", "cortex-m4")
FAILED = []


def call(*args):
    return subprocess.run([RLXC, *map(str, args)], capture_output=True, text=True)


def call_json(*args):
    done = call(*args, "--json")
    assert done.returncode == 0, f"rlxc {' '.join(map(str, args))}: {done.stderr}"
    return json.loads(done.stdout)


def aligned(n):
    memory = ctypes.create_string_buffer(n + 64)
    return memory, ctypes.addressof(memory) + -ctypes.addressof(memory) % 64


def numel(shape):
    n = 1
    for size in shape:
        n *= size
    return n


class Library:
    """The flags keep gcc's vectorizer from leaving some products and sums apart that it joins to
    multiply-adds elsewhere: emitted code has the same ones in one expression everywhere."""

    def __init__(self, folder, name, model, cpu, options):
        options = ["--cpu", cpu, "--accuracy", "0", *options]
        made = call_json("compile", model, "-o", folder, "--name", name, *options)
        self.facts = call_json("inspect", model, "--no-code", "--name", name, *options)
        flags = [*made["cc_flags"].split(), *SAME_SUMS, "-shared", "-fPIC", "-w"]
        command = ["cc", *flags, f"{name}.c", "-o", f"{name}.so"]
        if cpu not in ("generic", "native"):  # this machine runs the C text
            command = [word for word in command if not word.startswith("-m")]
        subprocess.run([*command, "-lm"], check=True, cwd=folder)
        self.code, self.name, self.stream = ctypes.CDLL(f"{folder}/{name}.so"), name, made.get("stream")
        self.ctx = ctypes.create_string_buffer(CTX_BYTES)
        self.arena, self.state = aligned(made["arena_bytes"]), aligned(made["state_bytes"])
        self.sizes = made["arena_bytes"], made["state_bytes"]
        self.init()

    def init(self):
        memory = self.arena[1], self.sizes[0], self.state[1] if self.sizes[1] else None, self.sizes[1]
        kinds = (ctypes.c_void_p, ctypes.c_size_t) * 2
        status = getattr(self.code, self.name + "_init")(self.ctx, *(k(v) for k, v in zip(kinds, memory)))
        assert status == 0, f"{self.name}_init: {status}"

    def run(self, inputs):
        ctypes.memset(self.arena[1], 0xFF, self.sizes[0])
        given = [ctypes.create_string_buffer(inputs[i["name"]]) for i in self.facts["inputs"]]
        made = [ctypes.create_string_buffer(bytes_of(o) + 8) for o in self.facts["outputs"]]
        status = getattr(self.code, self.name)(self.ctx, *given, *made)
        assert status == 0, f"{self.name}: {status}"
        return {o["name"]: bytes(m)[: bytes_of(o)] for o, m in zip(self.facts["outputs"], made)}


def bytes_of(io):
    return numel(io["shape"]) * BYTES[io["dtype"]]


def random_value(io, rng):
    n, kind = numel(io["shape"]), io["dtype"]
    if kind in ("f32", "f64"):
        return struct.pack(f"{n}{kind == 'f32' and 'f' or 'd'}", *(rng.uniform(-2, 2) for _ in range(n)))
    if kind == "f16":
        return struct.pack(f"{n}e", *(rng.uniform(-2, 2) for _ in range(n)))
    code = {"i8": "b", "i32": "i", "i64": "q"}[kind]
    return struct.pack(f"{n}{code}", *(rng.randrange(-9, 10) for _ in range(n)))


def frames(value, io, axis, first, count):
    """Elements first .. first + count - 1 along the axis."""
    shape, size = io["shape"], BYTES[io["dtype"]]
    inner = numel(shape[axis + 1 :]) * size
    block = inner * shape[axis]
    parts = range(0, len(value), block)
    return b"".join(value[at + first * inner : at + (first + count) * inner] for at in parts)


def is_near(a, b, dtype, nearly):
    if not nearly or dtype != "f32":
        return False
    a, b = (struct.unpack(f"{len(v) // 4}f", v) for v in (a, b))
    return max(abs(x - y) for x, y in zip(a, b)) <= nearly * max(1, *map(abs, a))


def compare_outputs(whole, step, want, got, k, unsure, nearly):
    shapes = {o["name"]: o for o in whole.facts["outputs"]}
    mine = {o["name"]: o for o in step.facts["outputs"]}
    compared = 0
    for part in step.stream["outputs"]:
        name, axis, count = part["name"], part["axis"], part["frames"]
        for i in range(count):
            at = k * count - part["late"] + i
            if 0 <= at < shapes[name]["shape"][axis] - unsure:
                a = frames(want[name], shapes[name], axis, at, 1)
                b = frames(got[name], mine[name], axis, i, 1)
                where = f"{name}: element {at} differs (step {k}, late {part['late']})"
                assert a == b or is_near(a, b, shapes[name]["dtype"], nearly), where
                compared += 1
    return compared


def compare_latest(step, want, got):
    late = {part["name"] for part in step.stream["outputs"]}
    for name in want:
        assert name in late or want[name] == got[name], f"{name}: the latest value differs"


def compare(folder, model, axes, cpu="generic", options=(), unsure=0, more=(), nearly=0):
    """Returns how many elements were compared. axes: by input. nearly: how far they may be apart."""
    whole = Library(folder, f"whole{report.n}", model, cpu, more)  # names that no loaded library has
    step = Library(folder, f"step{report.n}", model, cpu, [*options, *more])
    rng = random.Random(3)
    inputs = {i["name"]: random_value(i, rng) for i in whole.facts["inputs"]}
    shapes = {i["name"]: i for i in whole.facts["inputs"]}
    want = whole.run(inputs)
    per_step, total = step.stream["frames"], step.stream["whole_frames"]
    compared = []
    for _ in range(2):  # states begin again
        step.init()
        compared.append(0)
        for k in range(total // per_step):
            part = {
                name: frames(v, shapes[name], axes[name], k * per_step, per_step) if name in axes else v
                for name, v in inputs.items()
            }
            got = step.run(part)
            compared[-1] += compare_outputs(whole, step, want, got, k, unsure, nearly)
        if total % per_step == 0:
            compare_latest(step, want, got)
    assert compared[0] == compared[1]
    spreads = "conv_transpose" in step.facts["ops"]  # counted for all frames that it reads
    if not spreads:
        check_work(step.facts)
    return compared[0]


def check_work(facts):
    """Every element once: a step does not have more multiply-adds than its share of the whole run, but for
    elements of the whole run that padding behind the end or missing elements leave out."""
    stream = facts["stream"]
    assert stream["macs"] == facts["macs"], stream
    share = stream.get("whole_macs", 0) * stream["frames"] / stream["whole_frames"]
    late = max([part["late"] / part["frames"] for part in stream["outputs"]] or [0])
    steps = stream["whole_frames"] / stream["frames"]
    if stream.get("whole_macs") and steps > late + 2:
        assert stream["macs"] <= share * steps / (steps - late - 2) + 1, (stream, share)


def report(name, function, *args, **more):
    try:
        what = function(*args, **more)
    except AssertionError as e:
        what = f"{e}"
        FAILED.append(name)
    report.n += 1
    print(f"{'not ok' if name in FAILED else 'ok'} {report.n} - {name}: {what}", flush=True)


report.n = 0


# --- graphs of test_stream -----------------------------------------------------------------------


def saved_graphs(folder):
    files = [str(HERE / "streams.rlx")]
    env = {**os.environ, "TEST_SAVE": folder}
    subprocess.run([TEST_STREAM, *files], check=True, env=env, stdout=subprocess.DEVNULL)
    graphs = sorted(pathlib.Path(folder).glob("*.rlx"), key=lambda p: int(p.stem))
    ours = len(re.findall("^graph ", open(files[0], encoding="ascii").read(), re.MULTILINE))
    return graphs[: ours + RANDOM_STACKS]


# Rows of fewer than four elements take the C library's functions, longer ones vectors; attention adds its
# keys in blocks (docs/STREAMING.md).
INEXACT = re.compile("= (tanh|sigmoid|softplus|attention|lstm|gru|rnn|loop)\\(")


def check_saved(folder, path, cpu):
    text = path.read_text(encoding="ascii")
    axes = {name: int(axis) for name, axis in re.findall(r"^# (\w+):(\d)$", text, re.MULTILINE)}
    per_step = int(re.search(r"^# =(\d+)$", text, re.MULTILINE)[1])
    unsure = int(re.search(r"^# unsure (\d+)$", text, re.MULTILINE)[1])
    options = []
    for name, axis in axes.items():
        options += ["--stream", f"{name}:{axis}" + (f"={per_step}" if per_step else "")]
    nearly = 1e-5 if INEXACT.search(text) else 0
    return f"{compare(folder, path, axes, cpu, options, unsure, nearly=nearly)} elements"


# --- networks ------------------------------------------------------------------------------------


class Network:
    """A model in JSON. All values are [1, channels, time ...]."""

    def __init__(self, shape, dtype="f32", seed=1):
        self.rng = random.Random(seed)
        x = {"dtype": dtype, "shape": shape}
        self.model = {"rlxc": 1, "inputs": {"x": x}, "weights": {}, "nodes": []}

    def weights(self, *shape, dtype="f32", low=-0.5, high=0.5):
        name = f"w{len(self.model['weights'])}"
        data = [self.rng.uniform(low, high) if dtype == "f32" else self.rng.randint(low, high)
                for _ in range(numel(shape))]
        self.model["weights"][name] = {"dtype": dtype, "shape": shape, "data": data}
        return name

    def node(self, op, *inputs, **attributes):
        name = f"{op}{len(self.model['nodes'])}"
        self.model["nodes"].append({"name": name, "op": op, "inputs": list(inputs), **attributes})
        return name

    def conv(self, x, into, out, *kernel, group=1, **attributes):
        w, b = self.weights(out, into // group, *kernel), self.weights(out)
        return self.node("conv", x, w, b, group=group, **attributes)

    def write(self, folder, *outputs):
        self.model["outputs"] = list(outputs)
        path = f"{folder}/network.json"
        with open(path, "w", encoding="ascii") as f:
            json.dump(self.model, f)
        return path


def wavenet(folder, time):
    """Dilated causal convolutions with gates, a residual and a sum of skips."""
    n, c, skips = Network([1, 1, time]), 16, []
    x = n.conv("x", 1, c, 2, pads=[1, 0])
    for dilation in (1, 2, 4, 8, 1, 2, 4, 8):
        pads = {"pads": [dilation, 0], "dilations": [dilation]}
        a, b = n.conv(x, c, c, 2, **pads), n.conv(x, c, c, 2, **pads)
        gate = n.node("mul", n.node("tanh", a), n.node("sigmoid", b))
        skips.append(n.conv(gate, c, c, 1))
        x = n.node("add", n.conv(gate, c, c, 1), x)
    total = skips[0]
    for skip in skips[1:]:
        total = n.node("add", total, skip)
    return n.write(folder, n.conv(n.node("relu", n.conv(n.node("relu", total), c, c, 1)), c, 8, 1))


def seanet(folder, time):
    """An encoder with strides 2, 4 and 5, an LSTM, and the decoder that mirrors it; residual units."""
    n, channels, strides = Network([1, 1, time]), 8, (2, 4, 5)

    def unit(x, c):
        inside = n.conv(n.node("relu", x), c, c // 2, 3, pads=[4, 0], dilations=[2])
        return n.node("add", n.conv(n.node("relu", inside), c // 2, c, 1), x)

    x = n.conv("x", 1, channels, 7, pads=[6, 0])
    for stride in strides:
        x = unit(x, channels)
        x = n.conv(n.node("relu", x), channels, 2 * channels, 2 * stride, pads=[stride, 0], strides=[stride])
        channels *= 2
    turned = n.node("transpose", x, perm=[2, 0, 1])
    w = n.weights(1, 4 * channels, channels), n.weights(1, 4 * channels, channels)
    y = n.node("reshape", n.node("lstm", turned, *w), shape=[time // 40, 1, channels])
    x = n.node("add", n.node("transpose", y, perm=[1, 2, 0]), x)
    for stride in reversed(strides):
        w = n.weights(channels, channels // 2, 2 * stride)
        x = n.node("conv_transpose", n.node("relu", x), w, strides=[stride], pads=[0, stride])
        channels //= 2
        x = unit(x, channels)
    return n.write(folder, n.conv(n.node("relu", x), channels, 1, 7, pads=[6, 0]))


def ds_cnn(folder, time):
    """The keyword network of MLPerf Tiny with causal padding of time, floats."""
    n, c = Network([1, 1, time, 10]), 16
    x = n.node("relu", n.conv("x", 1, c, 10, 4, strides=[2, 2], pads=[9, 1, 0, 1]))
    for _ in range(4):
        x = n.node("relu", n.conv(x, c, c, 3, 3, group=c, pads=[2, 1, 0, 1]))
        x = n.node("relu", n.conv(x, c, c, 1, 1))
    x = n.node("avg_pool", x, kernel=[8, 5], strides=[1, 1], pads=[7, 0, 0, 0], count_include_pad=True)
    return n.write(folder, n.conv(x, c, 12, 1, 1))


def ds_cnn_bytes(folder, time):
    """The same in integers: zero points, sums that become bytes again, central padding (so it is late)."""
    n, c = Network([1, 1, time, 10], "i8"), 16
    n.model["weights"]["zero"] = {"dtype": "i8", "shape": [], "data": [-3]}

    def conv(x, into, out, *kernel, group=1, **attributes):
        w = n.weights(out, into // group, *kernel, dtype="i8", low=-90, high=90)
        b = n.weights(out, dtype="i32", low=-99, high=99)
        y = n.node("int_conv", x, w, b, "zero", group=group, **attributes)
        y = n.node("mul", n.node("cast", y, to="f32"), 0.003)
        return n.node("cast", n.node("clamp", n.node("round", y), -128.0, 127.0), to="i8")

    x = conv("x", 1, c, 10, 4, strides=[2, 2], pads=[4, 1, 5, 1])
    for _ in range(3):
        x = conv(x, c, c, 3, 3, group=c, pads=[1, 1, 1, 1])
        x = conv(x, c, c, 1, 1)
    return n.write(folder, x)


def recurrent(folder, time):
    """Two LSTMs behind a convolution, and the last state."""
    n, h = Network([1, 8, time]), 16
    x = n.node("transpose", n.conv("x", 8, h, 3, pads=[2, 0]), perm=[2, 0, 1])
    for _ in range(2):
        w = n.weights(1, 4 * h, h), n.weights(1, 4 * h, h), n.weights(1, 8 * h)
        y = n.node("lstm", x, *w)
        x = n.node("reshape", y, shape=[time, 1, h])
    last = n.node("slice", x, starts=[-1], ends=[time], axes=[0])
    return n.write(folder, n.node("matmul", x, n.weights(h, 4)), n.node("matmul", last, n.weights(h, 4)))


def dual_path(folder, time):
    """As GTCRN: causal convolutions over time and frequency, an LSTM along frequency in both directions, one
    along time, and the way back to all frequencies."""
    n, c, bands = Network([1, 2, time, 33]), 8, 17
    skip = n.node("relu", n.conv("x", 2, c, 3, 5, pads=[2, 2, 0, 2], strides=[1, 2]))
    x = n.node("relu", n.conv(skip, c, c, 3, 3, group=c, pads=[4, 1, 0, 1], dilations=[2, 1]))
    for perm, directions in (([3, 2, 0, 1], 2), ([2, 3, 0, 1], 1)):  # [bands, time, ...], [time, bands, ...]
        h = c // directions
        first, second = (bands, time) if directions == 2 else (time, bands)
        turned = n.node("reshape", n.node("transpose", x, perm=perm), shape=[first, second, c])
        w = n.weights(directions, 4 * h, c), n.weights(directions, 4 * h, h), n.weights(directions, 8 * h)
        direction = "bidirectional" if directions == 2 else "forward"
        y = n.node("lstm", turned, *w, direction=direction)
        y = n.node("reshape", n.node("transpose", y, perm=[0, 2, 1, 3]), shape=[first, second, c])
        y = n.node("layer_norm", n.node("matmul", y, n.weights(c, c)))
        back = [2, 1, 0] if directions == 2 else [2, 0, 1]  # to [channels, time, bands]
        x = n.node("add", x, n.node("reshape", n.node("transpose", y, perm=back), shape=[1, c, time, bands]))
    x = n.node("concat", x, skip, axis=1)
    w = n.weights(2 * c, 2, 3, 5)
    return n.write(folder, n.node("tanh", n.node("conv_transpose", x, w, strides=[1, 2], pads=[0, 2, 2, 2])))


def attention(folder, time):
    """A block of a transformer whose queries see the 7 keys before them."""
    n, c = Network([1, time, 32]), 32
    heads = []
    for _ in range(3):
        y = n.node("matmul", n.node("layer_norm", "x"), n.weights(c, c))
        heads.append(n.node("transpose", n.node("reshape", y, shape=[1, time, 4, 8]), perm=[0, 2, 1, 3]))
    y = n.node("attention", *heads, causal=True, left=7)
    y = n.node("reshape", n.node("transpose", y, perm=[0, 2, 1, 3]), shape=[1, time, c])
    x = n.node("add", "x", n.node("matmul", y, n.weights(c, c)))
    y = n.node("relu", n.node("matmul", x, n.weights(c, 64)))
    return n.write(folder, n.node("add", x, n.node("matmul", y, n.weights(64, c))))


NETWORKS = [
    # name, maker, time, axis, allowed error
    ("WaveNet", wavenet, 60, 2, 0),
    ("SEANet", seanet, 400, 2, 0),
    ("DS-CNN", ds_cnn, 60, 2, 0),
    ("DS-CNN of bytes", ds_cnn_bytes, 60, 2, 0),
    ("LSTMs", recurrent, 40, 2, 0),
    ("dual path", dual_path, 40, 2, 0),
    ("attention with a window", attention, 40, 1, 1e-5),
]


def check_network(folder, make, time, axis, nearly, cpu):
    model = make(folder, time)
    few = compare(folder, model, {"x": axis}, cpu, ["--stream", f"x:{axis}"], nearly=nearly)
    step = call_json("inspect", model, "--no-code", "--stream", f"x:{axis}")["stream"]
    return f"{few} elements; {step['macs']} multiply-adds a step, states of {step['state_bytes']} bytes"


def check_longer(folder, make, time, axis, nearly, cpu):
    """Steps that are four times as long."""
    model = make(folder, time)
    step = call_json("inspect", model, "--no-code", "--stream", f"x:{axis}")["stream"]
    options = ["--stream", f"x:{axis}={4 * step['frames']}"]
    return f"{compare(folder, model, {'x': axis}, cpu, options, nearly=nearly)} elements"


# --- networks that are not ours ------------------------------------------------------------------


def check_keywords(folder, cpu):
    """MLPerf Tiny's network: its last pool needs the whole axis; what stands before it streams, 6 late."""
    model = SHARED / "mlperf_tiny/kws_ref_model.tflite"
    whole = call("inspect", model, "--no-code", "--stream", "input_1:1")
    for words in ("average_pooling2d/AvgPool", "there is a result only when the stream ends"):
        assert words in whole.stderr, whole.stderr
    nodes = json.loads(call("convert", model).stdout)["nodes"]
    pool = next(n for n in nodes if "average_pooling2d" in n["name"])
    end = re.sub(r"_[0-9]+$", "", pool["inputs"][0])  # of several nodes of that name, the last
    call_json("cut", model, "--to", end, "-o", f"{folder}/part.json")
    few = compare(folder, f"{folder}/part.json", {"input_1": 1}, cpu, ["--stream", "input_1:1"], unsure=6)
    return f"{few} elements"


def check_refused(_, name, options, words):
    done = call("inspect", SHARED / f"onnx/{name}/model.onnx", "--no-code", *options)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    return words


OTHERS = [
    # what is needed, the check and its arguments
    ("mlperf_tiny", check_keywords, "generic"),
    ("mlperf_tiny", check_keywords, "native"),
    ("mlperf_tiny", check_keywords, "cortex-m4"),
    ("onnx/gtcrn", check_refused, "gtcrn", ["--stream", "mix:2"], "the model is a step already"),
    ("onnx/dtln_1", check_refused, "dtln_1", ["--stream", "input_2:1"], "the model is a step already"),
    ("onnx/silero_vad", check_refused, "silero_vad",
     ["--dim", "batch=1", "--dim", "sequence=576", "--value", "sr=16000", "--handle", "state=stateN",
      "--stream", "input:1"],
     "/model/stft/padding/Pad: pad cannot be streamed: its padding repeats elements of the axis"),
]


def check_others(folder):
    for needed, check, *args in OTHERS:
        if (SHARED / needed).exists():
            report(f"{needed}, {args[0]}", check, folder, *args)
        else:
            report.n += 1
            print(f"ok {report.n} - {needed} # SKIP ../shared/models/{needed} is not there")


def main():
    with tempfile.TemporaryDirectory() as top:
        for i, (name, *network) in enumerate(NETWORKS):
            for k, cpu in enumerate(CPUS):
                if rotation.is_taken(i + k, len(CPUS)):
                    report(f"{name}, {cpu}", check_network, top, *network, cpu)
            report(f"{name}, longer steps", check_longer, top, *network, CPUS[i % len(CPUS)])
        check_others(top)
        for i, path in enumerate(saved_graphs(top)):
            name = re.search('^graph "(.*)"', path.read_text(encoding="ascii"), re.MULTILINE)[1]
            report(f"{name} ({path.stem})", check_saved, top, path, CPUS[i % len(CPUS)])
    print(f"1..{report.n}")
    sys.exit(bool(FAILED))


main()
