#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what a model's chat template puts between messages as a table in C: make_turns.py RLXC MODEL FILE
[TEMPLATE]. The template itself stays with rlxc. Where it cannot be cut so, because what stands between two
messages depends on others, this says so."""

import json
import subprocess
import sys

ROLES = ["system", "user", "assistant"]
MARK = "\u2402%d\u2403"
# Conversations that templates allow; the first ones must be.
TALKS = [
    ["user"],
    ["user", "assistant", "user", "assistant", "user"],
    ["system", "user", "assistant", "user", "assistant", "user"],
    ["user", "user"],
    ["user", "assistant", "assistant", "user"],
    ["user", "assistant"],
    ["system"],
    ["system", "system", "user"],
    ["user", "system", "user"],
]
NEEDED = 2


def render(command, roles):
    """The parts of the text around the messages; None: the template refuses them."""
    messages = [{"role": role, "content": MARK % i} for i, role in enumerate(roles)]
    text = json.dumps({"messages": messages, "add_generation_prompt": True})
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    parts, rest = [], done.stdout.decode()
    for i in range(len(roles)):
        part, mark, rest = rest.partition(MARK % i)
        if not mark:
            return None, done.stderr.decode()
        parts.append(part)
    return [*parts, rest], ""


def learn(command):
    """{(role or "start", role or "answer"): text}."""
    between = {}
    for number, roles in enumerate(TALKS):
        parts, why = render(command, roles)
        if parts is None and number < NEEDED:
            sys.exit(why or f"the template does not show the messages {roles}")
        if parts is None:
            continue
        for pair, part in zip(zip(["start", *roles], [*roles, "answer"]), parts):
            if between.setdefault(pair, part) != part:
                sys.exit(f"what the template puts between {pair[0]} and {pair[1]} depends on other messages")
    return between


def quoted(text):
    if text is None:
        return "NULL"
    plain = lambda b: chr(b) if chr(b).isalnum() and b < 128 or b == 32 else f"\\{b:03o}"
    return '"' + "".join(map(plain, text.encode())) + '"'


def main(rlxc, model, path, *template):
    command = [rlxc, "template", model, "--messages", "-", *(["--template", *template] if template else [])]
    between = learn(command)
    rows = []
    for before in ["start", *ROLES]:
        row = [quoted(between.get((before, after))) for after in [*ROLES, "answer"]]
        rows.append("    {" + ", ".join(row) + "},\n")
    with open(path, "w", encoding="ascii") as file:
        file.write("// Written by make_turns.py. [before: start, system, user, assistant]\n")
        file.write("// [after: system, user, assistant, answer]. NULL: the template has no such turn.\n")
        file.write("static const char *const turns[4][4] = {\n" + "".join(rows) + "};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
