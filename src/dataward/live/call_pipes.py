"""Four pipes between a caller and a runner process that makes calls for it, as named pipes.

``bundles`` brings calls, ``tickets`` one ticket for each call, ``results`` takes back a record of
each call that was made, and ``bell`` wakes the caller. A process takes a call's ticket before it
makes the call. The caller takes back all tickets that are left if a call turns out slow, or if the
process has died: the system gives a ticket to one reader only, so no call is made twice. A result
is in its pipe before the next call begins, so the caller can have it though that call takes long.

Each message fits into the smallest pipe, of one page, so it is written and read whole. What is
larger is written to a file, and the message names it. Every runner process loads this module, so
it imports little.
"""

import os
import select
from collections.abc import Iterator, Sequence
from contextlib import suppress
from struct import Struct as Layout
from time import perf_counter
from typing import NamedTuple

from dataward.live.call_results import InFile, Result
from dataward.live.value_files import Part, size_of

MESSAGE_BYTES_MAX = 4096  # what a pipe takes whole or not at all
TICKETS_MAX = 500  # at a time
BELL_SECONDS = 0.001  # how often the bell is rung while there are more calls to make

_NAMES = ("bundles", "tickets", "results", "bell")
_TICKET = Layout("<II")  # the bundle, from 1 on, and the call's place in it
_NO_MORE = (0, 0)  # the last ticket
_BUNDLE = Layout("<II")  # the bundle, and the bytes that follow; 0: it is in a file
_MADE = Layout("<IIIQd")  # the bundle, the place, bytes of trace, bytes of value, seconds
_READ_BYTES = 1 << 16
_OPEN = os.O_NONBLOCK | os.O_CLOEXEC


class MadeCall(NamedTuple):
    """The call at ``place`` in a bundle has been made, and took ``seconds``."""

    bundle: int
    place: int
    seconds: float
    result: Result | InFile


def _file_of_bundle(stem: str, bundle: int) -> str:
    return f"{stem}.{bundle}"


def _file_of_result(stem: str, bundle: int, place: int) -> str:
    return f"{stem}.{bundle}.{place}"


class CallerPipes:
    """Makes the pipes. ``stem`` is the beginning of the paths of all files."""

    def __init__(self, stem: str) -> None:
        """Raises OSError if there is no such directory."""
        self._stem = stem
        for name in _NAMES:
            os.mkfifo(f"{stem}.{name}", 0o600)
        # Open at both ends: this end reads back tickets, and waits for no process.
        opened = [os.open(f"{stem}.{name}", os.O_RDWR | _OPEN) for name in _NAMES]
        self._bundles, self._tickets, self._results, self.bell = opened
        self._rest = b""  # the beginning of a record
        self._in_files: set[int] = set()  # bundles

    def send(self, bundle: int, payload: bytes, calls: int) -> bool:
        """Whether a bundle of so many calls was sent; if not, the pipes are full at the moment.

        Raises OSError if a large bundle cannot be written to a file.
        """
        assert calls <= TICKETS_MAX
        if len(payload) + _BUNDLE.size > MESSAGE_BYTES_MAX:
            with open(_file_of_bundle(self._stem, bundle), "wb") as file:
                file.write(payload)
            payload = b""
            self._in_files.add(bundle)
        pack = _TICKET.pack
        try:
            os.write(self._bundles, _BUNDLE.pack(bundle, len(payload)) + payload)
            os.write(self._tickets, b"".join([pack(bundle, place) for place in range(calls)]))
        except BlockingIOError:
            return False
        return True

    def remove(self, bundle: int) -> None:
        """Remove the bundle's file, if it has one: all its calls are made or taken back."""
        if bundle in self._in_files:
            self._in_files.remove(bundle)
            os.unlink(_file_of_bundle(self._stem, bundle))

    def take_back(self) -> list[tuple[int, int]]:
        """The tickets that nobody has taken: pairs of a bundle and a place in it."""
        back: list[tuple[int, int]] = []
        with suppress(BlockingIOError):
            while True:
                back += _TICKET.iter_unpack(os.read(self._tickets, _READ_BYTES))
        return [ticket for ticket in back if ticket != _NO_MORE]

    def made(self) -> list[MadeCall]:
        """The calls made since this was last asked. Also quiets the bell."""
        with suppress(BlockingIOError):
            os.read(self.bell, _READ_BYTES)
        found: list[MadeCall] = []
        with suppress(BlockingIOError):
            while True:
                data = os.read(self._results, _READ_BYTES)
                found += self._records(self._rest + data if self._rest else data)
                if len(data) < _READ_BYTES:
                    break
        return found

    def _records(self, data: bytes) -> Iterator[MadeCall]:
        at, end = 0, len(data)
        while at + _MADE.size <= end:
            bundle, place, trace_size, value_size, seconds = _MADE.unpack_from(data, at)
            start = at + _MADE.size
            result: Result | InFile
            if _MADE.size + trace_size + value_size > MESSAGE_BYTES_MAX:
                after = start
                result = self._large(bundle, place, value_size, trace_size)
            else:
                after = start + value_size + trace_size
                if after > end:
                    break
                trace = data[start + value_size : after].decode() if trace_size else ""
                result = Result(data[start : start + value_size], trace)
            yield MadeCall(bundle, place, seconds, result)
            at = after
        self._rest = data[at:]

    def _large(self, bundle: int, place: int, value_size: int, trace_size: int) -> Result | InFile:
        file = InFile(_file_of_result(self._stem, bundle, place))
        if not trace_size:
            return file
        content = file.read()
        os.unlink(file.path)
        return Result(content[:value_size], content[value_size:].decode())

    def say_last(self) -> None:
        """Tell the process, if there is one, that no more calls come."""
        with suppress(BlockingIOError):
            os.write(self._tickets, _TICKET.pack(*_NO_MORE))

    def close(self) -> None:
        """Tell the process, if there is one, that no more calls come, and close the pipes.

        Closing would not be enough: a fork of this process may have the pipes open, too.
        """
        self.say_last()
        for file in (self._bundles, self._tickets, self._results, self.bell):
            os.close(file)
        for name in _NAMES:
            with suppress(FileNotFoundError):
                os.unlink(f"{self._stem}.{name}")


