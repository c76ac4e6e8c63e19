"""Futures as arguments: wherever they are, the call gets the result."""

import concurrent.futures
import pickle
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calls.gates import Gate
from dataward import Executor


def same(value):
    return value


def everything(*args, **kwargs):
    return args, kwargs


@dataclass
class Box:
    content: Any


# --- where futures may be ------------------------------------------------------------------------

KEYS = st.text(max_size=2) | st.integers(-2, 2) | st.none() | st.tuples(st.integers(0, 1))
VALUES = st.recursive(
    st.integers(0, 5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.builds(Box, inner)
    ),
    max_leaves=8,
)


def with_futures(value, futures):
    """The same, with a future in place of each number that there is one for."""
    if isinstance(value, int):
        return futures.get(value, value)
    if isinstance(value, list | tuple):
        return type(value)(with_futures(item, futures) for item in value)
    if isinstance(value, dict):
        return {key: with_futures(item, futures) for key, item in value.items()}
    return Box(with_futures(value.content, futures))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(VALUES, max_size=3), st.dictionaries(st.sampled_from(["a", "fn"]), VALUES))
def test_a_call_gets_results_in_place_of_futures_however_deep(executor, args, kwargs):
    futures = {number: executor.submit(same, number) for number in range(3)}

    given = executor.submit(
        everything, *with_futures(tuple(args), futures), **with_futures(kwargs, futures)
    )

    assert given.result() == (tuple(args), kwargs)


def test_the_arguments_of_the_caller_are_left_as_they_were(executor):
    future = executor.submit(same, 1)
    mine = [future, {"a": future}]

    assert executor.submit(same, mine).result() == [1, {"a": 1}]
    assert mine == [future, {"a": future}]


def test_a_result_that_is_given_twice_is_one_object_and_two_calls_get_one_each(executor):
    future = executor.submit(list, "ab")

    def change(first, second):
        first.append("c")
        return first is second, second

    assert executor.submit(change, future, future).result() == (True, ["a", "b", "c"])
    assert executor.submit(change, future, future).result() == (True, ["a", "b", "c"])
    assert future.result() == ["a", "b"]


def test_arguments_may_contain_themselves(executor):
    loop: list[Any] = [executor.submit(same, 1)]
    loop.append(loop)

    def look(given):
        return given[0], given[1] is given

    assert executor.submit(look, loop).result() == (1, True)


def test_a_long_chain_and_a_wide_tree_give_the_right_result(executor):
    chain = executor.submit(same, 0)
    for _ in range(500):
        chain = executor.submit(lambda x: x + 1, chain)
    leaves = [executor.submit(same, 1) for _ in range(500)]
    while len(leaves) > 1:
        leaves = [executor.submit(sum, leaves[i : i + 7]) for i in range(0, len(leaves), 7)]

    assert chain.result() == 500
    assert leaves[0].result() == 500


def test_a_future_that_is_done_is_as_good(executor):
    future = executor.submit(same, 1)
    future.result()

    assert executor.submit(same, [future]).result() == [1]


# --- what cannot be an argument ------------------------------------------------------------------


def test_a_future_of_another_executor_is_refused(executor):
    with Executor(1) as other, concurrent.futures.ThreadPoolExecutor(1) as threads:
        for foreign in (other.submit(same, 1), threads.submit(same, 1)):
            for argument in (foreign, [foreign], Box(foreign)):
                with pytest.raises(TypeError, match="another executor"):
                    executor.submit(same, argument)


def test_arguments_that_cannot_be_pickled_are_refused_at_once(executor):
    for argument in (threading.Lock(), (i for i in "ab"), {"a": threading.Lock()}):
        with pytest.raises(pickle.PicklingError, match="the arguments of same cannot be pickled"):
            executor.submit(same, argument)


def test_a_function_that_cannot_be_pickled_is_refused_at_once(executor):
    lock = threading.Lock()

    with pytest.raises(pickle.PicklingError, match="cannot be pickled"):
        executor.submit(lambda: lock)


def test_a_future_that_a_function_holds_is_refused_with_a_hint(executor):
    future = executor.submit(same, 1)

    with pytest.raises(pickle.PicklingError, match="as an argument of a call it need not be"):
        executor.submit(lambda: future)


def test_arguments_that_are_too_deep_are_refused_and_harm_nobody(executor):
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(pickle.PicklingError):
        executor.submit(same, deep)

    assert executor.submit(same, 1).result() == 1
    while deep:  # letting go of it all at once would be as deep
        deep = deep.pop()


def test_an_argument_that_cannot_be_loaded_fails_its_call_alone(executor):
    class Odd:
        def __reduce__(self):
            return int, ("not a number",)

    bad, good = executor.submit(same, Odd()), executor.submit(same, 1)

    with pytest.raises(ValueError, match="not a number"):
        bad.result()
    assert good.result() == 1


# --- when what it depends on fails ---------------------------------------------------------------


def test_a_call_fails_with_the_error_of_what_it_depends_on(executor):
    bad = executor.submit(int, "x")
    below = [executor.submit(same, bad)]
    for _ in range(5):
        below.append(executor.submit(everything, 1, [below[-1]]))

    for future in below:
        with pytest.raises(ValueError, match="invalid literal"):
            future.result(60)


def test_what_is_submitted_after_the_failure_fails_too(executor):
    bad = executor.submit(int, "x")
    bad.exception()

    with pytest.raises(ValueError, match="invalid literal"):
        executor.submit(same, bad).result(60)


def test_a_failure_is_told_though_other_dependencies_are_not_done(executor, tmp_path):
    gate = Gate(tmp_path)
    slow = executor.submit(gate.wait)

    both = executor.submit(everything, slow, executor.submit(int, "x"))
    error = both.exception(60)
    gate.open()

    assert isinstance(error, ValueError)
    assert slow.result() == "through"
