"""`dataward.Executor` on clusters of real processes; `tests/calls` has what all executors do."""

import fcntl
import gc
import json
import os
import pickle
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest

from calls.gates import Gate
from cluster.laptops import LaptopCluster, laptop_cluster
from dataward import Executor, ProcessDiedError, ValueLostError, write_workflow
from dataward.cluster.access import read_access, write_access
from dataward.cluster.call_wire import CALLS_PATH, BorrowSlot, MakeBundle, encode_messages
from dataward.cluster.lending import PYTHON
from dataward.cluster.visitor import ClusterError
from dataward.errors import SettingError
from dataward.live.credentials import Role
from dataward.model.builder import WorkflowBuilder
from dataward.model.states import RunState
from file_changes import wait_for_files, wait_for_path

SECONDS = 300.0
SIZE = 50 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaptopCluster]:
    with laptop_cluster(tmp_path_factory.mktemp("calls") / "lab", 2) as up:
        yield up


@pytest.fixture
def executor(cluster: LaptopCluster) -> Iterator[Executor]:
    with Executor(access=cluster.submit_access) as executor:
        yield executor


def eventually(is_so: Callable[[], bool]) -> bool:
    """Whether something becomes so, in a minute at most."""
    until = time.monotonic() + SECONDS
    while not is_so():
        if time.monotonic() > until:
            return False
        os.sched_yield()
    return True


def wait_until_no_calls_are_left(cluster: LaptopCluster) -> None:
    def left() -> list[Path]:
        return list(cluster.path.glob("depots/*/calls/*"))

    wait_for_files(lambda: not left(), "nothing is left", *cluster.path.glob("depots/*/calls"))


def has_ended(process: int) -> bool:
    """Whether the process of this descriptor ends, in a minute at most."""
    ready, _, _ = select.select([process], [], [], SECONDS)
    os.close(process)
    return bool(ready)


def double(x):
    return 2 * x


def add(*numbers):
    return sum(numbers)


def node_of_this_process() -> int:
    """The process of the node that makes this call."""
    return os.getppid()


def node_and_sum(values):
    return os.getppid(), int(values.sum())


def both_nodes(executor: Executor, directory: Path) -> tuple[int, int]:
    """The processes of two nodes, at which two calls are being made at the same time."""
    pipes = [str(directory / name) for name in "ab"]
    for pipe in pipes:
        os.mkfifo(pipe)
    first = executor.submit(meet_first, *pipes)
    second = executor.submit(meet_second, *pipes)
    return first.result(SECONDS), second.result(SECONDS)


def meet_first(a, b):
    with open(a, "wb"), open(b, "rb"):
        return os.getppid()


def meet_second(a, b):
    with open(a, "rb"), open(b, "wb"):
        return os.getppid()


# --- calls ---------------------------------------------------------------------------------------


def test_a_map_of_a_thousand_calls_is_shared_by_the_nodes(executor, cluster, tmp_path):
    assert list(executor.map(double, range(1000))) == list(range(0, 2000, 2))
    assert set(both_nodes(executor, tmp_path)) == {cluster.pid_of("n1"), cluster.pid_of("n2")}


def test_chains_and_trees_of_futures(executor):
    chain = executor.submit(double, 1)
    for _ in range(200):
        chain = executor.submit(add, chain, 1)
    level = [executor.submit(double, i) for i in range(64)]
    while len(level) > 1:
        level = [executor.submit(add, *pair) for pair in zip(level[::2], level[1::2], strict=True)]

    assert chain.result(SECONDS) == 202
    assert level[0].result(SECONDS) == 2 * sum(range(64))


def test_a_large_value_goes_to_the_node_that_needs_it_and_to_the_caller(executor, tmp_path):
    value = executor.submit(np.full, SIZE, 1, np.uint8)
    value.exception(SECONDS)
    assert len(value.kept.holders) == 1, "it stays where it was made"
    gate = Gate(tmp_path)
    blocked = executor.submit(gate.wait)  # on one node, so that the other has to make the next
    gate.meet()
    there = executor.submit(node_and_sum, value).result(SECONDS)
    gate.open()
    blocked.result(SECONDS)
    several = [executor.submit(node_and_sum, value) for _ in range(20)]

    assert there[1] == SIZE
    assert {future.result(SECONDS)[1] for future in several} == {SIZE}
    assert value.result(SECONDS).sum() == SIZE


