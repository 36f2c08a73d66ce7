#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the Python package rlxc: calls, variants, errors, the ONNX backend, and the pool that judges cases.

  check_package.py RLXC

Starts again in the Python that has the wheels (RLXC_VENV); without them it exits with 77.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

sys.path.append(str(ROOT / "tests" / "common"))
import in_venv  # noqa: E402

try:
    import onnx  # noqa: F401
except ImportError:
    in_venv.enter_or_skip("the Python package onnx")
os.environ["RLXC"] = os.path.abspath(sys.argv.pop(1))
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "tools")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from conformance import pool  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

import rlxc  # noqa: E402
import rlxc.backend  # noqa: E402
from rlxc import native, tool  # noqa: E402


def tensor(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def graph(nodes, inputs, outputs, weights=()):
    g = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def sub_model(dims):
    return graph([helper.make_node("Sub", ["a", "b"], ["y"])], [tensor("a", dims), tensor("b", dims)],
                 [tensor("y", dims)])


class Calls(unittest.TestCase):
    def setUp(self):
        self.a, self.b = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 2, np.float32)

    def test_by_position_and_by_name(self):
        model = rlxc.compile(sub_model([2, 3]))
        for got in (model(self.a, self.b), model(b=self.b, a=self.a), model(self.a, b=self.b)):
            self.assertEqual(len(got), 1)
            np.testing.assert_array_equal(got[0], self.a - self.b)

    def test_results_are_copies(self):
        model = rlxc.compile(sub_model([2, 3]))
        first, = model(self.a, self.b)
        model(self.b, self.b)
        np.testing.assert_array_equal(first, self.a - self.b)

    def test_memory_order_does_not_matter(self):
        got, = rlxc.compile(sub_model([2, 3]))(np.asfortranarray(self.a), self.b[:, ::-1])
        np.testing.assert_array_equal(got, self.a - self.b)

    def test_sources(self):
        data = sub_model([2, 3]).SerializeToString()
        got, = rlxc.compile(data)(self.a, self.b)
        np.testing.assert_array_equal(got, self.a - self.b)
        self.assertRaises(FileNotFoundError, rlxc.compile, "no-such-file.onnx")

    def test_c_compilers(self):
        for cc in ("quick", "fast", "cc -O1"):
            got, = rlxc.compile(sub_model([2, 3]), cc=cc)(self.a, self.b)
            np.testing.assert_array_equal(got, self.a - self.b)
        self.assertRaises(rlxc.CCompilerError, rlxc.compile, sub_model([2, 3]), cc="no-such-compiler")

    def test_one_variant_per_shape(self):
        model = rlxc.compile(sub_model(["n", 3]))
        for rows in (2, 5, 2):
            a, b = np.ones((rows, 3), np.float32), np.full((rows, 3), rows, np.float32)
            np.testing.assert_array_equal(model(a, b)[0], a - b)
        self.assertEqual(len(model._variants), 2)

    def test_dims_are_given(self):
        model = rlxc.compile(sub_model(["n", 3]), dims={"n": 2})
        self.assertEqual(len(model._variants), 1)
        np.testing.assert_array_equal(model(self.a, self.b)[0], self.a - self.b)

    def test_values_that_shape_the_result(self):
        nodes = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Add", ["r", "k"], ["y"])]
        m = graph(nodes,
                  [tensor("x", [6]), tensor("s", ["n"], TensorProto.INT64), tensor("k", [1])],
                  [tensor("y", None)])
        model, x = rlxc.compile(m), np.arange(6, dtype=np.float32)
        for shape in ((2, 3), (3, 2), (6,), (2, 3), (1, 6)):
            for k in (1, 2):    # decides nothing: no variant of its own
                got, = model(x, np.array(shape, np.int64), np.array([k], np.float32))
                np.testing.assert_array_equal(got, x.reshape(shape) + k)
        self.assertEqual(len(model._variants), 4)
        np.testing.assert_array_equal(rlxc.compile(m, values={"s": [3, -1]}, dims={"n": 2})(
            x, np.array([3, -1]), np.ones(1, np.float32))[0], x.reshape(3, 2) + 1)

    def test_sizes_that_the_run_decides(self):
        m = graph([helper.make_node("NonZero", ["x"], ["y"])], [tensor("x", [2, 3])],
                  [tensor("y", [2, "n"], TensorProto.INT64)])
        model = rlxc.compile(m)
        for x in (np.zeros((2, 3)), np.eye(2, 3), np.ones((2, 3))):
            got, = model(x.astype(np.float32))
            np.testing.assert_array_equal(got, np.array(np.nonzero(x)))
        self.assertEqual(len(model._variants), 1)

    def test_weights(self):
        w = np.random.default_rng(1).standard_normal((64, 300)).astype(np.float32)
        m = graph([helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", [2, 64])],
                  [tensor("y", [2, 300])], [onnx.numpy_helper.from_array(w, "w")])
        x = np.ones((2, 64), np.float32)
        np.testing.assert_allclose(rlxc.compile(m)(x)[0], x @ w, rtol=1e-4, atol=1e-4)

    def test_other_formats(self):
        path = ROOT / "models" / "mlp.json"
        model = rlxc.compile(path)
        t = model._variants[0].inputs[0]
        self.assertEqual(model(np.zeros(t.shape, t.dtype))[0].dtype, np.float32)


class Containers(unittest.TestCase):
    def test_sequence(self):
        kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
        m = graph([helper.make_node("SequenceInsert", ["s", "x"], ["y"])],
                  [helper.make_value_info("s", kind), tensor("x", [2])], [helper.make_value_info("y", kind)])
        model = rlxc.compile(m)
        for parts in ([np.ones(3, np.float32)], [np.zeros((2, 2), np.float32), np.ones(1, np.float32)]):
            got, = model(parts, np.array([7, 8], np.float32))
            self.assertEqual([g.tolist() for g in got], [p.tolist() for p in parts] + [[7, 8]])

    def test_strings(self):
        m = graph([helper.make_node("StringConcat", ["a", "b"], ["y"])],
                  [tensor("a", [2], TensorProto.STRING), tensor("b", [2], TensorProto.STRING)],
                  [tensor("y", [2], TensorProto.STRING)])
        model = rlxc.compile(m)
        for long in ("", "x" * 100):
            got, = model(np.array(["grün", long], object), np.array(["!", "?"]))
            self.assertEqual(got.tolist(), ["grün!", long + "?"])

    def test_maps(self):
        for keys in ([3, -1], ["yes", "größer"]):
            kind = "classlabels_int64s" if keys[0] == 3 else "classlabels_strings"
            nodes = [helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", **{kind: keys}),
                     helper.make_node("Identity", ["z"], ["y"])]
            m = graph(nodes, [tensor("x", ["n", 2])], [helper.make_empty_tensor_value_info("y")])
            m.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
            x = np.array([[1, 2.5], [0.5, 4], [3, 7]], np.float32)
            got, = rlxc.compile(m)(x)
            self.assertEqual(got, [dict(zip(keys, row, strict=True)) for row in x.tolist()])
            self.assertIs(type(got[0][keys[0]]), float)

    def test_optional(self):
        kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
        m = graph([helper.make_node("OptionalHasElement", ["o"], ["y"])], [helper.make_value_info("o", kind)],
                  [tensor("y", [], TensorProto.BOOL)])
        model = rlxc.compile(m)
        self.assertEqual(model(np.zeros(2, np.float32))[0], True)
        self.assertEqual(model(None)[0], False)


class Errors(unittest.TestCase):
    def test_arrays(self):
        model = rlxc.compile(sub_model([2, 3]))
        a = np.ones((2, 3), np.float32)
        self.assertRaisesRegex(rlxc.RunError, "input 'b': declared as", model, a, np.ones((2, 4), np.float32))
        self.assertRaisesRegex(rlxc.RunError, "got float64", model, a, np.ones((2, 3)))
        with self.assertRaisesRegex(rlxc.RunError, "no value for input 'b'") as missing:
            model(a)
        self.assertEqual(missing.exception.status, "ERR_INPUT")
        self.assertRaises(TypeError, model, a, a, a)
        self.assertRaises(TypeError, model, a, c=a)
        self.assertRaises(TypeError, model, a, a=a)

    def test_models(self):
        m = sub_model([2, 3])
        m.graph.node[0].op_type = "NoSuchOperator"
        with self.assertRaisesRegex(rlxc.CompileError, "NoSuchOperator"):
            rlxc.compile(m)(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
        self.assertRaises(rlxc.CompileError, rlxc.compile, b"no model")

    def test_operators_of_open_models(self):
        m = sub_model(["n", 3])
        m.graph.node[0].op_type = "NoSuchOperator"
        with self.assertRaisesRegex(rlxc.CompileError, r"model.onnx: error\[E0206\]: .*NoSuchOperator"):
            rlxc.compile(m)

    def test_messages_are_text(self):
        m = sub_model([2, 3])
        m.graph.node[0].op_type = "NoSuchOperator"
        with self.assertRaises(rlxc.CompileError) as raised:
            rlxc.compile(m)(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
        self.assertRegex(str(raised.exception), r"model.onnx: error\[E0206\]: node 'y': operator")
        self.assertNotIn("{", str(raised.exception))

    def test_repr(self):
        model = rlxc.compile(sub_model(["n", 3]))
        self.assertEqual(repr(model), "<rlxc.CompiledModel 'model.onnx', inputs a[n, 3], b[n, 3]; "
                                      "compiled for 0 sets of sizes>")

    def test_the_program(self):
        before = os.environ["RLXC"]
        try:
            os.environ["RLXC"] = "/no/such/rlxc"
            self.assertRaisesRegex(rlxc.RlxcError, "no such program", rlxc.compile, sub_model([2, 3]))
        finally:
            os.environ["RLXC"] = before
        self.assertRaises(rlxc.CompileError, tool.run, ["no-such-command"])


class Backend(unittest.TestCase):
    def test_suite_runs(self):
        tests = onnx.backend.test.BackendTest(rlxc.backend, __name__)
        names = "abs|add|conv_with_strides_padding|reshape_extended_dims|single_relu_model"
        tests.include(f"^test_({names})_cpu$")
        outcome = unittest.TestResult()
        tests.test_suite.run(outcome)
        skipped = {str(test).split()[0] for test, _ in outcome.skipped}
        self.assertEqual(outcome.failures + outcome.errors, [])
        self.assertEqual(outcome.testsRun - len(skipped), 5)

    def test_single_node(self):
        a = np.array([3, 4], np.float32)
        got = rlxc.backend.run_node(helper.make_node("Mul", ["a", "b"], ["y"]), [a, a])
        np.testing.assert_array_equal(got.y, a * a)
        self.assertFalse(rlxc.backend.supports_device("CUDA"))


class Parts(unittest.TestCase):
    def test_every_element_type_has_a_dtype(self):
        parts = ("rlx_types.h", "rlx.h")
        header = "".join((ROOT / "runtime-lite" / part).read_text(encoding="utf-8") for part in parts)
        names = native.enum_names(header, "rlx_dtype", "RLX_")
        sizes = [int(n) for n in re.search(r"bytes\[\d+\] = \{(.*?)\}", header).group(1).split(",")]
        sizes += [1] * (len(names) - len(sizes))    # the narrow types
        self.assertEqual([native.numpy_dtype(n).itemsize for n in names], sizes)

    def test_versions_agree(self):
        def find(path):
            return re.search(r"version: '([\d.]+)'", (ROOT / path).read_text(encoding="utf-8")).group(1)
        self.assertEqual(find("meson.build"), find("tools/python/meson.build"))

    @unittest.skipUnless(shutil.which("meson"), "no meson")
    def test_installs(self):
        with tempfile.TemporaryDirectory() as folder:
            build, root = os.path.join(folder, "build"), os.path.join(folder, "root")
            for command in (["setup", build, str(ROOT / "tools" / "python")],
                            ["install", "-C", build, "--destdir", root]):
                subprocess.run(["meson", *command], check=True, capture_output=True)
            installed = sorted(p for p in pathlib.Path(root).rglob("rlxc/*.py"))
            want = sorted(p.name for p in (ROOT / "tools" / "python" / "rlxc").glob("*.py"))
            self.assertEqual([p.name for p in installed], want)
            code = "import rlxc.tool; print(rlxc.tool.run(['--version']), rlxc.tool.find())"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                                  env={"PYTHONPATH": str(installed[0].parent.parent), "PATH": ""})
            self.assertRegex(done.stdout, r"rlxc [\d.]+\n .*/rlxc/bin/rlxc\n")

    def test_pool_survives(self):
        def work(item):
            if item == "crash":
                os.abort()
            while item == "hang":
                pass
            return item

        items = ["a", "crash", "b", "hang", "c", "crash", "d"]
        found = dict(pool.run(work, items, 2, 1.0, 0, lambda item, why: why))
        self.assertEqual([found[i] for i in (0, 2, 4, 6)], ["a", "b", "c", "d"])
        self.assertRegex(found[1], "signal 6")
        self.assertRegex(found[3], "not done after 1 s")
        self.assertRegex(found[5], "signal 6")


if __name__ == "__main__":
    with warnings.catch_warnings():     # loading the suite computes with infinities
        warnings.simplefilter("ignore")
        import onnx.backend.test
    unittest.main(warnings="ignore")
