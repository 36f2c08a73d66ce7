#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Grammars of generated code. Random ones, left recursive and ambiguous ones among them: which tokens can
come must be what a plain reference in Python says, at each place of random walks. JSON schemas: texts that
random logits make must be JSON and keep to the schema. Also memory, hostile grammars, refused ones, and
`rlxc grammar` itself. Usage: check_grammar.py RLXC"""

import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "common"), str(HERE)]
import grammars as g  # noqa: E402
import tap  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
N_RANDOM, N_WALKS, N_STEPS = 60, 6, 8
FLAGS = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wshadow",
    "-Wconversion",
    "-Wundef",
    "-Werror",
    "-O0",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
]
NAMED = {
    "left recursion": 'root ::= root "a" | "a"',
    "hidden left recursion": 'root ::= r1 root "b" | "c"\nr1 ::= "a"?',
    "brackets": 'root ::= "[" root* "]"',
    "ambiguous": 'root ::= "a" | root root',
    "empty": 'root ::= ""',
    "cyclic": 'root ::= root | r1 | "a"\nr1 ::= root',
    "deep": 'root ::= "(" root ")" | "x"',
    "right recursion": 'root ::= "a" root | "b"',
}
ANYTHING = {}
SCHEMAS = {
    "anything": ANYTHING,
    "object": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    "optional": {
        "type": "object",
        "properties": {k: {"type": "boolean"} for k in "abcde"},
        "required": ["c"],
    },
    "further": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "ab": {"type": "null"}, "é\"": {"type": "boolean"}},
        "required": ["ab", "missing"],
        "additionalProperties": {"type": "string"},
    },
    "enum": {"enum": ["one", "two", 3, None, True, {"a": [1, 2.5]}, "q\"uote\\ \n é"]},
    "enum of a type": {"type": "string", "enum": ["x", 1, "yy"]},
    "const": {"properties": {"kind": {"const": "a b"}}, "required": ["kind"], "type": "object"},
    "bounds": {
        "type": "array",
        "items": {"type": "integer", "minimum": -123, "exclusiveMaximum": 4567},
        "minItems": 2,
        "maxItems": 9,
    },
    "above": {
        "type": "array",
        "items": {"type": "integer", "exclusiveMinimum": 97},
        "minItems": 4,
        "maxItems": 8,
    },
    "below": {"type": "array", "items": {"type": "integer", "maximum": -40}, "minItems": 4, "maxItems": 8},
    "numbers": {"type": "array", "items": {"type": "number", "minimum": 0}, "minItems": 1},
    "lengths": {
        "type": "array",
        "items": {"type": "string", "minLength": 2, "maxLength": 4},
        "minItems": 3,
        "maxItems": 3,
    },
    "tuple": {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string"}, {"type": "null"}],
        "items": {"type": "boolean"},
        "minItems": 2,
        "maxItems": 5,
    },
    "tuple alone": {"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": False},
    "types": {"type": ["integer", "null", "string"], "maxLength": 3},
    "any of": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "null"}}]},
    "one of": {
        "oneOf": [
            {
                "type": "object",
                "properties": {"t": {"const": "x"}, "v": {"type": "integer"}},
                "required": ["t"],
                "additionalProperties": False,
            },
            {"type": "object", "properties": {"t": {"const": "y"}}, "required": ["t"]},
        ]
    },
    "tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "value": {"type": "integer"},
                    "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                },
                "required": ["value", "next"],
                "additionalProperties": False,
            }
        },
    },
    "formats": {
        "type": "array",
        "prefixItems": [{"type": "string", "format": f} for f in ("date", "time", "date-time", "uuid")],
        "minItems": 4,
    },
    "all of": {"allOf": [{"type": "boolean"}], "title": "one"},
}


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, check=False, **options)


def grammar(path, *options, **more):
    return run(RLXC, "grammar", path, *options, timeout=120, **more)


def build(folder, sources):
    """The program with these texts as grammars, by number."""
    names = [f"g{i}" for i in range(len(sources))]
    for name, text in zip(names, sources):
        (folder / name).write_text(text, encoding="utf-8")
        done = grammar(folder / name, "-o", folder, "--name", name)
        assert done.returncode == 0, f"{text}: {done.stderr.decode()}"
    (folder / "grammars.h").write_text(
        "".join(f'#include "{n}.h"\n' for n in names)
        + "static const rlx_grammar *const all_grammars[] = {&"
        + ", &".join(names)
        + "};\n",
        encoding="utf-8",
    )
    files = [folder / f"{n}.c" for n in names]
    for compiler in (["gcc", "-std=c99"], ["clang", "-std=c99"], ["g++", "-xc++", "-std=c++11"]):
        done = run(*compiler, *FLAGS[:7], "-c", files[0], "-o", folder / "first.o")
        assert done.returncode == 0, done.stderr.decode()
    done = run(
        "cc",
        "-std=c99",
        *FLAGS,
        "-I",
        folder,
        "-I",
        ROOT,
        HERE / "grammar_main.c",
        *files,
        "-o",
        folder / "program",
        "-lm",
    )
    assert done.returncode == 0, done.stderr.decode()[:3000]
    return folder / "program"


def ask(program, words, requests):
    lines = [f"words {len(words)} " + " ".join(w.hex() for w in words[1:]), *requests]
    done = run(program, input="\n".join(lines).encode(), timeout=500)
    assert done.returncode == 0, done.stderr.decode()[:2000]
    return done.stdout.decode().splitlines()


# --- random grammars -----------------------------------------------------------------------------


def random_grammars():
    rng = random.Random(7)
    found = []
    while len(found) < N_RANDOM:
        n = rng.randrange(1, 5)
        trees = [g.random_tree(rng, n, 0) for _ in range(n)]
        if g.Reference(trees).ends_at[0]:
            found.append(trees)
    return found


def words_of(rng):
    """Signs, parts of signs, and texts of several; number 0 is the end."""
    signs = g.encodings(g.ALPHABET)
    parts = [s[:n] for s in signs for n in range(1, len(s))] + [
        s[n:] for s in signs for n in range(1, len(s))
    ]
    longer = [b"".join(rng.choices(signs + parts, k=rng.randrange(2, 5))) for _ in range(16)]
    return [b"", *dict.fromkeys(signs + parts + longer + [b"d", b"\xff", b"ab", b"aa", b"abc"])]


def check_walks(folder):
    rng = random.Random(3)
    trees = random_grammars()
    words, requests, wanted = words_of(rng), [], []
    for number, tree in enumerate(trees):
        reference = g.Reference(tree)
        for _ in range(N_WALKS):
            text, walk, answers = b"", [], []
            for _ in range(N_STEPS):
                can = [reference.state(text)[0]] + [reference.state(text + w)[1] for w in words[1:]]
                answers.append("".join("01"[c] for c in can))
                choice = [i for i in range(1, len(words)) if can[i]]
                if not choice or len(answers) == N_STEPS:
                    break
                walk.append(rng.choice(choice))
                text += words[walk[-1]]
            requests.append(f"walk {number} {len(walk)} " + " ".join(map(str, walk)))
            wanted.append((tree, walk, answers))
    assert sum(len(w[1]) for w in wanted) > 500, "the walks are too short to show anything"
    program = build(folder, [g.gbnf(t) for t in trees])
    for (tree, walk, answers), said in zip(wanted, ask(program, words, requests), strict=True):
        for at, (a, b) in enumerate(zip(answers, said.split(), strict=True)):
            assert a == b, f"{g.gbnf(tree)}behind {[words[i] for i in walk[:at]]}: {b}, expected {a}"


# --- schemas -------------------------------------------------------------------------------------


def check_schemas(folder):
    rng = random.Random(11)
    pieces = [
        '{"',
        '":',
        '",',
        '"}',
        '": "',
        "true",
        "false",
        "null",
        "name",
        "age",
        "12",
        "-1",
        " é",
        '\\u00',
        "[{",
        "}]",
        '"a"',
        '": {',
        "0.5",
        "漢字",
        "🙂",
        '\\"',
        "xyz",
        '", "',
        "value",
        "next",
        "missing",
        "tags",
    ]
    words = [b"", *(bytes([i]) for i in range(256)), *(p.encode() for p in pieces)]
    program = build(folder, [json.dumps(s) for s in SCHEMAS.values()])
    requests = [
        (i, f"sample {i} {rng.randrange(1 << 30)} {k} 400")
        for i in range(len(SCHEMAS))
        for k in (0, 0, 0, 5, 40)
        for _ in range(20)
    ]
    whole = [0] * len(SCHEMAS)
    schemas = list(SCHEMAS.items())
    for (i, _), said in zip(requests, ask(program, words, [r[1] for r in requests]), strict=True):
        text, _, how = said.rpartition(" ")
        name, schema = schemas[i]
        assert how == "whole" or "stuck" not in text, f"{name}: {said}"
        if how != "whole":
            continue
        whole[i] += 1
        text = bytes.fromhex(text).decode()
        assert g.is_valid(json.loads(text), schema, schema), f"{name}: {text}"
    few = [(schemas[i][0], n) for i, n in enumerate(whole) if n < 60]
    assert not few, f"too few texts came to an end: {few}"


def self_test():
    """The checker of values finds what is wrong."""
    wrong = {
        "object": {"name": "x"},
        "optional": {},
        "further": {"ab": 1, "missing": 0},
        "enum": "three",
        "bounds": [4567, 1],
        "lengths": ["a", "aa", "aaa"],
        "tuple": [1, 2],
        "types": 1.5,
        "one of": {"t": "z"},
        "tree": {"value": 1},
        "tuple alone": [None, True, 1],
        "any of": [1],
        "above": [97] * 4,
    }
    for name, value in wrong.items():
        assert not g.is_valid(value, SCHEMAS[name], SCHEMAS[name]), name
    assert g.is_valid({"name": "x", "age": 3}, SCHEMAS["object"], {})


# --- memory --------------------------------------------------------------------------------------


def check_memory(folder):
    program = build(folder, list(NAMED.values()))
    number = {name: i for i, name in enumerate(NAMED)}

    def feed(name, calls, times, text):
        return ask(program, [b""], [f"feed {number[name]} {calls} {times} {text.hex()}"])[0].split()

    assert feed("left recursion", 8, 100000, b"aaaa") == ["100000", "0", "1"]
    assert feed("right recursion", 8, 100000, b"aaaa") == ["100000", "0", "0"]
    assert feed("ambiguous", 2000, 60, b"a") == ["60", "0", "1"]
    n, status, _ = feed("deep", 64, 1000, b"(")
    assert status == "-1" and 20 < int(n) <= 64, f"{n} brackets with memory for 64, status {status}"
    n, status, _ = feed("deep", 5000, 1000, b"(")
    assert (n, status) == ("1000", "0"), (n, status)
    assert feed("brackets", 16, 10000, b"[]")[:2] == ["1", "-3"]
    assert feed("cyclic", 16, 2, b"a") == ["1", "-3", "1"]
    assert feed("empty", 16, 2, b"a") == ["0", "-3", "1"]
    assert feed("hidden left recursion", 16, 1, b"aacbb") == ["1", "0", "1"]


# --- hostile and refused -------------------------------------------------------------------------

HOSTILE = {
    "copies of copies": 'root ::= ((((("a"{99}){99}){99}){99}){99}){99}',
    "an automaton of 2^30 states": "root ::= [ab]* \"a\" [ab]{30}",
    "many optional parts": "root ::= (" + " ".join(["[ab]?"] * 3000) + ")",
    "many alternatives": "root ::= " + " | ".join(f'"{i}x"' for i in range(30000)),
    "many rules": "root ::= r0\n"
    + "".join(f'r{i} ::= r{i + 1}? "a"?\n' for i in range(20000))
    + 'r20000 ::= "b"',
    "nested groups": "root ::= " + "(" * 199 + '"a"' + ")*" * 199,
    "groups nested too deep": "root ::= " + "(" * 100000 + '"a"' + ")" * 100000,
    "a long class": "root ::= [" + "".join(chr(0x4E00 + 2 * i) for i in range(4000)) + "]+",
    "a longer class": "root ::= [" + "".join(chr(0x4E00 + i) for i in range(20000)) + "]",
    "optional calls": "root ::= " + "r1? " * 5000 + '\nr1 ::= "a" root | "b"',
    "a long text": 'root ::= "' + "é" * 100000 + '"',
    "a schema of many names": json.dumps(
        {"properties": {f"name{i}": {} for i in range(3000)}, "additionalProperties": True}
    ),
    "nested schemas": '{"items":' * 60 + "{}" + "}" * 60,
    "schemas nested too deep": '{"items":' * 1000 + "{}" + "}" * 1000,
    "a schema of doubled parts": json.dumps(
        {
            "$defs": {
                f"a{i}": {"type": "array", "prefixItems": [{"$ref": f"#/$defs/a{i + 1}"}] * 2}
                for i in range(40)
            }
            | {"a40": {}},
            "$ref": "#/$defs/a0",
        }
    ),
}


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


def check_hostile(folder):
    for what, text in HOSTILE.items():
        (folder / "hostile").write_text(text, encoding="utf-8")
        done = grammar(folder / "hostile", "-o", folder / "hostile_out", "--name", "h", preexec_fn=limit)
        said = done.stderr.decode(errors="replace")
        ok = done.returncode == 0 or (
            done.returncode == 1 and any(code in said for code in ("E0004", "E0101", "E0121"))
        )
        assert ok and "bug at" not in said, f"{what}: {done.returncode} {said[:1000]}"


REFUSED = {  # what is wrong: the text, where, and what the message says
    "nothing": ("", "1:1", "no rule root"),
    "no root": ('a ::= "b"', "1:1", "no rule root"),
    "an unknown rule": ('root ::= "a"\n  | nothing', "2:5", "no rule nothing"),
    "a rule twice": ('root ::= "a"\nroot ::= "b"', "2:1", "already"),
    "a text without end": ('root ::= "abc\n', "1:10", "no end"),
    "a class without end": ("root ::= [abc", "1:10", "no end"),
    "a group without end": ('root ::= ("a" | "b"', "1:10", "no end"),
    "a bracket too many": ('root ::= "a")', "1:13", "end of the rule"),
    "another escape": ('root ::= "\\q"', "1:12", "backslash"),
    "no digits": ('root ::= "\\xg0"', "1:11", "hexadecimal"),
    "a code above all": ('root ::= "\\U00110000"', "1:11", "10FFFF"),
    "a range backwards": ("root ::= [z-a]", "1:14", "before it begins"),
    "nothing to repeat": ("root ::= *", "1:10", "name of a rule"),
    "times backwards": ('root ::= "a"{3,2}', "1:13", "fewer"),
    "no number": ('root ::= "a"{x}', "1:14", "number"),
    "too many times": ('root ::= "a"{99999}', "1:14", "65536"),
    "no sign": ("root = a", "1:6", "::="),
    "a text that never ends": ('root ::= "a" root', "1:1", "ever ends"),
    "no UTF-8": ('root ::= "\udcff"', "1:11", "UTF-8"),
    "too many alternatives": ('root ::= "a"' + " |" * 70000, "1:140013", "too large"),
}
REFUSED_SCHEMAS = {
    "another keyword": ({"type": "string", "pattern": "a+"}, "pattern"),
    "unique items": ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    "an unknown type": ({"type": "text"}, "type: expected"),
    "a count that is none": ({"type": "string", "minLength": -1}, "minLength"),
    "lengths backwards": ({"type": "string", "minLength": 3, "maxLength": 2}, "below"),
    "no integer": ({"type": "integer", "minimum": 3, "maximum": 2}, "no integer"),
    "bounds of numbers": ({"type": "number", "maximum": 2}, "minimum 0"),
    "a reference to nothing": ({"$ref": "#/$defs/x"}, "$ref"),
    "a reference elsewhere": ({"$ref": "https://example.com/s.json"}, "$ref"),
    "a property that must not be": ({"required": ["a"], "additionalProperties": False}, "allows nothing"),
    "a circle": ({"$ref": "#"}, "ever ends"),
    "nothing allowed": (
        {"type": "array", "items": {"type": "array", "prefixItems": [False]}},
        "allows nothing",
    ),
    "two that may hold": ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf"),
    "very many": ({"oneOf": [{"type": "string", "const": str(i)} for i in range(8193)]}, "8192"),
    "two that must hold": ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, "together"),
    "a constant of another type": ({"type": "string", "const": 3}, "no value"),
    "a large number": ({"const": 2**60}, "2^53"),
    "an enum that is none": ({"enum": "a"}, "list"),
}


def check_refused(folder):
    for what, (text, where, says) in REFUSED.items():
        (folder / "refused").write_bytes(text.encode(errors="surrogateescape"))
        done = grammar(folder / "refused", "-o", folder / "none")
        said = done.stderr.decode(errors="replace")
        assert done.returncode == 1 and says in said and f"refused:{where}:" in said, f"{what}: {said}"
    for what, (schema, says) in REFUSED_SCHEMAS.items():
        (folder / "refused").write_text(json.dumps(schema))
        done = grammar(folder / "refused", "-o", folder / "none")
        said = done.stderr.decode()
        assert done.returncode == 1 and says in said and "bug at" not in said, f"{what}: {said}"
    assert not (folder / "none").exists(), "a refused grammar was written"


def check_command(folder):
    path = folder / "people.gbnf"
    path.write_text('# people\nroot ::= name (", " name)*\nname ::= [A-Z] [a-z]+\n')
    assert grammar(path, "--text", "Ada, Grace").returncode == 0
    for text, says in (("Ada, ", "too early"), ("Ada grace", "byte 3")):
        done = grammar(path, "--text", text)
        assert done.returncode == 1 and says in done.stderr.decode(), done
    assert json.loads(grammar(path, "--text", "Ada", "--json").stdout) == {
        "matches": True,
        "bytes": 3,
        "may_go_on": True,
    }
    assert grammar(path, "--gbnf").stdout == path.read_bytes()
    (folder / "s.json").write_text(json.dumps(SCHEMAS["tree"]))
    (folder / "s.gbnf").write_bytes(grammar(folder / "s.json", "--gbnf").stdout)
    text = '{"value": 1,"next":{"value":-20,"next":null}}'
    assert grammar(folder / "s.gbnf", "--text", text).returncode == 0


def check_tokens(folder):
    """A generated tokenizer with a generated grammar."""
    (folder / "words.gbnf").write_text('root ::= "hello" ("lo" "lle"?){1,3} "h"\n')
    for command, source, name in (
        ("grammar", folder / "words.gbnf", "words"),
        ("tokenizer", HERE / "small_tokenizer.json", "tok"),
    ):
        done = run(RLXC, command, source, "-o", folder, "--name", name)
        assert done.returncode == 0, done.stderr
    done = run(
        "cc",
        "-std=c99",
        *FLAGS,
        "-I",
        folder,
        HERE / "allows_main.c",
        folder / "tok.c",
        folder / "words.c",
        "-o",
        folder / "program",
        "-lm",
    )
    assert done.returncode == 0, done.stderr.decode()[:3000]
    texts = run(folder / "program").stdout.decode().splitlines()
    assert (
        len(texts) == 200 and len(set(texts)) == 14
    ), f"{len(texts)} texts, {len(set(texts))} different ones"
    wrong = [t for t in texts if not re.fullmatch("hello(lo(lle)?){1,3}h", t)]
    assert not wrong, wrong


CHECKS = [
    ("random grammars", check_walks),
    ("schemas", check_schemas),
    ("memory", check_memory),
    ("hostile grammars", check_hostile),
    ("refused grammars", check_refused),
    ("the command", check_command),
    ("a tokenizer with a grammar", check_tokens),
]


def main():
    self_test()
    for name, check in CHECKS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(pathlib.Path(folder))
            except Exception as e:  # every kind of failure is one failed test
                tap.result(False, name, f"{type(e).__name__}: {e}")
            else:
                tap.result(True, name)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
