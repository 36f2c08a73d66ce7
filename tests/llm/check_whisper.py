#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders of Whisper: spectrograms, the encoder and the decoder compute what numpy does in doubles, each with
`rlxc run`, and all together in a program with sessions (whisper_test.c) and with `run --audio`; and what is
refused.
Usage: check_whisper.py RLXC"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import wave

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
try:
    import numpy
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
import models  # noqa: E402
import small_vocab  # noqa: E402
import tap  # noqa: E402
import whisper  # noqa: E402
from emitted import SANITIZE, flags_of  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
FOLDER = tempfile.TemporaryDirectory()
HEARD = pathlib.Path(FOLDER.name, "whisper")
MODEL = whisper.Whisper()
ALLOWED, PROMPT, TEXT = 1e-5, [1, 17, 40, 5], 8
STRICT = ["-std=c99", "-D_POSIX_C_SOURCE=200112L", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]


def sounds():
    """One that ends before the middle, and noise."""
    t = numpy.arange(whisper.SAMPLES) / whisper.RATE
    rng = numpy.random.default_rng(3)
    chirp = 0.5 * numpy.sin(2 * numpy.pi * (300 + 4000 * t) * t) * (t < 0.2)
    return [x.astype("f4") for x in (chirp, 0.1 * rng.standard_normal(len(t)))]


def apart(got, want):
    same = got.shape == want.shape and numpy.isfinite(got).all()
    return numpy.linalg.norm(got - want) / numpy.linalg.norm(want) if same else numpy.inf


def run(part, output, *options, **inputs):
    """encoded is a parameter."""
    command = [RLXC, "run", HEARD, "--signature", part, "--output-dir", FOLDER.name, *options]
    for name, values in inputs.items():
        numpy.save(f"{FOLDER.name}/{name}_in.npy", numpy.ascontiguousarray(values))
        command += ["--param" if name == "encoded" else "--input", f"{name}={FOLDER.name}/{name}_in.npy"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=400)
    return numpy.load(f"{FOLDER.name}/{output}.npy")


def test_mel():
    """Silence has the least energy that counts."""
    for samples in [*sounds(), numpy.zeros(whisper.SAMPLES, "f4")]:
        got, want = run("features", "mel", samples=samples), whisper.mel(samples.astype("f8"))
        worst = numpy.abs(got - want).max()
        print(f"# apart {worst:.1e}")
        assert got.shape == want.shape and worst < 1e-4


def test_encoder():
    mel = whisper.mel(sounds()[1].astype("f8")).astype("f4")
    got = apart(run("encoder", "encoded", mel=mel), MODEL.encoded(mel.astype("f8")))
    print(f"# apart {got:.1e}")
    assert got <= ALLOWED


def test_decoder():
    encoded = numpy.random.default_rng(1).standard_normal((whisper.ROWS, whisper.WIDTH)).astype("f4")
    tokens = numpy.array([(7 * i * i + 3 * i + 1) % whisper.VOCAB for i in range(29)])
    want = MODEL.logits(tokens, encoded.astype("f8"))
    got = run("decoder", "logits", "--dim", "T=29", "--dim", "P=0", "--outputs", "all", tokens=tokens,
              encoded=encoded)  # fmt: skip
    print(f"# apart {apart(got, want):.1e}")
    assert apart(got, want) <= ALLOWED


def expected(samples):
    encoded = MODEL.encoded(whisper.mel(samples.astype("f8")))
    tokens = list(PROMPT)
    first = MODEL.logits(tokens, encoded)[-1]
    for _ in range(TEXT):
        logits = MODEL.logits(tokens, encoded)[-1]
        best = numpy.sort(logits)[-2:]
        assert best[1] - best[0] > 1e-3, "the choice is too close to be a test"
        tokens.append(int(logits.argmax()))
    return first, tokens[len(PROMPT) :]


