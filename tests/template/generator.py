# SPDX-License-Identifier: Apache-2.0
"""Random templates and messages: every construct in random places, most of them of types that fit."""

WORDS = [
    "",
    "a",
    "Hi there",
    " x ",
    "é",
    "ß Ünï",
    "naïve\n\nline",
    "{{",
    "it's",
    '"q"',
    "<b>",
    "\t",
    "12",
    "-3.5",
    "日本",
    "user",
    "a,b,c",
    "Tool: {}",
    "\\n",
    "\r\nz",
    "UPPER",
    "abcabc",
]
ROLES = ["system", "user", "assistant", "tool"]
NAMES = ["x", "y", "z"]


class Maker:
    def __init__(self, rng):
        self.rng, self.depth, self.loops = rng, 0, 0

    def pick(self, *ways):
        return self.rng.choice(ways)

    def literal(self, text):
        return (
            "'"
            + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
            + "'"
        )

    # --- expressions by type; they stop growing with the depth ---

    def deep(self, way, *rest):
        self.depth += 1
        made = way(*rest)
        self.depth -= 1
        return made

    def leaf(self):
        return self.depth > 4 or self.rng.random() < 0.25

    def text(self):
        return self.deep(self._text)

    def _text(self):
        if self.leaf():
            return self.pick(
                self.literal(self.rng.choice(WORDS)),
                "messages[0].role",
                "messages[-1]['content']",
                "bos_token",
                "s",
            )
        t, i = self.text, self.number
        return self.pick(
            lambda: f"({t()} + {t()})",
            lambda: f"({t()} ~ {self.any()} ~ {i()})",
            lambda: f"({t()}|{self.pick('trim', 'upper', 'lower', 'title', 'string')})",
            lambda: f"{t()}.{self.pick('strip', 'rstrip', 'upper', 'title', 'capitalize')}()",
            lambda: f"{t()}.{self.pick('strip', 'rstrip', 'lstrip')}({t()})",
            lambda: f"({t()}|replace({t()}, {t()}))",
            lambda: f"{t()}.replace({t()}, {t()}, {self.small()})",
            lambda: f"{t()}[{self.small()}:{self.small()}]",
            lambda: f"({t()})[{self.pick(-2, -1, 2)}::{self.pick(-1, 2)}]",
            lambda: f"({self.list()}|join({t()}))",
            lambda: f"({self.any()}|tojson)",
            lambda: f"({t()}|indent({self.small()}, {self.truth()}))",
            lambda: f"{self.any()}|tojson(indent={self.pick(0, 2, 4)})",
            lambda: f"({t()} if {self.truth()} else {t()})",
            lambda: f"({t()}|default({t()}, {self.truth()}))",
            lambda: f"{t()} * {self.pick(0, 1, 3, -1)}",
            lambda: f"({t()}|reverse)",
            lambda: f"{t()}.split({self.pick('', chr(39) + ',' + chr(39))})|last|string",
            lambda: f"{t()}.removeprefix({t()})",
            lambda: f"({t()}|trim({t()}))",
            lambda: f"'%s-%s' % ({t()}, {self.any()})",
            lambda: f"m({t()})",
        )()

    def small(self):
        return self.rng.choice([-3, -1, 0, 1, 2, 5])

    def number(self):
        return self.deep(self._number)

    def _number(self):
        if self.leaf():
            return str(self.pick(0, 1, 2, 7, -3, 1.5, 1e16, 0.1, 1_000, "n", "0x1f"))
        i = self.number
        return self.pick(
            lambda: f"({i()} {self.pick('+', '-', '*', '/', '//', '%')} {i()})",
            lambda: f"-{i()}",
            lambda: f"({i()} ** {self.pick(0, 1, 2)})",
            lambda: f"{self.list()}|length",
            lambda: f"{self.text()}|length",
            lambda: f"{i()}|abs",
            lambda: f"{i()}|int",
            lambda: f"{i()}|float",
            lambda: f"{self.text()}|int({self.small()})",
            lambda: f"{i()}|round({self.pick(0, 1, 2)})",
            lambda: f"{self.text()}.find({self.text()})",
            lambda: f"{self.text()}.count({self.text()})",
            lambda: f"[{i()}, {i()}]|{self.pick('sum', 'max', 'min', 'first', 'last')}",
            lambda: f"({i()} if {self.truth()} else {i()})",
        )()

    def truth(self):
        return self.deep(self._truth)

    def _truth(self):
        if self.leaf():
            return self.pick("true", "false", "add_generation_prompt", "tools", "undefined_name", "none")
        b, a = self.truth, self.any
        return self.pick(
            lambda: f"not {b()}",
            lambda: f"({b()} {self.pick('and', 'or')} {b()})",
            lambda: f"({a()} {self.pick('==', '!=')} {a()})",
            lambda: f"({self.number()} {self.pick('<', '<=', '>', '>=')} {self.number()})",
            lambda: f"({self.text()} {self.pick('in', 'not in', '<', '==')} {self.text()})",
            lambda: f"({self.text()} {self.pick('in', 'not in')} {self.pick(self.dict(), self.list())})",
            lambda: f"({a()} is {self.pick('', 'not ')}{self.test()})",
            lambda: f"{self.text()}.{self.pick('startswith', 'endswith')}({self.text()})",
            lambda: f"({self.number()} < {self.number()} <= {self.number()})",
            lambda: f"{self.text()}.{self.pick('isalpha', 'isspace', 'isupper', 'islower', 'isdigit')}()",
        )()

    def test(self):
        return self.pick(
            "defined",
            "undefined",
            "none",
            "string",
            "mapping",
            "iterable",
            "sequence",
            "number",
            "integer",
            "float",
            "boolean",
            "true",
            "false",
            "callable",
            f"eq({self.any()})",
            f"in {self.list()}",
            f"sameas {self.pick('none', 'true')}",
            "lower",
            "upper",
        )

    def list(self):
        return self.deep(self._list)

    def _list(self):
        if self.leaf():
            return self.pick(
                "[]",
                "messages",
                "tools",
                "items",
                "range(3)",
                "[1, 'a', none, 2.5, [true]]",
                "('a', 'b')",
            )
        o = self.list
        return self.pick(
            lambda: "[" + ", ".join(self.any() for _ in range(self.rng.randrange(4))) + "]",
            lambda: f"{o()}[{self.small()}:]",
            lambda: f"({o()})[::-1]",
            lambda: f"{o()}|list",
            lambda: f"({o()}|list + {o()}|list)",
            lambda: f"{self.text()}.split({self.literal(self.pick(',', ' ', 'a'))})",
            lambda: f"{self.text()}.splitlines()",
            lambda: f"messages|map(attribute='{self.pick('role', 'content', 'none')}')|list",
            lambda: f"{o()}|map('{self.pick('string', 'upper', 'length', 'trim')}')|list",
            lambda: f"messages|selectattr('role', 'equalto', {self.literal(self.rng.choice(ROLES))})|list",
            lambda: f"messages|rejectattr('tool_calls', '{self.pick('defined', 'none')}')|list",
            lambda: f"{o()}|{self.pick('select', 'reject')}('{self.pick('string', 'number')}')|list",
            lambda: f"{self.dict()}|items|list",
            lambda: f"{self.dict()}.{self.pick('keys', 'values', 'items')}()|list",
            lambda: f"{self.dict()}|dictsort",
            lambda: f"[{self.text()}, {self.text()}]|{self.pick('sort', 'unique|list', 'reverse|list')}",
            lambda: f"[{self.number()}, {self.number()}]|sort(reverse={self.pick('true', 1, 'none')})",
            lambda: f"{o()}|batch(2)|list",
            lambda: f"{self.text()}.partition({self.literal(self.pick(',', 'a', ' '))})",
            lambda: f"{self.text()}.rsplit({self.pick('none', self.literal(','))}, {self.pick(0, 1, 2)})",
        )()

    def dict(self):
        if self.leaf():
            return self.pick("{}", "messages[0]", "{'a': 1, 'b': [1, 2]}", "settings")
        return (
            "{"
            + ", ".join(
                f"{self.literal(self.rng.choice(WORDS))}: {self.any()}"
                for _ in range(self.rng.randrange(3))
            )
            + "}"
        )

    def any(self):
        return self.deep(
            lambda: self.rng.choice(
                [self.text, self.number, self.truth, self.list, self.dict, self.text]
            )()
        )

    # --- statements ---

    def end(self):
        return self.pick("%}", "-%}", "%}", "+%}")

    def tag(self, inside):
        return self.pick("{%", "{%-", "{%", "{%+") + " " + inside + " " + self.end()

    def data(self):
        return self.rng.choice(
            ["", " ", "\n", "text", "\n  ", "a\n b \n", "  \t", "é ", "}} %}", "x\n\n"]
        )

    def print(self):
        return self.pick("{{", "{{-") + " " + self.any() + " " + self.pick("}}", "-}}")

    def body(self):
        return self.deep(lambda: "".join(self.part() for _ in range(self.rng.randrange(1, 4))))

    def part(self):
        if self.depth > 4:
            return self.data() + self.print()
        return self.rng.choice(
            [
                self.data,
                self.print,
                self.print,
                self.branch,
                self.loop,
                self.loop,
                self.set,
                self.set,
                self.block,
                self.comment,
                self.space,
                self.macro,
            ]
        )()

    def branch(self):
        made = self.tag("if " + self.truth()) + self.body()
        if self.rng.random() < 0.3:
            made += self.tag("elif " + self.truth()) + self.body()
        if self.rng.random() < 0.5:
            made += self.tag("else") + self.body()
        return made + self.tag("endif")

    def loop(self):
        name = self.rng.choice(NAMES)
        what = self.pick("messages", self.list(), self.text(), "range(4)", self.dict())
        head = f"for {name} in {what}"
        if self.rng.random() < 0.2:
            head = f"for {name}, w in {self.dict()}.items()"
        if self.rng.random() < 0.3:
            head += f" if {name} is {self.test()}"
        self.loops += 1
        inner = self.body()
        if self.rng.random() < 0.6:
            inner += (
                "{{ loop."
                + self.pick(
                    "index",
                    "index0",
                    "first",
                    "last",
                    "length",
                    "revindex",
                    "depth",
                    "previtem",
                    "nextitem",
                    "cycle('o', 'e')",
                    "changed(loop.first)",
                )
                + " }}"
            )
        if self.rng.random() < 0.15:
            inner += (
                self.tag(f"if {self.truth()}")
                + self.tag(self.pick("break", "continue"))
                + self.tag("endif")
            )
        self.loops -= 1
        tail = self.tag("else") + self.body() if self.rng.random() < 0.2 else ""
        return self.tag(head) + inner + tail + self.tag("endfor")

    def set(self):
        name = self.rng.choice(NAMES + ["u"])
        value = self.any()
        return self.pick(
            lambda: self.tag(f"set {name} = {value}") + "{{ " + name + "|string }}",
            lambda: self.tag(f"set ns.{self.pick('a', 'b')} = {self.any()}") + "{{ ns.a }}",
            lambda: self.tag("set x, y = 1, 2") + "{{ x }}{{ y }}",
        )()

    def block(self):
        return self.pick(
            lambda: self.tag("set block" + self.pick("", " | trim", " | upper | trim"))
            + self.body()
            + self.tag("endset")
            + "{{ block }}",
            lambda: self.tag("filter " + self.pick("upper", "trim", "replace('a', 'b')"))
            + self.body()
            + self.tag("endfilter"),
            lambda: self.tag("generation") + self.body() + self.tag("endgeneration"),
            lambda: self.tag(f"with x = {self.any()}, y = {self.any()}")
            + self.body()
            + self.tag("endwith"),
            lambda: self.tag("raw") + "{{ x }} {% if %}" + self.tag("endraw"),
        )()

    def comment(self):
        return self.pick("{#", "{#-") + " no {{ x }} " + self.pick("#}", "-#}")

    def space(self):
        return "{{ ns.b|default('-') }}"

    def macro(self):
        call = f"{{{{ k({self.text()}{self.pick('', ', 2', ', b=' + self.text())}) }}}}"
        body = "{{ a|upper }}{{ b }}{{ bos_token }}" + self.data()
        return self.tag("macro k(a, b=" + self.number() + ")") + body + self.tag("endmacro") + call

    def template(self):
        head = "{% macro m(a) %}[{{ a }}]{% endmacro %}{% set ns = namespace(a=1, b='q') %}"
        return head + "".join(self.part() for _ in range(self.rng.randrange(1, 7)))


def messages(rng):
    made = []
    for _ in range(rng.randrange(1, 5)):
        message = {"role": rng.choice(ROLES), "content": rng.choice(WORDS)}
        if rng.random() < 0.2:
            message["tool_calls"] = [
                {
                    "id": "c1",
                    "function": {"name": "f", "arguments": {"a": rng.choice([1, 2.5, "é", None, True])}},
                }
            ]
        made.append(message)
    return made


def variables(rng):
    made = {
        "messages": messages(rng),
        "add_generation_prompt": rng.random() < 0.5,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "tools": rng.choice(
            [None, [], [{"type": "function", "function": {"name": "get", "parameters": {"x": [1, 2]}}}]]
        ),
        "s": rng.choice(WORDS),
        "n": rng.choice([0, 3, -2, 1.25]),
        "items": [1, "b", None],
        "settings": {"t": 0.5, "deep": {"a": [True, None]}},
    }
    return made
