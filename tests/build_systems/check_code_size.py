#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flash as `rlxc inspect` counts it: the sections of the object that the C compiler for a CPU makes, without
weights; where there is none, it is unknown. Usage: check_code_size.py RLXC"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

RLXC = os.path.abspath(sys.argv[1])
MODEL = os.path.join(os.environ.get("RLXC_SOURCE", "."), "models/digits/digits.json")
HOST = {"x86_64": "x86", "aarch64": "armv8", "riscv64": "rv64"}.get(os.uname().machine, "?")
COMPILERS = {"generic": "cc", "x86-64-v3": "x86_64-linux-gnu-gcc", "armv8-a": "aarch64-linux-gnu-gcc",
             "rv64gc": "riscv64-linux-gnu-gcc"}


def inspect(cpu, *options, **env):
    done = subprocess.run([RLXC, "inspect", MODEL, "--cpu", cpu, *options], capture_output=True, text=True,
                          check=True, env={**os.environ, "CC": "cc", **env})
    return done.stdout


def sections(path):
    """Bytes of machine code, and of constants, of an object file."""
    text = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
    code = data = 0
    for kind, size, flags in re.findall(r"\] \S+ +(\w+) +\w+ \w+ (\w+) \w+ +([A-Za-z]*) ", text):
        if "A" in flags and kind != "NOBITS":
            code, data = (code + int(size, 16), data) if "X" in flags else (code, data + int(size, 16))
    return code, data


def check_known(cpu, folder):
    compiler = "cc" if cpu == "generic" or cpu.startswith(HOST) else COMPILERS[cpu]
    facts = json.loads(inspect(cpu, "--json"))
    if shutil.which(compiler) is None:
        assert facts["code_bytes"] is None and "no C compiler" in facts["code_unknown"], facts
        print(f"skipped: {cpu}: no {compiler}")
        return False
    command = [RLXC, "compile", MODEL, "--cpu", cpu, "--weights", "rodata", "--json", "-o", f"{folder}/{cpu}"]
    made = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    command = [compiler, "-O3", *made["cc_flags"].split(), "-std=gnu99", "-fno-asynchronous-unwind-tables",
               "-c", f"{folder}/{cpu}/digits.c", "-o", f"{folder}/{cpu}.o"]
    subprocess.run(command, check=True)
    code, data = sections(f"{folder}/{cpu}.o")
    # Weights in the object instead of from the program: some instructions more or less, and their bytes.
    assert abs(facts["code_bytes"] - code) < 0.02 * code, (cpu, facts["code_bytes"], code)
    assert abs(facts["constant_bytes"] + facts["weight_bytes"] - data) < 256, (cpu, facts, data)
    assert facts["code_compiler"].startswith(compiler + " -O3")
    by = facts["sections"]
    assert by["text"] == facts["code_bytes"] and by["rodata_weights"] == facts["weight_bytes"], by
    assert by["rodata_constants"] + by["data"] == facts["constant_bytes"] and by["bss"] == 0, by
    assert facts["text_bytes"] > facts["code_bytes"]
    text = inspect(cpu)
    assert f"machine code {facts['code_bytes']} bytes" in text and "flash   weights" in text
    assert "C text" not in text[text.index("flash"):].splitlines()[0]
    return True


def check_unknown(folder):
    """No compiler, one that fails, another file than an object, a GPU, and not asked for."""
    for name, text in (("fails", "exit 1"), ("other", 'for a; do case $a in *.o) echo x >"$a";; esac; done')):
        with open(f"{folder}/{name}", "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(f"{folder}/{name}", 0o755)
    for options, why, env in (([], "no C compiler", {"CC": "no-such-compiler"}),
                              ([], "fails -O3` failed", {"CC": folder + "/fails"}),
                              ([], "no ELF", {"CC": folder + "/other"}),
                              (["--target", "vulkan"], "GPU", {}), (["--no-code"], "not asked", {})):
        facts = json.loads(inspect("generic", "--json", *options, **env))
        assert facts["code_bytes"] is None and why in facts["code_unknown"], facts["code_unknown"]
        assert "machine code unknown: " in inspect("generic", *options, **env)
        inspect("generic", "--html", folder + "/p.html", *options, **env)
        assert '"code_bytes": null' in open(folder + "/p.html", encoding="utf-8").read()


def check_relative(folder):
    """$CC is found from the folder in which rlxc is started, whichever folder it compiles in."""
    with open(folder + "/own", "w", encoding="ascii") as f:
        f.write('#!/bin/sh\nexec cc "$@"\n')
    os.chmod(folder + "/own", 0o755)
    facts = json.loads(inspect("generic", "--json", CC=os.path.relpath(folder + "/own")))
    assert facts["code_bytes"] is not None, facts["code_unknown"]


def main():
    if shutil.which("readelf") is None:
        print("skipped: no readelf")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder + "/cache"
        known = [check_known(cpu, folder) for cpu in COMPILERS]
        check_unknown(folder)
        check_relative(folder)
    assert known[0]


main()
