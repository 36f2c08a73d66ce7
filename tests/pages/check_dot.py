#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rlxc inspect --dot, and what --html and --times need no browser for: files that are the same each time,
names that are an attack, wrong files. Usage: check_dot.py RLXC; prints TAP."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import tap
from tap import result

import models

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
DIGITS = os.path.join(ROOT, "models/digits/digits.json")
DECODER = [os.path.join(ROOT, "models/decoder.json"), "--dim", "T=4", "--dim", "P=8"]
STRING = r'"(?:[^"\\\n]|\\.)*"'
ATTRIBUTE = rf"\w+=(?:{STRING}|[\w.]+)"
LIST = rf"\[{ATTRIBUTE}(?:, {ATTRIBUTE})*\]"
LINE = re.compile(
    rf"digraph {STRING} {{|  (?:node|graph) {LIST};|  subgraph cluster_\d+ {{|    label={STRING};"
    rf"| {{2,4}}(?:n|out)\d+ {LIST};|  n\d+ -> (?:n|out)\d+(?: {LIST})?;|(?:  )?}}"
)


def rlxc(*arguments):
    return subprocess.run([RLXC, *arguments], capture_output=True, text=True)


def check_dot(name, *model):
    text = rlxc("inspect", *model, "--dot", "-").stdout
    facts = json.loads(rlxc("inspect", *model, "--json").stdout)
    wrong = [line for line in text.split("\n")[:-1] if not LINE.fullmatch(line)]
    result(text != "" and wrong == [], f"{name}: is what Graphviz reads", wrong)
    result(text.count("subgraph") == facts["steps"], f"{name}: a box for every kernel", facts["steps"])
    defined = set(re.findall(r"^ *((?:n|out)\d+) \[", text, re.M))
    used = set(re.findall(r"((?:n|out)\d+) ->", text)) | set(re.findall(r"-> ((?:n|out)\d+)", text))
    result(used <= defined, f"{name}: edges go between nodes that are there", used - defined)
    if shutil.which("dot"):
        made = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True)
        result(made.returncode == 0 and "<svg" in made.stdout, f"{name}: dot draws it", made.stderr)


def check_files(folder):
    page, graph = os.path.join(folder, "a.html"), os.path.join(folder, "a.dot")
    said = rlxc("inspect", DIGITS, "--html", page, "--dot", graph)
    result(said.stdout == f"wrote {page}\nwrote {graph}\n", "says what was written", said.stdout)
    with open(page, "rb") as f:
        first = f.read()
    rlxc("inspect", DIGITS, "--html", page)
    with open(page, "rb") as f:
        result(f.read() == first, "the same page each time")
    with open(graph) as f:
        result(f.read() == rlxc("inspect", DIGITS, "--dot", "-").stdout, "--dot to a file and to -")
    text = first.decode()
    places = r"(?:src|href)=\"(?!data:,)[^\"]*|url\((?!#)[^)]*|@import|https?://(?!www\.w3\.org/2000/svg)\S*"
    outside = re.findall(places, text)
    result(outside == [], "nothing in the page names another place", outside)
    said = rlxc("inspect", DIGITS, "--json", "--html", page)
    result(
        json.loads(said.stdout)["name"] == "digits", "--json with --html prints JSON only", said.stdout[:80]
    )
    said = rlxc("inspect", DIGITS, "--json", "--dot", "-")
    result(
        said.returncode == 2 and said.stdout == "", "not two things on the standard output", said.stdout[:80]
    )
    before = sorted(os.listdir(folder))
    said = rlxc("inspect", DIGITS, "--html", os.path.join(folder, "missing/a.html"))
    result(said.returncode == 1 and "E0002" in said.stderr, "a folder that is not there", said.stderr)
    result(sorted(os.listdir(folder)) == before, "leaves nothing behind", os.listdir(folder))


def check_wrong_times(folder):
    path, page = os.path.join(folder, "times.json"), os.path.join(folder, "t.html")
    native = {"target": "c", "cpu": "generic", "us": 1, "kernels": []}
    good = {**native, "kernels": [{"name": "k0_conv_relu", "us": 1}]}

    def attempt(document):
        with open(path, "w") as f:
            f.write(document if isinstance(document, str) else json.dumps(document))
        return rlxc("inspect", DIGITS, "--html", page, "--times", path)

    said = attempt(good)
    result(said.returncode == 0, "times of some kernels", said.stderr)
    os.unlink(page)
    for name, document in (
        ("not JSON", "{"),
        ("a list", "[]"),
        ("no time", {"target": "c", "cpu": "generic", "kernels": []}),
        ("a time below 0", {**native, "us": -1}),
        ("kernels that are no list", {**native, "kernels": 3}),
        ("a kernel without a name", {**native, "kernels": [{"us": 1}]}),
        ("a kernel of another model", {**native, "kernels": [{"name": "k0_gather", "us": 1}]}),
        (
            "kernels in another order",
            {**native, "kernels": [{"name": "k1_conv_relu", "us": 1}, *good["kernels"]]},
        ),
        ("another target", {**native, "target": "cuda"}),
        ("deep", "[" * 100000),
    ):
        said = attempt(document)
        result(
            said.returncode == 1 and "E0112" in said.stderr and not os.path.exists(page), name, said.stderr
        )
    said = rlxc("inspect", DIGITS, "--times", path)
    result(said.returncode == 2, "--times without --html", said.stderr)
    said = rlxc("inspect", DIGITS, "--html", page, "--times", os.path.join(folder, "none.json"))
    result(said.returncode == 1 and "E0001" in said.stderr, "a file that is not there", said.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_dot("digits", DIGITS)
        check_dot("decoder", *DECODER)
        check_dot("hostile", models.hostile(os.path.join(folder, "hostile.json")))
        check_dot("tower", models.tower(os.path.join(folder, "tower.json"), 56))
        check_files(folder)
        check_wrong_times(folder)
    return tap.end()


sys.exit(main())
