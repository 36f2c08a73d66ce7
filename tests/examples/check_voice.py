#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/voice: it finds what was spoken in the sample to 0.2 s, nothing in noise, and says what is
wrong with other files. With silero_vad, where ../shared/models has it, it finds the same. Exits with 77
without libsndfile.
Usage: check_voice.py RLXC"""

import array
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import wave

RLXC = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SILERO = ROOT.parent / "shared/models/onnx/silero_vad/model.onnx"
SILERO_OPTIONS = "OPTIONS=--dim batch=1 --dim sequence=576 --value sr=16000"
TIME_LIMIT = 120
SLACK = 0.2    # seconds; a network goes on for some chunks


def run(*command, cwd=None, status=0):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
    assert done.returncode == status, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout if status == 0 else done.stderr


def times(text, form):
    return [tuple(map(float, pair)) for pair in re.findall(form, text)]


def check_sample(folder):
    spoken = times(run("make", "-B", "build/sample.wav", cwd=folder), r"from ([\d.]+) to ([\d.]+)")
    text = run("build/voice", "build/sample.wav", cwd=folder)
    assert run("sh", "-c", "cat build/sample.wav | build/voice -", cwd=folder) == text
    found = times(text, r"  ([\d.]+) to ([\d.]+)")
    assert len(spoken) == len(found) == 3, text
    for (a, b), (c, d) in zip(spoken, found):
        assert abs(a - c) < SLACK and abs(b - d) < SLACK, text
    assert "3 stretches of voice" in text, text


def write_wav(path, rate, samples):
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(array.array("h", samples).tobytes())


def check_others(folder):
    rng = random.Random(3)
    write_wav(folder / "noise.wav", 16000, [int(rng.gauss(0, 400)) for _ in range(5 * 16000)])
    text = run("build/voice", "noise.wav", cwd=folder)
    assert "0 stretches of voice" in text and len(re.findall(r"^ *\d+\.\d\d s", text, re.M)) == 3, text
    write_wav(folder / "empty.wav", 16000, [])
    assert run("build/voice", "empty.wav", cwd=folder) == "0 stretches of voice\n"
    write_wav(folder / "other.wav", 44100, [0] * 100)
    assert "44100 Hz, 1 channels; wanted 16000 Hz" in run("build/voice", "other.wav", cwd=folder, status=1)
    assert "FORMAT" in run("build/voice", "README.md", cwd=folder, status=1).upper()
    assert "usage" in run("build/voice", cwd=folder, status=2)


def main():
    if shutil.which("pkg-config") is None or subprocess.run(["pkg-config", "--exists", "sndfile"]).returncode:
        print("skipped: no libsndfile")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top) / "examples/voice"
        shutil.copytree(ROOT / "examples/voice", folder, ignore=shutil.ignore_patterns("build"))
        shutil.copytree(ROOT / "models/voice", pathlib.Path(top) / "models/voice")
        run("make", f"RLXC={RLXC}", "CFLAGS=-O2 -Wall -Wextra -Werror", cwd=folder)
        check_sample(folder)
        check_others(folder)
        if SILERO.exists():
            run("make", "clean", cwd=folder)
            run("make", f"RLXC={RLXC}", f"MODEL={SILERO}", SILERO_OPTIONS, cwd=folder)
            check_sample(folder)
        else:
            print("silero_vad: skipped, it is not here")


main()
