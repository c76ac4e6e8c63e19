"""Calls on all cores: every result comes, and nobody is left behind."""

import signal
from multiprocessing import active_children
from os import getpid

import pytest

from dataward.api import all_cores
from dataward.api.all_cores import called_on_all_cores


def doubled(number: int) -> int:
    return 2 * number


def process_of(_number: int) -> int:
    return getpid()


def answer_zero_only(number: int) -> int:
    while number:
        signal.pause()
    return number


def fail_at_two(number: int) -> int:
    if number == 2:
        raise ValueError("two")
    return number


@pytest.fixture(params=[1, 2], ids=["one core", "two cores"])
def _cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_cores, "cores_here", lambda: request.param)


@pytest.mark.usefixtures("_cores")
def test_every_argument_comes_with_its_result() -> None:
    assert dict(called_on_all_cores(doubled, [1, 2, 3])) == {1: 2, 2: 4, 3: 6}


@pytest.mark.usefixtures("_cores")
def test_an_error_of_a_call_reaches_the_caller() -> None:
    with pytest.raises(ValueError, match="two"):
        dict(called_on_all_cores(fail_at_two, [1, 2, 3]))


def test_no_calls_need_no_processes() -> None:
    assert list(called_on_all_cores(doubled, [])) == []


def test_who_stops_early_ends_the_calls_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_cores, "cores_here", lambda: 2)
    before = set(active_children())

    results = called_on_all_cores(answer_zero_only, [0, 1, 1])
    assert next(results) == (0, 0)
    results.close()

    assert set(active_children()) - before == set()


def test_on_one_core_the_calls_are_made_in_this_process() -> None:
    assert list(called_on_all_cores(process_of, [1, 2], cores=1)) == [(1, getpid()), (2, getpid())]
    assert getpid() not in dict(called_on_all_cores(process_of, [1, 2], cores=2)).values()
