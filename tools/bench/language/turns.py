# SPDX-License-Identifier: Apache-2.0
"""Ours and llama.cpp on the same file, taking turns in one process: tools/bench/llm starts it with the Python
that has llama_cpp, or with any other, and prints what it finds. Reads a job (JSON) on standard input, and
writes the times in seconds to standard output."""

import array
import concurrent.futures
import ctypes
import json
import math
import os
import random
import sys
import time

REST = 0.01  # seconds until threads of the one before sleep
PIECE = 512  # tokens that a prompt is cut into, by both


class Ours:
    def __init__(self, library, model):
        self.lib = ctypes.CDLL(library)
        self.lib.bench_run.restype = ctypes.POINTER(ctypes.c_float)
        self.lib.bench_run.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
        self.lib.bench_weight_bytes.restype = self.lib.bench_read_bytes.restype = ctypes.c_double
        start = time.perf_counter()
        status = self.lib.bench_open(model.encode())
        self.load = time.perf_counter() - start
        if status != 0:
            sys.exit(f"loading {model}: {status}")
        self.weight_bytes = self.lib.bench_weight_bytes()

    def threads(self, n):
        if self.lib.bench_threads(n) != n:
            sys.exit(f"{n} threads do not start")

    def run(self, tokens, past, n, place="prompts"):
        """The logits; place: which of the caches that are kept apart. Ours needs one: rows of the same tokens
        are the same ones."""
        logits = self.lib.bench_run(tokens.buffer_info()[0] + 4 * past, past, n)
        if not logits:
            sys.exit("a run fails")
        return logits


class Peer:
    """llama.cpp, with a cache of f16, and pieces and pages as it chooses them for itself. It has a thread of
    its own: it sets the shape of AMX's registers once a thread, and ours releases them behind each use."""

    def __init__(self, model, context):
        import llama_cpp

        self.api = llama_cpp
        quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        self.log = quiet
        llama_cpp.llama_log_set(quiet, None)
        llama_cpp.llama_backend_init()
        start = time.perf_counter()
        self.model = llama_cpp.llama_model_load_from_file(
            model.encode(), llama_cpp.llama_model_default_params())
        self.load = time.perf_counter() - start
        self.room, self.contexts, self.n_threads = context, {}, 1
        self.thread = concurrent.futures.ThreadPoolExecutor(1)

    def context(self, place):
        if place not in self.contexts:
            settings = self.api.llama_context_default_params()
            settings.n_ctx, settings.n_batch, settings.n_ubatch = self.room, PIECE, PIECE
            settings.no_perf = True
            self.contexts[place] = self.api.llama_init_from_model(self.model, settings)
            self.threads(self.n_threads)
        return self.contexts[place]

    def threads(self, n):
        self.n_threads = n
        for context in self.contexts.values():
            self.api.llama_set_n_threads(context, n, n)

    def run(self, tokens, past, n, place="prompts"):
        api, context = self.api, self.context(place)
        api.llama_memory_seq_rm(api.llama_get_memory(context), 0, past, -1)
        at = ctypes.cast(tokens.buffer_info()[0] + 4 * past, ctypes.POINTER(ctypes.c_int32))
        batch = api.llama_batch_get_one(at, n)
        if self.thread.submit(api.llama_decode, context, batch).result() != 0:
            sys.exit("llama_decode fails")
        return api.llama_get_logits_ith(context, -1)


def clock(job, threads):
    """Of the process, which others on the machine do not lengthen; with threads that wait for each other, of
    the wall."""
    return time.process_time if job["clock"] == "cpu" and threads == 1 else time.perf_counter


def prefill(who, tokens, n, now):
    start = now()
    for past in range(0, n, PIECE):
        who.run(tokens, past, min(PIECE, n - past))
    return now() - start


def decode(who, tokens, past, runs, now):
    """Seconds of each token."""
    found = []
    for i in range(runs):
        start = now()
        who.run(tokens, past + i, 1, past)
        found.append(now() - start)
    return found


def difference(a, b, n):
    """The distance of logits, of their norm."""
    apart = sum((a[i] - b[i]) ** 2 for i in range(n))
    return math.sqrt(apart / sum(b[i] ** 2 for i in range(n)))


def check(sides, tokens, job):
    """What each side's logits differ from those of the first one's, behind a prompt and behind a token."""
    found, first = {name: [] for name in sides}, None
    for past, n in ((0, 96), (96, 1)):
        logits = {name: who.run(tokens, past, n)[:job["vocab"]] for name, who in sides.items()}
        first = next(iter(logits.values()))
        for name, values in logits.items():
            found[name].append(difference(values, first, job["vocab"]))
    return found


def measure(sides, tokens, job, threads, out):
    now = clock(job, threads)
    reader = next(iter(sides.values())).lib
    for who in sides.values():
        who.threads(threads)
    cases = [("prefill", n) for n in job["prompts"]] + [("decode", n) for n in job["contexts"]]
    times = {f"{what} {n}": {name: [] for name in sides} for what, n in cases}
    reading = []
    for _ in range(job["rounds"]):
        for what, n in cases:
            start = now()
            reader.bench_read(threads)
            reading.append(reader.bench_read_bytes(threads) / (now() - start))
            for name, who in sides.items():
                time.sleep(REST)
                if what == "prefill":
                    times[f"{what} {n}"][name].append(prefill(who, tokens, n, now))
                else:
                    decode(who, tokens, n, 1, now)
                    times[f"{what} {n}"][name] += decode(who, tokens, n, job["runs"], now)
    out[str(threads)] = {"reading": reading, "times": times}


def fill(who, tokens, n):
    """Keys and values of a context."""
    for past in range(0, n, PIECE):
        who.run(tokens, past, min(PIECE, n - past), n)


def main():
    job = json.load(sys.stdin)
    rng = random.Random(1)
    tokens = array.array("i", (rng.randrange(job["vocab"]) for _ in range(job["room"])))
    sides = {name: Ours(library, job["model"]) for name, library in job["libraries"].items()}
    if job["peer"]:
        sides["llama.cpp"] = Peer(job["model"], job["room"])
    out = {"load": {name: who.load for name, who in sides.items()}, "rows": {},
           "weight_bytes": next(iter(sides.values())).weight_bytes}
    for who in sides.values():
        who.threads(max(job["threads"]))
        for n in job["contexts"]:
            fill(who, tokens, n)
    out["differences"] = check(sides, tokens, job)
    for threads in job["threads"]:
        measure(sides, tokens, job, threads, out["rows"])
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of either side need no end
