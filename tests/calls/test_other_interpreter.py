"""`test_standard_suite` under an interpreter that has the tests, where the one in use has not."""

import os
import re
import subprocess
from collections.abc import Callable

import pytest

from calls import interpreters

PASSED_MIN = 70  # of those that Python 3.11 has, the fewest; else the tests have not been found


def test_an_interpreters_own_tests_pass_under_the_interpreter_that_has_them(
    record_property: Callable[[str, str], None],
) -> None:
    if interpreters.this_one_has_its_own_tests():
        pytest.skip("this interpreter has the tests itself: test_standard_suite runs them")
    interpreter = interpreters.with_its_own_tests()
    if interpreter is None:
        pytest.skip("no interpreter of this machine came with its own tests")
    try:
        python = interpreters.environment_of(interpreter)
    except interpreters.NoEnvironment as problem:
        pytest.skip(f"{interpreter.shown} has the tests, but nothing can be installed: {problem}")

    options = ["-n0", "-p", "no:cacheprovider", "--tb=short"]
    done = subprocess.run(
        [python, "-m", "pytest", *options, "tests/calls/test_standard_suite.py"],
        cwd=interpreters.REPOSITORY,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.search(r"(\d+) passed, (\d+) skipped", done.stdout)
    assert counts is not None, done.stdout
    passed, skipped = map(int, counts.groups())
    assert passed >= PASSED_MIN, done.stdout
    record_property(
        "told", f"{interpreter.shown}'s own tests of executors: {passed} pass, {skipped} skipped"
    )
