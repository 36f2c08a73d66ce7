#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `rlxc ops` says: every op has text for all of its operands, the example of each compiles, and the
list of operators in docs/FORMAT.md is what the program says (--update writes it anew).
Usage: check_ops.py RLXC [--update]
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

rlxc = os.path.abspath(sys.argv[1])
root = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
page = os.path.join(root, "docs", "FORMAT.md")
BEGIN, END = "<!-- operators: begin -->\n", "<!-- operators: end -->\n"
EVERY_TEXT = ("types", "shape", "text")


def cell(text):
    return text.replace("|", "\\|")


def row(*cells):
    return "| " + " | ".join(cell(c) for c in cells) + " |\n"


def elementwise_row(op):
    plain = ("the operand", "the first operand", "the second", "the third")
    names = [o["name"] + ("" if o["text"] in plain else f" ({o['text']})") for o in op["operands"]]
    return row(f"`{op['name']}`", ", ".join(names), op["operands"][0]["types"], op["formula"])


def node_of(example):
    """The node of an example, as a reader would write it."""
    return json.dumps(example["nodes"][-1]) if "nodes" in example else json.dumps(example)


def op_section(op):
    out = f"### {op['name']}\n\n{op['formula']}\n\n"
    marks = {"required": "", "optional": ", optional", "repeated": ", any number"}
    out += row("", "type", "shape", "") + "|---|---|---|---|\n"
    for o in op["operands"]:
        out += row(f"`{o['name']}`" + marks[o["use"]], o["types"], o["shape"], o["text"])
    for o in op["outputs"]:
        out += row(f"gives `{o['name']}`", o["types"], o["shape"], o["text"])
    for a in op["attributes"]:
        start = "required" if a["required"] else f"default `{a['default']}`" if a["default"] else ""
        out += row(f"attribute `{a['name']}`", a["type"].upper(), start, a["text"])
    types = ", ".join(f"`{n}` {t['dtype']}{t['shape']}" for n, t in op["example"].get("inputs", {}).items())
    out += "\n" + (f"With {types}:\n" if types else "") + f"\n    {node_of(op['example'])}\n\n"
    return out


def section(ops):
    """The part of docs/FORMAT.md between BEGIN and END."""
    out = BEGIN + "\n## Elementwise\n\n" + row("op", "operands", "types", "formula") + "|---|---|---|---|\n"
    out += "".join(elementwise_row(op) for op in ops if op["kind"] == "elementwise") + "\n"
    titles = {"core": "Others", "convenience": "Conveniences", "leaf": "Leaves"}
    for kind, title in titles.items():
        out += f"## {title}\n\n" + "".join(op_section(op) for op in ops if op["kind"] == kind)
    return out + END


def check_texts(op):
    """Each operand that an op can have is described, and nothing else."""
    problems = []
    uses = [o["use"] for o in op["operands"]]
    most = 255 if "repeated" in uses else len(uses)
    # rope, whose cos and sin depend on an attribute, and lists of which one is needed
    least = max(uses.count("required"), 1 if op["min_inputs"] == 1 and uses else 0)
    if (least, most) != (op["min_inputs"], op["max_inputs"]) and op["kind"] != "leaf":
        problems.append(f"{op['name']}: {least} to {most} operands are described, not "
                        f"{op['min_inputs']} to {op['max_inputs']}")
    if op["results"] not in (0, len(op["outputs"])):
        problems.append(f"{op['name']}: {len(op['outputs'])} of {op['results']} results are described")
    for o in op["operands"] + op["outputs"]:
        problems += [f"{op['name']}: operand {o['name']} has no {what}" for what in EVERY_TEXT if not o[what]]
    if not op["formula"] or re.search(r"\bk_\w+\(|\(I\)", op["formula"]):
        problems.append(f"{op['name']}: the formula is no text for readers: {op['formula']!r}")
    return problems


def compile_example(op):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "example.json")
        with open(path, "w") as f:
            json.dump(op["example"], f)
        run = subprocess.run([rlxc, "compile", path, "-o", folder], capture_output=True, text=True)
        used = [n["op"] for n in op["example"].get("nodes", [])]
        if op["name"] not in used and op["kind"] != "leaf" and op["name"] != "result":
            return [f"{op['name']}: its example does not use it"]
        return [] if run.returncode == 0 else [f"{op['name']}: its example does not compile:\n{run.stderr}"]


def main():
    said = subprocess.run([rlxc, "ops", "--json"], check=True, capture_output=True, text=True).stdout
    ops = json.loads(said)
    problems = [p for op in ops for p in check_texts(op)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(compile_example, ops):
            problems += found
    with open(page) as f:
        text = f.read()
    head, rest = text.split(BEGIN)
    wanted = head + section(ops) + rest.split(END)[1]
    if "--update" in sys.argv:
        with open(page, "w") as f:
            f.write(wanted)
    elif wanted != text:
        problems.append("the operators in docs/FORMAT.md are out of date: run with --update")
    plain = subprocess.run([rlxc, "ops", "conv"], check=True, capture_output=True, text=True).stdout
    problems += [f"`rlxc ops conv` does not say {what!r}" for what in ("bias", "optional", "example", "[O]")
                 if what not in plain]
    for p in problems:
        print(p)
    print(f"{len(ops)} operators, {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
