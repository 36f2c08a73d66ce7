#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the chat template of a model and its special tokens as C:
make_template.py RLXC MODEL FILE [TEMPLATE]"""

import subprocess
import sys


def quoted(line):
    plain = lambda b: chr(b) if chr(b).isalnum() and b < 128 or b in b" {}:,._" else f"\\{b:03o}"
    return '    "' + "".join(map(plain, line)) + '"\n'


def main(rlxc, model, path, *template):
    command = [rlxc, "template", model, "--source", *(["--template", *template] if template else [])]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    with open(path, "w", encoding="ascii") as file:
        file.write("// Written by make_template.py: a JSON object.\nstatic const char template_source[] =\n")
        file.writelines(quoted(text[i : i + 64]) for i in range(0, len(text), 64))
        file.write("    ;\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
