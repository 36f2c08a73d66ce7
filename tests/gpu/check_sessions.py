#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions of a language model on a GPU target promise what they do on the CPU (tests/llm/session_test.c, and
slots_session_test.c with --slots) and choose the same tokens; TARGET,c chooses them without a device; run
--prompt and chat write the same text with --target; with --accuracy 1e-2 and weights of BF16, logits are near
those of f32.
Usage: check_sessions.py RLXC cuda LIBRARY | vulkan | metal

LIBRARY: the fake libcuda.so.1; Metal is executed on the CPU. Exit 77: there is no NVRTC, no Vulkan device."""

import glob
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LLM = HERE.parent / "llm"
sys.path[:0] = [str(HERE), str(LLM), str(HERE.parent / "common")]
try:
    import numpy
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
import gguf_file  # noqa: E402
import models  # noqa: E402
import on_fake_cuda as fake  # noqa: E402
import small_vocab  # noqa: E402
from reference import Reference  # noqa: E402
from rotation import is_taken, part_of, say  # noqa: E402

RLXC, TARGET = os.path.abspath(sys.argv[1]), sys.argv[2]
LIBRARY = os.path.abspath(sys.argv[3]) if TARGET == "cuda" else ""
# On what executes kernels on one CPU some of the programs take minutes. The fake driver has no matrix units,
# so that runs there have few tokens.
TESTS = {
    "cuda": ["reuse", "arguments"],
    "metal": ["save", "reuse", "shift", "context", "arguments"],
    "vulkan": ["save", "damaged", "fork", "reuse", "shift", "stops", "context", "arguments"],
}[TARGET]
GREEDY_TEST = [] if TARGET == "cuda" else ["greedy", "drawn"]
FEW = ["--dim", "T=1..4", "--dim", "P=0..47", "--accuracy", "0"]
SIZES = FEW if TARGET == "cuda" else ["--context", "48"]
STRICT = ["-std=c99", "-D_POSIX_C_SOURCE=200112L", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
STRICT += ["-fsanitize=undefined", "-fno-sanitize-recover=all", "-O0", "-g"]
GPU = ["--gpu", "sm_90a"] if TARGET == "cuda" else []
MISSING = ["without glslang", "no NVRTC", "no driver, or no device that can run the code"]
NO_DEVICE = {"VK_DRIVER_FILES": "/dev/null", "VK_ICD_FILENAMES": "/dev/null"}
GREEDY = ["--prompt", "an old cat", "-n", "12", "--temperature", "0"]


def run(command, folder, given=None, **environment):
    done = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, timeout=500,
                          check=False, env={**fake.PLAIN, **environment})
    if done.returncode != 0:
        said = done.stdout + done.stderr
        print(" ".join(map(str, command)) + "\n" + said)
        sys.exit(77 if any(text in said for text in MISSING) else 1)
    return done.stdout


def build(top, target, name, source, *options, flags=()):
    """The folder of a program, and what it needs in its environment."""
    folder = f"{top}/{name}"
    os.mkdir(folder)
    gpu = [*GPU, "--target", target] if target != "c" else []
    command = [RLXC, "compile", f"{top}/m.gguf", "-o", folder, "--name", "m", "--session", "yes", *gpu]
    run([*command, *options], top)
    run(["cc", *STRICT, *flags, "-I.", "m.c", LLM / source, "-o", "p", "-lm", "-ldl", "-pthread"], folder)
    if target != "cuda":  # nothing runs on the fake driver
        return folder, {"RLX_METAL_CPU": "check"}
    fake.build_kernels(LIBRARY, "m", folder)
    return folder, fake.environment(LIBRARY, folder)


def check(top):
    metal = [f'-DRLX_METAL_LIBRARY="{d[:-1]}.so"' for d in glob.glob(f"{top}/rlxc/metal-*/")]
    plain, _ = build(top, "c", "plain", "session_test.c", "--context", "48")
    tokens = run(["./p", "greedy", "drawn"], plain)
    once = ["-DOPEN_ONCE=1"]
    allowed = ["-DALLOWED=1e-5"]  # sums of a GPU's variants are added up in more different orders
    folder, device = build(top, TARGET, "alone", "session_test.c", *SIZES, flags=[*metal, *allowed, *once])
    said = run(["./p", *GREEDY_TEST, *part_of(TESTS, 2)], folder, **device)
    assert said == (tokens if GREEDY_TEST else ""), "other tokens than those of C"
    folder, _ = build(top, f"{TARGET},c", "both", "session_test.c", "--context", "48")
    assert run(["./p", "greedy", "drawn"], folder, **NO_DEVICE) == tokens, "other tokens without a device"
    run(["./p", "fork"], folder, **NO_DEVICE)
    if TARGET == "vulkan" and is_taken(0, 3):
        small = ["--slots", "3", "--context", "300", "--bucket", "T=1,3,48"]
        folder, device = build(top, TARGET, "slots", "slots_session_test.c", *small,
                               flags=["-Wl,--wrap=malloc", "-DOPEN_ONCE=1"])
        run(["./p"], folder, **device)


def logits(folder, **environment):
    given = "23 " + " ".join(str((7 * i * i) % models.VOCAB) for i in range(23))
    return numpy.array(run(["./p", "logits"], folder, given, **environment).split(), "f8")


def check_narrow(top):
    """With --accuracy 1e-2, weights of BF16 stay as they are, and products are near those of f32."""
    model = models.llama(gguf_file.BF16)
    model.entries |= small_vocab.entries()
    pathlib.Path(top, "m.gguf").write_bytes(model.file())
    expected = Reference(model).logits([(7 * i * i) % models.VOCAB for i in range(23)])[-1]
    bytes_of = {}
    for accuracy in ("1e-5", "1e-2"):
        options = ["--context", "48", "--kv", "f16", "--accuracy", accuracy]
        folder, device = build(top, TARGET, accuracy, "session_test.c", *options)
        bytes_of[accuracy] = os.path.getsize(f"{folder}/m.weights")
        got = logits(folder, **device)
        apart = numpy.linalg.norm(got - expected) / numpy.linalg.norm(expected)
        print(f"# --accuracy {accuracy}: {apart:.1e} from numpy, {bytes_of[accuracy]} bytes of weights")
        assert apart <= (2e-3 if accuracy == "1e-5" else 3e-2), apart
    assert bytes_of["1e-2"] < 0.6 * bytes_of["1e-5"], bytes_of
    check_narrow_slots(top, Reference(model))


def check_narrow_slots(top, reference):
    """The same in slots, whose queries, keys and values are one product."""
    texts = [[(7 * i * i + seed) % models.VOCAB for i in range(n)] for n, seed in ((23, 0), (9, 4))]
    given = {
        "tokens": sum(texts, []),
        "slot": [slot for slot, text in enumerate(texts) for _ in text],
        "position": [i for text in texts for i in range(len(text))],
        "row": [slot * 64 + i for slot, text in enumerate(texts) for i in range(len(text))],
        "wanted": [22, 31],
    }
    for name, values in given.items():
        numpy.save(f"{top}/{name}.npy", numpy.array(values, "i8"))
    numpy.save(f"{top}/pages.npy", numpy.array([[0, -1], [-1, 0]], "i4"))
    model = ["m.gguf", "--slots", "2", "--context", "128", "--kv", "f16", "--accuracy", "1e-2"]
    inputs = [f"--input={name}={name}.npy" for name in [*given, "pages"]]
    run([RLXC, "run", *model, "--target", TARGET, *inputs, "--output-dir", "slots_out"], top)
    got = numpy.load(f"{top}/slots_out/logits.npy")
    expected = numpy.array([reference.logits(text)[-1] for text in texts])
    apart = (numpy.linalg.norm(got - expected, axis=1) / numpy.linalg.norm(expected, axis=1)).max()
    print(f"# slots: {apart:.1e} from numpy")
    assert apart <= 3e-2, apart
    run([RLXC, "compile", *model, "--target", TARGET, "-o", "slots_m", "--name", "m"], top)
    assert "attn_qkv" in pathlib.Path(top, "slots_m", "m.c").read_text(encoding="ascii"), "no joint product"


def check_commands(top):
    """Not on the fake driver, which needs the kernels as a library before the model is loaded."""
    text = run([RLXC, "run", "m.gguf", *GREEDY], top)
    assert run([RLXC, "run", "m.gguf", *GREEDY, "--target", TARGET], top) == text
    pathlib.Path(top, "flat.jinja").write_text("{{ messages[0].content }}", encoding="ascii")
    chat = [RLXC, "chat", "m.gguf", "--template", "flat.jinja", *GREEDY[2:]]
    answer = run(chat, top, "an old cat\n")
    assert len(answer) > 6 and run([*chat, "--target", TARGET], top, "an old cat\n") == answer


with tempfile.TemporaryDirectory() as folder:
    if TARGET == "metal":
        os.environ["XDG_CACHE_HOME"] = fake.PLAIN["XDG_CACHE_HOME"] = folder
    model = models.MODELS["llama"]()
    model.entries |= small_vocab.entries()
    pathlib.Path(folder, "m.gguf").write_bytes(model.file())
    say()
    if TARGET == "metal" or (TARGET == "vulkan" and is_taken(2, 3)):  # Metal's device is made by it
        check_commands(folder)
    check(folder)
    if TARGET == "vulkan" and is_taken(1, 3):
        check_narrow(folder)
