# SPDX-License-Identifier: Apache-2.0
"""What the tests of cut, bisect and diff share: the program, a model, a C compiler that breaks one kernel."""
import json
import os
import pathlib
import stat
import struct
import subprocess
import sys

RLXC = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(os.environ.get("RLXC_SOURCE", ".")).resolve()
DIGITS = ROOT / "models" / "digits" / "digits.json"

# Passes every source file through a sed-like rule: in kernels whose comment has NODES, OLD becomes NEW. Parts
# that are compiled side by side include one file, which is replaced as a whole.
WRAPPER = """#!%s
import glob, os, subprocess, sys
nodes, old, new = %r, %r, %r
for path in glob.glob("*.c"):
    out, inside = [], False
    for line in open(path):
        if line.startswith("// ") and not line.startswith("//  "):  # more lines of the comment follow
            inside = line[3:].strip() == nodes
        elif line.startswith("}"):
            inside = False
        out.append(line.replace(old, new) if inside else line)
    with open(f"{path}.{os.getpid()}", "w") as f:
        f.write("".join(out))
    os.replace(f.name, path)
sys.exit(subprocess.call(["cc", *sys.argv[1:]]))
"""


def call(*args, **env):
    """Exit code, stdout, stderr."""
    done = subprocess.run(
        [RLXC, *map(str, args)], capture_output=True, text=True, env={**os.environ, **env}, check=False
    )
    return done.returncode, done.stdout, done.stderr


def call_json(*args, expected=0, **env):
    code, out, err = call(*args, "--json", **env)
    assert code == expected, (args, code, out, err)
    return json.loads(out)


def broken_compiler(folder, nodes, old, new):
    """CC and a cache of its own, for the environment of rlxc."""
    path = pathlib.Path(folder) / f"cc-{len(list(pathlib.Path(folder).iterdir()))}"
    path.write_text(WRAPPER % (sys.executable, nodes, old, new))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"CC": str(path), "XDG_CACHE_HOME": f"{path}-cache"}


def write_npy(path, shape, values):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head = head.ljust(117) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack(f"<{len(values)}f", *values))
