"""What servers answer when they cannot serve, and who is let in: real servers, every condition."""

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from conformance.store_cases import a_task
from dataward.errors import SettingError
from dataward.model.operations import Look, Operation, Submit
from dataward.stores.connection import CONNECTIONS_MAX, connect
from dataward.stores.registry import Registry
from dataward.stores.valkey import ValkeyStore
from dataward.world import StoreUnavailable
from tls_files import write_certificates
from valkey_servers import RunningServer, free_ports, program_of, start_server


def ask(url: str, *operations: Operation, shards: int = 1) -> Any:
    async def call() -> Any:
        async with connect(url) as connection:
            return await ValkeyStore(connection, shards=shards).call(operations)

    return asyncio.run(call())


@pytest.fixture(params=["valkey", "redis"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    """A server of the test's own, whose settings it may spoil."""
    server = start_server(program_of(request.param), tmp_path)
    yield server
    server.kill()


# --- servers that cannot serve -------------------------------------------------------------------


def run_out_of_memory(server: RunningServer, directory: Path) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "1mb")


def have_memory_again(server: RunningServer, directory: Path) -> None:
    server.ask("CONFIG", "SET", "maxmemory", "0")


def fail_to_save(server: RunningServer, directory: Path) -> None:
    (directory / "dump.rdb").mkdir()
    server.ask("CONFIG", "SET", "save", "3600 1")
    server.ask("BGSAVE")
    while server.ask("INFO", "persistence")["rdb_last_bgsave_status"] != "err":
        server.ask("WAIT", 1, 10)


def save_again(server: RunningServer, directory: Path) -> None:
    (directory / "dump.rdb").rmdir()
    server.ask("BGSAVE")
    while server.ask("INFO", "persistence")["rdb_last_bgsave_status"] != "ok":
        server.ask("WAIT", 1, 10)


def want_replicas(server: RunningServer, directory: Path) -> None:
    server.ask("CONFIG", "SET", "min-replicas-to-write", "1")


def want_none(server: RunningServer, directory: Path) -> None:
    server.ask("CONFIG", "SET", "min-replicas-to-write", "0")


def become_a_replica(server: RunningServer, directory: Path) -> None:
    server.ask("REPLICAOF", "127.0.0.1", "1")


def become_a_primary(server: RunningServer, directory: Path) -> None:
    server.ask("REPLICAOF", "NO", "ONE")


Change = Callable[[RunningServer, Path], None]
TROUBLES: dict[str, tuple[Change, Change]] = {
    "out of memory": (run_out_of_memory, have_memory_again),
    "a disk that cannot be written": (fail_to_save, save_again),
    "too few replicas": (want_replicas, want_none),
    "a replica": (become_a_replica, become_a_primary),
}


@pytest.mark.parametrize("trouble", list(TROUBLES))
def test_a_server_in_trouble_is_unavailable_and_well_again_later(
    server: RunningServer, tmp_path: Path, trouble: str
) -> None:
    begin, end = TROUBLES[trouble]

    async def act() -> None:
        async with connect(server.url) as connection:
            store, registry = ValkeyStore(connection), Registry(connection, "lab")
            await store.call([Submit(a_task("a"))])
            await registry.next_incarnation("n1")
            begin(server, tmp_path)
            for attempt in (
                lambda: store.call([Submit(a_task("b"))]),
                lambda: registry.next_incarnation("n1"),
                lambda: registry.remember({"k": b"v"}, 60.0),
            ):
                with pytest.raises(StoreUnavailable, match="does not answer"):
                    await attempt()
            end(server, tmp_path)
            found = await store.call([Look("a"), Look("b")])
            assert [each.unknown for each in found] == [False, True]
            assert await registry.next_incarnation("n1") == 2

    asyncio.run(act())


def test_a_server_out_of_memory_applies_none_of_a_call(server: RunningServer, tmp_path: Path):
    ask(server.url, Submit(a_task("a")))
    keys = server.ask("DBSIZE")
    run_out_of_memory(server, tmp_path)

    with pytest.raises(StoreUnavailable):
        ask(server.url, *(Submit(a_task(f"t{i}")) for i in range(100)))

    have_memory_again(server, tmp_path)
    assert server.ask("DBSIZE") == keys
    assert ask(server.url, Look("t0"))[0].unknown


def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    (port,) = free_ports(1)

    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{port} does not answer"):
        ask(f"valkey://:secret@127.0.0.1:{port}", Look("a"))
    with pytest.raises(StoreUnavailable, match="does not answer"):
        ask(f"unix://{tmp_path}/nothing", Look("a"))


def test_more_calls_at_once_than_connections_wait_for_each_other(valkey_server: RunningServer):
    valkey_server.ask("FLUSHALL")
    names = [f"t{i}" for i in range(10 * CONNECTIONS_MAX)]

    async def act() -> int:
        async with connect(valkey_server.url) as connection:
            store = ValkeyStore(connection)
            await asyncio.gather(*(store.call([Submit(a_task(name))]) for name in names))
            clients = await connection.send("", "INFO", "clients")
            return int(clients["connected_clients"])

    assert asyncio.run(act()) <= CONNECTIONS_MAX + 2
    assert not any(answer.unknown for answer in ask(valkey_server.url, *map(Look, names)))


# --- who is let in -------------------------------------------------------------------------------


def test_a_wrong_password_is_a_setting_that_is_told_without_it(server: RunningServer) -> None:
    path = server.address["unix_socket_path"]
    for user in ("", "somebody"):
        with pytest.raises(SettingError, match="refuses this user") as refused:
            ask(f"unix://{user}:hunter2@{path}", Look("a"))
        assert "hunter2" not in str(refused.value)
    server.ask("CONFIG", "SET", "requirepass", "right")

    with pytest.raises(SettingError, match="refuses this user"):
        ask(server.url, Look("a"))
    assert ask(f"unix://:right@{path}", Look("a"))[0].unknown


def test_a_user_who_may_too_little_is_told_so(server: RunningServer) -> None:
    path = server.address["unix_socket_path"]
    server.ask("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+info", "+client")

    with pytest.raises(SettingError, match="refuses this user"):
        ask(f"unix://reader:pw@{path}", Look("a"))


def test_databases_of_a_server_know_nothing_of_each_other(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = start_server(program_of("any"), tmp_path, port=port)
    ask(f"{server.url}/3", Submit(a_task("a")))

    found = ask(f"{server.url}/3", Look("a")), ask(server.url, Look("a"))
    server.kill()

    assert [answer.unknown for (answer,) in found] == [False, True]


def test_a_cluster_has_no_databases_to_choose_from(valkey_cluster) -> None:
    with pytest.raises(SettingError, match="no database of this number"):
        ask(f"{valkey_cluster[0].url}/3", Look("a"))


# --- TLS -----------------------------------------------------------------------------------------


class TlsPlace:
    """A server that speaks only TLS, with clients that have a certificate of its authority."""

    def __init__(self, directory: Path, *options: str, address: str = "127.0.0.1") -> None:
        self.files = write_certificates(directory / "certificates", address)
        (self.port,) = free_ports(1)
        tls = ("--tls-port", str(self.port), "--tls-ca-cert-file", str(self.files["ca"]))
        own = ("--tls-cert-file", str(self.files["cert"]), "--tls-key-file", str(self.files["key"]))
        self.server = start_server(program_of("redis"), directory, *tls, *own, *options)

    def url(self, **files: Path) -> str:
        query = "&".join(f"{name}={path}" for name, path in files.items())
        return f"valkeys://127.0.0.1:{self.port}?{query}"


@pytest.fixture
def tls_place(tmp_path: Path) -> Iterator[TlsPlace]:
    place = TlsPlace(tmp_path)
    yield place
    place.server.kill()


def test_a_store_is_reached_by_tls_with_certificates_on_both_sides(tls_place: TlsPlace) -> None:
    url = tls_place.url(**tls_place.files)

    answers = ask(url, Submit(a_task("a")), Look("a"))

    assert not answers[1].unknown
    assert asyncio.run(heard(url))


async def heard(url: str) -> bool:
    """Whether a wait by TLS ends with the news."""
    async with connect(url) as connection:
        registry = Registry(connection, "lab")
        since = await registry.news("", 0.0)
        waiting = asyncio.create_task(registry.news(since, 60.0))
        await registry.drop_run("none")
        await registry._call("add_run", "r", b"\x82\xa4name\xa1r\xacsubmitted_at\x00")
        return await waiting != since


def test_who_has_no_certificate_is_not_let_in(tls_place: TlsPlace) -> None:
    with pytest.raises(SettingError, match="no safe connection"):
        ask(tls_place.url(ca=tls_place.files["ca"]), Look("a"))


class ResettingPlace:
    """A server that resets its first connection, and asks all others for a certificate."""

    def __init__(self, files: dict[str, Path], *, others: bool) -> None:
        self._contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(1 + others)]
        for context in self._contexts:
            context.load_cert_chain(files["cert"], files["key"])
            context.load_verify_locations(files["ca"])
        self._contexts[-1].verify_mode = ssl.CERT_REQUIRED if others else ssl.CERT_NONE
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"valkeys://127.0.0.1:{self._listener.getsockname()[1]}?ca={files['ca']}"
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "ResettingPlace":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):  # the listener's end
            for context in self._contexts:
                plain, _ = self._listener.accept()
                with suppress(ssl.SSLError), context.wrap_socket(plain, server_side=True) as safe:
                    safe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_who_is_cut_off_asks_once_more_for_the_reason(tmp_path: Path) -> None:
    with (
        ResettingPlace(write_certificates(tmp_path), others=True) as place,
        pytest.raises(SettingError, match=r"no safe connection .*CERTIFICATE"),
    ):
        ask(place.url, Look("a"))


