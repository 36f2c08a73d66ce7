#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C example of docs/API.md, built without warnings for a small model and run under sanitizers: each
of its calls that returns a status must return RLX_OK. Usage: check_examples.py RLXC"""

import array
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import moe_model

RLXC = os.path.abspath(sys.argv[1])
TEXT = (pathlib.Path(__file__).resolve().parents[2] / "docs/API.md").read_text()
FLAGS = [
    "-std=gnu99",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-but-set-variable",
    "-Wno-unused-variable",
]
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
NO_STATUS = ("kws_threads_stop", "rlx_input", "rlx_output")
TIME_LIMIT = 120


def f32(*shape):
    return {"dtype": "f32", "shape": list(shape)}


def graph(inputs, nodes, outputs, **more):
    nodes = [
        dict(zip(("name", "op", "inputs"), node[:3]), **(node[3] if len(node) > 3 else {}))
        for node in nodes
    ]
    return {"rlxc": 1, "name": "kws", "inputs": inputs, "nodes": nodes, "outputs": outputs, **more}


def symbol(least, most):
    return {"min": least, "max": most, "default": most}


def numbers(*shape):
    count = 1
    for size in shape:
        count *= size
    return {**f32(*shape), "data": [(i * 7 % 13 - 6) / 8 for i in range(count)]}


IMAGE = graph(
    {"image": {"dtype": "u8", "shape": [1, 1, 6, 4]}},
    [
        ("wide", "cast", ["image"], {"to": "f32"}),
        ("y", "max_pool", ["wide"], {"kernel": [2, 2], "strides": [2, 2]}),
    ],
    ["y"],
)
DOUBLED = graph({"x": f32(4)}, [("y", "mul", ["x", 2.0])], ["y"])
PARAMS = graph(
    {"x": f32(1, 4), "table": f32(1, 4)},
    [
        ("wide", "matmul", ["x", "w"]),
        ("all", "reduce_sum", ["wide"], {"axes": [1], "keepdims": True}),
        ("scaled", "mul", ["all", "scale"]),
        ("h_next", "add", ["h", "scaled"]),
        ("y", "add", ["h_next", "table"]),
    ],
    ["y"],
    params={"w": f32(4, 32), "scale": f32(4)},
    states={"h": {**f32(1, 4), "next": "h_next"}},
)
LOOK = graph({"x": f32(4)}, [("inner", "mul", ["x", 2.0]), ("y", "reduce_sum", ["inner"])], ["y"])
SIZES = graph(
    {"x": f32("seq", 8)},
    [("y", "matmul", ["x", "weight"])],
    ["y"],
    symbols={"seq": symbol(1, 64)},
    weights={"weight": numbers(8, 10)},
)
DECODER = graph(
    {"tokens": {"dtype": "i64", "shape": ["T"]}, "past": f32(4, "P", 8)},
    [
        ("embedded", "gather", ["embedding", "tokens"], {"axis": 0}),
        ("rows", "reshape", ["embedded"], {"shape": ["T", 4, 8]}),
        ("heads", "transpose", ["rows"], {"perm": [1, 0, 2]}),
        ("present", "concat", ["past", "heads"], {"axis": 1}),
        ("context", "reduce_sum", ["present"], {"axes": [1], "keepdims": False}),
        ("flat", "reshape", ["context"], {"shape": [1, 32]}),
        ("mixed", "add", ["embedded", "flat"]),
        ("logits", "matmul", ["mixed", "head"]),
    ],
    ["logits", "present"],
    symbols={"T": symbol(1, 16), "P": symbol(0, 63)},
    weights={"embedding": numbers(12, 32), "head": numbers(32, 12)},
)
BUCKETS = graph(
    {"x": f32("batch", "seq", 4)},
    [("y", "softmax", ["x"], {"axis": 1})],
    ["y"],
    symbols={"seq": symbol(1, 256), "batch": symbol(1, 8)},
)
IN_PLACE = graph(
    {"x": f32(2, 256)},
    [("y", "matmul", ["x", "w"])],
    ["y"],
    weights={"w": {"file": "weights.safetensors", "tensor": "w"}},
)
SHARED = graph({"x": f32(128, 256)}, [("y", "matmul", ["x", "w"])], ["y"], weights={"w": numbers(256, 240)})


def experts():
    model = moe_model.model(8, 12)
    del model["symbols"]
    model["inputs"]["x"]["shape"][0] = moe_model.ROWS
    model["outputs"] = ["z"]
    return model


APP_POOL = """typedef struct app_pool { size_t runs; } app_pool;
static void app_pool_run(app_pool *p, void (*task)(void *arg, size_t part), void *arg, size_t parts)
{
    p->runs++;
    for (size_t i = parts; i-- > 0;)
        task(arg, i);
}
"""
BEST = """static int64_t best(const float *logits, int64_t rows)
{
    int64_t most = 0;
    for (int64_t i = 1; i < 12; i++)
        most = logits[(rows - 1) * 12 + i] > logits[(rows - 1) * 12 + most] ? i : most;
    return most;
}
"""
CLOCK = """#include <time.h>
static uint64_t ticks_now(void *user)
{
    (void)user;
    return (uint64_t)clock();
}
"""
INIT = "OK(kws_init(&ctx, arena, n, state, m));"
# In the order of the document: model, options, text before main, text before and behind the example.
CASES = (
    (
        DOUBLED,
        ["--output-set", "top=y"],
        "",
        "float x[4] = {1, 2, 3, 4}, x2[4] = {5, 6, 7, 8}, y[4];",
        "MUST(label[0] == 10 && y[3] == 8);",
    ),
    (
        IMAGE,
        ["--stream-input", "image"],
        "static int n_lines;\nstatic void camera_read(uint8_t *line)\n{\n"
        "for (int i = 0; i < 4; i++) line[i] = (uint8_t)(10 * n_lines + i);\nn_lines++;\n}\n",
        "",
        "MUST(n_lines == KWS_ROWS_image && *(const float *)rlx_output(&ctx, 0) == 11);"
        "MUST(((const float *)rlx_output(&ctx, 0))[5] == 53);",
    ),
    (
        PARAMS,
        ["--handle", "table"],
        "",
        "float x[4] = {1, 2, 3, 4}, y[4], w[4 * 32], table[4] = {1, 2, 3, 4};"
        "float saved[4], scales[4] = {1, 2, 1, 2};"
        "uint16_t halves[4] = {0x3c00, 0x3c00, 0x4000, 0x4000}; unsigned char blocks[4 * 18] = {0};"
        "int8_t bytes[4 * 32];"
        "for (int i = 0; i < 128; i++) w[i] = (float)(i % 3), bytes[i] = (int8_t)(i % 5);",
        "MUST(saved[0] > 0 && saved[2] == 2 * saved[0]);"
        'OK(rlx_read_handle(&ctx, "table", table, sizeof table));'
        "MUST(memcmp(table, y, sizeof table) == 0);",
    ),
    (
        DOUBLED,
        [],
        "",
        f"{INIT} float x[4] = {{1, 2, 3, 4}}, y[4];",
        "MUST(memory[3] == 8); OK(kws(&ctx, y, x)); MUST(x[3] == 16 && memory[3] == 8);",
    ),
    (
        LOOK,
        ["--keep", "inner", "--profile"],
        CLOCK,
        f"{INIT} float x[4] = {{1, 2, 3, 4}}, y[1]; uint64_t ticks[KWS_KERNELS];"
        "rlx_profile profile = {ticks_now, NULL, ticks, 0, 0, 0};",
        "MUST(inner != NULL && inner[3] == 8 && profile.runs == 1);",
    ),
    (
        LOOK,
        ["--keep", "inner", "--tables"],
        "",
        f"{INIT} float x[4] = {{1, 2, 3, 4}}, y[1]; OK(kws(&ctx, x, y));",
        "MUST(shape[0] == 4 && ((const float *)rlx_buffer_data(&ctx, b->id))[3] == 8);",
    ),
    (
        DOUBLED,
        [],
        "",
        f"{INIT} {{ float batch[2][4] = {{{{1}}, {{2}}}}; size_t i, n = 2;",
        "MUST(*(const float *)rlx_output(&ctx, KWS_OUTPUT_y) == 4); }",
    ),
    (DOUBLED, [], "", "", "MUST(n_devices == 1 && ctx.model == &kws_model);"),
    (
        SIZES,
        ["--dim", "seq=1..64"],
        "",
        "float x[64 * 8]; for (int i = 0; i < 64 * 8; i++) x[i] = 1;",
        "MUST(y[0] == y[39 * 10]);",
    ),
    (
        graph(
            {"x": f32(4)},
            [
                ("ones", "expand", ["one"], {"shape": ["k"]}),
                ("scale", "reduce_sum", ["ones"]),
                ("y", "mul", ["x", "scale"]),
            ],
            ["y"],
            symbols={"k": {"min": 0, "max": 1000, "default": 1}},
            weights={"one": {**f32(), "data": 1}},
        ),
        ["--dynamic"],
        "",
        f"{INIT} float x[4] = {{1, 2, 3, 4}}, y[4];",
        "MUST(k == 3 && y[3] == 12);",
    ),
    (
        DECODER,
        ["--dim", "T=1..16", "--dim", "P=0..63", "--handle", "past=present"],
        BEST,
        f"{INIT} int64_t prompt[3] = {{1, 2, 3}}, n_prompt = 3, n_rows = 3; float logits[16 * 12];",
        "MUST(n_rows == 1);",
    ),
    (
        BUCKETS,
        ["--bucket", "seq=16,64,256", "--bucket", "batch=1,8"],
        "",
        "static float x[8 * 256 * 4], y[8 * 256 * 4]; const void *const inputs[] = {x};"
        "void *const outputs[] = {y};",
        "MUST(rlx_bucket(&ctx) == KWS_BUCKETS - 1 && y[0] == 0.2f);",
    ),
    (SHARED, ["--threads", "2"], "", "", ""),
    (
        SHARED,
        ["--threads", "4", "--pool", "caller"],
        APP_POOL,
        f"{INIT} app_pool pool = {{0}}, *my_pool = &pool;",
        "MUST(pool.runs > 0);",
    ),
    (
        experts(),
        ["--moe-resident", "8"],
        "#include <fcntl.h>\n#include <sys/mman.h>\n",
        "float x[6 * 8], y[6 * 8]; for (int i = 0; i < 48; i++) x[i] = (float)(i % 7);",
        "MUST(stats.resident > 0 && stats.away > 0);",
    ),
    (
        IN_PLACE,
        ["--weights", "inplace"],
        "#include <fcntl.h>\n#include <sys/mman.h>\n#include <sys/stat.h>\n",
        "struct stat of; MUST(stat(KWS_WEIGHT_FILE, &of) == 0);"
        "const size_t size_of_the_file = (size_t)of.st_size; float x[2 * 256] = {1}, y[2 * 240];",
        "OK(rlx_check_weights(&kws_model, w, size_of_the_file));"
        "OK(kws(&ctx, x, y)); MUST(y[1] == 1 && y[240] == 0);",
    ),
)
HEAD = """#include "kws.h"
#include <stdio.h>
#include <stdlib.h>
#define OK(call) \\
    do { const rlx_status s = (call); if (s != RLX_OK) fail(#call, rlx_status_text(s)); } while (0)
#define MUST(condition) do { if (!(condition)) fail(#condition, "does not hold"); } while (0)
static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\\n", what, why);
    exit(1);
}
"""
BLOCKS = """    static RLX_ALIGNED unsigned char arena[KWS_ARENA_BYTES + 1], state[KWS_STATE_BYTES + 1];
    const size_t n = KWS_ARENA_BYTES, m = KWS_STATE_BYTES;
    rlx_ctx ctx;
"""


def checked(example):
    """The example with its statuses looked at: what stands before main, what in it."""
    functions = ""
    if example.startswith("static void"):
        end = example.index("\n}\n") + 3
        functions, example = example[:end], example[end:]
    call = re.compile(r"^(\s*)((?:kws|rlx)\w*)(\(.*?\));", re.MULTILINE)
    wrapped = call.sub(
        lambda c: c.group(0) if c.group(2) in NO_STATUS else f"{c[1]}OK({c[2]}{c[3]});", example
    )
    return functions, wrapped


def program(example, case):
    functions, body = checked(example)
    uses = "(void)arena, (void)state, (void)n, (void)m;"
    first = INIT if "_init(" not in body + case[3] else ""
    main = f"{BLOCKS}{uses}{first}{case[3]}\n{body}{case[4]}\nreturn 0;\n"
    return f"{HEAD}{case[2]}{functions}int main(void)\n{{\n{main}}}\n"


def write_weights(path):
    """w: f32 [256, 240], 0, 1, 2 ... 6 over and over."""
    data = array.array("f", [i % 7 for i in range(256 * 240)]).tobytes()
    head = json.dumps({"w": {"dtype": "F32", "shape": [256, 240], "data_offsets": [0, len(data)]}}).encode()
    head += b" " * (-(8 + len(head)) % 64)
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


def check(folder, example, case):
    write_weights(folder / "weights.safetensors")
    (folder / "kws.json").write_text(json.dumps(case[0]))
    command = [RLXC, "compile", "--api=full", folder / "kws.json", "-o", folder, "--name", "kws", *case[1]]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    (folder / "main.c").write_text(program(example, case))
    command = ["cc", *FLAGS, *SANITIZE, "main.c", "kws.c", "-o", "p", "-lm", "-pthread"]
    subprocess.run(command, check=True, cwd=folder, timeout=TIME_LIMIT)
    subprocess.run(["./p"], check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)


def main():
    examples = re.findall(r"^```c\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert len(examples) == len(CASES), f"{len(examples)} examples, {len(CASES)} cases"
    for example, case in zip(examples, CASES):
        with tempfile.TemporaryDirectory() as folder:
            check(pathlib.Path(folder), example, case)


main()
