#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rlxc quantize: each type has the error that its bits allow, what is read back is what was measured, and an
importance matrix moves the error to where it counts less. Usage: check_quantize.py RLXC; prints TAP."""

import functools
import json
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/common"), str(ROOT / "examples/language")]

import in_venv  # noqa: E402

try:
    import numpy
except ImportError:
    in_venv.enter_or_skip("numpy")
import gguf_file  # noqa: E402
import make_model  # noqa: E402
import tap  # noqa: E402

RLXC = pathlib.Path(sys.argv[1]).resolve()
TEMPORARY = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(TEMPORARY.name)
# Type: the most that may be off of normal numbers, relative to their root mean square.
TYPES = {
    "f16": 3e-4, "bf16": 2e-3, "q8_0": 6e-3, "q6_k": 0.019, "q5_0": 0.043, "q5_1": 0.038, "q5_k_s": 0.038,
    "q4_0": 0.086, "q4_1": 0.075, "q4_k_s": 0.075, "q4_k_m": 0.075, "iq4_nl": 0.078, "iq4_xs": 0.078,
    "q3_k_s": 0.155, "q3_k_m": 0.155, "q5_k_m": 0.038, "q2_k": 0.28, "mxfp4": 0.125, "tq2_0": 0.4,
}  # fmt: skip
# Members of the tables above that gguf_file can unpack, by type.
UNPACKED = {
    "q4_0": gguf_file.Q4_0,
    "q8_0": gguf_file.Q8_0,
    "q6_k": gguf_file.Q6_K,
    "mxfp4": gguf_file.MXFP4,
}
N, K = 24, 512


def limit_files(most):
    """As on a disk that is full: no file has more bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def call(*words, status=0, most=None):
    limit = functools.partial(limit_files, most) if most else None
    done = subprocess.run([RLXC, *words], capture_output=True, timeout=300, preexec_fn=limit)
    assert done.returncode == status, done.stderr.decode()
    return (done.stderr if status else done.stdout).decode()


def write(name, tensors, **entries):
    """A file whose tensors are (name, array), as f32."""
    kept = [(at, x.shape, gguf_file.F32, x.astype("<f4").tobytes()) for at, x in tensors]
    path = FOLDER / name
    head = {"general.architecture": "llama", "llama.block_count": 2}
    path.write_bytes(gguf_file.make(head | entries, kept))
    return path


def quantize(path, kind, *words):
    out = FOLDER / "out.gguf"
    return json.loads(call("quantize", path, "-o", out, "--type", kind, "--json", *words)), out.read_bytes()


def sample(rows=N):
    return numpy.random.default_rng(rows).standard_normal((rows, K)).astype("f4") * 0.02


