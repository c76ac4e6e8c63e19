"""Which functions are known again, and which are taken for one another."""

import functools
import subprocess
import sys
import types

import pytest

from dataward import Executor
from dataward.calls.functions import FUNCTIONS_MAX, FunctionTable

LEVEL = 1


def helper():
    return LEVEL


def uses_helper():
    return helper()


def a_function(text: str, **names):
    """One of a module of its own, that nobody can import."""
    scope = {"__name__": "__main__", **names}
    exec(f"def f(x=1): return {text}", scope)
    return scope["f"]


def test_a_function_is_pickled_once():
    table = FunctionTable()

    assert table.find(uses_helper) is table.find(uses_helper)


def test_a_function_whose_global_is_bound_anew_is_another():
    table = FunctionTable()
    inner = a_function("level", level=1)
    outer = a_function("inner()", inner=inner)
    before = table.find(outer)

    inner.__globals__["level"] = 2
    after = table.find(outer)

    assert before.digest != after.digest
    assert table.find(outer) is after


def test_a_function_whose_default_or_code_changes_is_another():
    table = FunctionTable()
    function = a_function("x")
    digests = [table.find(function).digest]

    function.__defaults__ = (2,)
    digests.append(table.find(function).digest)
    function.__code__ = a_function("x + 1").__code__
    digests.append(table.find(function).digest)

    assert len(set(digests)) == 3


def test_what_may_change_unseen_is_pickled_each_time():
    table = FunctionTable()
    numbers = [1]
    before = table.find(numbers.append)

    numbers.append(2)

    assert table.find(numbers.append).digest != before.digest


def test_functions_that_call_each_other_are_found():
    table = FunctionTable()
    even = a_function("odd()")
    odd = a_function("even()", even=even)
    even.__globals__["odd"] = odd

    assert table.find(even) is table.find(even)


def test_functions_of_one_line_of_code_have_one_pace_and_others_another():
    table = FunctionTable()
    adders = [(lambda x, n=n: x + n) for n in range(2)]

    first, second = (table.find(adder) for adder in adders)

    assert first.digest != second.digest
    assert first.pace is second.pace
    assert table.find(helper).pace is not first.pace
    assert table.find(functools.partial(helper)).pace is not table.find(helper).pace
    assert table.find(types.SimpleNamespace).pace is not table.find(dict).pace


def test_a_decorated_function_has_its_own_pace():
    def decorated(function):
        @functools.wraps(function)
        def wrapper():
            return function()

        return wrapper

    table = FunctionTable()

    assert table.find(decorated(helper)).pace is not table.find(decorated(uses_helper)).pace


def test_the_table_does_not_grow_for_ever():
    table = FunctionTable()
    for number in range(FUNCTIONS_MAX + 50):
        table.find(a_function("x", number=number))

    assert len(table._known) == FUNCTIONS_MAX


@pytest.mark.parametrize("function", [subprocess.run, functools.reduce, sys.getsizeof])
def test_what_can_be_imported_travels_by_name(function):
    assert len(FunctionTable().find(function).pickled) < 100


class Counted:
    """A function that tells how many of its kind are alive in the process that makes the call."""

    alive = 0

    def __init__(self, number):
        self.__setstate__({"number": number})

    def __setstate__(self, state):
        self.__dict__ |= state
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1

    def __call__(self):
        return Counted.alive


def test_a_process_does_not_keep_every_function_it_was_ever_given():
    with Executor(1) as executor:
        alive = [executor.submit(Counted(number)) for number in range(1200)][-1]

        assert alive.result() < 1100
