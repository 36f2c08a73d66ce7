# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite for microcontrollers with CMSIS-NN, as what tools/bench/mcu compares with: built from its
sources, whose folders the environment names, with the compiler and options of our own code."""

import concurrent.futures
import hashlib
import os
import pathlib
import struct

import mcu_rig

FOLDERS = {"RLXC_TFLM": "tflite-micro", "RLXC_CMSIS_NN": "CMSIS-NN", "RLXC_FLATBUFFERS": "flatbuffers",
           "RLXC_GEMMLOWP": "gemmlowp"}
MICRO = "tensorflow/lite/micro"
# Number of an operator: what adds it, and sources in micro/kernels.
OPERATORS = {
    0: ("AddAdd(tflite::Register_ADD_INT8())", "cmsis_nn/add add_common"),
    1: ("AddAveragePool2D(tflite::Register_AVERAGE_POOL_2D_INT8())", "cmsis_nn/pooling pooling_common"),
    3: ("AddConv2D(tflite::Register_CONV_2D_INT8())", "cmsis_nn/conv conv_common"),
    4: ("AddDepthwiseConv2D(tflite::Register_DEPTHWISE_CONV_2D_INT8())",
        "cmsis_nn/depthwise_conv depthwise_conv_common"),
    6: ("AddDequantize()", "dequantize dequantize_common"),
    9: ("AddFullyConnected(tflite::Register_FULLY_CONNECTED_INT8())",
        "cmsis_nn/fully_connected fully_connected_common"),
    17: ("AddMaxPool2D(tflite::Register_MAX_POOL_2D_INT8())", "cmsis_nn/pooling pooling_common"),
    18: ("AddMul(tflite::Register_MUL_INT8())", "cmsis_nn/mul mul_common"),
    22: ("AddReshape()", "reshape reshape_common"),
    25: ("AddSoftmax(tflite::Register_SOFTMAX_INT8())", "cmsis_nn/softmax softmax_common"),
    34: ("AddPad()", "cmsis_nn/pad pad_common"),
    114: ("AddQuantize()", "quantize quantize_common"),
}
DEFINES = ("-DNDEBUG", "-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_STRIP_ERROR_STRINGS", "-DCMSIS_NN",
           "-DARM_NN_ENABLE_F16=0", "-DARM_NN_ENABLE_F32=0", "-w")
NOT_BUILT = ("_test", "test_helper", "recording_", "mock_", "fake_", "hexdump", "debug_log", "_f16", "_f32",
             "_flt", "python", "/testing/", "experimental")
ARENA = 1 << 20  # bytes, more than enough
RUY = """#pragma once
namespace ruy { namespace profiler {
struct ScopeLabel { template <typename... T> explicit ScopeLabel(const T &...) {} };
} }
"""
MAIN = """#include "tensorflow/lite/micro/kernels/add.h"
#include "tensorflow/lite/micro/kernels/conv.h"
#include "tensorflow/lite/micro/kernels/depthwise_conv.h"
#include "tensorflow/lite/micro/kernels/fully_connected.h"
#include "tensorflow/lite/micro/kernels/mul.h"
#include "tensorflow/lite/micro/kernels/pooling.h"
#include "tensorflow/lite/micro/kernels/softmax.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include <cstdarg>
#include <cstring>
extern "C" {
#include "start.h"
}
extern "C" void DebugLog(const char *, va_list) {}
extern "C" int DebugVsnprintf(char *, size_t, const char *, va_list) { return 0; }
extern "C" void __cxa_pure_virtual(void) { board_end(0); }
extern "C" void abort(void)
{
    board_end(0);
    for (;;) {
    }
}
void operator delete(void *) noexcept {}
void operator delete(void *, unsigned) noexcept {}
extern const unsigned char model_data[];
alignas(16) static unsigned char arena[ARENA_BYTES];

static void say(const char *what, unsigned value)
{
    board_say(what);
    board_say_number(static_cast<int>(value));
    board_say("\\n");
}

static tflite::MicroMutableOpResolver<OPERATORS> operators()
{
    tflite::MicroMutableOpResolver<OPERATORS> all;
    ADD_OPERATORS
    return all;
}

