#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run that is interrupted, while it waits for C compilers or writes files, ends by that signal and leaves
nothing: no folder in the cache, no temporary file, no compiler that goes on.
Usage: check_interrupt.py RLXC"""

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
MODEL = os.path.join(ROOT, "models", "mlp.json")
DIGITS = os.path.join(ROOT, "models", "digits", "digits.json")
DECODER = os.path.join(ROOT, "models", "decoder.json")
# As gcc does, it starts another program and waits for it.
SLOW = '#!/bin/sh\nsleep 100 & echo $! >>"$PIDS"\nwait\n'


def wait_until(done, what):
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def files_below(folder):
    return [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]


def check_compilers(folder):
    slow, pids, home = folder + "/slow", folder + "/pids", folder + "/home"
    with open(slow, "w", encoding="ascii") as f:
        f.write(SLOW)
    os.chmod(slow, 0o755)
    env = dict(os.environ, CC=slow, PIDS=pids, XDG_CACHE_HOME=home)
    runs = [(["run", MODEL, "--random", "1"], s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    runs += [(["verify", DECODER, "--random", "1", "--threads", "2"], signal.SIGTERM),
             (["inspect", MODEL], signal.SIGINT),
             (["inspect", DIGITS, "--split", "3"], signal.SIGINT),
             (["tune", DIGITS, "-o", folder + "/tuned"], signal.SIGTERM),
             (["bench", MODEL], signal.SIGTERM)]
    if not os.path.exists("/System/Library/Frameworks/Metal.framework"):
        runs.append((["run", MODEL, "--random", "1", "--target", "metal"], signal.SIGTERM))
    for arguments, sent in runs:
        if "metal" in arguments:  # its kernels are compiled after the model's C
            env = dict(env, CC="cc", CXX=slow)
        open(pids, "w", encoding="ascii").close()
        with subprocess.Popen([RLXC, *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              start_new_session=True) as run:
            wait_until(lambda: os.path.getsize(pids) > 0, f"{arguments}: no compiler was started")
            run.send_signal(sent)
            if sent != signal.SIGINT:  # as `timeout` and shells do
                run.send_signal(sent)
            said = run.communicate(timeout=60)[0]
        assert run.returncode == -sent, f"{arguments}: {run.returncode}, not by {sent.name}\n{said}"
        left = [name for name in os.listdir(home + "/rlxc") if "metal" not in arguments or "work" in name]
        assert left == [], f"{arguments}: {left}"
        with open(pids, encoding="ascii") as f:
            for pid in f.read().split():
                wait_until(lambda p=pid: not is_running(p), f"{arguments}: {pid} goes on")
    assert not os.path.exists(folder + "/tuned")


def check_ignored(folder):
    """As under nohup."""
    env = dict(os.environ, CC="cc", XDG_CACHE_HOME=folder + "/nohup")
    command = ["sh", "-c", 'trap "" HUP; "$@" & sleep 0.05; kill -HUP $!; wait $!', "sh", RLXC, "run", MODEL,
               "--random", "1"]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)


def check_writing(folder):
    """Large weights take long to write. They are one piece of a sparse file here."""
    rows, columns = 1 << 20, 256
    head = json.dumps({"table": {"dtype": "F32", "shape": [rows, columns],
                                 "data_offsets": [0, rows * columns * 4]}}).encode()
    with open(folder + "/w.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        f.truncate(8 + len(head) + rows * columns * 4)
    with open(folder + "/m.json", "w", encoding="ascii") as f:
        json.dump({"rlxc": 1, "inputs": {"i": {"dtype": "i64", "shape": [2]}},
                   "weights": {"table": {"file": "w.safetensors", "tensor": "table"}},
                   "nodes": [{"name": "y", "op": "gather", "inputs": ["table", "i"]}], "outputs": ["y"]}, f)
    out = folder + "/new/out"
    with subprocess.Popen([RLXC, "compile", folder + "/m.json", "-o", out, "--weights", "file"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        wait_until(lambda: run.poll() is not None or any(n.endswith(".tmp") for n in files_below(out)),
                   "nothing was written")
        run.send_signal(signal.SIGTERM)
        said = run.communicate(timeout=60)[0]
    assert run.returncode == -signal.SIGTERM, f"{run.returncode}\n{said}"
    assert not os.path.exists(folder + "/new"), files_below(folder + "/new")


signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
with tempfile.TemporaryDirectory() as top:
    check_compilers(top)
    check_ignored(top)
    check_writing(top)
