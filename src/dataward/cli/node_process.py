"""A node's process: what it is told, its signals, and what it says."""

import asyncio
import logging
import os
import re
import signal
import socket
import sys
from contextlib import suppress
from errno import EACCES, EADDRINUSE, EADDRNOTAVAIL
from math import inf
from pathlib import Path

import msgspec

from dataward.cli.options import PORT_MAX, check_address, lease_seconds_of
from dataward.cli.output import counted
from dataward.cluster.access import note_contact, read_access, remove_contact
from dataward.cluster.host import Host, HostSettings
from dataward.errors import SettingError
from dataward.kernel.realtime import new_event_loop
from dataward.model.ids import NodeId
from dataward.model.platform import RESERVED
from dataward.model.quantities import parse_bandwidth, parse_bytes

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


def run_node(
    access: Path,
    *,
    name: str,
    slots: int,
    depot: Path | None,
    capacity: str,
    listen: str,
    address: str,
    store: str,
    lease: str,
    site: str,
    bandwidth: str,
    quiet: bool,
) -> None:
    """Run it until it is told to end. Raises SettingError, FormatError."""
    known = read_access(access)
    if store:
        known = msgspec.structs.replace(known, store=store)
    node = NodeId(name or socket.gethostname().partition(".")[0])
    if not _NAME.fullmatch(node) or node in RESERVED:
        raise SettingError(
            f"a node cannot be called {node!r}; give --name with letters, digits, - and _"
        )
    host, port = _listen_place(listen)
    if address:
        check_address("--address", address)
    settings = HostSettings(
        node=node,
        depot=(depot or Path(f"dataward-{node}")).absolute(),
        slots=slots or os.cpu_count() or 1,
        capacity_bytes=parse_bytes(capacity) if capacity else inf,
        listen=host,
        port=port,
        address=address,
        lease_seconds=lease_seconds_of(lease),
        site=site,
        bytes_per_second=parse_bandwidth(bandwidth) if bandwidth else 0.0,
    )
    level = logging.WARNING if quiet else logging.INFO
    logging.basicConfig(
        stream=sys.stderr, level=level, format=f"%(asctime)s {node} %(message)s", datefmt="%H:%M:%S"
    )
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # it tells of what we answer already
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(Host(known, settings), access))
    except OSError as error:
        if error.errno not in (EADDRINUSE, EADDRNOTAVAIL, EACCES):
            raise
        raise SettingError(f"cannot listen at {listen}: {os.strerror(error.errno)}") from error


async def _serve(host: Host, access: Path) -> None:
    log, loop, ready = logging.getLogger("dataward"), asyncio.get_running_loop(), asyncio.Event()
    asked = 0

    def on_signal() -> None:
        nonlocal asked
        asked += 1
        if not ready.is_set():
            running.cancel()
        elif asked == 1:
            log.info("draining: what runs may end; ask again to end at once")
            host.drain()
        else:
            host.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGUSR1, _say_what_waits, log)
    running = asyncio.create_task(host.run(ready))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    if ready.is_set():
        note_contact(access, host.node, host.address)
        slots = counted(host.slots, "slot")
        log.info("up at %s with %s, depot %s", host.address, slots, host.depot)
    else:
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
    try:
        await running
    except asyncio.CancelledError:
        log.info("ended before it was up")
        return
    finally:
        remove_contact(access, host.node, host.address)
    log.info("ended")


def _say_what_waits(log: logging.Logger) -> None:
    """Log every coroutine and the line that it waits at: for who wonders what a node is doing."""
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        frames = task.get_stack(limit=1)
        where = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "its end"
        log.warning("%s waits at %s", task.get_name(), where)


def _listen_place(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > PORT_MAX:
        raise SettingError(f"--listen cannot be {text!r}; it takes HOST:PORT, as 0.0.0.0:7000")
    return host.strip("[]") or "0.0.0.0", int(port)
