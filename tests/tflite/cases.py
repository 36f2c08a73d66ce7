# SPDX-License-Identifier: Apache-2.0
"""All cases of single operators, in order: CASES has (name, tolerance, function), make builds one."""

import cases_elementwise  # noqa: F401
import cases_moves  # noqa: F401
import cases_products  # noqa: F401
import cases_select  # noqa: F401
import cases_signals  # noqa: F401
from case import CASES, make

__all__ = ["CASES", "make"]
