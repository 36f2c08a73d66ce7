#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that are recorded (tools/checks/recorded.py) run again when, and only when, a call of rlxc does
something else, or what they read has changed. A shell script stands for rlxc.
Usage: check_recorded.py RECORDER"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

UNCHANGED = pathlib.Path(__file__).resolve().parents[2] / "tools/checks/unchanged.py"

# Copies, lists what it has been given, says something, and ends with a status.
RLXC = """#!/bin/sh
# {comment}
mkdir -p "$2" && cat "$1" >"$2/{made}" && ln -sf x "$2/link"
echo {out}; echo {err} >&2
exit {status}
"""
SAME = {"comment": "", "made": "made", "out": "said", "err": "warned", "status": 0}

# It takes long enough for its calls to be a small part of it.
TEST = """import os, subprocess, sys, tempfile, time
with open(sys.argv[2] + ".runs", "a") as f:
    f.write("x")
sum(range(4 * 10 ** 6))
with tempfile.TemporaryDirectory() as folder:
    model = os.path.join(folder, "a model")
    for text in "one", "two":
        with open(model, "w") as f:
            f.write(text)
        done = subprocess.run([sys.argv[1], model, folder + "/out"], capture_output=True, text=True, **{more})
        print("ok 1 -", done.stdout.strip(), done.returncode, flush=True)
{last}
"""


class Build:
    """A folder of a build, and a test in another one."""

    def __init__(self, folder):
        self.folder, self.source = pathlib.Path(folder, "build"), pathlib.Path(folder, "source")
        self.source.mkdir()
        (self.folder / "tests").mkdir(parents=True)
        (self.folder / "passed").mkdir()
        shutil.copy(sys.argv[1], self.folder / "tests/recorder")
        self.script, self.count = self.source / "check.py", self.source / "count"
        # This test may itself be recorded.
        self.environment = {**os.environ, "RLXC_BUILD": str(self.folder), "UNCHANGED_DATA": "1"}
        self.environment.pop("PYTHONPATH", None)
        self.rlxc()

    def rlxc(self, **other):
        path = self.folder / "rlxc"
        path.unlink(missing_ok=True)
        path.write_text(RLXC.format(**{**SAME, **other}), encoding="ascii")
        path.chmod(0o755)

    def test(self, more="{}", last=""):
        self.script.write_text(TEST.replace("{more}", more).replace("{last}", last), encoding="ascii")

    def run(self, program="rlxc"):
        """(how often the test ran in this, its status, what it printed)"""
        runs = pathlib.Path(f"{self.count}.runs")
        before = runs.stat().st_size if runs.exists() else 0
        done = subprocess.run(
            [sys.executable, UNCHANGED, sys.executable, self.script, self.folder / program, self.count],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False, env=self.environment)
        return runs.stat().st_size - before, done.returncode, done.stdout

    def runs(self):
        ran, status, said = self.run()
        assert status == 0 and "ok 1 -" in said, said
        assert ("unchanged" in said) == (ran == 0), said
        return ran


def check_calls(build):
    build.test()
    assert build.runs() == 1 and build.runs() == 0, "nothing has changed"
    build.rlxc(comment="another program that does the same")
    assert build.runs() == 0
    for what, value in ("made", "other"), ("out", "other"), ("err", "other"), ("status", 3):
        build.rlxc(**{what: value})
        assert build.runs() == 1, what
        assert build.runs() == 0, what
    for said in '"net on generic: 0.$$ ms (one run, not warmed up), arena 8"', """'"ms": '$$', '""":
        build.rlxc(out=said)
        assert build.runs() == 1 and build.runs() == 0, "how long it took does not matter"
    build.rlxc()
    assert build.runs() == 1 and build.runs() == 0


def check_others(build):
    read = build.folder / "read"
    build.rlxc()
    for more, last in ("{}", "time.perf_counter()"), \
            ("{}", f"os.listdir({str(build.folder)!r})"), \
            ("{}", "os.execv('/bin/sh', ['sh', '-c', ''])"), \
            ("{}", f"os.execv({sys.executable!r}, ['python3', '-I', '-c', ''])"), \
            ("{}", f"os.execve({sys.executable!r}, ['python3', '-c', ''], {{}})"), \
            ("{}", f"subprocess.run([{sys.executable!r}, '-I', '-c', ''])"), \
            ("{}", f"subprocess.run([{sys.executable!r}, '-c', 'import os; os._exit(0)'])"), \
            ("{'preexec_fn': lambda: __import__('resource').setrlimit(2, (1 << 30, 1 << 30))}", ""):
        build.test(more, last)
        assert build.runs() == 1 and build.runs() == 1, f"{more} {last} cannot be recorded"
    for folder, again in ("of_tests", 1), ("site-packages", 0), ("dist-packages", 0):
        (build.source / folder).mkdir()
        (build.source / folder / f"sorts_{again}.py").write_text("# monotonic", encoding="ascii")
        build.test("{}", f"sys.path[:0] = [{str(build.source / folder)!r}]\nimport sorts_{again}")
        assert build.runs() == 1 and build.runs() == again, f"a module in {folder} that names a clock"
    for last in f"print('read:', open({str(read)!r}).read())", \
            f"""subprocess.run([{sys.executable!r}, "-c", "open({str(read)!r}).read()"])""", \
            f"""sys.stdout.flush()
os.execv({sys.executable!r}, ["python3", "-c", "open({str(read)!r}).read()"])""":
        build.test("{}", last)
        for text in "1", "2":
            read.write_text(text, encoding="ascii")
            assert build.runs() == 1 and build.runs() == 0, f"{last} reads that file"
    build.test("{'input': 'x'}")
    for out in "$(cat)", "$(cat; echo y)":
        build.rlxc(out=out)
        assert build.runs() == 1 and build.runs() == 0, "what it reads is kept"
    build.rlxc(out="$$")
    build.test("{}", "words = [sys.argv[1], sys.argv[0], folder + '/out']\n"
                     "p = subprocess.Popen(words, stdin=-1, stdout=-1)\n"
                     "assert int(p.communicate()[0]) == p.pid, 'signals must reach it'")
    assert build.runs() == 1
    build.rlxc()
    build.test("{}", "sys.exit(done.returncode)")
    assert build.runs() == 1 and build.runs() == 0
    build.rlxc(status=4)
    for _ in range(2):
        ran, status, said = build.run()
        assert ran >= 1 and status == 4 and "ok 1" in said, "what fails runs again, and alone"
    build.rlxc()
    assert build.runs() >= 1


def check_programs(build):
    """A test that is given another program of ours than rlxc."""
    program = build.folder / "program"
    build.script.write_text("import subprocess, sys\nprint(subprocess.check_output(sys.argv[1]))\n"
                            "with open(sys.argv[2] + '.runs', 'a') as f:\n    f.write('x')\n",
                            encoding="ascii")
    for name in "true", "echo":
        shutil.copy(shutil.which(name), program)
        ran = [build.run(program)[:2] for _ in range(2)]
        assert ran == [(1, 0), (0, 0)], f"{name}: {ran}"
    program.write_text("#!/bin/sh\n", encoding="ascii")
    assert [build.run(program)[:2] for _ in range(2)] == [(1, 0)] * 2, "who knows what a script does"


def main():
    for check in check_calls, check_others, check_programs:
        with tempfile.TemporaryDirectory() as folder:
            check(Build(os.path.realpath(folder)))


main()
