# SPDX-License-Identifier: Apache-2.0
"""The table of ONNX operators, and what docs/ONNX.md has of it. Needs no packages."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "compiler/import/onnx/onnx_ops.def"
DOMAINS = {"EW": "", "OP": "", "OF": "", "MS": "com.microsoft", "MS_OF": "com.microsoft", "ML": "ai.onnx.ml",
           "TRAIN": "ai.onnx.preview.training", "PREVIEW": "ai.onnx.preview"}


def read_table():
    """{(domain, name): [(first opset, last opset or 0)]}"""
    found, text = {}, TABLE.read_text(encoding="utf-8")
    for kind, arguments in re.findall(r"^ONNX_([A-Z_]+)\((.*?)\)", text, re.MULTILINE):
        words = [w.strip() for w in arguments.split(",")]
        span = (int(words[1]), int(words[2])) if words[1].isdigit() else (1, 0)
        found.setdefault((DOMAINS[kind], words[0]), []).append(span)
    return found


def opsets(spans):
    """[(1, 6), (7, 0)] -> '1+': rows that follow each other are one range."""
    merged = []
    for first, last in sorted(spans):
        if merged and (merged[-1][1] == 0 or first <= merged[-1][1] + 1):
            merged[-1] = (merged[-1][0], 0 if 0 in (last, merged[-1][1]) else max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return ", ".join(f"{first}+" if last == 0 else f"{first} to {last}" for first, last in merged)


def names_and_opsets(document):
    """The part of the tables that depends on onnx_ops.def alone."""
    return re.findall(r"^\| (\w+) \| ((?:\d+(?:\+| to \d+)(?:, )?)+) \|", document, re.MULTILINE)


def expected_names_and_opsets():
    table = read_table()
    return [(key[1], opsets(table[key])) for key in sorted(table)]