def test_program():
    """Sound to tokens, with sanitizers: each sound has its own text, whatever was heard before."""
    folder = pathlib.Path(FOLDER.name, "program")
    for name, part in (("mel", "features"), ("encoder", "encoder"), ("decoder", "decoder")):
        command = [RLXC, "compile", HEARD, "--signature", part, "-o", folder, "--name", name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=200)
    sources = ["mel.c", "encoder.c", "decoder.c", HERE / "whisper_test.c"]
    flags = [*flags_of(folder / "decoder.c", "-O1"), *STRICT, *SANITIZE, "-I."]
    subprocess.run(["cc", *flags, *sources, "-o", "p", "-lm"], check=True, cwd=folder, timeout=500)
    given = b"".join(x.tobytes() for x in sounds()) + numpy.array(PROMPT, "i4").tobytes()
    done = subprocess.run([folder / "p"], input=given, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    assert lines[0] == lines[2] == lines[3] != lines[1]
    for words, samples in zip(lines, sounds()):
        logits, tokens = expected(samples)
        got = apart(numpy.array(words[: whisper.VOCAB], "f8"), logits)
        print(f"# apart {got:.1e}")
        assert got <= 3 * ALLOWED and [int(w) for w in words[whisper.VOCAB :]] == tokens, (words, tokens)


def test_text():
    """Without sound there is no text, and the folder says so."""
    done = subprocess.run([RLXC, "run", HEARD, "--prompt", "a"], capture_output=True, timeout=200)
    assert done.returncode == 1 and "encoded" in done.stderr.decode(), done.stderr.decode()


CONTROLS = ["<|startoftranscript|>", "<|en|>", "<|de|>", "<|transcribe|>", "<|notimestamps|>"]
FIRST_CONTROL = 70


def vocabulary():
    """The small one, with the tokens by which Whisper is told what to do."""
    made = small_vocab.words_json()
    names = sorted(made["model"]["vocab"], key=made["model"]["vocab"].get)
    names[FIRST_CONTROL : FIRST_CONTROL + len(CONTROLS)] = CONTROLS
    made["model"]["vocab"] = {name: i for i, name in enumerate(names)}
    made["added_tokens"] += [{"id": FIRST_CONTROL + i, "content": name, "special": True}
                             for i, name in enumerate(CONTROLS)]  # fmt: skip
    return made


def write_sound(samples, rate=whisper.RATE, channels=1):
    path = f"{FOLDER.name}/sound.wav"
    with wave.open(path, "wb") as f:
        f.setnchannels(channels)
        f.setsampwidth(2)
        f.setframerate(rate)
        f.writeframes(samples.tobytes())
    return path


def heard(samples):
    """Language and tokens of a stretch of sound."""
    encoded = MODEL.encoded(whisper.mel(samples.astype("f8") / 32768))
    start, end = FIRST_CONTROL, FIRST_CONTROL + len(CONTROLS)
    forbidden = [0, 1, *range(start, end)]
    language = int(MODEL.logits([start], encoded)[-1, start + 1 : start + 3].argmax()) + start + 1
    tokens = [start, language, start + 3, start + 4]
    while len(tokens) < whisper.CONTEXT:
        logits = MODEL.logits(tokens, encoded)[-1]
        logits[forbidden] = -numpy.inf
        best = numpy.sort(logits)[-2:]
        assert best[1] - best[0] > 1e-3, "the choice is too close to be a test"
        if logits.argmax() == 2:
            break
        tokens.append(int(logits.argmax()))
    return CONTROLS[language - start].strip("<|>"), tokens[4:]


def listen(*options, path=None):
    command = [RLXC, "run", path or HEARD, "--audio", *options]
    return subprocess.run(command, capture_output=True, timeout=300)


def test_audio():
    """Two stretches, of which the second is short, and the same in two channels."""
    sound = numpy.concatenate([sounds()[1], sounds()[0][:1000]])
    sound = (sound * 32767).astype("<i2")
    last = numpy.zeros(whisper.SAMPLES, "<i2")
    last[:1000] = sound[whisper.SAMPLES :]
    language, tokens = heard(sound[: whisper.SAMPLES])
    encoded = [language, tokens + second_text(last, language)]
    done = listen(write_sound(sound), "--json")
    assert done.returncode == 0, done.stderr.decode()
    got = json.loads(done.stdout)
    assert [got["language"], got["tokens"]] == encoded, (got, encoded)
    stereo = numpy.stack([sound, sound], 1)
    done = listen(write_sound(stereo, channels=2))
    assert done.stdout.decode() == got["text"] + "\n" and got["text"].strip(), (done, got)
    done = listen(write_sound(sound, rate=8000))
    assert done.returncode == 2 and "found 8000" in done.stderr.decode(), done
    done = listen(write_sound(sound), "--context", "4")
    assert done.returncode == 2 and "at least 5 tokens, found 4" in done.stderr.decode(), done
    broken = pathlib.Path(FOLDER.name, "broken.wav")
    whole = pathlib.Path(write_sound(sound)).read_bytes()
    for n in range(0, 44, 3):
        broken.write_bytes(whole[:n])
        done = listen(broken)
        assert done.returncode in (1, 2) and b"broken.wav" in done.stderr, (n, done)
    assert b"expected a folder of Whisper" in listen(write_sound(sound), path=FOLDER.name).stderr


def second_text(samples, language):
    """The language is that of the first stretch."""
    own, tokens = heard(samples)
    assert own == language, "choose sounds of one language"
    return tokens


def said(path, *options):
    command = [RLXC, "convert", path, *options]
    done = subprocess.run(command, capture_output=True, timeout=200)
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def test_refused():
    """Also a GGUF file, which has no parts."""
    model = models.Model("whisper")
    models.add_entries(model)
    models.add_ends(model)
    gguf = pathlib.Path(FOLDER.name, "m.gguf")
    gguf.write_bytes(model.file())
    status, text = said(gguf)
    assert status == 1 and "read from folders" in text, text
    for options, why in (
        (["--signature", "ears"], "have decoder, encoder, features"),
        (["--slots", "2"], "one sound at a time"),
        (["--context", "41"], "positions for 40"),
    ):
        status, text = said(HEARD, *options)
        assert status in (1, 2) and why in text, (options, text)
    other = pathlib.Path(FOLDER.name, "other")
    for file, change, part, why in (
        ("config.json", {"scale_embedding": True}, "decoder", "/scale_embedding"),
        ("config.json", {"d_model": 72}, "encoder", "conv1"),
        ("config.json", {"num_mel_bins": 2.5}, "features", "/num_mel_bins"),
        ("config.json", {"max_source_positions": 26}, "encoder", "embed_positions"),
        ("config.json", {"model_type": "llama"}, "encoder", "have no parts"),
        ("preprocessor_config.json", {"hop_length": 200}, "features", "hop_length"),
    ):
        subprocess.run(["rm", "-rf", other], check=True)
        subprocess.run(["cp", "-r", HEARD, other], check=True)
        members = json.loads((other / file).read_text()) | change
        (other / file).write_text(json.dumps(members))
        status, text = said(other, "--signature", part)
        assert status in (1, 2) and why in text, (change, text)


def main():
    MODEL.write(HEARD, vocabulary())
    return tap.run_tests(globals())


if __name__ == "__main__":
    sys.exit(main())
