# SPDX-License-Identifier: Apache-2.0
"""Compiles tensor models with rlxc and runs them on NumPy arrays.

    import rlxc
    model = rlxc.compile("model.onnx")
    y, = model(x)               # by position
    y, = model(x=x)             # or by name

The work is done by the program `rlxc`, which writes one C file, and by a C compiler; see compile().
"""
from rlxc.errors import CCompilerError, CompileError, CompilerCrash, CompilerTimeout, RlxcError, RunError
from rlxc.model import CompiledModel, compile

__all__ = ["CCompilerError", "CompileError", "CompiledModel", "CompilerCrash", "CompilerTimeout", "RlxcError",
           "RunError", "compile"]
