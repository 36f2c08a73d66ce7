#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Emits mission.json for every CPU and optimisation level, builds runtime_test.c around it with the
# sanitizers, and runs it, as C and as C++. Usage: check_runtime.py RLXC
import os
import shutil
import subprocess
import sys
import tempfile

rlxc, here = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.abspath(__file__))
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
for cpu in ("generic", "native"):
    for level in ("0", "3"):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [
                    rlxc,
                    "compile",
                    here + "/mission.json",
                    "-o",
                    folder,
                    "--name",
                    "mission",
                    "--cpu",
                    cpu,
                    "-O",
                    level,
                ],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            with open(folder + "/mission.c") as f:
                flags = (
                    next(line for line in f if line.startswith("// Compile with:"))
                    .split("cc ")[1]
                    .split(" -c ")[0]
                )
            for compiler in ["cc"], ["c++", "-x", "c++"]:
                if shutil.which(compiler[0]) is None:
                    continue
                command = [
                    *compiler,
                    *flags.split(),
                    *SANITIZE,
                    "-I" + folder,
                    here + "/runtime_test.c",
                    "mission.c",
                ]
                subprocess.run([*command, "-o", "p", "-lm"], check=True, cwd=folder)
                subprocess.run([folder + "/p"], check=True)
