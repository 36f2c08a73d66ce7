#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/format.schema.json: it accepts our models, refuses wrong ones, and knows every element type.

Skipped (77) without the Python package jsonschema.
"""
import json
import pathlib
import re
import sys

try:
    import jsonschema
except ImportError:
    print("no jsonschema: skipped")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD = [*ROOT.glob("models/*.json"), *ROOT.glob("models/*/*.json"),
        *ROOT.glob("tests/fuzz/seeds/*.json"), ROOT / "tests/diag/json_good.json",
        ROOT / "examples/custom/model.json", ROOT / "tests/runtime/custom.json"]
# What only rlxc can tell (shapes, names, files) is not here.
BAD = ["branches_no_outputs", "data_and_file", "no_outputs", "missing_version", "version", "result_count",
       "unknown_member", "symbols", "states", "wrong_types", "subgraph"]
MADE = {
    "branches_no_outputs": {"rlxc": 1, "outputs": ["y"], "nodes": [
        {"op": "if", "inputs": ["f"], "name": "y", "then": {}, "else": {}}]},
    "data_and_file": {"rlxc": 1, "outputs": ["w"], "weights": {
        "w": {"dtype": "f32", "data": 1, "file": "w.npy"}}},
}


def main():
    schema = json.loads((ROOT / "docs/format.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    problems = []
    for path in GOOD:
        for error in validator.iter_errors(json.loads(path.read_text(encoding="utf-8"))):
            problems.append(f"{path.relative_to(ROOT)}: {error.json_path}: {error.message}")
    for name in BAD:
        path = ROOT / f"tests/diag/json_{name}.json"
        model = MADE.get(name) or json.loads(path.read_text(encoding="utf-8"))
        if validator.is_valid(model):
            problems.append(f"{name}: accepted")
    table = (ROOT / "ir/graph/dtypes.def").read_text(encoding="utf-8")
    types = set(re.findall(r"^DTYPE\((\w+),", table, re.MULTILINE))
    if not types <= set(schema["$defs"]["dtype"]["enum"]):
        problems.append(f"dtype lacks {types - set(schema['$defs']['dtype']['enum'])}")
    print("\n".join(problems) or f"{len(GOOD)} good and {len(BAD)} wrong models: as expected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
