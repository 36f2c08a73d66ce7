#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cache of variants (tools/rlx_jit.py): what is a hit, what leaves first, what a variant that has left
refuses, and that results are those of the key. Usage: check_jit.py RLXC"""

import json
import os
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE + "/../../tools")
from rlx_jit import Jit, JitError  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
MODEL = {
    "rlxc": 1,
    "name": "jit",
    "symbols": {"n": {"min": 1, "max": 65536}, "m": {"min": 1, "max": 8, "default": 1}},
    "inputs": {"x": {"dtype": "f32", "shape": ["n", "m"]}},
    "weights": {
        "w": {"dtype": "f32", "shape": [1, 1], "data": [2.0]},
        "table": {"dtype": "f32", "shape": [16], "data": [i * i / 4 for i in range(16)]},
    },
    "params": {"p": {"dtype": "f32", "shape": [], "data": 1.0}},
    "states": {"runs": {"dtype": "f32", "shape": [], "next": "more"}},
    "nodes": [
        {"name": "more", "op": "add", "inputs": ["runs", 1]},
        {"name": "total", "op": "reduce_sum", "inputs": ["x"], "axes": [0]},
        {"name": "doubled", "op": "mul", "inputs": ["x", "w"]},
        {"name": "shifted", "op": "add", "inputs": ["table", "p"]},
        {"name": "y", "op": "add", "inputs": ["doubled", "p"]},
    ],
    "outputs": ["total", "y", "more", "shifted"],
}


def refuses(what, *args, **more):
    try:
        what(*args, **more)
    except JitError as error:
        return str(error)
    sys.exit(f"{what} did not refuse {args} {more}")


def run(variant, n, m=1):
    x = [float(i % 7) for i in range(n * m)]
    total, y, more, shifted = variant.run([struct.pack(f"{n * m}f", *x)])
    assert struct.unpack(f"{m}f", total) == tuple(sum(x[k::m]) for k in range(m))
    assert struct.unpack("16f", shifted) == tuple(i * i / 4 + 1 for i in range(16))
    assert struct.unpack(f"{n * m}f", y) == tuple(2 * v + 1 for v in x)
    return struct.unpack("f", more)[0]


def check_order(path):
    with Jit(path, 2, rlxc=[RLXC]) as jit:
        counts = lambda: (jit.hits, jit.misses, jit.evictions)  # noqa: E731
        first = jit.variant(n=3)
        assert run(first, 3) == 1 and run(first, 3) == 2 and counts() == (0, 1, 0)
        assert run(jit.variant(n=5), 5) == 1 and counts() == (0, 2, 0)
        assert jit.variant(n=3) is first and run(first, 3) == 3 and counts() == (1, 2, 0)
        assert jit.keys() == [(("n", 3),), (("n", 5),)]
        # n=3 was used last, but came first: it leaves.
        assert run(jit.variant(n=8, m=2), 8, 2) == 1 and counts() == (1, 3, 1)
        assert jit.keys() == [(("n", 5),), (("m", 2), ("n", 8))]
        assert "left" in refuses(first.run, [b"\0" * 12])
        assert (
            run(jit.variant(m=2, n=8), 8, 2) == 2
            and run(jit.variant(n=5), 5) == 2
            and counts() == (3, 3, 1)
        )
        assert run(jit.variant(n=3), 3) == 1 and counts() == (
            3,
            4,
            2,
        )  # compiled again, with a state of its own
        assert jit.keys() == [(("m", 2), ("n", 8)), (("n", 3),)]
        check_refusals(jit, counts)
        last = jit.variant(n=3)
    assert "left" in refuses(last.run, [b"\0" * 12]) and jit.keys() == []


def check_refusals(jit, counts):
    before = counts(), jit.keys()
    refuses(jit.variant, n=65537)
    refuses(jit.variant, k=2)
    refuses(jit.variant)
    assert (counts(), jit.keys()) == before
    variant = jit.variant(n=3)
    refuses(variant.run, [b"\0" * 8])
    refuses(variant.run, [])
    refuses(variant.set_param, "q", struct.pack("f", 1))
    refuses(variant.set_param, "p", struct.pack("2f", 1, 2))
    variant.set_param("p", struct.pack("f", 4))
    assert struct.unpack("3f", variant.run([struct.pack("3f", 1, 2, 3)])[1]) == (6, 8, 10)


def check_weights(path):
    with Jit(path, 2, rlxc=[RLXC]) as jit:
        for n in (2, 4, 6):
            jit.variant(n=n)
            assert len(jit.weights.by_content) == 1  # they are the same for all sizes
        assert [count for _, _, count in jit.weights.by_content.values()] == [2]
    assert jit.weights.by_content == {}


def threads():
    return len(os.listdir("/proc/self/task"))


def check_options(path):
    """Threads are started, and end with their variant; a program in parts is whole."""
    before = threads()
    with Jit(path, 1, rlxc=[RLXC], options=("--cpu", "native", "--threads", "2", "--split", "2")) as jit:
        assert run(jit.variant(n=60000, m=8), 60000, 8) == 1
        assert threads() == before + (1 if len(os.sched_getaffinity(0)) > 1 else 0)
        assert run(jit.variant(n=3), 3) == 1 and threads() == before
    assert threads() == before


with tempfile.TemporaryDirectory() as top:
    with open(top + "/jit.json", "w", encoding="ascii") as file:
        json.dump(MODEL, file)
    refuses(Jit, top + "/jit.json", 0)
    check_order(top + "/jit.json")
    check_weights(top + "/jit.json")
    check_options(top + "/jit.json")
