#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the bytes of a file (of a .npy file: of its elements) as a C array NAME_data and its size
NAME_data_bytes. Usage: bytes_to_c.py NAME FILE OUT.c"""
import pathlib
import sys

name, source, target = sys.argv[1:]
data = pathlib.Path(source).read_bytes()
if data.startswith(b"\x93NUMPY"):
    data = data[10 + int.from_bytes(data[8:10], "little"):]
values = [str(v - 256 if v > 127 else v) for v in data]
lines = ",\n".join("    " + ", ".join(values[i:i + 20]) for i in range(0, len(values), 20))
pathlib.Path(target).write_text(f"extern const signed char {name}_data[];\n"
                                f"const signed char {name}_data[] = {{\n{lines}}};\n"
                                f"extern const unsigned {name}_data_bytes;\n"
                                f"const unsigned {name}_data_bytes = {len(data)};\n")
