# SPDX-License-Identifier: Apache-2.0
"""Measures one network: us and every peer in this process, in interleaved rounds, with the limits of the
machine measured between them. vs_peers starts one such process for every network and number of threads,
with its cores."""

import ctypes
import os
import pathlib
import tempfile
import time

from versus import ours, peers, sets, stats

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_ERROR = 1e-3  # of the largest magnitude of an output; peers differ from each other by up to 1e-4
SHORT = 200e-6  # seconds: shorter runs are timed in loops of that length
MAX_PROBE = 256 << 20


class Probes:
    """The limits of the machine, on the cores of this process."""

    def __init__(self, folder, threads):
        out = os.path.join(folder, "probes.so")
        command = [os.environ.get("CC", "cc"), "-O3", "-march=native", "-shared", "-fPIC", "-pthread"]
        ours.run([*command, str(HERE / "probes.c"), "-o", out])
        self.lib, self.threads = ctypes.CDLL(out), threads
        self.lib.vs_peak.restype = self.lib.vs_stream.restype = ctypes.c_double
        self.lib.vs_buffer.restype = ctypes.c_void_p
        self.buffers = {}

    def peak(self):
        """Flops a second."""
        return self.lib.vs_peak(self.threads)

    def buffer(self, place, size):
        if (place, size) not in self.buffers:
            self.buffers[place, size] = self.lib.vs_buffer(ctypes.c_size_t(size))
        return self.buffers[place, size]

    def stream(self, n_in, size, write, repeats=1):
        """Seconds of a pass that reads n_in buffers of `size` bytes and writes one."""
        places = (ctypes.c_void_p * max(n_in, 1))(*(self.buffer(k, size) for k in range(n_in)))
        out = ctypes.c_void_p(self.buffer("out", size) if write else None)
        return self.lib.vs_stream(places, n_in, out, ctypes.c_size_t(size), repeats, self.threads)


class Limit:
    """The time of a loop that reads the inputs of a network and writes its output, and nothing else."""

    def __init__(self, probes, inputs, outputs):
        large = sorted(inputs)[-1]
        same = sum(1 for b in inputs if b == large)
        self.n_in, self.size = min(same, 3), large
        self.write = bool(outputs) and max(outputs) >= large // 2
        self.probes = probes

    def time(self, n):
        return self.probes.stream(self.n_in, self.size, self.write, n)


def repeats_of(runner):
    """Runs that are timed together: 1 from SHORT up."""
    runner.time(3)
    seconds = min(runner.time(1) for _ in range(3))
    return max(1, min(10000, round(SHORT / max(seconds, 1e-8)))) if seconds < SHORT else 1


def burst(runner, repeats, seconds, settle):
    """Times for some seconds, at least thrice, after a run that does not count. Other runtimes' threads may
    still spin: they get some time to fall asleep."""
    time.sleep(settle)
    runner.time(repeats)
    found, end = [], time.perf_counter() + seconds
    while len(found) < 3 or time.perf_counter() < end:
        found.append(runner.time(repeats))
    return found


def interleave(runners, probes, read_bytes, seconds, rounds, settle):
    """(times by runner, flops by round, bytes read a second by round); each round starts with another one."""
    repeats = {name: repeats_of(r) for name, r in runners.items()}
    times = {name: [] for name in runners}
    flops, rates, names = [], [], list(runners)
    for k in range(rounds):
        for i in range(len(names)):
            name = names[(i + k) % len(names)]
            times[name] += burst(runners[name], repeats[name], seconds / rounds, settle)
        flops.append(probes.peak())
        again = max(2, round(2e-3 * 2e10 / read_bytes))
        probes.stream(1, read_bytes, False, again)
        rates.append(read_bytes / probes.stream(1, read_bytes, False, again))
    return times, flops, rates


