# SPDX-License-Identifier: Apache-2.0
"""Tests that take a part of their cases take another one each day, as rotation.h does; $TEST_ROTATE names a
day, and with $TEST_ALL they take all. They find it beside their folder, as tap.py."""
import os
import time

SECONDS_A_DAY = 86400
DAY = int(os.environ.get("TEST_ROTATE") or time.time() // SECONDS_A_DAY)


def is_taken(number, every):
    """Is this case one of those of today, which are one of so many?"""
    return "TEST_ALL" in os.environ or (number + DAY) % every == 0


def say():
    """How to take the same part again, for the log."""
    print(f"# a part of the cases: TEST_ROTATE={DAY} takes the same again, TEST_ALL=1 takes all", flush=True)


def part_of(cases, every):
    """Today's part of a list."""
    return [case for i, case in enumerate(cases) if is_taken(i, every)]
