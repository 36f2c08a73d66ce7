# SPDX-License-Identifier: Apache-2.0
"""tflite-micro's tests of kernels, compiled with our own KernelRunner (tflm/kernel_runner.cc): rlxc computes
what the kernels would, and the tests judge it."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import struct
import subprocess

import check_ops
import flatbuffer
import kernel_cases

HERE = pathlib.Path(__file__).resolve().parent
MICRO = "tensorflow/lite/micro"
NEEDED = {"RLXC_FLATBUFFERS": "include", "RLXC_GEMMLOWP": "."}
CHUNK = 24
PASSES = 4  # tests that end at the first failure need several
# What is no test of one operator through KernelRunner.
OTHERS = {
    "call_once": "sub-graphs of a mock",
    "circular_buffer": "an operator that is not built in",
    "decode": "an operator that is not built in",
    "decode_state_huffman": "parts of a kernel",
    "decode_state_lut": "parts of a kernel",
    "decode_state_prune": "parts of a kernel",
    "decompress": "parts of a kernel",
    "detection_postprocess": "an operator that is not built in",
    "if": "sub-graphs of a mock",
    "lstm_eval": "parts of a kernel",
    "quantization_util": "parts of a kernel",
    "while": "sub-graphs of a mock",
}
# Tests that expect an error where rlxc computes a result, or what rlxc does not give, and why.
WIDER = {
    "ConvTest.HybridModeIsError": "rlxc has hybrid operators",
    "ConvTest.Int8Filter8x3x3x3PerChannelScaleRelu6ShouldMatchGolden": "VALID padding, shape of SAME",
    "ConvTest.SimpleTestDilatedQuantizedPerChannel": "VALID padding with the shape of SAME",
    "FillTest.FillInt8NonConstDimsTensorFail": "constants and inputs are not told apart in these tests",
    "FillTest.FillInputDimsMismatchWithOutputShallFail": "the shape of the result is not looked at",
    "GatherNdTest.GatherNd_ReadOOB": "indices out of range are clamped",
    "GatherNdTest.GatherNd_ReadOOBNegative": "indices out of range are clamped",
    "UnidirectionalSequenceLstmTest.TestUnidirectionalLSTMFloat": "it reads states, which stay in rlxc",
    "ReshapeTest.ReshapeWithLegacyScalarOutputShouldSucceed": "an empty list is the shape of a scalar",
    "BroadcastToTest.TooManyDimensionShouldFail": "more axes than tflite-micro has",
    "BroadcastToTest.MismatchDimensionShouldFail": "the shape of the result is not looked at",
    "ElementwiseTest.RsqrtNanInt8": "roots of negative values are 0 in rlxc, and an error there",
    "ExpandDimsTest.ExpandDimsInputOutputDimsMismatchShallFail": "the shape of the result is not looked at",
    "PoolingTest.SimpleAveragePoolTestInt8PaddingSameStride1ActNone": "VALID padding with the shape of SAME",
    "PoolingTest.SimpleAveragePoolTestInt16PaddingSameStride1ActNone": "VALID padding with the shape of SAME",
}
RUY = """#pragma once
namespace ruy { namespace profiler {
struct ScopeLabel { template <typename... T> explicit ScopeLabel(const T &...) {} };
} }
"""


def call(command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


class Builder:
    """Compiles into a folder that stays, so that a second time takes no time."""

    def __init__(self, home, kept):
        self.home, self.kept = home, kept
        (kept / "ruy/profiler").mkdir(parents=True, exist_ok=True)
        stub = kept / "ruy/profiler/instrumentation.h"
        if not stub.exists():
            stub.write_text(RUY)
        folders = [home, kept, *(pathlib.Path(os.environ[name]) / part for name, part in NEEDED.items())]
        compiler = (["ccache"] if shutil.which("ccache") else []) + ["c++"]
        self.command = [
            *compiler,
            "-std=c++17",
            "-O0",
            "-w",
            "-fno-exceptions",
            "-fno-rtti",
            "-DTF_LITE_STATIC_MEMORY",
            *(f"-I{f}" for f in folders),
        ]

    def compile(self, source):
        made = self.kept / (re.sub(r"\W", "_", str(source)) + ".o")
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            call([*self.command, "-c", source, "-o", made])
        return made

    def built_library(self):
        parts = ("", "arena_allocator", "memory_planner", "tflite_bridge")
        found = [path for part in parts for path in (self.home / MICRO / part).glob("*.cc")]
        for part in ("tensorflow/lite/core", "tensorflow/lite/kernels", "tensorflow/compiler"):
            found += (self.home / part).rglob("*.cc")
        kernels = self.home / MICRO / "kernels"
        found += [
            kernels / "kernel_util.cc",
            kernels / "conv_test_common.cc",
            *(kernels / "testdata").glob("*.cc"),
        ]
        found = [path for path in sorted(found) if not path.stem.endswith("_test")]
        archive = self.kept / "libtflm.a"
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            call(["ar", "rcs", archive, *pool.map(self.compile, found)])
        return archive

    def programs(self, names):
        """{name: program}"""
        archive, runner = self.built_library(), self.compile(HERE / "tflm/kernel_runner.cc")

        def build(name):
            program = self.kept / f"{name}_test"
            test = self.compile(self.home / MICRO / "kernels" / f"{name}_test.cc")
            call(["c++", test, runner, archive, "-o", program])
            return program

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return dict(zip(names, pool.map(build, names), strict=True))


def names_of(home):
    found = sorted(path.stem.removesuffix("_test") for path in (home / MICRO / "kernels").glob("*_test.cc"))
    return [name for name in found if name not in OTHERS]


def run_program(program, folder):
    """{test: (passed, what it printed)}"""
    done = subprocess.run(
        ["setarch", "-R", program],  # some tests pass what nobody has written: it has to stay the same
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
        env={**os.environ, "RLXC_TFLM_RUNS": str(folder)},
    )
    parts = re.split(r"^\[ RUN      \] (\S+)$", done.stdout + done.stderr, flags=re.M)
    if len(parts) < 3:
        raise SystemExit(f"{program}: no test ran, status {done.returncode}: {parts[0][:300]}")
    return {
        name: (f"[       OK ] {name}" in text, text)
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def write_results(path, results):
    """One line an output; results: lists of (shape, values), or a message."""
    if isinstance(results, str):
        path.write_text("refused " + " ".join(results.split())[:300] + "\n")
        return
    path.write_text("".join(f"{' '.join(map(str, shape))}:{data.hex()}\n" for shape, data in results))


def run_together(rlxc, texts, options):
    """What some texts, {name: text}, give: lists of (shape, bytes), or messages."""
    model = flatbuffer.Model()
    try:
        together = [kernel_cases.build(f"k{name}", text, model) for name, text in texts.items()]
        found = check_ops.run_rlxc(rlxc, together, options)
    except (ValueError, KeyError, struct.error) as error:
        found = f"error: {error}"
    if isinstance(found, str):
        if len(texts) == 1:
            return {next(iter(texts)): found}
        named = set(re.findall(r"\bk([0-9a-f]{16})_", found)) & set(texts)
        named = named or set(list(texts)[: len(texts) // 2])
        parts = (
            {name: text for name, text in texts.items() if (name in named) == side} for side in (True, False)
        )
        return {k: v for part in parts if part for k, v in run_together(rlxc, part, options).items()}
    return {
        name: [
            (shape, flatbuffer.pack(kind, values))
            for kind, (shape, values) in zip(c.result_types, result, strict=True)
        ]
        for name, c, result in zip(texts, together, found, strict=True)
    }


def answer(rlxc, folder, options):
    """Computes what programs have asked for. False: nothing new."""
    asked = sorted(path for path in folder.glob("*.txt") if not path.with_suffix(".out").exists())
    for at in range(0, len(asked), CHUNK):
        texts = {path.stem: path.read_text() for path in asked[at : at + CHUNK]}
        for name, result in run_together(rlxc, texts, options).items():
            write_results(folder / f"{name}.out", result)
    return bool(asked)


def run(rlxc, programs, folder, options):
    """{name: {test: (passed, text)}}"""
    for _ in range(PASSES):
        found = {name: run_program(program, folder) for name, program in programs.items()}
        if not answer(rlxc, folder, options):
            break
    return found
