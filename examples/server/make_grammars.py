#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the grammars of answers in JSON: make_grammars.py RLXC FOLDER SCHEMA...

FOLDER/grammars.h has a table of them, the first of which is that of any object, and FOLDER/grammars.list the
names of the C files."""

import json
import pathlib
import subprocess
import sys


def main(rlxc, folder, *schemas):
    folder = pathlib.Path(folder)
    includes, rows, sources = [], [], []
    for i, path in enumerate([None, *schemas]):
        name = f"grammar_{i}"
        text = pathlib.Path(path).read_text(encoding="utf-8") if path else '{"type": "object"}'
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
        subprocess.run([rlxc, "grammar", folder / f"{name}.json", "-o", folder, "--name", name], check=True)
        includes.append(f'#include "{name}.h"\n')
        shown = json.dumps(json.dumps(json.loads(text))) if path else "NULL"
        rows.append(f"    {{{shown}, &{name}}},\n")
        sources.append(str(folder / f"{name}.c"))
    table = "static const struct {\n    const char *schema; // NULL: any object\n"
    table += "    const rlx_grammar *grammar;\n} grammars[] = {\n" + "".join(rows) + "};\n"
    (folder / "grammars.h").write_text("".join(includes) + "\n" + table, encoding="utf-8")
    (folder / "grammars.list").write_text("\n".join(sources) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