int main()
{
    const auto all = operators();
    tflite::MicroInterpreter net(tflite::GetModel(model_data), all, arena, sizeof arena);
    if (net.AllocateTensors() != kTfLiteOk)
        return 1;
    for (size_t i = 0; i < net.inputs_size(); i++)
        memset(net.input(i)->data.raw, 0, net.input(i)->bytes);
    board_fill_stack();
    board_mark();
    const bool is_good = net.Invoke() == kTfLiteOk;
    board_mark();
    say("stack ", board_stack_bytes());
    say("arena ", net.arena_used_bytes());
    return is_good ? 0 : 1;
}
"""


def missing():
    """The variables of folders that the environment does not have."""
    return [name for name in FOLDERS if not os.environ.get(name)]


def folder(name):
    return pathlib.Path(os.environ[name]).resolve()


def operators_of(data):
    """Numbers of the operators in a .tflite file that rlxc has read without complaint."""
    def table_field(at, number):
        table = at - struct.unpack_from("<i", data, at)[0]
        place = 4 + 2 * number
        offset = struct.unpack_from("<H", data, table + place)[0] \
            if place < struct.unpack_from("<H", data, table)[0] else 0
        return at + offset if offset else None

    def follow(at):
        return at + struct.unpack_from("<I", data, at)[0]

    codes = follow(table_field(follow(0), 1))
    found = set()
    for i in range(struct.unpack_from("<I", data, codes)[0]):
        code = follow(codes + 4 + 4 * i)
        old, new = table_field(code, 0), table_field(code, 3)
        found.add(max(data[old] if old else 0, struct.unpack_from("<i", data, new)[0] if new else 0))
    return sorted(found)


class Peer:
    """Builds a library for a machine once, and a program for each network."""

    def __init__(self, rig, kept):
        self.rig, self.kept = rig, kept
        self.stubs = pathlib.Path(rig.work) / "tflm"
        (self.stubs / "ruy/profiler").mkdir(parents=True)
        (self.stubs / "ruy/profiler/instrumentation.h").write_text(RUY)

    def options(self, level):
        folders = [folder("RLXC_TFLM"), folder("RLXC_FLATBUFFERS") / "include", folder("RLXC_GEMMLOWP"),
                   folder("RLXC_CMSIS_NN"), folder("RLXC_CMSIS_NN") / "Include", self.stubs]
        return [level, *DEFINES, *(f"-I{path}" for path in folders)]

    def sources(self):
        home, nn = folder("RLXC_TFLM"), folder("RLXC_CMSIS_NN")
        found = [path for part in ("", "arena_allocator", "memory_planner", "tflite_bridge")
                 for path in (home / MICRO / part).glob("*.cc")]
        for part in ("lite/core", "lite/kernels", "lite/schema", "compiler"):
            found += (home / "tensorflow" / part).rglob("*.cc")
        names = {name for _, files in OPERATORS.values() for name in files.split()}
        names |= {"kernel_util", "micro_tensor_utils"}
        found += [home / MICRO / "kernels" / f"{name}.cc" for name in names]
        found += (nn / "Source").rglob("*.c")
        return sorted(path for path in found
                      if not any(word in str(path) for word in NOT_BUILT) and path.exists())

    def built_library(self, machine, compiler, level):
        """An archive, whose objects stay in a folder until their sources are newer."""
        options = [*machine.flags, *self.options(level), "-ffunction-sections", "-fdata-sections"]
        plain = ["-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-unwind-tables"]
        objects = self.kept / f"tflm-{machine.cpu}-{level.strip('-')}"
        objects.mkdir(parents=True, exist_ok=True)
        archive = self.stubs / "libtflm.a"

        def build(source):
            mark = hashlib.sha256(str(source).encode()).hexdigest()[:8]
            made = objects / f"{source.stem}-{mark}.o"
            if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
                more = plain if source.suffix == ".cc" else []
                mcu_rig.check([*compiler, *options, *more, "-c", source, "-o", made])
            return made

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            mcu_rig.check(["arm-none-eabi-ar", "rcs", archive, *pool.map(build, self.sources())])
        return archive

    def program(self, machine, compiler, model, level):
        """(The program, None), or (None, why there is none)."""
        data = model.read_bytes()
        numbers = operators_of(data)
        unknown = [str(n) for n in numbers if n not in OPERATORS]
        if unknown:
            return None, f"is not built with the operators {', '.join(unknown)}"
        work = self.stubs / model.stem
        work.mkdir(exist_ok=True)
        adds = "\n    ".join(f"all.{OPERATORS[n][0]};" for n in numbers)
        text = MAIN.replace("ADD_OPERATORS", adds).replace("OPERATORS", str(len(numbers)))
        (work / "main.cc").write_text(text.replace("ARENA_BYTES", str(ARENA)))
        numbers = ",".join(map(str, data))
        (work / "model.cc").write_text("extern const unsigned char model_data[];\n"
                                       f"alignas(16) const unsigned char model_data[] = {{{numbers}}};\n")
        library = self.built_library(machine, compiler, level)
        return self.rig.link(work, machine, compiler, [work / "main.cc", work / "model.cc", library],
                             self.options(level)), None

    def run(self, machine, compiler, model, level):
        """Figures, the program, and bytes of its arena that it does not use; or None, why, and None."""
        program, why = self.program(machine, compiler, model, level)
        if not program:
            return None, why, None
        figures = self.rig.run(program, machine)
        if figures.status != 0:
            return None, f"ends with status {figures.status}", None
        return figures, program, ARENA - int(figures.said["arena"])
