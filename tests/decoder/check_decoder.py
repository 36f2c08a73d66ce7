#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small decoders generate text with lengths that are set between runs, and with exact lengths at some steps:
the same bits, but for sines that exact lengths fold. models/decoder.json always; stories260k_kv and others
from ../shared where that is present. Also looks into the generated code: a step writes its new rows into the
caches and copies nothing else. Usage: check_decoder.py RLXC"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
from emitted import flags_of  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
MODELS, SHARED = HERE.parent.parent / "models", HERE.parent.parent.parent / "shared/models/onnx"


def own_text():
    lines = (MODELS / "decoder_tokens.txt").read_text().splitlines()
    prompt, greedy = ([int(token) for token in line.split()[1:]] for line in lines)
    return prompt + greedy, len(prompt)


def story_text():
    return json.loads((SHARED / "stories260k_kv/expected_greedy60.json").read_text())["greedy_tokens"], 1


STORY = ["--dim", "B=1", "--dim", "S=P+T"]
for cache in [f"{i}_{x}" for i in range(5) for x in "kv"]:
    STORY += ["--handle", f"past_{cache}=present_{cache}"]
# name, model, vocabulary, options, text, lengths (new, past) of exact models
OPEN = ["--dim", "T=1..16", "--dim", "P=0..63"]
BUCKETS = ["--bucket", "T=1,4,16", "--bucket", "P=15,63", "--dim", "P=0..63"]
DECODERS = [
    (
        "own",
        MODELS / "decoder.json",
        96,
        [],
        own_text,
        [(1, 0), (11, 0), (4, 4), (1, 11), (1, 32), (1, 45)],
        "0.0f",
    ),
    (
        "stories",
        SHARED / "stories260k_kv/model.onnx",
        512,
        STORY,
        story_text,
        [(1, 0), (5, 0), (4, 4), (1, 17), (1, 59)],
        "2e-5f",  # of logits of 10; it computes the angles of its rotations
    ),
]


def emit(model, name, options, folder):
    command = [RLXC, "compile", model, "-o", folder, "--name", name, "--cpu", "native", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=200)
    flags = flags_of(f"{folder}/{name}.c")
    subprocess.run(["cc", *flags, "-c", f"{name}.c"], check=True, cwd=folder, timeout=400)
    return flags


def write_models(folder, names, vocabulary, text, prompt):
    """models.h for decoder_test.c."""
    lines = [f'#include "{name}.h"' for name, _, _ in names]
    lines += ["typedef struct Exact { int n, past; const rlx_model *model; } Exact;"]
    lines += ["static const Exact exact_models[] = {"]
    lines += [f"    {{{n}, {past}, &{name}_model}}," for name, n, past in names if n] + ["};"]
    lines += [f"#define VOCAB {vocabulary}"]
    lines += [
        f"#define N_TEXT {len(text)}",
        f"#define PROMPT {prompt}",
    ]
    lines += [f"static const int64_t text[] = {{{', '.join(map(str, text))}}};"]
    pathlib.Path(folder, "models.h").write_text("\n".join(lines) + "\n")


def check_tokens(decoder, folder):
    _, model, vocabulary, options, text, exact, allowed = decoder
    names = [("open", 0, 0), ("buckets", 0, 0)] + [(f"exact_{n}_{past}", n, past) for n, past in exact]
    for name, n, past in names:
        sizes = ["--dim", f"T={n}", "--dim", f"P={past}"] if n else OPEN if name == "open" else BUCKETS
        flags = emit(model, name, [*options, *sizes], folder)
    tokens, prompt = text()
    write_models(folder, names, vocabulary, tokens, prompt)
    objects = [f"{name}.o" for name, _, _ in names]
    command = ["cc", *flags, "-D_POSIX_C_SOURCE=200112L", f"-DALLOWED={allowed}", "-I."]
    command += [str(HERE / "decoder_test.c"), *objects]
    subprocess.run([*command, "-o", "p", "-lm"], check=True, cwd=folder, timeout=400)
    return subprocess.run(["./p"], cwd=folder, timeout=300, check=False).returncode == 0


def check_appends(decoder, folder):
    """Kernels that write to a state are updates, one each, and no state is copied as a whole."""
    text = subprocess.run(
        [RLXC, "inspect", "--no-code", decoder[1], *decoder[3], *OPEN],
        check=True,
        capture_output=True,
        text=True,
        timeout=200,
    ).stdout
    states = len(re.findall(r"^state ", text, re.M))
    updates = len(re.findall(r"^  k\d+_update_slice ", text, re.M))
    print(f"# {states} states, {updates} updates")
    return states > 0 and states == updates


def main():
    failed = number = 0
    print(f"1..{2 * len(DECODERS)}", flush=True)
    for decoder in DECODERS:
        for check in (check_appends, check_tokens):
            number += 1
            label = f"{number} - {decoder[0]} {check.__name__}"
            if not decoder[1].exists():
                print(f"ok {label} # SKIP {decoder[1]} is NOT THERE", flush=True)
                continue
            with tempfile.TemporaryDirectory() as folder:
                ok = check(decoder, folder)
            failed += not ok
            print("ok" if ok else "not ok", label, flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
