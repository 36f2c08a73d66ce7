#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Libraries of many kernels are compiled in parts, side by side, and give the same as whole ones.
Usage: check_jobs.py RLXC"""

import os
import pathlib
import stat
import sys
import tempfile

from common import DIGITS, ROOT, call

DECODER = ROOT / "models" / "decoder.json"
# A C compiler that writes down what it is given.
WRAPPER = f"""#!{sys.executable}
import os, sys
with open(os.environ["CALLS"], "a") as f:
    f.write(" ".join(a for a in sys.argv[1:] if a.endswith((".c", ".o", ".so"))) + "\\n")
if os.environ.get("FAILS", "-") in sys.argv:
    sys.exit("it fails")
os.execvp("cc", ["cc", *sys.argv[1:]])
"""


class Compiler:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.path = self.folder / "logged-cc"
        self.path.write_text(WRAPPER)
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def verify(self, model, *options, name, **env):
        """Exit code, messages, calls of the compiler."""
        calls = self.folder / f"{name}.calls"
        code, _, err = call("verify", model, "--random", "1", *options, CC=str(self.path), CALLS=str(calls),
                            XDG_CACHE_HOME=str(self.folder / f"{name}-cache"), **env)
        return code, err, calls.read_text().splitlines()


def check(folder):
    cc = Compiler(folder)
    code, err, calls = cc.verify(DECODER, name="many")
    assert code == 0, err
    sources = sorted(c.split()[0] for c in calls if c.split()[0].endswith(".c"))
    if os.cpu_count() == 1:
        assert sources == ["decoder.c"] and len(calls) == 1, calls
        return
    assert sources[:2] == ["decoder.c", "decoder_2.c"], calls
    assert len(calls) == len(sources) + 1 and calls[-1].startswith("decoder.part.o decoder_2.part.o"), calls
    code, err, calls = cc.verify(DIGITS, name="few")
    assert code == 0 and len(calls) == 1 and calls[0].startswith("digits.c "), (calls, err)
    code, err, calls = cc.verify(DECODER, "--keep", folder + "/kept", name="kept")
    assert code == 0 and len(calls) == 1, (calls, err)
    code, err, calls = cc.verify(DECODER, name="fails", FAILS="decoder_2.c")
    assert code == 3 and "logged-cc failed on decoder_2.c" in err, (code, err)
    assert not list((pathlib.Path(folder) / "fails-cache").rglob("*.so")), "nothing half-made stays"


with tempfile.TemporaryDirectory() as top:
    check(top)
