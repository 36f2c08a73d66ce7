# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions."""


class RlxcError(Exception):
    """Anything that this package raises about a model."""


class CompileError(RlxcError):
    """The compiler refused the model; the text is its diagnostic."""


class CompilerTimeout(RlxcError):
    """The compiler ran past its time limit."""


class CompilerCrash(RlxcError):
    """The compiler was ended by a signal: a bug of rlxc."""


class CCompilerError(RlxcError):
    """The C compiler refused the generated code: a bug of rlxc, or a C compiler that is too old."""


class RunError(RlxcError):
    """The generated code refused to run; `status` is the rlx_status by name."""

    def __init__(self, message, status=""):
        super().__init__(message)
        self.status = status
