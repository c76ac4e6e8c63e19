"""`dataward.Executor` does what `concurrent.futures` promises, in real processes."""

import asyncio
import concurrent.futures
import functools
import gc
import os
import pickle
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import dataward
from calls.gates import Gate
from dataward import DatawardError, Executor
from dataward.calls.future import StoredResult
from dataward.model.events import TaskFinished


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def double(x):
    return 2 * x


def add(*numbers, **named):
    return sum(numbers) + sum(named.values())


# --- submit --------------------------------------------------------------------------------------


def test_a_call_is_made_in_another_process(executor):
    assert executor.submit(os.getpid).result() != os.getpid()


def test_arguments_and_keywords_arrive(executor):
    assert executor.submit(add, 1, 2, third=3).result() == 6


def test_keywords_called_like_those_of_submit_arrive(executor):
    def f(fn, self):
        return fn, self

    assert executor.submit(f, fn=1, self=2).result() == (1, 2)


def test_any_number_of_calls_are_made(executor):
    futures = [executor.submit(double, i) for i in range(3000)]

    assert [future.result() for future in futures] == list(range(0, 6000, 2))


def test_it_is_an_executor_of_the_standard_library(executor):
    assert isinstance(executor, concurrent.futures.Executor)
    assert isinstance(executor.submit(double, 1), concurrent.futures.Future)


def test_the_same_object_is_returned_each_time_it_is_asked_for(executor):
    future = executor.submit(list, "ab")

    assert future.result() is future.result()


def test_a_result_that_takes_too_long_is_a_time_out_and_can_be_asked_for_again(executor, gate):
    future = executor.submit(gate.wait)

    with pytest.raises(TimeoutError):
        future.result(timeout=0.01)
    with pytest.raises(TimeoutError):
        future.exception(timeout=0.01)
    gate.open()

    assert future.result() == "through"


def test_several_threads_may_submit_and_ask(executor):
    sums = {}

    def use(thread):
        futures = [executor.submit(double, i) for i in range(200)]
        sums[thread] = sum(future.result() for future in futures)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sums == dict.fromkeys(range(4), sum(range(0, 400, 2)))


def test_several_threads_may_wait_for_one_future(executor, gate):
    future = executor.submit(gate.wait, 7)
    found = []
    threads = [threading.Thread(target=lambda: found.append(future.result())) for _ in range(3)]
    for thread in threads:
        thread.start()

    gate.open()
    for thread in threads:
        thread.join()

    assert found == [7, 7, 7]


def test_a_coroutine_may_wait_for_a_call(executor):
    async def both():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(
            loop.run_in_executor(executor, double, 1), loop.run_in_executor(executor, double, 2)
        )

    assert asyncio.run(both()) == [2, 4]


def test_two_nodes_share_the_calls():
    with Executor(slots=1, nodes=2) as executor:
        first = [executor.submit(double, i) for i in range(50)]
        total = executor.submit(sum, [executor.submit(double, future) for future in first])

        assert total.result() == 4 * sum(range(50))