def test_a_call_is_made_where_the_value_is_that_it_needs(executor, cluster, tmp_path):
    both_nodes(executor, tmp_path)  # so that both have lent their slots
    values = [executor.submit(np.full, SIZE, i, np.uint8) for i in range(4)]
    for value in values:
        value.exception(SECONDS)

    for value in values:
        node, total = executor.submit(node_and_sum, value).result(SECONDS)
        assert node == cluster.pid_of(value.kept.maker)
        assert total % SIZE == 0
    assert [len(value.kept.holders) for value in values] == [1] * 4


def test_a_call_that_waits_for_a_value_is_made_where_the_value_turns_out_to_be(
    executor, cluster, tmp_path
):
    both_nodes(executor, tmp_path)
    size = 200_000_000  # which would take 2 s to move

    for _ in range(4):  # by chance, it may be there
        values = [executor.submit(np.full, size, i, np.uint8) for i in range(2)]
        readers = [executor.submit(node_and_sum, value) for value in values]

        for value, reader in zip(values, readers, strict=True):
            node, _ = reader.result(SECONDS)
            assert node == cluster.pid_of(value.kept.maker)


def test_values_that_nobody_can_ask_for_leave_the_nodes(executor, cluster):
    def stored() -> int:
        files = cluster.path.glob("depots/*/calls/*/*")
        return sum(path.stat().st_size for path in files if path.is_file())

    first = executor.submit(bytes, SIZE)
    second = executor.submit(len, first)
    assert second.result(SECONDS) == SIZE
    before = stored()
    del first
    gc.collect()

    assert before > SIZE
    places = cluster.path.glob("depots/*/calls/*")
    wait_for_files(lambda: stored() < SIZE, "the value is removed", *places)


def test_a_value_can_be_asked_for_when_the_executor_is_gone(cluster):
    with Executor(access=cluster.submit_access) as executor:
        future = executor.submit(bytes, SIZE)

    assert future.result() == bytes(SIZE)


def test_nothing_is_left_at_the_nodes_when_an_executor_ends(cluster):
    with Executor(access=cluster.submit_access) as executor:
        future = executor.submit(bytes, SIZE)
        future.exception(SECONDS)

    wait_until_no_calls_are_left(cluster)


def test_an_executor_uses_no_more_slots_than_it_is_told_to(cluster, tmp_path):
    with Executor(1, access=cluster.submit_access) as executor:
        nodes = {executor.submit(node_of_this_process).result(SECONDS) for _ in range(20)}

    assert len(nodes) == 1


