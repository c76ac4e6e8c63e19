"""A store on this machine: real servers, each in a directory, started and stopped by name."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.store_cases import a_task
from dataward.cluster.local_store import LocalStore
from dataward.cluster.store_server import ServerFailed, StoreServer, quoted
from dataward.errors import SettingError
from dataward.model.operations import Look, Operation, Submit
from dataward.stores.address import warnings_about
from dataward.stores.connection import connect
from dataward.stores.valkey import ValkeyStore
from dataward.world import StoreUnavailable
from valkey_servers import program_of


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where a store may be started; it is stopped at the end."""
    program_of("any")
    directory = tmp_path / 'a "place"'
    yield directory
    LocalStore.stop(directory)


def ask(url: str, *operations: Operation, shards: int = 3):
    async def call():
        async with connect(url) as connection:
            return await ValkeyStore(connection, shards=shards).call(operations)

    return asyncio.run(call())


def test_a_store_is_up_until_it_is_stopped(place: Path) -> None:
    before = LocalStore.is_up(place)
    url = LocalStore.start(place)
    during = LocalStore.is_up(place)
    answers = ask(url, Submit(a_task("a")), Look("a"))

    LocalStore.stop(place)

    assert (before, during, LocalStore.is_up(place)) == (False, True, False)
    assert not answers[1].unknown
    with pytest.raises(StoreUnavailable):
        ask(url, Look("a"))


def test_a_store_that_was_stopped_has_what_it_had_and_the_same_url(place: Path) -> None:
    url = LocalStore.start(place)
    ask(url, Submit(a_task("a")))
    LocalStore.stop(place)

    assert LocalStore.start(place) == url
    assert not ask(url, Look("a"))[0].unknown


def test_a_store_that_keeps_nothing_on_disk_forgets(place: Path) -> None:
    url = LocalStore.start(place, appendonly=False)
    ask(url, Submit(a_task("a")))
    LocalStore.stop(place)
    LocalStore.start(place, appendonly=False)

    assert ask(url, Look("a"))[0].unknown


def test_a_store_that_is_started_twice_is_one_store(place: Path) -> None:
    url = LocalStore.start(place)
    (server,) = LocalStore.servers(place)
    process = server.process()

    assert LocalStore.start(place) == url
    assert server.process() == process


def test_a_password_is_its_own_and_in_files_of_this_user_only(place: Path) -> None:
    url = LocalStore.start(place)
    (server,) = LocalStore.servers(place)
    files = [path for path in place.rglob("*") if path.is_file()]
    with_password = [path for path in files if server.password.encode() in path.read_bytes()]

    assert len(server.password) >= 32
    assert sorted(path.name for path in with_password) == ["server.conf", "store.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in with_password} == {0o600}
    with pytest.raises(SettingError, match="refuses this user") as refused:
        ask(url.replace(server.password, "another"), Look("a"))
    assert "another" not in str(refused.value)
    assert warnings_about(url) == []


def test_a_password_may_be_given_and_is_asked_for_again(place: Path) -> None:
    url = LocalStore.start(place, password='p @/"\\#ä')

    assert not ask(url, Submit(a_task("a")), Look("a"))[1].unknown
    assert LocalStore.start(place, password='p @/"\\#ä') == url
    with pytest.raises(SettingError, match="another password"):
        LocalStore.start(place, password="other")


def test_the_servers_listen_on_loopback_only(place: Path) -> None:
    LocalStore.start(place)
    (server,) = LocalStore.servers(place)
    process = server.process()
    assert process is not None

    listening = [each.laddr.ip for each in process.net_connections() if each.status == "LISTEN"]

    assert set(listening) == {"127.0.0.1"}


def test_a_directory_keeps_the_shape_that_it_was_started_with(place: Path) -> None:
    LocalStore.start(place)

    with pytest.raises(SettingError, match="was made with --shards 1 --replicas 0: start it so"):
        LocalStore.start(place, shards=3)
    assert LocalStore.is_up(place)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0), (1, 1), (3, 2)])
def test_there_is_no_store_of_another_shape(place: Path, shape: tuple[int, int]) -> None:
    with pytest.raises(SettingError, match="1 server, or 3"):
        LocalStore.start(place, *shape)