def test_type(kind):
    x = sample()
    x[3], x[5, ::2], x[7, 1:] = 0, 0, 0
    report, data = quantize(write("one.gguf", [("blk.0.attn_q.weight", x)]), kind)
    (row,) = report["types"]
    assert row["relative"] <= TYPES[kind], row
    if kind in UNPACKED:
        elements, _, unpack = gguf_file.BLOCKS[UNPACKED[kind]]
        blocks = numpy.frombuffer(data[len(data) - row["bytes"] :], "u1").reshape(N, K // elements, -1)
        off = numpy.sqrt(numpy.mean((unpack(blocks).reshape(N, K) - x) ** 2))
        assert abs(off / row["rmse"] - 1) < 1e-5, (off, row)
    return f"{row['relative']:.4f}"


def test_exact():
    """What a format holds exactly stays: -8 to 7 times a power of two, and zeros."""
    x = numpy.random.default_rng(3).integers(-8, 8, (N, K)).astype("f4") / 16
    x[5] = 0
    report, _ = quantize(write("exact.gguf", [("blk.0.attn_q.weight", x)]), "q4_0")
    assert report["types"][0]["rmse"] == 0, report
    return "integers of 4 bits"


def test_tiny():
    """Numbers whose steps are below what f16 holds as a normal number."""
    off = []
    for kind, most in (("q6_k", 0.1), ("q4_k_s", 0.2), ("q8_0", 0.1), ("f16", 0.01)):
        report, _ = quantize(write("tiny.gguf", [("blk.0.attn_q.weight", sample() * 0.005)]), kind)
        off.append(report["types"][0]["relative"])
        assert off[-1] < most, (kind, report)
    return ", ".join(f"{x:.3f}" for x in off)


def test_mix():
    x = sample(8)
    names = ["token_embd", "output", "blk.0.attn_q", "blk.1.attn_v", "blk.0.ffn_gate_inp"]
    tensors = [(f"{name}.weight", x) for name in names]
    tensors += [("blk.0.ffn_up.weight", x[:, :96]), ("blk.1.ffn_up.weight", x[:, :24])]
    tensors += [("output_norm.weight", x[0]), ("blk.0.attn_q.bias", x[0])]
    entries = {"general.file_type": 0, "a.b": ["c", "d"]}
    report, data = quantize(write("mix.gguf", tensors, **entries), "q4_k_m")
    counts = {row["type"]: row["tensors"] for row in report["types"]}
    assert counts == {"Q4_K": 3, "Q6_K": 1, "F32": 3, "Q5_0": 1, "F16": 1}, counts
    assert gguf_file.entry("general.file_type", 15) in data and gguf_file.entry("a.b", ["c", "d"]) in data
    assert data.count(b"general.file_type") == 1
    return counts


def test_importance():
    """The columns that count have less of the error, and the sum by importance is less."""
    x, weight = sample(64), numpy.where(numpy.arange(K) % 7 == 0, 400.0, 1.0)
    path = write("one.gguf", [("blk.0.attn_q.weight", x)])
    matrix, off = write("imatrix.gguf", [("blk.0.attn_q.weight.in_sum2", weight[None])]), []
    for words in ([], ["--imatrix", matrix]):
        report, data = quantize(path, "q4_0", *words)
        blocks = numpy.frombuffer(data[len(data) - 64 * K // 32 * 18 :], "u1").reshape(64, K // 32, 18)
        off.append((gguf_file.unpack_q4_0(blocks).reshape(64, K) - x) ** 2 @ weight)
        assert report["weighted"] == len(words) // 2
    assert off[1].sum() < 0.8 * off[0].sum(), (off[0].sum(), off[1].sum())
    for bad in (weight[None, :-32], -weight[None], weight[None] * numpy.inf):
        matrix = write("imatrix.gguf", [("blk.0.attn_q.weight.in_sum2", bad)])
        call("quantize", path, "-o", FOLDER / "none.gguf", "--type", "q4_0", "--imatrix", matrix, status=1)
        assert not (FOLDER / "none.gguf").exists()
    return f"{off[1].sum() / off[0].sum():.2f} of the error"


def test_measured():
    """Perplexity measures the columns; the quantised model still predicts the text."""
    model, matrix, text = FOLDER / "pairs.gguf", FOLDER / "pairs.imatrix", FOLDER / "text.txt"
    make_model.main(model, [ROOT / "examples/language/sample.txt"])
    sample_text = (ROOT / "examples/language/sample.txt").read_text(encoding="utf-8")
    text.write_text(sample_text[:600], encoding="utf-8")
    before = json.loads(call("perplexity", model, "--text", text, "--imatrix-out", matrix, "--json"))
    report, data = quantize(model, "q8_0", "--imatrix", matrix)
    assert report["weighted"] > 0 and b"quantize.imatrix.file" in data, report
    (FOLDER / "small.gguf").write_bytes(data)
    after = json.loads(call("perplexity", FOLDER / "small.gguf", "--text", text, "--json"))
    assert abs(after["loss"] - before["loss"]) < 0.05 * before["loss"], (before, after)
    return f"{report['weighted']} tensors"


def test_refused():
    x, out = sample(2), FOLDER / "none.gguf"
    for wrong in (numpy.nan, numpy.inf, 7e4):
        x[1, 3] = wrong
        path = write("bad.gguf", [("blk.0.attn_q.weight", x)])
        assert "blk.0.attn_q.weight" in call("quantize", path, "-o", out, "--type", "q4_0", status=1)
    _, data = quantize(write("one.gguf", [("blk.0.attn_q.weight", sample())]), "q8_0")
    (FOLDER / "small.gguf").write_bytes(data)
    assert "Q8_0" in call("quantize", FOLDER / "small.gguf", "-o", out, "--type", "q4_0", status=1)
    assert "q4_k_m" in call("quantize", path, "-o", out, "--type", "q4", status=2)
    own, link = FOLDER / "one.gguf", FOLDER / "link.gguf"
    before = own.read_bytes()
    link.hardlink_to(own)  # the model is not replaced, whatever its name
    assert "another file" in call("quantize", own, "-o", link, "--type", "q4_0", status=2)
    assert own.read_bytes() == before
    call("quantize", own, "-o", FOLDER / "upper.gguf", "--type", "Q4_0")
    full = ["-o", FOLDER / "full.gguf", "--type", "q8_0"]
    assert "too large" in call("quantize", own, *full, status=1, most=64)
    assert not list(FOLDER.glob("full*"))
    assert "expected a type" in call("quantize", path, "-o", out, status=2)
    assert "-o" in call("quantize", path, "--type", "q4_0", status=2)
    (FOLDER / "text.gguf").write_text("no GGUF", encoding="utf-8")
    call("quantize", FOLDER / "text.gguf", "-o", out, "--type", "q4_0", status=1)
    assert not out.exists()
    return "numbers, blocks, types"


CHECKS = [(kind, test_type, [kind]) for kind in TYPES]
OTHERS = (test_exact, test_tiny, test_mix, test_importance, test_measured, test_refused)
CHECKS += [(check.__name__[5:], check, []) for check in OTHERS]
sys.exit(tap.run_checks(CHECKS))