def start_peers(names, model, inputs, threads):
    """(runners, name -> why not)"""
    runners, failed = {}, {}
    for name in names:
        try:
            runners[name] = peers.RUNNERS[name](model, inputs, threads)
        except Exception as e:  # whatever a peer raises: its row then says so
            failed[name] = f"{type(e).__name__}: {str(e).strip()[:300]}"
    return runners, failed


def worst_error(found, wanted):
    """Over all outputs."""
    return max(
        stats.relative_error(f.ravel().tolist(), w.ravel().tolist())
        for f, w in zip(found, wanted, strict=True)
    )


def measure(net, set_name, a, cores):
    """The row of a network."""
    row = {"set": set_name, "name": net.name, "threads": a["threads"]}
    with tempfile.TemporaryDirectory() as folder:
        try:
            model = load(net, folder)
        except sets.Skip as e:
            return {**row, "skipped": str(e)}
        mine = ours.build(
            a["rlxc"],
            os.path.join(folder, "model.onnx"),
            folder,
            a["threads"],
            [*net.options, *a["options"]],
            cores,
        )
        inputs = sets.inputs_of(net, model)
        mine.set_inputs(inputs)
        runners, failed = start_peers(a["peers"], os.path.join(folder, "model.onnx"), inputs, a["threads"])
        row.update(compile_s=mine.compile_s, c_bytes=mine.c_bytes, failed_peers=failed)
        row.update(check(mine, runners))
        if row.get("failed"):
            return row
        probes = Probes(folder, a["threads"])
        return {**row, **time_all(mine, runners, probes, set_name, a)}


def load(net, folder):
    import onnx

    model = net.build()
    onnx.save(model, os.path.join(folder, "model.onnx"))
    return model


def check(mine, runners):
    """Errors of ours against every peer; `failed` where the first one disagrees."""
    wanted = {name: r.outputs() for name, r in runners.items()}
    mine.time(1)
    errors = {}
    for name, y in wanted.items():
        errors[name] = worst_error(mine.outputs(y), y)
    found = {"errors": errors}
    if errors and not min(errors.values()) <= LIMIT_ERROR:
        found["failed"] = f"results differ: {errors}"
    return found


def time_all(mine, runners, probes, set_name, a):
    inputs, outputs = mine.io_bytes()
    moved = mine.model.weight_bytes + sum(inputs) + sum(outputs)
    everyone = {"ours": mine, **runners}
    if set_name == "eltwise":
        everyone["limit"] = Limit(probes, inputs, outputs)
    read_bytes = min(max(moved, 1 << 20), MAX_PROBE) // 4096 * 4096
    settle = 0.02 if a["threads"] > 1 else 0
    times, flops, rates = interleave(everyone, probes, read_bytes, a["seconds"], a["rounds"], settle)
    ms = {name: stats.summary(t) for name, t in times.items()}
    us = ms.pop("ours")
    limit = ms.pop("limit", None)
    best, ratio = stats.ratio(us["median"], {n: s["median"] for n, s in ms.items()})
    peak, rate = stats.quantile(flops, 0.5), stats.quantile(rates, 0.5)
    least = limit["median"] if limit else 1e3 * moved / rate
    return {
        "ours_ms": us["median"],
        "peers": {n: s["median"] for n, s in ms.items()},
        "best_peer": best,
        "ratio": ratio,
        "ours": us,
        "peer_summaries": ms,
        "ratio_of_best": stats.ratio(us["best"], {n: s["best"] for n, s in ms.items()})[1],
        "share_of_peak": 2e3 * mine.macs / us["median"] / peak if mine.macs else None,
        "share_of_bandwidth": least / us["median"],
        "limit_ms": least,
        "peak_gflops": peak / 1e9,
        "read_gb_s": rate / 1e9,
        "macs": mine.macs,
        "moved_bytes": moved,
        "arena_bytes": mine.model.arena_bytes,
        "weight_bytes": mine.model.weight_bytes,
        "kernels": mine.n_kernels,
    }
