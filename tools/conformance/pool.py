# SPDX-License-Identifier: Apache-2.0
"""Runs a function over a list in processes that may crash or hang without harm.

multiprocessing's own pools wait for ever when a worker dies. Here each worker has a pipe of its own: the
parent knows which item a worker is at, sees its death as the end of the pipe, ends it when it is late, and
starts another. Workers are forked, so that the items need not be pickled; results must be.
"""
import multiprocessing
import multiprocessing.connection
import os
import resource
import time


def serve(pipe, function, items, memory):
    for stream in (0, 1):       # what a case prints is no result of ours
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            index = pipe.recv()
        except EOFError:
            os._exit(0)
        pipe.send(function(items[index]))


class Worker:
    """A forked process and the item that it is at."""

    def __init__(self, context, function, items, memory):
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, function, items, memory), daemon=True)
        self.process.start()
        other.close()
        self.index, self.deadline = None, None

    def give(self, index, limit):
        self.index, self.deadline = index, time.monotonic() + limit
        self.pipe.send(index)

    def end(self):
        self.pipe.close()
        self.process.kill()
        self.process.join()


def run(function, items, jobs, limit, memory, on_lost):
    """Yields (index, result) as they come. on_lost(item, why): the result of one whose worker was lost."""
    context = multiprocessing.get_context("fork")
    todo = list(range(len(items)))[::-1]
    workers = [Worker(context, function, items, memory) for _ in range(min(jobs, len(items)))]
    while todo or any(w.index is not None for w in workers):
        for w in workers:
            if w.index is None and todo:
                w.give(todo.pop(), limit)
        busy = [w for w in workers if w.index is not None]
        ready = multiprocessing.connection.wait([w.pipe for w in busy], timeout=0.5)
        for w in busy:
            result = None
            if w.pipe in ready:
                try:
                    result = w.pipe.recv()
                except EOFError:
                    w.process.join()
                    result = on_lost(items[w.index], f"ended by signal {-(w.process.exitcode or 0)}")
            elif time.monotonic() > w.deadline:
                result = on_lost(items[w.index], f"not done after {limit:g} s")
            if result is None:
                continue
            yield w.index, result
            w.index = None
            if w.pipe not in ready or not w.process.is_alive():
                w.end()
                workers[workers.index(w)] = Worker(context, function, items, memory)
    for w in workers:
        w.end()
