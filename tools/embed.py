#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Turns text files, one after the other, into C: an array of lines, so that no string literal exceeds what
# compilers must accept.
# Usage: embed.py INPUT... OUTPUT HEADER NAME
import sys

*sources, target, header, name = sys.argv[1:]
lines = []
for source in sources:
    with open(source, encoding="ascii") as f:
        lines += f.read().splitlines()
with open(target, "w", encoding="ascii") as f:
    f.write(f'#include "{header}"\n#include <stddef.h>\n\nconst char *const {name}[] = {{\n')
    for line in lines:
        escaped = line.replace("\\", "\\\\").replace('"', '\\"')
        f.write(f'    "{escaped}\\n",\n')
    f.write("    NULL};\n")
