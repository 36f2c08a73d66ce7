#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# The line of progress: on a terminal one line that is drawn anew and wiped at the end; nothing in a pipe,
# with --json, with NO_COLOR or on a dumb terminal. Usage: check_progress.py RLXC
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
MODEL = os.path.join(ROOT, "models", "gelu_example.json")
WIPE = b"\r\x1b[K"


def on_terminal(*args, columns=80, **env):
    """Exit code, and what is written to a terminal as stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "TERM": "xterm", "XDG_CACHE_HOME": cache, **env}
        if "NO_COLOR" not in env:
            env.pop("NO_COLOR", None)
        child = subprocess.Popen([RLXC, *args], stdout=subprocess.DEVNULL, stderr=theirs, env=env)
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            text += part
        os.close(ours)
        return child.wait(), text


os.environ.pop("NO_COLOR", None)
code, text = on_terminal("verify", MODEL)
assert code == 0, text
assert b"reading the model ..." in text and b"compiling the generated C ..." in text, text
assert text.startswith(WIPE) and text.endswith(WIPE), text  # nothing stays
assert b"\n" not in text, text  # it is one line
steps = text.count(b"pass ")
assert steps <= 10, (steps, "passes are not shown more often than every tenth of a second")

code, text = on_terminal("verify", MODEL, columns=12)
shown = re.split(re.escape(WIPE), text)
assert code == 0 and any(shown) and max(map(len, shown)) < 12, shown

code, text = on_terminal("verify", MODEL, CC="/nonexistent/cc")
assert code == 3 and WIPE + b"\x1b[1mrlxc:" in text, text  # wiped before the message

for args, env in [(["--json"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})]:
    code, text = on_terminal("verify", MODEL, *args, **env)
    assert code == 0 and text == b"", (args, env, text)

with tempfile.TemporaryDirectory() as cache:
    env = {**os.environ, "TERM": "xterm", "XDG_CACHE_HOME": cache}
    done = subprocess.run([RLXC, "verify", MODEL], capture_output=True, env=env)
    assert done.returncode == 0 and done.stderr == b"", done