def test_the_modules_of_one_executor_are_not_those_of_the_next(cluster, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    answers = []
    for number in (1, 2):
        (tmp_path / "changing.py").write_text(f"NUMBER = {number}\n")
        os.utime(tmp_path / "changing.py", (number, number))
        with Executor(access=cluster.submit_access) as executor:
            answers += [executor.submit(number_in_module).result(SECONDS) for _ in range(4)]

    assert answers == [1, 1, 1, 1, 2, 2, 2, 2]


def number_in_module():
    import changing

    return changing.NUMBER


# --- sharing -------------------------------------------------------------------------------------


def test_two_executors_at_once_both_make_progress(cluster, tmp_path):
    gate = Gate(tmp_path)
    with (
        Executor(access=cluster.submit_access) as first,
        Executor(access=cluster.submit_access) as second,
    ):
        assert sum(first.map(double, range(500))) == sum(range(0, 1000, 2))
        blocked = first.submit(gate.wait, 1)  # holds one of the two slots
        assert sum(second.map(double, range(500))) == sum(range(0, 1000, 2))
        gate.open()
        assert blocked.result(SECONDS) == 1
        futures = [e.submit(double, n) for n in range(300) for e in (first, second)]

        assert [f.result(SECONDS) for f in futures] == [2 * n for n in range(300) for _ in "ab"]


def test_an_executor_with_calls_without_end_lets_a_workflow_run(cluster, tmp_path):
    """The executor is never out of calls until the workflow has ended."""
    builder = WorkflowBuilder("beside")
    for number in range(6):
        builder.task(f"t{number}", command=["sh", "-c", f"echo {number} > o{number}"],
                     outputs=[f"o{number}"])  # fmt: skip
    write_workflow(builder.build(), tmp_path / "w.json")
    with Executor(access=cluster.submit_access) as executor:
        calls = [executor.submit(double, 1) for _ in range(100)]
        run = cluster.submit(tmp_path / "w.json", fresh=True).run.name
        made = 0
        while cluster.ask(lambda visitor: visitor.run(run)).run.state is RunState.RUNNING:
            calls = [executor.submit(double, number) for number in range(2000)]
            made += sum(future.result(SECONDS) for future in calls)

        assert cluster.wait(run).run.state is RunState.COMPLETE
        assert made > 0


# --- what goes wrong -----------------------------------------------------------------------------


def test_a_call_that_ends_its_process_fails_alone(executor):
    def crash(number):
        if number == 30:
            os._exit(3)
        return number

    futures = [executor.submit(crash, number) for number in range(60)]

    with pytest.raises(ProcessDiedError, match="exit code 3"):
        futures[30].result(SECONDS)
    assert [f.result(SECONDS) for n, f in enumerate(futures) if n != 30] == [
        *range(30),
        *range(31, 60),
    ]


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[LaptopCluster]:
    """A cluster of which nodes are killed."""
    with laptop_cluster(tmp_path / "lab", 2) as up:
        yield up


def kill_process(number: int) -> None:
    os.kill(number, signal.SIGKILL)


def test_calls_of_a_node_that_is_killed_are_made_elsewhere(doomed, tmp_path):
    who, told = tmp_path / "who", tmp_path / "told"
    with Executor(access=doomed.submit_access) as executor, open(told, "w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        assert len(set(executor.map(double, range(100)))) == 100
        stuck = executor.submit(say_who_and_wait, who, told)
        wait_for_path(who)
        first = int(who.read_text())
        many = [executor.submit(double, number) for number in range(500)]
        kill_process(first)
        gate.close()

        assert [future.result(SECONDS) for future in many] == list(range(0, 1000, 2))
        assert stuck.result(SECONDS) not in (first, None)
        assert executor.submit(double, stuck).result(SECONDS) == 2 * stuck.result()


def say_who_and_wait(who, told):
    (who.parent / "new").write_text(str(os.getppid()))
    os.rename(who.parent / "new", who)
    with open(told) as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
    return os.getppid()


def test_a_value_that_only_a_killed_node_had_is_made_again(doomed, tmp_path):
    made = tmp_path / "made"
    with Executor(access=doomed.submit_access) as executor:
        value = executor.submit(big_value_once_more, made)
        value.exception(SECONDS)
        before = executor.submit(len, value).result(SECONDS)

        doomed.kill(value.kept.maker)

        assert eventually(lambda: value.kept.loss is not None)
        assert made.stat().st_size == 1  # nobody has asked for it yet
        assert executor.submit(len, value).result(SECONDS) == before == SIZE
        assert value.result(SECONDS) == bytes(SIZE)
        assert made.stat().st_size == 2


def test_executors_are_told_by_status(doomed, tmp_path):
    status = [sys.executable, "-m", "dataward.cli.main", "status", "--json", "--access"]
    gate = Gate(tmp_path)
    with Executor(access=doomed.submit_access) as executor:
        value = executor.submit(big_value)
        value.exception(SECONDS)
        waits = executor.submit(gate.wait)
        gate.meet()
        said = subprocess.run([*status, doomed.submit_access], capture_output=True, check=True)
        gate.open()
        waits.result(SECONDS)

    (told,) = json.loads(said.stdout)
    assert told["executor"].startswith("calls-")
    assert told["slots"] >= 1
    assert (told["calls"], told["values"]) == (1, 1)
    assert told["value_bytes"] > SIZE
    assert set(told["nodes"]) == set(doomed.nodes)


def test_what_was_made_from_lost_values_is_made_again_only_as_far_back_as_need_be(doomed, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with Executor(access=doomed.submit_access) as executor:
        base = executor.submit(big_value_once_more, first)
        after = executor.submit(turned, base, second, by=3)
        after.exception(SECONDS)
        doomed.kill(after.kept.maker)
        assert eventually(lambda: after.kept.loss is not None)
        both_were_there = base.kept.loss is not None

        asked = after.result(SECONDS)

        assert asked == bytes([3]) * SIZE
        assert second.stat().st_size == 2
        assert first.stat().st_size == 1 + both_were_there
        assert executor.submit(len, base).result(SECONDS) == SIZE


def test_a_value_whose_futures_are_gone_is_made_again_for_one_that_needs_it(doomed, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with Executor(access=doomed.submit_access, slots=1) as executor:
        after = executor.submit(turned, executor.submit(big_value_once_more, first), second, by=5)
        after.exception(SECONDS)
        gc.collect()

        doomed.kill(after.kept.maker)

        assert executor.submit(len, after).result(SECONDS) == SIZE
        assert (first.stat().st_size, second.stat().st_size) == (2, 2)


def test_a_lost_value_is_made_again_before_the_executor_ends(doomed, tmp_path):
    made = tmp_path / "made"
    with Executor(access=doomed.submit_access) as executor:
        value = executor.submit(big_value_once_more, made)
        value.exception(SECONDS)
        doomed.kill(value.kept.maker)
        assert eventually(lambda: value.kept.loss is not None)

    assert value.result(SECONDS) == bytes(SIZE)


def test_a_value_that_cannot_be_made_again_is_lost_and_says_so(doomed, tmp_path):
    told = tmp_path / "told"
    with Executor(access=doomed.submit_access) as executor:
        value = executor.submit(big_value_unless, told)
        value.exception(SECONDS)
        told.touch()

        doomed.kill(value.kept.maker)

        with pytest.raises(
            ValueLostError, match=r"big_value_unless is lost: .*made again.*no more"
        ):
            value.result(SECONDS)
        with pytest.raises(ValueLostError):
            executor.submit(len, value).result(SECONDS)
        assert executor.submit(double, 4).result(SECONDS) == 8


def test_a_value_whose_arguments_are_no_longer_kept_is_lost_and_says_so(doomed):
    with Executor(access=doomed.submit_access) as executor:
        executor._loop._dispatcher._remaker._kept.bytes_max = 0
        value = executor.submit(big_value)
        value.exception(SECONDS)

        doomed.kill(value.kept.maker)

        with pytest.raises(ValueLostError, match=r"big_value is lost: .*no longer kept"):
            value.result(SECONDS)


def big_value_once_more(made):
    with open(made, "a") as file:
        file.write(".")
    return bytes(SIZE)


def turned(value, made, by):
    with open(made, "a") as file:
        file.write(".")
    return bytes([by]) * len(value)


def big_value_unless(told):
    if told.exists():
        raise ValueError("no more")
    return bytes(SIZE)


def big_value():
    return bytes(SIZE)


def test_the_values_of_a_node_that_is_drained_go_elsewhere(doomed):
    with Executor(access=doomed.submit_access) as executor:
        value = executor.submit(big_value)
        value.exception(SECONDS)
        maker = value.kept.maker

        doomed.ask(lambda visitor: visitor.drain(maker))

        assert eventually(lambda: maker not in value.kept.holders)
        assert executor.submit(len, value).result(SECONDS) == SIZE
        assert len(value.result(SECONDS)) == SIZE


def test_a_node_that_joins_is_used(doomed, tmp_path):
    with Executor(access=doomed.submit_access) as executor:
        gates = [Gate(directory) for name in "ab" if (directory := tmp_path / name).mkdir() is None]
        blocked = [executor.submit(gate.wait) for gate in gates]
        for gate in gates:
            gate.meet()
        last = executor.submit(node_of_this_process)

        doomed.start(3)

        assert last.result(SECONDS) == doomed.pid_of("n3")
        for gate in gates:
            gate.open()
        wait(blocked, SECONDS)


def test_when_the_caller_is_killed_its_calls_end_and_its_values_go(cluster, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import signal, os, sys, dataward\n"
        "def stay(path):\n"
        "    open(path, 'w').write(str(os.getpid()))\n"
        "    os.rename(path, path + '.there')\n"
        "    signal.pause()\n"
        f"e = dataward.Executor(access={str(cluster.submit_access)!r})\n"
        f"v = e.submit(bytes, {SIZE})\n"
        "v.exception()\n"
        f"f = e.submit(stay, {str(tmp_path / 'pid')!r})\n"
        "f.result()\n"
    )
    with subprocess.Popen([sys.executable, str(script)]) as caller:
        wait_for_path(tmp_path / "pid.there")
        process = os.pidfd_open(int((tmp_path / "pid.there").read_text()))
        assert list(cluster.path.glob("depots/*/calls/*")) != []
        caller.kill()

    assert has_ended(process)
    wait_until_no_calls_are_left(cluster)


def test_who_may_only_look_may_make_no_calls_whatever_the_file_says(cluster):
    access = read_access(cluster.laptop.directory.access_file("read"))
    forged = cluster.path / "forged.access"
    write_access(forged, msgspec.structs.replace(access, role="submit"))

    with pytest.raises(ClusterError, match="no role of yours"):
        Executor(access=forged)


@contextmanager
def a_connection(cluster: LaptopCluster) -> Iterator[ssl.SSLSocket]:
    """To the first node, by somebody who may submit and has no executor."""
    context = read_access(cluster.submit_access).credentials.client_context()
    host, port = (cluster.path / "contacts" / "n1").read_text().strip().split(":")
    with (
        socket.create_connection((host, int(port)), timeout=SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=Role.NODE.value) as connection,
    ):
        yield connection


def upgrade(python: str) -> bytes:
    """A request to become a websocket."""
    lines = (
        f"GET {CALLS_PATH}?python={python} HTTP/1.1",
        "Host: node",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {b64encode(bytes(16)).decode()}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_another_version_of_python_is_refused(cluster):
    with a_connection(cluster) as connection:
        connection.sendall(upgrade("2.7"))
        answer = connection.recv(10_000)

    assert b" 409 " in answer
    assert b"same version" in answer


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff" * 100,
        pickle.dumps([print]),
        encode_messages([("no", "message")]),
        encode_messages([MakeBundle(1, 1, 1 << 40, b"", ())]),
        encode_messages([BorrowSlot(1, 0.0), BorrowSlot(1, 0.0)]),
    ],
    ids=["empty", "noise", "a pickle", "unknown", "too many calls", "one slot twice"],
)
def test_who_sends_what_is_no_message_is_cut_off_and_the_node_goes_on(cluster, executor, message):
    frame = b"\x82" + bytes([0xFE]) + len(message).to_bytes(2, "big") + bytes(4) + message

    with a_connection(cluster) as connection:
        connection.sendall(upgrade(PYTHON))
        assert b" 101 " in connection.recv(10_000)
        connection.sendall(frame)
        closing = connection.recv(10_000)

    assert closing[:1] in (b"", b"\x88"), "nothing but the end of the connection"
    assert executor.submit(double, 1).result(SECONDS) == 2


def test_calls_are_made_while_the_store_is_away(doomed):
    with Executor(access=doomed.submit_access) as executor:
        assert executor.submit(double, 1).result(SECONDS) == 2

        doomed.laptop.stop_store()

        assert list(executor.map(double, range(300))) == list(range(0, 600, 2))
        assert executor.submit(len, executor.submit(big_value)).result(SECONDS) == SIZE


@pytest.mark.parametrize("role", ["read", "node"])
def test_who_may_not_submit_is_told_which_file_to_name(cluster, role):
    with pytest.raises(SettingError, match=r"nobody may make calls; this takes submit\.access"):
        Executor(access=cluster.laptop.directory.access_file(role))


def test_what_is_only_for_this_machine_is_refused(cluster):
    with pytest.raises(SettingError, match="on this machine"):
        Executor(access=cluster.submit_access, nodes=2)
