# SPDX-License-Identifier: Apache-2.0
"""The set `startup`: a program of ours (statically linked where that works) against a minimal Python
program with each runtime, from the start of the process to the first byte of its output, with the peak
of its resident memory from the kernel's accounting and the size of what must be there on disk."""

import os
import pathlib
import subprocess
import sys
import tempfile

from versus import ours, sets, stats

TIME_LIMIT = 120
HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {
    "onnxruntime": """
import os, sys, numpy as np, onnxruntime as ort
settings = ort.SessionOptions()
settings.intra_op_num_threads, settings.log_severity_level = 1, 3
s = ort.InferenceSession(sys.argv[1], settings, providers=["CPUExecutionProvider"])
x = {v.name: np.zeros(v.shape, np.float32) for v in s.get_inputs() if v.type == "tensor(float)"}
os.write(1, s.run(None, x)[0].tobytes()[:4])
""",
    "openvino": """
import os, sys, numpy as np, openvino as ov
core = ov.Core()
c = core.compile_model(core.read_model(sys.argv[1]), "CPU", {"INFERENCE_NUM_THREADS": 1,
    "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
y = c([np.zeros(list(p.shape), np.float32) for p in c.inputs])
os.write(1, y[0].tobytes()[:4])
""",
}


def start(launcher, command, cores):
    """(seconds to the first byte of output, peak of resident memory in bytes). The launcher is small,
    because Linux counts the memory of the process that starts another until that is replaced."""
    core = min(cores)
    done = subprocess.run(
        [launcher, str(core), *command], capture_output=True, text=True, timeout=TIME_LIMIT
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} gave no output: {done.stderr.strip()[-300:]}")
    seconds, kilobytes = done.stdout.split()
    return float(seconds), int(kilobytes) * 1024


def size_on_disk(python, package):
    """Bytes of an installed package."""
    code = f"import {package}, os; print(os.path.dirname({package}.__file__))"
    folder = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return sum(f.stat().st_size for f in pathlib.Path(folder).rglob("*") if f.is_file())


def program(a, net, folder):
    """(path of our program, of one that does nothing, arena bytes, weight bytes)"""
    flags, _ = ours.generate(a["rlxc"], os.path.join(folder, "model.onnx"), folder, 1, net.options)
    cc = os.environ.get("CC", "cc")
    out, empty = os.path.join(folder, "program"), os.path.join(folder, "empty")
    defines = ["-DMODEL=m", '-DMODEL_H="m.h"', "-I.", "-ffunction-sections", "-Wl,--gc-sections", "-s"]
    main = str(HERE / "startup.c")
    ours.run([cc, *flags, "-static", *defines, main, "m.c", "-o", out, "-lm"], folder)
    ours.run([cc, *flags, "-static", "-DEMPTY", *defines, main, "-o", empty], folder)
    with open(os.path.join(folder, "m.h"), encoding="utf-8") as f:
        words = [line.split() for line in f if line.startswith("#define M_")]
    found = {w[1]: int(w[2].rstrip("u")) for w in words if len(w) == 3 and w[2].rstrip("u").isdigit()}
    return out, empty, found["M_ARENA_BYTES"], found.get("M_WEIGHT_BYTES", 0)


def measure(net, set_name, a, cores):
    row = {"set": set_name, "name": net.name, "threads": 1}
    with tempfile.TemporaryDirectory() as folder:
        try:
            import onnx

            onnx.save(net.build(), os.path.join(folder, "model.onnx"))
        except sets.Skip as e:
            return {**row, "skipped": str(e)}
        mine, empty, arena, weights = program(a, net, folder)
        model, launcher = os.path.join(folder, "model.onnx"), os.path.join(folder, "launcher")
        ours.run([os.environ.get("CC", "cc"), "-O2", "-static", str(HERE / "launcher.c"), "-o", launcher])
        commands = {"ours": [mine], "empty": [empty]}
        for name in a["peers"]:
            if name in PROGRAMS:
                commands[name] = [sys.executable, "-c", PROGRAMS[name], model]
        found = {
            name: [start(launcher, c, cores)] for name, c in commands.items()
        }  # the first start only warms the files
        found = {name: [] for name in found}
        for _ in range(a["rounds"]):
            for name, command in commands.items():
                found[name].append(start(launcher, command, cores))
        ms = {name: stats.summary([s for s, _ in f]) for name, f in found.items()}
        resident = {name: stats.quantile([m for _, m in f], 0.5) for name, f in found.items()}
        times = {n: s["median"] for n, s in ms.items() if n not in ("ours", "empty")}
        best, ratio = stats.ratio(ms["ours"]["median"], times)
        beyond = max(0, resident["ours"] - resident["empty"] - weights)
        return {
            **row,
            "ours_ms": ms["ours"]["median"],
            "peers": times,
            "best_peer": best,
            "ratio": ratio,
            "ours": ms["ours"],
            "peer_summaries": {n: ms[n] for n in times},
            "empty_ms": ms["empty"]["median"],
            "resident_bytes": resident,
            "arena_bytes": arena,
            "weight_bytes": weights,
            "memory_over_arena": beyond / arena,
            "program_bytes": os.path.getsize(mine),
            "peer_bytes": {n: size_on_disk(sys.executable, n) for n in times},
        }
