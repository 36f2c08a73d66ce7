#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one test, unless it is a program that passed, and nothing that it depends on has changed since: as
./run-tests does with `meson test --wrapper`. Then it repeats what the program printed.

A program of ours holds the parts of the compiler that it tests, so its bytes say whether they have changed.
Besides, it depends on its arguments, the files among them, the environment, and what $UNCHANGED_DATA stands
for: the machine and our files but sources that programs are made of (fingerprint.py --data). Tests in Python
that are given rlxc are known by what rlxc does in them (recorded.py), and those that are given other programs
of ours by the bytes of these. Its own test: `unchanged.py --self-test`.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

from recorded import Recording

MARK = "# unchanged since it passed"
VARIABLES = ("RLXC_", "TEST_", "CMOCKA_", "ASAN_", "UBSAN_", "CC", "CXX", "HOME", "PATH", "TMPDIR", "LANG",
             "LC_")


def is_ours(program, build):
    """Made here, and no script."""
    path = pathlib.Path(program).resolve()
    if build.resolve() not in path.parents or not path.is_file():
        return False
    with path.open("rb") as f:
        return f.read(4) == b"\x7fELF"


def key_of(command, environment, without=None):
    h = hashlib.sha256()
    files = [pathlib.Path(word) for word in command if os.path.isfile(word) and word != without]
    values = [f"{name}={value}" for name, value in sorted(environment.items()) if name.startswith(VARIABLES)]
    for part in [environment["UNCHANGED_DATA"], *command, *values, *(path.read_bytes() for path in files)]:
        data = part if isinstance(part, bytes) else part.encode()
        h.update(b"%d:" % len(data) + data)
    return h.hexdigest()


def run(command, kept):
    """The exit status. Keeps what a program prints that passes."""
    key = key_of(command, os.environ)
    if kept.exists():
        was, _, said = kept.read_text(encoding="utf-8").partition("\n")
        if was == key:
            print(said.rstrip("\n") + "\n" + MARK)
            return 0
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, errors="replace", check=False)
    sys.stdout.write(done.stdout)
    if done.returncode == 0 and "\nnot ok" not in "\n" + done.stdout:
        kept.parent.mkdir(exist_ok=True)
        new = kept.with_name(f"{kept.name}.{os.getpid()}")
        new.write_text(f"{key}\n{done.stdout}", encoding="utf-8")
        new.replace(kept)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def run_recorded(command, rlxc, recording):
    """The exit status; does not return where the test is not recorded."""
    key = key_of(command, os.environ, without=rlxc)
    said = recording.passes_again(key)
    if said is not None:
        print(said.rstrip("\n") + "\n" + MARK)
        return 0
    done = None if recording.is_useless(key) else recording.record(command, key)
    if done is None:
        os.execvp(command[0], command)
    sys.stdout.write(done[1])
    sys.stderr.write(done[2])
    return done[0]


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        data, program = pathlib.Path(folder, "data"), pathlib.Path(folder, "count")
        program.write_text('echo >>"$1.runs"; cat "$1"; ! grep -q bad "$1"\n', encoding="ascii")
        command, kept = ["sh", str(program), str(data)], pathlib.Path(folder, "passed", "x")
        os.environ["UNCHANGED_DATA"] = "1"

        def runs(text):
            data.write_text(text, encoding="ascii")
            status = run(command, kept)
            return status, len(pathlib.Path(folder, "data.runs").read_text(encoding="ascii"))

        assert [runs("ok 1\n"), runs("ok 1\n"), runs("ok 2\n")] == [(0, 1), (0, 1), (0, 2)]
        assert [runs("bad\n"), runs("bad\n")] == [(1, 3), (1, 4)], "what failed must run again"
        assert [runs("not ok 1\n"), runs("not ok 1\n")] == [(0, 5), (0, 6)], "and what says so"
        assert [runs("ok 3\n"), runs("ok 3\n")] == [(0, 7), (0, 7)]
        os.environ["UNCHANGED_DATA"] = "2"
        assert runs("ok 3\n") == (0, 8), "other data must count"
        os.environ["TEST_ROTATE"] = "unheard of"
        assert runs("ok 3\n") == (0, 9), "and the environment"
        assert not is_ours(program, pathlib.Path(folder)) and not is_ours("/bin/sh", pathlib.Path(folder))


def main():
    command = sys.argv[1:]
    build = pathlib.Path(os.environ.get("RLXC_BUILD") or os.getcwd()).resolve()
    name = hashlib.sha256("\0".join(command).encode()).hexdigest()[:32]
    rlxc, recorder = str(build / "rlxc"), build / "tests" / "recorder"
    if not os.environ.get("UNCHANGED_DATA"):
        os.execvp(command[0], command)
    if is_ours(command[0], build):
        sys.exit(run(command, build / "passed" / name))
    command = [rlxc if os.path.realpath(word) == rlxc else word for word in command]
    if os.environ.get("PYTHONPATH"):
        os.execvp(command[0], command)  # it would hide watched/
    has_program = any(word == rlxc or is_ours(word, build) for word in command[2:])
    if has_program and command[1].endswith(".py") and recorder.exists():
        sys.exit(run_recorded(command, rlxc, Recording(build, name, rlxc, recorder)))
    os.execvp(command[0], command)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        main()