class RunnerPipes:
    """The pipes as the process has them that makes the calls."""

    def __init__(self, stem: str) -> None:
        """Raises FileNotFoundError if the caller has closed the pipes."""
        self._stem = stem
        modes = (os.O_RDONLY, os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)
        self._files: list[int] = []
        for name, mode in zip(_NAMES, modes, strict=True):
            self._files.append(os.open(f"{stem}.{name}", mode | _OPEN))
        self._bundles, self._tickets, self._results, self._bell = self._files
        self._rang_at = 0.0

    def ring(self) -> None:
        """Wake the caller, which then reads all results."""
        self._rang_at = perf_counter()
        with suppress(BlockingIOError):  # the bell is ringing already
            os.write(self._bell, b"!")

    def take_ticket(self) -> tuple[int, int] | None:
        """The next bundle and place, or None if there will be no more.

        If there is no ticket, wakes the caller, and waits.
        """
        while True:
            try:
                ticket = os.read(self._tickets, _TICKET.size)
            except BlockingIOError:
                self.ring()
                _wait_for(self._tickets, select.POLLIN)
                continue
            bundle, place = _TICKET.unpack(ticket) if ticket else _NO_MORE
            return (bundle, place) if bundle else None

    def bundle(self, wanted: int) -> bytes:
        """The calls of a bundle. Bundles before it, whose tickets were taken back, are skipped."""
        while True:
            bundle, size = _BUNDLE.unpack(os.read(self._bundles, _BUNDLE.size))
            payload = os.read(self._bundles, size)
            if bundle == wanted:
                return payload or self._from_file(bundle)

    def _from_file(self, bundle: int) -> bytes:
        with open(_file_of_bundle(self._stem, bundle), "rb", buffering=0) as file:
            return file.read()

    def answer(self, bundle: int, place: int, result: Result, seconds: float) -> str:
        """The path of the file, if the result is large; or ''. Raises OSError if the disk is full.

        The caller is woken if it has not been for a while.
        """
        trace = result.trace.encode(errors="replace")
        value_bytes = len(result.value) + size_of(result.rest)
        record = _MADE.pack(bundle, place, len(trace), value_bytes, seconds)
        path = ""
        if len(record) + value_bytes + len(trace) > MESSAGE_BYTES_MAX:
            path = _file_of_result(self._stem, bundle, place)
            _write_file(path, (result.value, *result.rest, trace))
        else:
            record += result.value + trace
        while True:
            try:
                os.write(self._results, record)
                break
            except BlockingIOError:  # the caller must read first
                self.ring()
                _wait_for(self._results, select.POLLOUT)
        if perf_counter() - self._rang_at >= BELL_SECONDS:
            self.ring()
        return path

    def close(self) -> None:
        for file in self._files:
            os.close(file)


def _wait_for(file: int, what: int) -> None:
    poll = select.poll()
    poll.register(file, what)
    poll.poll()


def _write_file(path: str, parts: Sequence[Part]) -> None:
    try:
        with open(path, "wb", buffering=0) as file:
            for part in parts:
                rest = memoryview(part)
                while rest:  # the system writes no more than 2 GB at a time
                    rest = rest[file.write(rest) :]
    except OSError:
        with suppress(FileNotFoundError):
            os.unlink(path)
        raise
