# SPDX-License-Identifier: Apache-2.0
"""Grammars for tests: random ones as trees, their GBNF, and a plain reference that says of any bytes whether
they are a text of the grammar or the beginning of one. Schemas, and a checker of values by them."""

import functools

ALPHABET = "abcé漢🙂"


def encodings(characters):
    return [c.encode() for c in characters]


@functools.cache
def begins():
    """The bytes that begin a character of more than one byte, but are not all of it."""
    found = set()
    for code in range(0x80, 0x110000, 64):
        if not 0xD800 <= code < 0xE000:
            data = chr(code).encode()
            found.update(data[:n] for n in range(1, len(data)))
    return found


def random_tree(rng, rules, depth):
    kind = rng.randrange(9 if depth < 3 else 4)
    if kind == 0:
        return ("text", "".join(rng.choices(ALPHABET, k=rng.randrange(0, 4))))
    if kind == 1:
        return (
            "class",
            "".join(sorted(set(rng.choices(ALPHABET, k=rng.randrange(1, 4))))),
            rng.random() < 0.2,
        )
    if kind == 2:
        return ("text", rng.choice(ALPHABET))
    if kind == 3:
        return ("call", rng.randrange(rules))
    if kind < 6:
        return ("then", [random_tree(rng, rules, depth + 1) for _ in range(rng.randrange(1, 4))])
    if kind < 8:
        return ("or", [random_tree(rng, rules, depth + 1) for _ in range(rng.randrange(1, 4))])
    low = rng.choice((0, 0, 1, 2))
    return ("times", random_tree(rng, rules, depth + 1), low, rng.choice((None, low, low + 1, low + 2)))


def quoted(text):
    return (
        '"' + "".join(c if c.isascii() else f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else c for c in text) + '"'
    )


def gbnf_of(tree):
    kind = tree[0]
    if kind == "text":
        return quoted(tree[1])
    if kind == "class":
        return f"[{'^' if tree[2] else ''}{tree[1]}]"
    if kind == "call":
        return f"r{tree[1]}" if tree[1] else "root"
    if kind == "then":
        return "(" + " ".join(map(gbnf_of, tree[1])) + ")"
    if kind == "or":
        return "(" + "\n | ".join(map(gbnf_of, tree[1])) + ")"
    times = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get(tree[2:])
    low, high = tree[2:]
    times = times or (f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}")
    return f"{gbnf_of(tree[1])}{times}"


def gbnf(trees):
    return "".join(f"{f'r{i}' if i else 'root'} ::= {gbnf_of(t)}  # rule {i}\n" for i, t in enumerate(trees))