@pytest.mark.parametrize(
    "wrong", [{"slots": 0}, {"max_workers": -1}, {"nodes": 0}, {"time_limit_seconds": -1.0}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(DatawardError) as caught:
        Executor(**wrong)

    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("wrong", [{"slots": 1, "max_workers": 1}, {"initializer": "none"}])
def test_settings_of_the_wrong_kind_are_refused(wrong):
    with pytest.raises(TypeError):
        Executor(**wrong)


def set_mark(*args):
    os.environ["DATAWARD_TEST_MARK"] = repr(args)


def test_each_process_is_initialized_before_its_first_call():
    with Executor(max_workers=2, initializer=set_mark, initargs=(1, "two")) as executor:
        marks = list(executor.map(os.getenv, ["DATAWARD_TEST_MARK"] * 20))

    assert set(marks) == {"(1, 'two')"}


def test_an_initializer_that_raises_breaks_the_executor(capfd):
    with Executor(1, initializer=int, initargs=("seven",)) as executor:
        future = executor.submit(double, 1)

        with pytest.raises(
            concurrent.futures.BrokenExecutor, match="initializer raised ValueError"
        ):
            future.result()
    assert "invalid literal" in capfd.readouterr().err


def test_a_directory_that_holds_other_things_is_refused(tmp_path):
    (tmp_path / "mine").touch()

    with pytest.raises(DatawardError, match="holds other things"):
        Executor(1, directory=tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("is_there", [True, False])
def test_an_empty_or_a_new_directory_is_used_and_stays(tmp_path, is_there):
    place = tmp_path / "mine"
    if is_there:
        place.mkdir()

    with Executor(1, directory=place) as executor:
        assert executor.submit(double, 1).result() == 2
        assert os.listdir(place) != []

    assert place.is_dir()


def test_everything_that_happens_is_told_and_an_error_in_the_telling_harms_nobody(caplog):
    told = []

    def tell(event):
        told.append(type(event))
        raise ValueError("not now")

    with Executor(1, on_event=tell) as executor:
        assert executor.submit(double, 1).result() == 2

    assert TaskFinished in told
    assert "not now" in caplog.text


# --- map -----------------------------------------------------------------------------------------


def test_map_keeps_the_order_and_ends_with_the_shortest(executor):
    assert list(executor.map(add, range(20), range(100, 110))) == list(range(100, 120, 2))


def test_chunks_of_a_map_are_the_same_results(executor):
    assert list(executor.map(double, range(25), chunksize=10)) == list(range(0, 50, 2))
    assert list(executor.map(add, [], [], chunksize=3)) == []


def test_a_chunk_is_at_least_one(executor):
    with pytest.raises(ValueError, match="chunksize"):
        executor.map(double, [1], chunksize=0)


@pytest.mark.parametrize("chunksize", [1, 2])
def test_map_raises_where_the_call_did(executor, chunksize):
    results = executor.map(functools.partial(divmod, 12), [3, 4, 0, 2], chunksize=chunksize)

    assert [next(results), next(results)] == [(4, 0), (3, 0)]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_map_submits_before_anybody_asks(executor, tmp_path):
    results = executor.map(Path.touch, [tmp_path / "a", tmp_path / "b"])

    list(results)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_map_gives_up_in_time(executor, gate):
    results = executor.map(gate.wait, [1], timeout=0.01)
    gate.meet()  # a call that has not begun would be cancelled, and nobody would come to the gate

    with pytest.raises(TimeoutError):
        next(results)
    gate.open()


# --- waiting, callbacks, cancelling --------------------------------------------------------------


def test_as_completed_and_wait_know_the_futures(executor):
    futures = {executor.submit(double, i): i for i in range(30)}

    for future in concurrent.futures.as_completed(futures, timeout=60):
        assert future.result() == 2 * futures[future]
    assert concurrent.futures.wait(futures).not_done == set()


def test_wait_returns_when_the_first_is_done(executor, gate):
    slow, quick = executor.submit(gate.wait), executor.submit(double, 1)

    done, not_done = concurrent.futures.wait(
        [slow, quick], timeout=60, return_when=concurrent.futures.FIRST_COMPLETED
    )
    gate.open()

    assert (done, not_done) == ({quick}, {slow})
    assert slow.result() == "through"


def test_wait_takes_futures_of_several_executors(executor):
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        futures = [executor.submit(double, 1), threads.submit(double, 2)]

        assert concurrent.futures.wait(futures, timeout=60).done == set(futures)


def test_a_callback_is_told_of_the_future_before_or_after_it_is_done(executor, gate):
    told = []
    future = executor.submit(gate.wait, 5)
    future.add_done_callback(lambda f: told.append(f.result()))

    gate.open()
    future.result()
    executor.submit(double, 1).result()  # in the same thread, after the callback
    future.add_done_callback(lambda f: told.append(-f.result()))

    assert told == [5, -5]


def test_a_callback_may_submit(executor):
    later = concurrent.futures.Future()

    def submit_more(future):
        executor.submit(double, future).add_done_callback(lambda f: later.set_result(f.result()))

    executor.submit(double, 1).add_done_callback(submit_more)

    assert later.result(timeout=60) == 4


def test_a_callback_may_shut_down():
    executor = Executor(1)
    shut = threading.Event()

    def shut_down(future):
        executor.shutdown()
        shut.set()

    executor.submit(double, 1).add_done_callback(shut_down)

    assert shut.wait(60)
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(double, 1)


def test_an_error_in_a_callback_harms_nobody(executor, caplog):
    def callback(future):
        raise ValueError("not now")

    first = executor.submit(double, 1)
    first.add_done_callback(callback)

    assert executor.submit(double, first).result() == 4
    assert "not now" in caplog.text


def test_a_call_that_has_not_set_out_can_be_cancelled_with_those_that_depend_on_it(executor, gate):
    begun = executor.submit(gate.wait, 1)
    waiting = executor.submit(double, begun)
    below = executor.submit(double, waiting)
    beside = executor.submit(double, begun)
    told = []
    waiting.add_done_callback(told.append)

    assert waiting.cancel()
    done = concurrent.futures.wait([waiting, below], timeout=60).done
    gate.open()

    assert done == {waiting, below}
    assert waiting.cancelled()
    assert below.cancelled()
    assert told == [waiting]
    assert waiting.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        below.result()
    assert beside.result() == 2
    assert executor.submit(double, 4).result() == 8


def test_what_is_submitted_on_a_cancelled_future_is_cancelled(executor, gate):
    begun = executor.submit(gate.wait)
    waiting = executor.submit(double, begun)
    waiting.cancel()

    late = executor.submit(double, waiting)
    done = concurrent.futures.wait([late], timeout=60).done
    gate.open()

    assert done == {late}
    assert late.cancelled()
    assert begun.result() == "through"


def test_a_call_that_is_under_way_or_done_cannot_be_cancelled(executor, gate):
    future = executor.submit(gate.wait)
    gate.meet()

    assert not future.cancel()
    gate.open()
    future.result()
    assert not future.cancel()
    assert future.done()


def test_as_completed_tells_of_the_cancelled(executor, gate):
    begun = executor.submit(gate.wait)
    waiting = executor.submit(double, begun)
    waiting.cancel()

    assert next(concurrent.futures.as_completed([waiting, begun], timeout=60)) is waiting
    gate.open()


# --- shutting down -------------------------------------------------------------------------------


def test_all_calls_are_made_before_the_block_is_left():
    with Executor(2) as executor:
        futures = [executor.submit(double, i) for i in range(300)]
        last = executor.submit(add, *futures)

    assert all(future.done() for future in futures)
    assert last.result() == sum(range(0, 600, 2))


def test_results_can_be_asked_for_when_the_executor_is_gone_and_their_directory_goes_with_them():
    executor = Executor(1)
    directory = executor._loop._directory.path
    future = executor.submit(bytes, 100_000)
    executor.shutdown()
    del executor
    gc.collect()

    assert directory.exists()
    assert future.result() == bytes(100_000)
    del future
    gc.collect()
    assert not directory.exists()


def test_a_directory_that_no_future_needs_goes_with_the_shutdown():
    with Executor(1) as executor:
        directory = executor._loop._directory.path
        executor.submit(double, 1).result()

    assert not directory.exists()


def test_nothing_can_be_submitted_after_the_shutdown_which_may_come_twice():
    executor = Executor(1)
    executor.shutdown()
    executor.shutdown(wait=True, cancel_futures=True)

    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(double, 1)
    with pytest.raises(RuntimeError, match="shut down"):
        executor.map(double, [1])


def test_a_shutdown_may_leave_the_rest_to_be_made(gate):
    executor = Executor(1)
    begun = executor.submit(gate.wait, 3)
    rest = executor.submit(double, begun)

    executor.shutdown(wait=False)
    gate.open()

    assert rest.result(timeout=60) == 6


def test_a_shutdown_may_cancel_what_has_not_set_out(gate):
    executor = Executor(1)
    begun = executor.submit(gate.wait, 3)
    chain = [executor.submit(double, begun)]
    for _ in range(20):
        chain.append(executor.submit(double, chain[-1]))
    gate.meet()

    executor.shutdown(wait=False, cancel_futures=True)
    done = concurrent.futures.wait(chain, timeout=60).done
    gate.open()
    executor.shutdown()

    assert done == set(chain)
    assert all(future.cancelled() for future in chain)
    assert begun.result() == 3


def test_an_executor_that_is_forgotten_makes_its_calls_and_ends():
    executor = Executor(1)
    thread = executor._loop._thread
    future = executor.submit(double, 1)

    del executor
    thread.join(60)

    assert not thread.is_alive()
    assert future.result() == 2


# --- which functions -----------------------------------------------------------------------------


class Counter:
    """Something that can be called, and has a method."""

    def __init__(self, start):
        self.start = start

    def __call__(self, step):
        return self.start + step

    def down(self, step):
        return self.start - step

    def __eq__(self, other):
        return type(other) is Counter and other.start == self.start

    __hash__ = None


def test_anything_that_can_be_called_can_be_submitted(executor):
    base = 10

    assert executor.submit(lambda x: x + base, 1).result() == 11
    assert executor.submit(functools.partial(add, 1, named=2), 3).result() == 6
    assert executor.submit(Counter(5), 1).result() == 6
    assert executor.submit(Counter(5).down, 1).result() == 4
    assert executor.submit(Counter, 5).result() == Counter(5)
    assert executor.submit(len, "abc").result() == 3
    assert executor.submit(str.upper, "abc").result() == "ABC"
    assert executor.submit(np.sum, [1, 2]).result() == 3


def test_what_cannot_be_called_is_refused(executor):
    with pytest.raises(TypeError, match="cannot be called"):
        executor.submit(3)


def test_a_function_is_taken_as_it_is_when_it_is_submitted(executor):
    values = []
    step = 1

    def f(x):
        return x + step

    values.append(executor.submit(f, 0))
    step = 10
    values.append(executor.submit(f, 0))
    counter = Counter(1)
    values.append(executor.submit(counter, 0))
    method = counter.down
    values.append(executor.submit(method, 0))
    counter.start = 100
    values.append(executor.submit(method, 0))
    values.append(executor.submit(counter, 0))

    assert [value.result() for value in values] == [1, 10, 1, 1, 100, 100]


def test_a_class_of_the_callers_own_is_the_same_class_when_it_comes_back(executor):
    class OwnError(Exception):
        pass

    def make():
        return OwnError("a")

    def fail():
        raise OwnError("b")

    assert type(executor.submit(make).result()) is OwnError
    assert type(executor.submit(fail).exception()) is OwnError


def test_functions_of_a_module_that_only_the_caller_finds(executor, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def answer():\n    return 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    assert executor.submit(only_here.answer).result() == 42
    assert executor.submit(__import__, "only_here") is not None
    del sys.modules["only_here"]


def test_functions_of_a_module_that_nobody_can_find(executor):
    made = types.ModuleType("made_up_module")
    exec("def helper(): return 1\ndef answer(): return helper() + 41", made.__dict__)
    sys.modules["made_up_module"] = made

    assert executor.submit(made.answer).result() == 42
    del sys.modules["made_up_module"]


def test_a_call_may_import_dataward(executor):
    def version():
        import dataward

        return len(dataward.generate("montage", tasks=100, seed=1)), dataward.Executor.__name__

    assert executor.submit(version).result()[1] == dataward.Executor.__name__


def test_a_call_is_made_where_the_caller_is_even_after_one_went_elsewhere(executor, tmp_path):
    executor.submit(os.chdir, "/").result()
    Path("here").write_text("found")

    futures = [executor.submit(Path("here").read_text) for _ in range(4)]

    assert [future.result() for future in futures] == ["found"] * 4


def test_calls_print_where_the_caller_does(tmp_path):
    script = "from dataward import Executor\nwith Executor(1) as e: e.submit(print, 'hello')"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("hello\n", "")


def test_a_call_has_nothing_to_read(executor):
    assert executor.submit(lambda: sys.stdin.read()).result() == ""


# --- results -------------------------------------------------------------------------------------


def test_arrays_go_and_come(executor):
    matrix = np.arange(10_000.0).reshape(100, 100)

    product = executor.submit(np.matmul, matrix, matrix)

    assert np.array_equal(product.result(), matrix @ matrix)
    assert executor.submit(np.sum, product).result() == (matrix @ matrix).sum()


def test_huge_results_go_from_call_to_call_and_are_not_kept_in_memory(executor):
    size = 50 << 20
    futures = [executor.submit(np.full, size, i, np.uint8) for i in range(3)]

    sums = [executor.submit(np.sum, future) for future in futures]

    assert [future.result() for future in sums] == [0, size, 2 * size]
    assert all(isinstance(future.kept, StoredResult) for future in futures)
    assert all(future.kept.load().nbytes == size for future in futures)
    assert futures[1].result()[-1] == 1


def test_results_that_nobody_can_ask_for_leave_the_disk(tmp_path):
    def stored():
        files = [path for path in (tmp_path / "d").rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files)

    with Executor(1, directory=tmp_path / "d") as executor:
        first = executor.submit(bytes, 3_000_000)
        second = executor.submit(len, first)
        assert second.result() == 3_000_000
        before = stored()
        del first
        gc.collect()

    assert before > 3_000_000
    assert stored() < 10_000
    assert second.result() == 3_000_000


def test_a_result_is_there_for_dependants_though_its_future_was_dropped(executor, gate):
    last = executor.submit(len, executor.submit(bytes, executor.submit(gate.wait, 100_000)))
    gc.collect()
    gate.open()

    assert last.result() == 100_000


def test_a_future_cannot_be_pickled(executor):
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(executor.submit(double, 1))


def test_a_future_tells_what_it_is(executor):
    future = executor.submit(double, 1)
    future.result()

    assert repr(future).endswith("finished>")


def test_importing_dataward_does_not_load_what_runs_tasks():
    script = "import dataward, sys; print([m for m in sys.modules if 'dataward.live' in m])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout == "[]\n"


def test_a_long_life_leaves_no_trace_of_calls_whose_results_nobody_holds():
    with Executor(1) as executor:
        for number in range(40):
            assert executor.submit(abs, -number).result() == number
        loop = executor._loop
        held = executor.submit(abs, -1)
        held.result()
        for _ in range(1000):  # what is dropped is dropped a moment later
            if len(loop._dispatcher.lender.session._store._shards[0].tasks) <= 2:
                break
            executor.submit(abs, -2).result()

        assert len(loop._dispatcher.lender.session._store._shards[0].tasks) < 10
        assert held.result() == 1
