#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chat templates: those in the style of known families say what jinja2 says, wrong and hostile ones end in a
message with a place, and templates are found where files have them. Usage: check_template.py RLXC.
"""

import json
import pathlib
import random
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / "tests/common"),
    str(ROOT / "tests/llm"),
    str(pathlib.Path(__file__).resolve().parent),
]

import generator  # noqa: E402
import tap  # noqa: E402

try:
    import jinja_reference as reference
    import numpy  # noqa: F401 (what writes a GGUF file needs it)
except ImportError:
    import in_venv

    in_venv.enter()
    reference = None

RLXC = pathlib.Path(sys.argv[1]).resolve()
FOLDER = tempfile.TemporaryDirectory()
CONFIG = pathlib.Path(FOLDER.name) / "tokenizer_config.json"
CALL = {
    "id": "abcdefghi",
    "function": {"name": "get", "arguments": {"city": "Köln", "n": 2.0, "deep": [None, True]}},
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get",
            "description": 'Gets "it" <now>',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "n": {"type": ["integer", "number"]},
                    "l": {"type": "array", "items": {"type": "boolean"}},
                    "o": {"type": "object"},
                },
            },
        },
    }
]
TALKS = [
    [("user", "Hi")],
    [("system", " Be brief.\n"), ("user", " 2 + 2?  "), ("assistant", "4"), ("user", "Sure? 日本")],
    [
        ("user", "a"),
        ("assistant", "<think>\nhm\n</think>\n\nyes"),
        ("user", "b"),
        ("assistant", "<think>x</think>c"),
    ],
    [
        ("user", "weather"),
        ("call", ""),
        ("tool", '{"t": 3}'),
        ("tool", "more"),
        ("assistant", "3"),
        ("user", "ok"),
    ],
    [("user", "a"), ("user", "b")],
    [("assistant", "I begin"), ("tool", "odd")],
    [("system", "only")],
]


# In the style of the families of models that have them, each with the constructs that its family uses; they
# were written for this test.
FAMILIES = {
    p.stem: p.read_text(encoding="utf-8")
    for p in sorted((pathlib.Path(__file__).parent / "families").glob("*.jinja"))
}


def talk(lines):
    return [
        (
            {"role": "assistant", "content": "", "tool_calls": [CALL]}
            if role == "call"
            else {"role": role, "content": text}
        )
        for role, text in lines
    ]


def start(template, variables, *words, **more):
    CONFIG.write_text(json.dumps({"chat_template": template} | more), encoding="utf-8")
    return subprocess.run(
        [RLXC, "template", CONFIG, *words],
        input=json.dumps(variables).encode(),
        capture_output=True,
        timeout=120,
    )


def same(template, variables):
    done = start(template, variables)
    expected = reference.render(template, variables)
    got = done.stdout.decode() if done.returncode == 0 else None
    assert got == expected, f"{variables}\nexpected {expected!r}\nfound    {got!r} {done.stderr.decode()}"
    return got is not None


def test_families():
    if reference is None:
        raise tap.Skipped("jinja2 is not installed (tools/setup)")
    for name, template in FAMILIES.items():
        said = 0
        for lines in TALKS:
            for tools in (None, TOOLS):
                for prompt in (False, True):
                    said += same(
                        template,
                        {
                            "messages": talk(lines),
                            "tools": tools,
                            "add_generation_prompt": prompt,
                            "bos_token": "<s>",
                            "eos_token": "</s>",
                        },
                    )
            said += same(
                template,
                {
                    "messages": talk(lines),
                    "documents": [{"text": "A"}, {"text": "B"}],
                    "enable_thinking": False,
                    "bos_token": "",
                    "eos_token": "",
                },
            )
        assert said > 3, name


def test_families_random():
    if reference is None:
        raise tap.Skipped("jinja2 is not installed (tools/setup)")
    rng = random.Random(7)
    for template in FAMILIES.values():
        for _ in range(12):
            variables = generator.variables(rng)
            same(template, variables)


WRONG = [
    ("{{ a", "1:1", "without its end"),
    ("x\n  {% if a %}b", "2:13", "endif"),
    ("{{ 'a }}", "1:4", "without its end"),
    ("{% for x in %}{% endfor %}", "1:13", "expression"),
    ("{{ a.b.c }}", "1:4", "'a' is undefined"),
    ("{{ [1][0].x.y }}", "1:4", "no attribute 'x'"),
    ("{{ 1 + 'a' }}", "1:4", "'+' between 'int' and 'str'"),
    ("{{ x | nosuch }}", "1:8", "no filter 'nosuch'"),
    ("{{ x is nosuch }}", "1:9", "no test 'nosuch'"),
    ("{% include 'x' %}", "1:4", "expected one of"),
    ("{{ 1 // 0 }}", "1:4", "division by zero"),
    ("{{ messages.append(1) }}", "1:4", "no attribute 'append'"),
    ("{{ ''.__class__ }}", "1:4", "not safe"),
    ("{% break %}", "1:10", "within loops"),
    ("{{ raise_exception('No ' ~ 'way') }}", "1:4", "No way"),
    ("{{ 9223372036854775807 + 1 }}", "1:4", "64 bits"),
    ("{# never", "1:1", "comment"),
    ("{% raw %}x", "1:1", "raw"),
    ("{{ (1, }}", "1:8", "without its"),
    ("{{ a b }}", "1:6", "end }}"),
    ("{{ '\\xZZ' }}", "1:5", "escape"),
    ("{% set messages.x = 1 %}", "1:8", "namespace"),
    ("{{ range(1000000) }}", "1:4", "100000"),
    ("{% macro a(b, c=1, d) %}{% endmacro %}", "1:21", "default"),
]


def test_wrong():
    for template, place, text in WRONG:
        done = start(template, {"messages": []})
        said = done.stderr.decode()
        assert done.returncode == 1 and not done.stdout, (template, said)
        assert f":{place}: error[E0120]" in said and text in said, (template, said)


HOSTILE = [
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "{% set ns = namespace(s='xxx') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{{ 'x' * 9000000000 }}",
    "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}",
    "{{ [0] * 900000000 }}",
    "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "{% set ns = namespace(l=[]) %}{% for a in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
    "{% set ns = namespace(l=[]) %}{% for a in range(99999) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
    "{{ ns.l == [ns.l] }}",
    "{% set ns = namespace(l=[1]) %}{% for a in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
    "{{ ns.l | tojson }}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "[" * 100000,
    "{{ " + "not " * 100000 + "1 }}",
    "{{ " + "1 + " * 100000 + "1 }}",
    "{{ " + "-" * 100000 + "1 }}",
    "{% if 1 %}" * 100000,
    "{{ a" + ".b" * 100000 + " }}",
    "{{ x" + " | trim" * 100000 + " }}",
    "{% filter upper" + "|upper" * 600000 + " %}x{% endfilter %}",
    "{% set x" + "|upper" * 600000 + " %}x{% endset %}",
    "{{ " + "1 if 1 else " * 100000 + "1 }}",
    "{% for a in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
    "{{ ('a' * 4000000).rsplit('a' * 2000000 + 'b') }}",
    "{{ (range(100000) | list + range(100000) | list) | unique | list }}",
    "{{ ('x' * 100000000) | list }}",
    "{% set d = namespace(d={}) %}{% for i in range(100000) %}{% set d.d = dict(d.d, a=i) %}"
    "{% set d.d = {i: d.d} %}{% endfor %}{{ d.d }}",
    "{{ ('{{ ' * 100000) | indent(1000, true) }}" * 50,
    "{% set x = 'x' * 1000000 %}" + "{{ x ~ x ~ x }}" * 2000,
    "{{ ([[]] * 100000) | sort }}{{ (([1] * 90000) | tojson(indent=1000)) | length }}",
]


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def test_hostile():
    for template in HOSTILE:
        CONFIG.write_text(json.dumps({"chat_template": template}))
        done = subprocess.run(
            [RLXC, "template", CONFIG], input=b"[]", capture_output=True, timeout=60, preexec_fn=limit
        )
        assert done.returncode in (0, 1), (template[:200], done.returncode, done.stderr[-300:])
        assert done.returncode == 0 or b"error[E0120]" in done.stderr, (
            template[:200],
            done.stderr[-300:],
        )


def test_places():
    """Where a template comes from: a list of several, a file beside it, GGUF, --template."""
    import gguf_file

    several = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D{{ bos_token }}"}]
    assert start(several, [], bos_token={"content": "<b>"}).stdout == b"D<b>"
    model = pathlib.Path(FOLDER.name) / "m.gguf"
    entries = {"general.architecture": "llama", "tokenizer.chat_template": "{{ messages[0].content }}!"}
    model.write_bytes(gguf_file.make(entries, []))
    say = lambda *words: subprocess.run(
        [RLXC, "template", *words],
        input=b'[{"role": "user", "content": "a\\u00e9"}]',
        capture_output=True,
    )
    assert say(model).stdout.decode() == "aé!"
    assert say(model, "--template", "plain").stdout.decode() == "User: aé\nAssistant:"
    own = pathlib.Path(FOLDER.name) / "own.jinja"
    own.write_text("{% for m in messages %}\n  {% set x = m.role %}\n{{ x }}\n{% endfor %}\n")
    assert say(model, "--template", own).stdout.decode() == "user\n"
    assert json.loads(say(model, "--template", own, "--json").stdout) == {"text": "user\n"}
    assert b"expected a file or one of chatml" in say(model, "--template", "nosuch").stderr
    model.write_bytes(gguf_file.make({"general.architecture": "llama"}, []))
    done = say(model)
    assert done.returncode == 1 and b"--template" in done.stderr, done.stderr
    for text in (b"{", b"3", b"[1"):
        done = subprocess.run(
            [RLXC, "template", model, "--template", "plain"], input=text, capture_output=True
        )
        assert done.returncode == 1 and b"standard input" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
