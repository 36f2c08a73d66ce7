# SPDX-License-Identifier: Apache-2.0
"""What NVRTC says of attention that must be fast, without a GPU: no register may be spilled, no product of
a warpgroup serialised (C75xx). Each graph is compiled to text by rlxc, and its text by NVRTC.

  check_attention.py RLXC     TAP; RLXC_NVRTC or RLXC_VENV: where NVRTC is
"""

import ctypes
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def attention(dtype, q, kv, attrs="", extra="", more="i64[]"):
    inputs = [f'  %{i + 1} = input "{n}" : {dtype}{s}' for i, (n, s) in enumerate(zip("qkv", (q, kv, kv)))]
    fourth = [f'  %4 = input "n" : {more}'] if extra else []
    node = f"  %5 = attention(%1, %2, %3{extra}) {{{attrs}}}"
    return "\n".join(['graph "g" {', *inputs, *fourth, node, '  output "y" = %5', "}"])


CAUSAL, LIVE, MASK = "causal = true", ", _, %4", ", %4"
ALL = "causal = true, left = 300, softcap = 9.0"
LONG, TWO, WIDE = [1, 8, 512, 128], [2, 8, 512, 128], [1, 8, 512, 256]
BOTH = ["sm_90a", "sm_80"]
# name, architectures, graph
CASES = [
    ("attention", BOTH, attention("bf16", [4, 16, 4096, 128], [4, 16, 4096, 128])),
    ("attention causal", BOTH, attention("f16", [4, 16, 4096, 128], [4, 16, 4096, 128], CAUSAL)),
    ("attention 64 live", BOTH, attention("bf16", [1, 32, 512, 64], [1, 8, 1024, 64], CAUSAL, LIVE)),
    ("attention 80 window", BOTH, attention("f16", [1, 8, 500, 80], [1, 8, 500, 80], "left = 99")),
    ("attention 192", BOTH, attention("bf16", [1, 8, 500, 192], [1, 8, 900, 192], CAUSAL)),
    ("attention 256", BOTH, attention("bf16", [1, 8, 512, 256], [1, 8, 512, 256])),
    ("attention capped", BOTH, attention("bf16", [1, 8, 512, 128], [1, 8, 512, 128], "softcap = 9.0")),
    ("attention tiles", BOTH, attention("f32", [1, 8, 500, 128], [1, 8, 900, 128], CAUSAL)),
    ("decode 64", BOTH, attention("bf16", [1, 32, 1, 64], [1, 8, 512, 64], "", LIVE)),
    ("decode 128", BOTH, attention("f16", [1, 32, 1, 128], [1, 8, 4096, 128])),
    ("decode 256", ["sm_90a"], attention("f32", [1, 32, 1, 256], [1, 4, 2048, 256])),
    ("attention mask", BOTH, attention("f16", LONG, LONG, "", MASK, "f16[512, 512]")),
    ("all with mask", BOTH, attention("bf16", TWO, TWO, ALL, MASK, "bf16[2, 8, 512, 512]")),
    ("mask of keys", BOTH, attention("bf16", TWO, TWO, "", MASK, "bool[2, 1, 1, 512]")),
    ("mask 256", BOTH, attention("bf16", WIDE, WIDE, CAUSAL, MASK, "bool[512, 512]")),
    ("few rows 128", BOTH, attention("f16", [1, 8, 32, 128], [1, 8, 900, 128], CAUSAL)),
    ("few rows 256", BOTH, attention("bf16", [1, 8, 32, 256], [1, 8, 900, 256], ALL)),
    ("odd heads", BOTH, attention("bf16", [1, 8, 50, 33], [1, 8, 90, 33], ALL, MASK, "bool[50, 90]")),
]


def find_nvrtc():
    given = os.environ.get("RLXC_NVRTC")
    wheel = "lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13"
    found = [given] if given else glob.glob(os.path.join(os.environ.get("RLXC_VENV", "build/venv"), wheel))
    if not found:
        return None
    for builtins in glob.glob(os.path.join(os.path.dirname(found[0]), "libnvrtc-builtins.so.13.*")):
        if ".alt." not in builtins:
            ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(found[0])


def compile_log(nvrtc, text, arch):
    """(status, log)"""
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None) == 0
    options = [f"--gpu-architecture={arch}".encode(), b"--ptxas-options=-v", b"-std=c++17"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return status, log.value.decode()


def kernels_of(rlxc, graph, folder):
    path = pathlib.Path(folder) / "g.rlx"
    path.write_text(graph)
    command = [rlxc, "compile", "--target", "cuda", "--gpu", "text", str(path), "-o", folder, "--name", "g"]
    subprocess.run(command, check=True, capture_output=True)
    return (pathlib.Path(folder) / "g.cu").read_text()


def wrong_with(status, log):
    spilled = [n for n in re.findall(r"(\d+) bytes spill", log) if n != "0"]
    serialised = re.findall(r"C75\d\d", log)
    if status != 0:
        return log
    return f"spills: {spilled}" if spilled else f"warned of: {serialised}" if serialised else None


def main():
    nvrtc = find_nvrtc()
    if nvrtc is None:
        print("1..0 # SKIP no NVRTC (tools/setup installs it)")
        sys.exit(77)
    number, failed = 0, False
    print(f"1..{sum(len(archs) for _, archs, _ in CASES)}")
    for name, archs, graph in CASES:
        with tempfile.TemporaryDirectory() as folder:
            text = kernels_of(sys.argv[1], graph, folder)
        for arch in archs:
            number += 1
            status, log = compile_log(nvrtc, text, arch)
            wrong = wrong_with(status, log)
            failed = failed or wrong is not None
            if wrong:
                print("# " + wrong.replace("\n", "\n# "))
            print(f"{'ok' if wrong is None else 'not ok'} {number} - {name} {arch}", flush=True)
    sys.exit(failed)


main()
