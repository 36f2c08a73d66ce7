#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inputs that come row by row (--stream-input). Random networks of bytes for microcontrollers and of floats
for hosts are compiled with and without it; programs that are built with AddressSanitizer give rows in random
numbers, or the input as a whole, and must find the same bytes. What a program can do wrong must end in a
status, what cannot come by rows in a message that names the node. Person detection of MLPerf Tiny, where it
lies beside the tree, must fit into 22400 bytes and give LiteRT's stored results.

  check_stream_input.py RLXC [COUNT [SEED]]   random networks SEED .. SEED + COUNT - 1 of both kinds

Prints TAP."""

import pathlib
import random
import re
import struct
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from check_ram import CPUS, NETWORKS, RLXC, Net, call, checked, read_npy, rotation, tap  # noqa: E402

HOSTS = ("generic", "native", "x86-64-v3")
VWW_BYTES = 22400
# Inputs of `bytes` bytes from stdin, each as rows in random numbers, or (every third) as a whole.
MAIN = """#include "%(name)s.h"
#include <stdio.h>
#include <stdlib.h>
static RLX_ALIGNED unsigned char arena[%(upper)s_ARENA_BYTES + 1];
#define ROW (%(upper)s_ROW_x * sizeof *input)
#define ROWS %(upper)s_ROWS_x
int main(void)
{
    rlx_ctx c;
    unsigned n, runs = 0;
    %(type)s *input = malloc(ROWS * %(upper)s_ROW_x * sizeof *input);
    static unsigned char output[%(outputs)d];
    if (%(name)s_init(&c, arena, %(upper)s_ARENA_BYTES, NULL, 0) != RLX_OK)
        return 1;
    while (fread(input, ROW, ROWS, stdin) == ROWS) {
        if (runs++ %% 3 == 2) {
            if (%(name)s(&c, input, (void *)output) != RLX_OK)
                return 2;
            fwrite(output, 1, sizeof output, stdout);
            continue;
        }
        for (unsigned row = 0; row < ROWS; row += n) {
            n = 1 + (unsigned)rand() %% (runs %% 3 * ROWS / 2);
            n = n > ROWS - row ? ROWS - row : n;
            void *rows = malloc(n * ROW); /* whatever reads other rows is seen */
            memcpy(rows, (char *)input + row * ROW, n * ROW);
            if (rlx_rows_left(&c) != ROWS - row || %(name)s_feed_x(&c, rows, n) != RLX_OK)
                return 3;
            free(rows);
        }
        if (rlx_run(&c) != RLX_OK || rlx_rows_left(&c) != ROWS)
            return 4;
        fwrite(rlx_output(&c, 0), 1, sizeof output, stdout);
    }
    free(input);
    return 0;
}
"""
WHOLE = """#include "%(name)s.h"
#include <stdio.h>
static RLX_ALIGNED unsigned char arena[%(upper)s_ARENA_BYTES + 1], input[%(inputs)d], output[%(outputs)d];
int main(void)
{
    rlx_ctx c;
    if (%(name)s_init(&c, arena, %(upper)s_ARENA_BYTES, NULL, 0) != RLX_OK)
        return 1;
    while (fread(input, sizeof input, 1, stdin) == 1) {
        if (%(name)s(&c, (void *)input, (void *)output) != RLX_OK)
            return 2;
        fwrite(output, sizeof output, 1, stdout);
    }
    return 0;
}
"""
WRONG = """#include "net.h"
#include <stdio.h>
#define CHECK(x) if (!(x)) return printf("%d: %s\\n", __LINE__, #x), 1
static RLX_ALIGNED unsigned char arena[NET_ARENA_BYTES];
static float rows[NET_ROWS_x * NET_ROW_x], whole[NET_ROWS_x * NET_ROW_x], first[8192], second[8192];
int main(void)
{
    rlx_ctx c;
    size_t i;
    memset(&c, 0, sizeof c);
    CHECK(net_feed_x(NULL, rows, 1) == RLX_ERR_NULL && net_feed_x(&c, rows, 1) == RLX_ERR_NULL);
    CHECK(rlx_rows_left(&c) == 0 && rlx_restart_rows(&c) == RLX_ERR_NULL);
    CHECK(net_init(&c, arena, sizeof arena, NULL, 0) == RLX_OK);
    for (i = 0; i < NET_ROWS_x * NET_ROW_x; i++)
        rows[i] = (float)(i * 7 % 31), whole[i] = -rows[i];
    CHECK(rlx_run(&c) == RLX_ERR_INPUT); /* no row is there */
    CHECK(rlx_input(&c, NET_INPUT_x) == NULL);
    CHECK(net_feed_x(&c, NULL, 1) == RLX_ERR_NULL && net_feed_x(&c, NULL, 0) == RLX_OK);
    CHECK(net_feed_x(&c, rows, NET_ROWS_x + 1) == RLX_ERR_SIZE && rlx_rows_left(&c) == NET_ROWS_x);
    CHECK(net_feed_x(&c, rows, 3) == RLX_OK && rlx_run(&c) == RLX_ERR_INPUT);
    CHECK(net_feed_x(&c, rows, (size_t)-1) == RLX_ERR_SIZE && rlx_rows_left(&c) == NET_ROWS_x - 3);
    CHECK(net_feed_x(&c, rows + 3 * NET_ROW_x, NET_ROWS_x - 3) == RLX_OK && rlx_rows_left(&c) == 0);
    CHECK(net_feed_x(&c, rows, 1) == RLX_ERR_SIZE);
    CHECK(rlx_run(&c) == RLX_OK && rlx_run(&c) == RLX_ERR_INPUT);
    memcpy(first, rlx_output(&c, 0), c.model->outputs[0].bytes);
    CHECK(net_feed_x(&c, whole, 2) == RLX_OK && net(&c, rows, second) == RLX_ERR_INPUT); /* two at once */
    CHECK(rlx_rows_left(&c) == NET_ROWS_x && net(&c, rows, second) == RLX_OK);
    CHECK(memcmp(first, second, c.model->outputs[0].bytes) == 0);
    CHECK(rlx_feed_rows(&c, whole, 5) == RLX_OK && rlx_restart_rows(&c) == RLX_OK);
    CHECK(net_feed_x(&c, rows, NET_ROWS_x) == RLX_OK && rlx_run(&c) == RLX_OK);
    CHECK(memcmp(first, rlx_output(&c, 0), c.model->outputs[0].bytes) == 0);
    c.n_fed = RLX_FEEDING; /* as an interrupt in the middle of a call finds it */
    CHECK(net_feed_x(&c, rows, 1) == RLX_ERR_INPUT && rlx_run(&c) == RLX_ERR_INPUT);
    CHECK(net(&c, rows, second) == RLX_ERR_INPUT && rlx_restart_rows(&c) == RLX_ERR_INPUT);
    CHECK(c.n_fed == RLX_FEEDING && rlx_rows_left(&c) == 0);
    return 0;
}
"""
SANITIZED = ["-O0", "-fsanitize=address"]


class Floats(Net):
    """Layers of floats: convolutions, also depthwise ones, pools, residuals and elementwise operations."""

    def conv(self, value, channels, kernel, stride, pads, is_apart):
        x, (c, h, w) = value
        weights = self.const("f32", [channels, 1 if is_apart else c, *kernel], -1, 1)
        made = self.add(f"conv({x}, {weights}, {self.const('f32', [channels], -1, 1)}) {{pads = {pads}, "
                        f"strides = {stride}{f', group = {c}' if is_apart else ''}}}")
        size = [(n + pads[i] + pads[i + 2] - kernel[i]) // stride[i] + 1 for i, n in enumerate((h, w))]
        return self.add(f"relu({made})") if self.rng.random() < 0.5 else made, [channels, *size]

    def added(self, a, b):
        return self.add(f"add({a[0]}, {b[0]})"), a[1]

    def layer(self, value, before):
        rng, (c, h, w) = self.rng, value[1]
        same = [v for v in before if v[1] == value[1] and v[0] != value[0]]
        kind = rng.random()
        if same and kind < 0.2:
            return self.added(value, rng.choice(same[-3:]))
        if kind < 0.35:
            scaled = self.add(f"mul({value[0]}, {self.const('f32', [c, 1, 1], -1, 1)})")
            return self.add(f"tanh({scaled})"), value[1]
        if kind < 0.5 and min(h, w) >= 4:
            pool = rng.choice(["max_pool", "avg_pool"])
            return (self.add(f"{pool}({value[0]}) {{kernel = [2, 2], strides = [2, 2]}}"),
                    [c, (h - 2) // 2 + 1, (w - 2) // 2 + 1])
        size, is_apart = min(rng.choice([1, 3, 3, 5]), h, w), rng.random() < 0.3
        stride = [2, rng.choice([1, 2])] if min(h, w) > 6 and rng.random() < 0.3 else [1, 1]
        channels = c if is_apart else rng.choice([4, 8, 10, 16])
        return self.conv(value, channels, [size, size], stride, [size // 2] * 4, is_apart)

    def build(self):
        rng = self.rng
        shape = [rng.choice([1, 3, 4, 8]), rng.randint(6, 40), rng.randint(4, 40)]
        if rng.random() < 0.5:
            value = self.add(f'input "x" : f32[1, {", ".join(map(str, shape))}]'), shape
        else:
            rows = self.add(f'input "x" : f32[1, {shape[1]}, {shape[2]}, {shape[0]}]')
            value = self.add(f"transpose({rows}) {{perm = [0, 3, 1, 2]}}"), shape
        values = [value]
        for _ in range(rng.randint(1, 8)):
            values.append(self.layer(values[-1], values[:-1]))
        last, made = values[-1]
        text = 'graph "net" {\n' + "\n".join(self.lines) + f'\n  output "y" = {last}\n}}\n'
        return text, 4 * shape[0] * shape[1] * shape[2], 4 * made[0] * made[1] * made[2]


# --- programs -------------------------------------------------------------------------------------


def program(work, model, name, template, values, options):
    """The path of a program from inputs to outputs, and the bytes of its arena."""
    checked([RLXC, "compile", model, "-o", work, f"--name={name}", "--weights=rodata", "--no-validate",
             *options])
    header = (work / f"{name}.h").read_text()
    upper = name.upper()
    (work / f"{name}_main.c").write_text(template % {"name": name, "upper": upper, **values})
    flags = re.search(r"Compile with: cc -O3 (.*)-c ", (work / f"{name}.c").read_text()).group(1).split()
    flags = [flag for flag in flags if "cortex" not in flag and "thumb" not in flag and "rv32" not in flag
             and "ilp32" not in flag and "float-abi" not in flag]
    checked(["cc", *SANITIZED, *flags, "-ffp-contract=off", f"-I{work}", work / f"{name}_main.c",
             work / f"{name}.c", "-o", work / name, "-lm"])
    return work / name, int(re.search(rf"{upper}_ARENA_BYTES (\d+)u", header).group(1))


def planar_rows(data, shape):
    """Images [C, H, W] of floats as rows [H, C, W], which the program gives."""
    c, h, w = shape
    made = b""
    for at in range(0, len(data), 4 * c * h * w):
        lines = [data[at + 4 * w * i:at + 4 * w * (i + 1)] for i in range(c * h)]
        made += b"".join(lines[k * h + i] for i in range(h) for k in range(c))
    return made


def is_close(found, wanted):
    """Floats, to a few roundings of the largest of them."""
    pairs = list(zip(*(struct.unpack(f"<{len(v) // 4}f", v) for v in (found, wanted))))
    largest = max(abs(w) for _, w in pairs)
    return len(found) == len(wanted) and all(abs(f - w) <= 1e-6 * largest for f, w in pairs)


def compare(work, text, sizes, cpu, options, inputs):
    """Bytes of both arenas; None: the network cannot take rows, which a message says."""
    (work / "net.rlx").write_text(text)
    dtype, shape = re.search(r'input "x" : (\w+)\[1, (.*?)\]', text).groups()
    shape = [int(n) for n in shape.split(",")]
    values = {"outputs": sizes[1], "inputs": sizes[0], "type": "float" if dtype == "f32" else "int8_t"}
    try:
        path, taken = program(work, work / "net.rlx", "net", MAIN, values,
                              [f"--cpu={cpu}", "--stream-input=x", *options])
    except AssertionError as error:
        assert re.search(r"error\[E0406\]: input 'x' cannot come row by row: ('%\d+' |expected one image)",
                         str(error)), str(error)
        return None
    plain, whole = program(work, work / "net.rlx", "all", WHOLE, values, [f"--cpu={cpu}"])
    wanted = checked([plain], input=inputs)
    is_planar = "transpose(%1)" not in text and shape[0] > 1
    found = checked([path], input=planar_rows(inputs, shape) if is_planar else inputs)
    # On hosts tanh is computed in vectors, whose last bit may be another one than that of a single element,
    # and means of windows are sums of columns where the whole image comes in rows.
    may_differ = re.search(r"(tanh|avg_pool)\(", text) and cpu in HOSTS
    is_same = found == wanted or (may_differ and is_close(found, wanted))
    assert is_same, f"other results: {taken} bytes, {whole}"
    return taken, whole


def check_bytes(seed):
    rng, cpu = random.Random(-seed), (*CPUS, "generic")[seed % (len(CPUS) + 1)]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        text, *sizes = Net(seed).build()
        inputs = bytes(rng.randrange(256) for _ in range(6 * sizes[0]))
        taken = compare(work, text, sizes, cpu, [], inputs)
        if taken is None:
            return f"{cpu}: refused"
        done = call([RLXC, "compile", work / "net.rlx", f"--cpu={cpu}", "--stream-input=x", "--ram=1"])
        fewest = int(re.search(r"E0405\]: (\d+) bytes of RAM are needed", done.stderr.decode()).group(1))
        ram = rng.choice([fewest, rng.randint(fewest, max(fewest, taken[0]))])
        limited = compare(work, text, sizes, cpu, [f"--ram={ram}"], inputs)
        assert limited[0] <= ram, f"{limited[0]} bytes where {ram} are allowed"
        return f"{cpu}: {taken[0]} bytes, {limited[0]} with --ram {ram}, {taken[1]} with the whole input"


def check_floats(seed):
    rng = random.Random(-seed)
    with tempfile.TemporaryDirectory() as folder:
        text, *sizes = Floats(seed).build()
        values = [rng.uniform(-1, 1) for _ in range(6 * sizes[0] // 4)]
        inputs = b"".join(struct.pack("<f", v) for v in values)
        cpu = (*HOSTS, "cortex-m4")[seed % 4]
        taken = compare(pathlib.Path(folder), text, sizes, cpu, [], inputs)
        if taken is None:
            return f"{cpu}: refused"
        return f"{cpu}: {taken[0]} bytes, {taken[1]} with the whole input"


SMALL = """graph "net" {
  %1 = input "x" : f32[1, 3, 16, 12]
  %2 = const : f32[4, 3, 3, 3] = {WEIGHTS}
  %3 = conv(%1, %2) {pads = [1, 1, 1, 1]}
  %4 = relu(%3)
  output "y" = %4
}
""".replace("WEIGHTS", ", ".join(str(i % 5 - 2) for i in range(108)))


def check_wrong():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "net.rlx").write_text(SMALL)
        for api in ("core", "plan", "full"):
            checked([RLXC, "compile", work / "net.rlx", "-o", work, "--name=net", "--stream-input=x",
                     f"--api={api}"])
            (work / "main.c").write_text(WRONG)
            checked(["cc", "-Wall", "-Wextra", "-Werror", *SANITIZED, f"-I{work}", work / "main.c",
                     work / "net.c", "-o", work / "net", "-lm"])
            done = call([work / "net"])
            assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        return "statuses with --api core, plan, full"


WHOLE_IMAGE = """graph "net" {
  %1 = input "x" : f32[1, 2, 4, 3]
  %2 = reshape(%1) {shape = [1, 24]}
  %3 = const : f32[24, 2] = {WEIGHTS}
  %4 = matmul(%2, %3)
  output "y" = %4
}
""".replace("WEIGHTS", ", ".join(["1"] * 48))
MESSAGES = (  # model, options, what the error says
    (SMALL, ["--stream-input=y"], "E0003]: --stream-input y: the model has no input of that name"),
    (SMALL, ["--stream-input=X"], "note: it has: x"),
    (SMALL, ["--stream-input=x"] * 2, "E0003]: --stream-input x: expected every input once"),
    (SMALL, ["--stream-input=x", "--stream-input=z"], "expected one input with rows"),
    (SMALL, ["--stream-input=x", "--threads=2"], "expected no --threads with it"),
    (SMALL, ["--stream-input=x", "--target=cuda", "--gpu=text"], "expected --target c with it"),
    (SMALL.replace("16, 12]", "H, 12]").replace("%1 =", 'symbol H [4, 16] multiple 1\n  %1 =', 1),
     ["--stream-input=x", "--dim=H=4..16"], "expected sizes that are known when the model is compiled"),
    (WHOLE_IMAGE, ["--stream-input=x"], "E0406]: input 'x' cannot come row by row: "),
)


def check_messages():
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "net.rlx"
        for text, options, wanted in MESSAGES:
            model.write_text(text)
            done = call([RLXC, "compile", model, "-o", folder, *options])
            said = done.stderr.decode()
            assert done.returncode in (1, 2) and wanted in said, f"{options}: {done.returncode}, {said}"
        return f"{len(MESSAGES)} messages"


MEAN = """graph "mean" {
  %1 = input "x" : f32[SHAPE]
  %2 = relu(%1)
  %3 = reduce_mean(%2) {axes = [AXES]}
  output "y" = %3
}
"""


def check_mean():
    """Where no convolution says what rows are, a mean over the image does."""
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "net.rlx"
        for shape, axes, axis in (("1, 5, 4, 3", "1, 2", 1), ("1, 3, 5, 4", "2, 3", 2)):
            model.write_text(MEAN.replace("SHAPE", shape).replace("AXES", axes))
            options = [model, "--cpu=generic", "--stream-input=x"]
            checked([RLXC, "verify", *options])
            said = checked([RLXC, "inspect", *options, "--no-code"]).decode()
            assert f"input x comes in 5 rows along axis {axis}, and" in said, said
        return "5 rows"


def check_commands():
    """run, verify, bench and inspect compile the model as well, and give it all rows."""
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "net.rlx"
        model.write_text(SMALL)
        for command in (["verify"], ["run", "--random=1"], ["bench", "--runs=3"]):
            checked([RLXC, command[0], model, *command[1:], "--stream-input=x"])
        said = checked([RLXC, "inspect", model, "--no-code", "--stream-input=x"]).decode()
        assert "input x comes in 16 rows along axis 2, and is not in the arena as a whole" in said, said
        return "run, verify, bench, inspect"


def check_person():
    name = "vww_96_int8"
    cases = sorted((NETWORKS / "cases" / name).glob("case_*"))
    data = [[read_npy(case / f"{kind}_0.npy")[1] for kind in ("input", "output")] for case in cases]
    inputs, wanted = (b"".join(bytes(v & 255 for v in pair[i]) for pair in data) for i in (0, 1))
    values = {"outputs": len(data[0][1]), "type": "int8_t"}
    with tempfile.TemporaryDirectory() as folder:
        path, arena = program(pathlib.Path(folder), NETWORKS / f"{name}.tflite", "net",
                              MAIN.replace("_x", "_input_1_int8"), values,
                              ["--cpu=cortex-m4", "--stream-input=input_1_int8", f"--ram={VWW_BYTES}"])
        assert cases and checked([path], input=inputs) == wanted, "other results than LiteRT's"
        assert arena <= VWW_BYTES, f"{arena} bytes"
        return f"{arena} bytes, of {len(data[0][0])} of the input"


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1 + rotation.DAY % 40 * count
    checks = [("wrong use", check_wrong, ()), ("messages", check_messages, ()),
              ("a mean", check_mean, ()), ("commands", check_commands, ())]
    if NETWORKS.is_dir():
        checks.append(("person detection", check_person, ()))
    for seed in range(first, first + count):
        checks.append((f"bytes {seed}", check_bytes, (seed,)))
        checks.append((f"floats {seed}", check_floats, (seed,)))
    return tap.run_checks(checks)


if __name__ == "__main__":
    sys.exit(main())