def test_a_server_outlives_the_process_that_started_it(place: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from dataward.cluster.local_store import LocalStore;"
        "print(LocalStore.start(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", code, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as starter:
        assert starter.stdout is not None
        url = starter.stdout.read().decode().strip()
    (server,) = LocalStore.servers(place)
    process = server.process()
    assert process is not None

    assert os.getsid(process.pid) != starter.pid
    assert not ask(url, Submit(a_task("a")), Look("a"))[1].unknown


def test_a_pid_that_is_another_process_now_is_not_believed(place: Path) -> None:
    url = LocalStore.start(place)
    (server,) = LocalStore.servers(place)
    process = server.process()
    assert process is not None
    process.send_signal(signal.SIGKILL)
    server.wait_until_ended()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as bystander:
        (place / "0" / "server.pid").write_text(f"{bystander.pid}\n")
        is_up = LocalStore.is_up(place)
        LocalStore.stop(place)
        again = LocalStore.start(place)
        LocalStore.stop(place)
        is_harmed = bystander.poll() is not None

    assert not is_up
    assert again == url
    assert not is_harmed


@pytest.mark.parametrize(
    "pid", ["", "x\n", "999999999\n", "99999999999999999999\n", "-1\n", "1\n", "12"]
)
def test_a_pid_file_with_anything_in_it_does_no_harm(tmp_path: Path, pid: str) -> None:
    (tmp_path / "server.pid").write_text(pid)

    assert StoreServer(tmp_path, 1, "").process() is None


def test_three_servers_are_a_cluster_that_comes_back(place: Path) -> None:
    url = LocalStore.start(place, shards=3)
    names = [f"t{i}" for i in range(20)]
    ask(url, *(Submit(a_task(name)) for name in names))
    held = [server.ask("DBSIZE") for server in LocalStore.servers(place)]
    LocalStore.stop(place)
    is_up = LocalStore.is_up(place)
    again = LocalStore.start(place, shards=3)

    assert all(held)
    assert not is_up
    assert again == url
    assert not any(answer.unknown for answer in ask(url, *map(Look, names)))


def test_a_server_of_a_cluster_that_died_is_started_again_alone(place: Path) -> None:
    url = LocalStore.start(place, shards=3, replicas=1)
    servers = LocalStore.servers(place)
    before = [server.process() for server in servers]
    ask(url, Submit(a_task("a")))
    died = before[5]
    assert died is not None
    died.kill()
    servers[5].wait_until_ended()

    is_up = LocalStore.is_up(place)
    LocalStore.start(place, shards=3, replicas=1)
    after = [server.process() for server in servers]

    assert not is_up
    assert len(servers) == 6
    assert after[:5] == before[:5]
    assert after[5] not in (None, died)
    assert not ask(url, Look("a"))[0].unknown


def test_a_start_that_was_interrupted_is_begun_anew(place: Path) -> None:
    LocalStore.start(place, shards=3)
    plan = place / "store.json"
    plan.write_bytes(plan.read_bytes().replace(b'"formed":true', b'"formed":false'))
    old = [server.process() for server in LocalStore.servers(place)]

    url = LocalStore.start(place, shards=3)

    assert not any(process is not None and process.is_running() for process in old)
    assert not ask(url, Submit(a_task("a")), Look("a"))[1].unknown


def test_a_port_that_is_taken_is_told_and_nothing_is_left_running(place: Path) -> None:
    LocalStore.start(place)
    LocalStore.stop(place)
    other = place.parent / "other"
    LocalStore.start(other)
    (mine,), (taken,) = LocalStore.servers(place), LocalStore.servers(other)
    plan = place / "store.json"
    plan.write_text(plan.read_text().replace(str(mine.port), str(taken.port)))

    with pytest.raises(ServerFailed, match=r"did not start: .*in use"):
        LocalStore.start(place)
    is_up = LocalStore.is_up(other), LocalStore.is_up(place)
    LocalStore.stop(other)

    assert is_up == (True, False)


def test_a_program_that_is_no_server_is_told(place: Path) -> None:
    with pytest.raises(ServerFailed, match="did not start"):
        LocalStore.start(place, program="false")


def test_a_directory_where_nothing_was_started_is_not_up(tmp_path: Path) -> None:
    LocalStore.stop(tmp_path)

    assert not LocalStore.is_up(tmp_path)
    assert LocalStore.servers(tmp_path) == []


def test_a_configuration_has_no_line_of_its_readers_choice() -> None:
    assert quoted('a "b" \\') == '"a \\"b\\" \\\\"'
    with pytest.raises(SettingError):
        quoted("a\nrename-command x y")