def test_a_server_that_cuts_off_and_says_nothing_may_come_again(tmp_path: Path) -> None:
    with (
        ResettingPlace(write_certificates(tmp_path), others=False) as place,
        pytest.raises(StoreUnavailable, match="does not answer"),
    ):
        ask(place.url, Look("a"))


def test_a_server_of_another_authority_is_not_believed(tls_place: TlsPlace, tmp_path: Path) -> None:
    others = write_certificates(tmp_path / "others")

    with pytest.raises(SettingError, match=r"no safe connection .*CERTIFICATE_VERIFY_FAILED"):
        ask(tls_place.url(**tls_place.files | {"ca": others["ca"]}), Look("a"))


def test_a_server_with_a_certificate_for_another_address_is_not_believed(tmp_path: Path) -> None:
    place = TlsPlace(tmp_path, address="127.0.0.9")
    try:
        with pytest.raises(SettingError, match="no safe connection"):
            ask(place.url(**place.files), Look("a"))
    finally:
        place.server.kill()


def test_tls_where_there_is_none_is_told(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    server = start_server(program_of("any"), tmp_path, port=port)
    try:
        with pytest.raises((SettingError, StoreUnavailable)):
            ask(f"valkeys://127.0.0.1:{port}", Look("a"))
    finally:
        server.kill()
