#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command inspect takes every option of compile: the line that compiles a model shows what it makes. An
option that is new needs a row here. Usage: check_inspect_options.py RLXC; prints TAP."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import tap
from tap import result

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
MODELS = os.path.join(ROOT, "tests/runtime")
LOOK = os.path.join(MODELS, "look.json")
SIZES = os.path.join(MODELS, "sizes.json")
EVERYTHING = os.path.join(MODELS, "everything.json")
SIGNED = os.path.join(ROOT, "tests/fuzz/seeds/signature.tflite")
LANGUAGE = os.path.join(ROOT, "tests/fuzz/seeds/llama.gguf")
DIGITS = os.path.join(ROOT, "models/digits/digits.onnx")
MLP = os.path.join(ROOT, "models/mlp.json")
# Options of compile as they are given, some with what they need, and with models other than look.json.
GIVEN = [
    ("-o", "folder"), ("--name", "other"), ("--target", "vulkan"), ("--cpu", "x86-64-v3"),
    ("--gpu", "apple7", "--target", "metal"), ("--metallib", "none", "--target", "metal"),
    ("--dim", "seq=4..8", "--dynamic", SIZES), ("--dynamic", SIZES),
    ("--arena-at", "seq=12", "--dynamic", SIZES),
    ("--bucket", "rows=16,64", EVERYTHING), ("--buckets", "rows=16,64", EVERYTHING),
    ("--shape", "image=1,1,8,8", DIGITS), ("--value", "image=@zeros.npy", DIGITS), ("--handle", "v"),
    ("--string-bytes", "9"), ("--threads", "2"), ("-O", "1"), ("--fast-math",), ("--accuracy", "0"),
    ("--rounding", "double"), ("--signature", "serving_default", SIGNED),
    ("--context", "32", LANGUAGE), ("--kv", "f16", LANGUAGE), ("--windows", "ring", LANGUAGE),
    ("--outputs", "all,embedding", LANGUAGE), ("--slots", "2", LANGUAGE), ("--drafts", "2", LANGUAGE),
    ("--session", "no", LANGUAGE), ("--lora", "adapter.gguf=0.5", LANGUAGE),
    ("--memory-price", "1"), ("--plan", "latency", "--target", "vulkan"), ("--no-fuse",),
    ("--no-prune",), ("--no-reorder",),
    ("--stream", "x:0", MLP), ("--stream-input", "image", "--dim", "batch=1", DIGITS), ("--ram", "100000"),
    ("--spare-ram", "0"),
    ("--bank", "ram=64K", "--bank", "rom=64K,weights,slow"), ("--board", "nucleo-l4r5zi"),
    ("--tables",), ("--custom", "ops.json", "--dim", "batch=1", DIGITS),
    ("--tune", "tuned"), ("--weights", "file"), ("--one-file",), ("--split", "3"), ("--arena", "static"),
    ("--moe-resident", "2", "--bucket", "rows=16,64", EVERYTHING), ("--api", "core"),
    ("--pool", "caller", "--threads", "2"), ("--object", "elf-arm", "--weights", "object"),
    ("--output-set", "top=y"), ("--keep", "inner"), ("--profile",), ("--embed-source",), ("--link-runtime",),
    ("--validate",), ("--no-validate",), ("--certify",), ("--dump", "fuse"), ("--depfile", "d"),
    ("--cc-flags", "f"), ("--cache", "c"), ("--stop-after", "fuse"), ("--time-passes",),
]
HEAD = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 8, 8), }".ljust(117) + "\n"
NPY = b"\x93NUMPY\x01\0v\0" + HEAD.encode()


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def make_adapter():
    """A GGUF file for LANGUAGE: A [1, 8] and B [8, 1] of a product, all of zeros."""
    texts = {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora"}
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 4)
    head += b"".join(text(key) + struct.pack("<I", 8) + text(value) for key, value in texts.items())
    head += text("adapter.lora.alpha") + struct.pack("<If", 6, 1)
    for i, sizes in enumerate(((8, 1), (1, 8))):
        name = text(f"blk.0.attn_q.weight.lora_{'ab'[i]}")
        head += name + struct.pack("<IQQIQ", 2, *sizes, 0, 32 * i)
    return head + bytes(-len(head) % 32 + 64)


FILES = {"ops.json": b'{"custom": []}', "zeros.npy": NPY + bytes(256), "tuned": b"rlxc-tune 1\ncpu generic\n",
         "adapter.gguf": make_adapter()}
ANYWHERE = {"--help", "--json", "--no-color"}


def options_of(command):
    """Their names, as its help says."""
    said = subprocess.run([RLXC, command, "--help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^  (-[\w-]+) ", said, re.M))


def inspect(given, folder):
    """Without an error; --tune and --value need files, and libclang may be missing."""
    models = [word for word in given if os.path.isabs(word)]
    command = [RLXC, "inspect", "--no-code", "--json", *([] if models else [LOOK]), *given]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode == 0 or "no libclang is installed" in done.stderr, done


def main():
    compiles, inspects = options_of("compile"), options_of("inspect")
    result(compiles <= inspects, "inspect has all options of compile", compiles - inspects)
    rows = {given[0] for given in GIVEN} | ANYWHERE
    result(compiles == rows, "each one has a row here", compiles ^ rows)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in FILES.items():
            with open(os.path.join(folder, name), "wb") as f:
                f.write(content)
        for given in GIVEN:
            ok, done = inspect(given, folder)
            result(ok, " ".join(os.path.relpath(w, ROOT) if os.path.isabs(w) else w for w in given),
                   done.stderr)
        result(sorted(os.listdir(folder)) == sorted(FILES), "nothing is written", os.listdir(folder))
        plain, kept = (json.loads(inspect(given, folder)[1].stdout) for given in ((), ("--keep", "inner")))
        result(kept["arena_bytes"] > plain["arena_bytes"], "--keep counts", kept["arena_bytes"])
    return tap.end()


sys.exit(main())
