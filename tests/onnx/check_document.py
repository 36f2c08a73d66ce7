#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the operators and opsets in docs/ONNX.md those of compiler/import/onnx/onnx_ops.def? Needs no wheels.

The counts in it are compared by check_suite.py, whose --update writes the file anew.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from conformance import table  # noqa: E402


def difference(document, want):
    found = table.names_and_opsets(document)
    lines = [f"docs/ONNX.md lacks: {row[0]}, opset {row[1]}" for row in want if row not in found]
    lines += [f"only in docs/ONNX.md: {row[0]}, opset {row[1]}" for row in found if row not in want]
    return lines or ([] if sorted(found) == sorted(want) else ["docs/ONNX.md has a row twice"])


def self_test():
    assert table.opsets([(7, 0), (1, 6)]) == "1+"
    assert table.opsets([(1, 6), (9, 10)]) == "1 to 6, 9 to 10"
    row = "| Add | 1+ | T: f32 | 3 of 3 |\n"
    assert not difference(row, [("Add", "1+")])
    assert difference("", [("Add", "1+")])
    assert difference(row, [])
    assert difference(row, [("Add", "7+")])
    assert difference(row + row, [("Add", "1+")])


self_test()
expected = table.expected_names_and_opsets()
assert len(expected) > 150
problems = difference((ROOT / "docs" / "ONNX.md").read_text(encoding="utf-8"), expected)
print("\n".join(problems) or f"{len(expected)} operators")
sys.exit(1 if problems else 0)
