# SPDX-License-Identifier: Apache-2.0
"""Writes docs/ONNX.md: what is imported, and how many cases of ONNX's test suite pass.

Names and opsets come from onnx_ops.def, the counts from a run of the suite. Types are found
by asking: the models of passing cases are given with every type that the standard allows, and those that
the compiler takes are listed.
"""
import pathlib
import tempfile

import numpy as np
import onnx
from onnx import helper

from conformance.table import opsets, read_table
from rlxc import tool
from rlxc.errors import RlxcError
from rlxc.model import CompiledModel

TYPES = {"float": "f32", "float16": "f16", "bfloat16": "bf16", "double": "f64", "bool": "bool",
         "string": "string",
         "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz", "float8e5m2": "f8e5m2",
         "float8e5m2fnuz": "f8e5m2fnuz", "float8e8m0": "f8e8m0", "float4e2m1": "f4e2m1",
         **{f"{u}int{n}": f"{u or 'i'}{n}" for u in ("", "u") for n in (2, 4, 8, 16, 32, 64)}}
GROUPS = {"floats": ("f16", "bf16", "f32", "f64"), "ints": ("i8", "i16", "i32", "i64"),
          "uints": ("u8", "u16", "u32", "u64"),
          "f8": ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"), "narrow": ("i4", "u4", "i2", "u2")}
CASES_PER_OPERATOR = 4      # that are tried for types


# --- operators ---------- ----------------------------------------------------------------------

def operators_in(graph):
    """(domain, name) of all nodes, those of sub-graphs too."""
    found = set()
    for node in graph.node:
        found.add(("" if node.domain == "ai.onnx" else node.domain, node.op_type))
        for a in node.attribute:
            for sub in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                found |= operators_in(sub)
    return found


# --- types ---------------------------------------------------------------------------------------

class Probe(CompiledModel):
    """Compiles, and builds nothing."""

    def _make(self, arguments, cc=None):
        with tempfile.TemporaryDirectory(prefix="rlxc-") as folder:
            return tool.run([*self._arguments(folder, "generic"), *arguments], 20)

    def accepts(self, inputs):
        if not self._variants:
            self._variant(self._name(inputs, {}), False)
        return True


def single_node(model):
    """The node of a model that tests one operator, with its schema; None for others."""
    if len(model.graph.node) != 1 or model.graph.initializer:
        return None
    node = model.graph.node[0]
    version = {o.domain or "": o.version for o in model.opset_import}.get(node.domain, 1)
    try:
        return node, onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None


def variables(names, formal):
    """{value: type variable} of a node's operands or results."""
    last = len(formal) - 1
    return {name: formal[min(i, last)].type_str for i, name in enumerate(names) if name and formal}


def as_type(array, name):
    if name == "string":
        return np.full(array.shape, "a", object)
    code = getattr(onnx.TensorProto, name.upper())
    with np.errstate(all="ignore"):
        array = np.zeros(array.shape) if array.dtype == object else array
        return np.asarray(array).astype(helper.tensor_dtype_to_np_dtype(code))


def retype(model, variable_of, variable, name):
    """A copy in which everything of a type variable has that type; None where that is not simple."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in [*copy.graph.input, *copy.graph.output]:
        if variable_of.get(value.name) != variable:
            continue
        if not value.type.HasField("tensor_type"):
            return None
        value.type.tensor_type.elem_type = getattr(onnx.TensorProto, name.upper())
    return copy


def try_types(case):
    """{variable: names of the types that the compiler takes} of one case."""
    model, _, data_sets = case.load()
    found = single_node(model)
    if found is None:
        return {}
    node, schema = found
    variable_of = {**variables(node.output, schema.outputs), **variables(node.input, schema.inputs)}
    result = {}
    for constraint in schema.type_constraints:
        if constraint.type_param_str not in variables(node.input, schema.inputs).values():
            continue
        names = [t[7:-1] for t in constraint.allowed_type_strs if t.startswith("tensor(")]
        names = [n for n in names if n in TYPES]
        variable = constraint.type_param_str
        result[variable] = {TYPES[n] for n in names
                            if takes(model, variable_of, variable, n, data_sets[0][0])}
    return result


def takes(model, variable_of, variable, name, inputs):
    copy = retype(model, variable_of, variable, name)
    if copy is None or len(inputs) != len(copy.graph.input):
        return False
    try:
        values = [as_type(x, name) if variable_of.get(v.name) == variable else x
                  for v, x in zip(copy.graph.input, inputs, strict=True)]
        return Probe(copy, None, {}, {}, "quick", [], 20).accepts(values)
    except (RlxcError, TypeError, ValueError, AttributeError):
        return False


def merge_types(into, found):
    for variable, accepted in found.items():
        into[variable] = into.get(variable, set()) | accepted


def type_list(accepted):
    words, rest = [], set(accepted)
    for group, members in GROUPS.items():
        if rest.issuperset(members):
            words.append(group)
            rest -= set(members)
    order = list(TYPES.values())
    return " ".join(words + sorted(rest, key=order.index))


def types_text(types):
    parts = []
    for variable, accepted in types.items():
        if accepted:
            parts.append(f"{variable}: {type_list(accepted)}")
    return "; ".join(parts)


# --- the document --------------------------------------------------------------------------------

HEAD = """# ONNX

`tools/onnx-conformance --suite quick --document docs/ONNX.md` generates this page from
compiler/import/onnx/onnx_ops.def and a run of ONNX's own test suite. Do not edit it.

## The standard's test suite

The cases are those of the Python package onnx %s, with the suite's own tolerances. DFT and STFT are the
exception: they are compared within 2^-21 of the largest magnitude, because the suite computes its expected
values with NumPy's FFT, whose rounding depends on the machine. Types and shapes must agree. Refused cases
end in a diagnostic. Results that the standard leaves to a random generator of the implementation's choice
cannot equal the stored ones, so they are checked for type, shape and possible values.

| suite | cases | pass | refused | random | wrong |
|---|---|---|---|---|---|
"""
WRITTEN = pathlib.Path(__file__).with_name("written.md")  # the section about the writer
TABLE_HEAD = """
Opset `7+` means from opset 7 to the newest. The types are those that the compiler accepts, among those that
the standard allows for a type variable (T, T1 ...); they were tried with the models of the cases. *floats*
means f16 bf16 f32 f64, *ints* i8 i16 i32 i64, *uints* u8 u16 u32 u64, *f8* the four kinds of 8-bit floats,
and *narrow* i4 u4 i2 u2. "Cases" counts the cases that use the operator and pass, and all that use it.

| operator | opset | types | cases |
|---|---|---|---|
"""


def suite_rows(summaries):
    return "".join(f"| {s['suite']} | {s['total']} | {s['passed']} | {len(s['unsupported'])} | "
                   f"{len(s['random'])} | {len(s['wrong']) + len(s['crashed'])} |\n" for s in summaries)


def failing_rows(summaries):
    rows = [f"| {c['name']} | {s['suite']} | {c['reason'].replace('|', '/')} |\n"
            for s in summaries for what in ("unsupported", "random", "wrong", "crashed") for c in s[what]]
    return "\n| case that does not pass | suite | reason |\n|---|---|---|\n" + "".join(rows) if rows else ""


def not_imported(table):
    """Operators of the newest opset without a row."""
    names = {(s.domain, s.name) for s in onnx.defs.get_all_schemas() if not s.deprecated}
    return [f"{domain}{'.' if domain else ''}{name}" for domain, name in sorted(names - set(table))]


def operator_rows(table, domain, counts, types):
    rows = []
    for key in sorted(k for k in table if k[0] == domain):
        passed, total = counts.get(key, (0, 0))
        cases = f"{passed} of {total}" if total else "-"
        accepted = types_text(types.get(key, {})) or "-"
        rows.append(f"| {key[1]} | {opsets(table[key])} | {accepted} | {cases} |\n")
    return "".join(rows)


def make(summaries, counts, types):
    table = read_table()
    text = HEAD % onnx.__version__ + suite_rows(summaries) + failing_rows(summaries)
    text += "\n" + WRITTEN.read_text(encoding="utf-8")
    text += "\n## Operators\n" + TABLE_HEAD + operator_rows(table, "", counts, types)
    for domain in sorted({d for d, _ in table if d}):
        text += f"\n### {domain}\n\n| operator | version | types | cases |\n|---|---|---|---|\n"
        text += operator_rows(table, domain, counts, types)
    missing = not_imported(table)
    if missing:
        text += "\nThese operators of the newest opset are not imported: " + ", ".join(missing) + ".\n"
    return text
