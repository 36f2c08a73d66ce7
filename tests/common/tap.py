# SPDX-License-Identifier: Apache-2.0
"""What tests in Python that print TAP have in common. They find it beside their folder:

    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
"""

n_tests = n_failed = 0


def result(ok, name, said="", skipped=""):
    """said: what explains a failure; skipped: why it was not tried."""
    global n_tests, n_failed
    n_tests += 1
    n_failed += not ok
    print(f"{'' if ok else 'not '}ok {n_tests} - {name}{' # SKIP ' + skipped if skipped else ''}", flush=True)
    if not ok:
        print("# " + str(said).replace("\n", "\n# "))


class Skipped(Exception):
    """What is missing here."""


def end():
    """Prints the plan; the exit status."""
    print(f"1..{n_tests}")
    return n_failed != 0


def run_checks(checks):
    """Runs (name, function, arguments): what a function returns is said behind its name, an AssertionError is
    a failure; the exit status."""
    for name, check, args in checks:
        try:
            result(True, f"{name}: {check(*args)}")
        except Skipped as why:
            result(True, name, skipped=str(why))
        except AssertionError as error:
            result(False, name, error)
    return end()


def run_tests(members):
    """Runs the functions test_* among globals(), one result each; the exit status."""
    for name, test in sorted(members.items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
        except Skipped as why:
            result(True, name, skipped=str(why))
        except Exception as e:  # every kind of failure is one failed test
            result(False, name, f"{type(e).__name__}: {e}")
        else:
            result(True, name)
    return end()
