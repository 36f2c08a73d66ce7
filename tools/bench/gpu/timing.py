# SPDX-License-Identifier: Apache-2.0
"""Times of things that run on one GPU, taken in turns.

What is timed is a runner: an object with `runs(n)` (starts n runs, waits for them) and `times(n, runs,
flush)` (microseconds of a run by events of the device, n samples of `runs` runs each; flush: bytes written
before each sample). `Ours` (ours.py) is one, `Torch` below another: a function captured once as a CUDA graph,
so that the host costs neither of them anything; onnx_peer.py has a third.

Matrix work at full rate lowers the clock within a second, so it is measured in two regimes:
  burst      after a pause, one run to warm up, then a few timed ones
  sustained  half a second without a pause, of which the last half counts
"""

import math
import statistics
import time

PAUSE = 0.1  # seconds before a burst
SUSTAINED = 0.5  # seconds
FLUSH_BYTES = 256 << 20  # several times the largest cache


class Launched:
    """What the host starts with launch() on a stream of torch."""

    def __init__(self, stream):
        import torch

        self.torch, self.stream, self.memory = torch, stream, None

    def launch(self):
        raise NotImplementedError

    def runs(self, n):
        for _ in range(n):
            self.launch()
        self.torch.cuda.synchronize()

    def times(self, n=20, runs=1, flush=0):
        torch = self.torch
        if flush and self.memory is None:
            self.memory = torch.empty(flush, dtype=torch.int8, device="cuda")
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(n)]
        with torch.cuda.stream(self.stream):
            for first, last in events:
                if flush:
                    self.memory.zero_()
                first.record()
                for _ in range(runs):
                    self.launch()
                last.record()
        torch.cuda.synchronize()
        return [first.elapsed_time(last) * 1000 / runs for first, last in events]


class Torch(Launched):
    """A function of no arguments that computes with torch; `result` is what it returned. It is kept, because
    a graph reads what the function holds but does not own it: capturing another graph gives memory back that
    nobody holds."""

    def __init__(self, function):
        import torch

        super().__init__(torch.cuda.current_stream())
        self.function = function
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(3):
                self.result = function()
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.result = function()
        self.runs(1)

    def launch(self):
        self.graph.replay()


def burst(runner, samples=3):
    time.sleep(PAUSE)
    runner.runs(1)
    return runner.times(samples)


def sustained(runner, seconds=SUSTAINED):
    once = statistics.median(runner.times(3))
    n = max(8, math.ceil(seconds * 1e6 / once))
    times = runner.times(n)
    return times[n // 2 :]


def small(runner, flush=0):
    """For kernels of microseconds: several runs a sample, or one with a cold cache."""
    runner.runs(3)
    return runner.times(30, 1, flush) if flush else runner.times(10, 20)


def in_turns(runners, measure, rounds=5):
    """{name: (median, lowest, highest)} of runners {name: runner}, each measured once a round."""
    times = {name: [] for name in runners}
    for _ in range(rounds):
        for name, runner in runners.items():
            times[name].append(statistics.median(measure(runner)))
    return {name: (statistics.median(t), min(t), max(t)) for name, t in times.items()}


def show(title, found, ours="ours", work=None, unit=""):
    """One line: ours, the best peer, the ratio (above 1: ours is faster). work: of a run, in units / us."""
    mine = found[ours]
    peers = {name: t for name, t in found.items() if name != ours}
    text = f"{title:44} {mine[0]:9.2f} us [{mine[1]:.2f}, {mine[2]:.2f}]"
    if work is not None:
        text += f" {work / mine[0]:8.2f} {unit}"
    for name, t in peers.items():
        text += f" | {name} {t[0]:.2f}"
    if peers:
        best = min(t[0] for t in peers.values())
        text += f" | ratio {best / mine[0]:.3f}"
    print(text, flush=True)
    return min(t[0] for t in peers.values()) / mine[0] if peers else None
