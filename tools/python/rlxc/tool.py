# SPDX-License-Identifier: Apache-2.0
"""Finds the program `rlxc` and runs it."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from rlxc.errors import CompileError, CompilerCrash, CompilerTimeout, RlxcError

HERE = pathlib.Path(__file__).resolve().parent


def find():
    """The program: $RLXC, the one installed with this package, that of the source tree's build, or PATH's."""
    given = os.environ.get("RLXC")
    if given:
        found = shutil.which(given)
        if found is None:
            raise RlxcError(f"RLXC={given}: no such program")
        return os.path.abspath(found)
    for path in (HERE / "bin" / "rlxc", HERE.parents[2] / "build" / "rlxc"):
        if os.access(path, os.X_OK) and path.is_file():
            return str(path)
    found = shutil.which("rlxc")
    if found is None:
        raise RlxcError("the program rlxc was not found: set RLXC to its path")
    return found


def as_text(messages):
    """What `rlxc --json` says on standard error, an object a line, as it would be said without it."""
    lines = []
    for line in messages.splitlines():
        try:
            items = [json.loads(line)]
        except ValueError:
            lines.append(line)
            continue
        items += items[0].get("notes", [])
        for item in items:
            place = item.get("file", "rlxc")
            if "line" in item:
                place += f":{item['line']}:{item['column']}"
            code = f"[{item['code']}]" if "code" in item else ""
            lines.append(f"{place}: {item.get('level', 'note')}{code}: {item['message']}")
            lines += [f"  at {item['pointer']}"] if "pointer" in item else []
    return "\n".join(lines)


def run(arguments, time_limit=None):
    """Runs `rlxc ARGUMENTS...` and returns its standard output."""
    command = [find(), *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=time_limit,
                              check=False, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        raise CompilerTimeout(f"rlxc {arguments[0]}: not done after {time_limit:g} s") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise CompilerCrash(f"rlxc {arguments[0]} was ended by {name}\n{done.stderr}")
    if "Sanitizer" in done.stderr and done.returncode != 0:
        raise CompilerCrash(done.stderr)
    if done.returncode != 0:
        raise CompileError(as_text(done.stderr) or f"rlxc {arguments[0]} failed with {done.returncode}")
    return done.stdout


def main():
    """The command `rlxc` of the package: becomes the program."""
    try:
        program = find()
    except RlxcError as e:
        sys.exit(f"rlxc: {e}")
    os.execv(program, [program, *sys.argv[1:]])