class Reference:
    """Which parts of some bytes a rule matches, computed anew until nothing changes."""

    def __init__(self, trees):
        self.trees = trees
        self.ends_at = [False] * len(trees)
        while True:
            now = [self.is_finite(t) for t in trees]
            if now == self.ends_at:
                break
            self.ends_at = now

    def is_finite(self, tree):
        kind = tree[0]
        if kind == "call":
            return self.ends_at[tree[1]]
        if kind == "then":
            return all(map(self.is_finite, tree[1]))
        if kind == "or":
            return any(map(self.is_finite, tree[1]))
        return kind != "times" or tree[2] == 0 or self.is_finite(tree[1])

    def state(self, data):
        """(is a text, is the beginning of a text)."""
        self.data, self.known = data, {}
        while True:
            before, self.changed, self.seen = dict(self.known), False, set()
            ends, goes_on = self.rule(0, 0)
            if before == self.known and not self.changed:
                return len(data) in ends, goes_on or len(data) in ends

    def rule(self, rule, at):
        key = (rule, at)
        if key not in self.seen:
            self.seen.add(key)
            if not self.ends_at[rule]:
                found = (frozenset(), False)
            else:
                ends, goes_on = self.match(self.trees[rule], at)
                found = (frozenset(ends), goes_on)
            old = self.known.get(key, (frozenset(), False))
            found = (old[0] | found[0], old[1] or found[1])
            self.changed = self.changed or found != old
            self.known[key] = found
        return self.known.get(key, (frozenset(), False))

    def match(self, tree, at):
        """Where the tree can end if it begins at `at`, and whether the bytes end inside of it."""
        kind, rest = tree[0], self.data[at:]
        if not self.is_finite(tree):
            return set(), False
        if kind == "text":
            data = tree[1].encode()
            return ({at + len(data)} if rest.startswith(data) else set()), len(rest) < len(
                data
            ) and data.startswith(rest)
        if kind == "class":
            return self.match_class(tree, at, rest)
        if kind == "call":
            return self.rule(tree[1], at)
        if kind == "or":
            found = [self.match(t, at) for t in tree[1]]
            return set().union(*(f[0] for f in found)), any(f[1] for f in found)
        if kind == "then":
            return self.chain(tree[1], {at})
        return self.repeat(tree, at)

    def match_class(self, tree, at, rest):
        listed = encodings(tree[1])
        if not tree[2]:
            ends = {at + len(c) for c in listed if rest.startswith(c)}
            return ends, any(len(rest) < len(c) and c.startswith(rest) for c in listed)
        for n in range(1, 5):
            try:
                c = rest[:n].decode()
            except UnicodeDecodeError:
                continue
            if len(c) == 1 and rest[:n] not in listed:
                return {at + len(c.encode())}, False
            break
        return set(), rest == b"" or rest in begins()

    def chain(self, trees, at):
        goes_on = False
        for tree in trees:
            found = [self.match(tree, a) for a in at]
            at = set().union(*(f[0] for f in found))
            goes_on = goes_on or any(f[1] for f in found)
        return at, goes_on

    def repeat(self, tree, at):
        _, what, low, high = tree
        ends, goes_on = self.chain([what] * low, {at})
        reached, n = set(ends), low
        if not self.is_finite(what):
            return ends, goes_on
        while ends and (high is None or n < high):
            ends, more = self.chain([what], ends)
            goes_on, n = goes_on or more, n + 1
            if high is None:
                ends -= reached
            reached |= ends
        return reached, goes_on


# --- schemas -------------------------------------------------------------------------------------

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("number", "integer"):
        whole = isinstance(value, int) or (isinstance(value, float) and value == int(value))
        return isinstance(value, (int, float)) and not isinstance(value, bool) and (name == "number" or whole)
    return isinstance(value, TYPES[name])


def same(a, b):
    return type(a) is type(b) and a == b


def is_valid(value, schema, root):
    """Does a value keep to the schema? Only what tests use of JSON schemas."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        place = root
        for name in schema["$ref"].split("/")[1:]:
            place = place[name]
        return is_valid(value, place, root)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    ok = not types or any(is_type(value, t) for t in types)
    ok = ok and ("const" not in schema or same(value, schema["const"]))
    ok = ok and ("enum" not in schema or any(same(value, e) for e in schema["enum"]))
    ok = ok and ("anyOf" not in schema or any(is_valid(value, s, root) for s in schema["anyOf"]))
    ok = ok and ("oneOf" not in schema or sum(is_valid(value, s, root) for s in schema["oneOf"]) == 1)
    ok = ok and all(is_valid(value, s, root) for s in schema.get("allOf", []))
    if isinstance(value, str):
        ok = ok and schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1e9)
    if is_type(value, "number"):
        ok = ok and schema.get("minimum", value) <= value <= schema.get("maximum", value)
        low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        ok = ok and (low is None or value > low) and (high is None or value < high)
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        ok = ok and schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1e9)
        ok = ok and all(is_valid(v, s, root) for v, s in zip(value, first))
        ok = ok and all(is_valid(v, schema.get("items", True), root) for v in value[len(first) :])
    if isinstance(value, dict):
        named = schema.get("properties", {})
        ok = ok and all(name in value for name in schema.get("required", []))
        ok = ok and all(
            is_valid(v, named.get(k, schema.get("additionalProperties", True)), root)
            for k, v in value.items()
        )
    return ok
