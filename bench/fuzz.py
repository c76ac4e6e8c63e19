"""Broken mail for the decoders and broken requests for a host's server, a great many of each.

    python -m bench.fuzz [--mails 1000000] [--requests 100000] [--seed 1]

Mails are encoded messages of every kind with bytes changed, cut out, doubled or joined to
another's; each must be decoded into its type or be refused, and what was decoded must be encoded
and decoded to the same. Requests are made of the right pieces in wrong places, and some of them are
then changed by bytes; the server, in a process of its own and without TLS (behind which nobody
comes who has no certificate), must answer or cut off, never with 500, and keep serving, with its
memory bounded and no file left.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
from blake3 import blake3
from rich.console import Console

from bench.transfer import HOST, free_port, running
from dataward.kernel import AsyncioKernel
from dataward.kernel.realtime import new_event_loop
from dataward.live.depot_disk import Place
from dataward.live.file_frames import decoded_digests, encoded_digests
from dataward.live.node_server import Mail, NodeServer, ServerSettings, decoded_mail, mail_path
from dataward.live.served_files import FileSettings
from dataward.model.messages import Message

RUN = "a-run"
A_FILE = b"a file that is here"
DIGEST = blake3(A_FILE).hexdigest()
EXPECTED = {0, 100, 200, 201, 204, 206, 400, 404, 405, 408, 411, 413, 416, 417, 422}
"""Statuses; 0: cut off without an answer"""

EXAMPLES: dict[Any, Any] = {str: "t1", int: 3, float: 0.5, bool: True}
AT_ONCE = 200  # requests
SHORT_SECONDS = 0.5  # for which the server waits for the rest of a request
MEMORY_BYTES_MAX = 300 << 20  # that the server may grow by


# --- mails ---------------------------------------------------------------------------------------


def example(kind: Any) -> Any:
    """Some value of a type, as messages have them."""
    kind = getattr(kind, "__supertype__", kind)  # of a `NewType`
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind(*(example(field.type) for field in msgspec.structs.fields(kind)))
    arguments = get_args(kind)
    if arguments:
        return tuple(example(one) for one in arguments if one is not Ellipsis)
    return EXAMPLES[kind]


def mails() -> list[bytes]:
    messages = [example(kind) for kind in get_args(Message)]
    whole = [Mail("n1", (message,)) for message in messages] + [Mail("n1", tuple(messages))]
    return [*map(msgspec.msgpack.encode, whole), encoded_digests([DIGEST] * 3)]


def broken(sound: list[bytes], rng: random.Random) -> bytes:
    """One of these byte strings with something wrong in it."""
    body = bytearray(rng.choice(sound))
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(body) + 1)
        match rng.randrange(6):
            case 0 if at < len(body):
                body[at] = rng.randrange(256)
            case 1 if at < len(body):
                body[at] ^= 1 << rng.randrange(8)
            case 2:
                del body[at : at + rng.randrange(1, 9)]
            case 3:
                body[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                body[at:at] = body[at : at + rng.randrange(1, 20)] * rng.randrange(1, 50)
            case 5:
                body[at:] = rng.choice(sound)[rng.randrange(9) :]
    return bytes(body)


def fuzz_decoders(count: int, seed: int) -> Counter[str]:
    rng, sound, ends = random.Random(seed), mails(), Counter[str]()
    assert all(decoded_mail(mail) for mail in sound[:-1])
    for _ in range(count):
        body = broken(sound, rng)
        try:
            mail = decoded_mail(body)
        except ValueError:
            ends["no mail"] += 1
        else:
            again = msgspec.msgpack.encode(mail)
            assert msgspec.msgpack.encode(decoded_mail(again)) == again, body
            ends["mail"] += 1
        try:
            assert all(len(digest) == 64 for digest in decoded_digests(body)), body
            ends["digests"] += 1
        except ValueError:
            ends["no digests"] += 1
    return ends


# --- requests ------------------------------------------------------------------------------------

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "CONNECT", "PRI", "get", "")
PATHS = (
    f"/files/{DIGEST}", f"/files/{'0' * 64}", "/files/have", "/files/batch", mail_path(RUN),
    mail_path("another"), mail_path(".."), "/files/../etc/passwd", "/files/%2e%2e%2f", "/", "*", "",
    "http://elsewhere/files/have", "/files/" + "a" * 9000, mail_path("a" * 81),
)  # fmt: skip
SANE_HEADERS = (
    "Connection: close", "Range: bytes=0-3", "Range: bytes=9-1", "Range: bytes=-", "Range: bytes=9",
    "Range: bytes=0-1,3-4", "Range: bytes=-99999999999999999999", "Range: bytes=19-", "Range: x",
    "Expect: 100-continue", "If-Range: x", "Content-Encoding: gzip", "Content-Encoding: zstd",
    "Content-Type: multipart/form-data", "Sec-WebSocket-Key: x", "Cookie: a=b", "X: y" * 1000,
)  # fmt: skip
HEADERS = (
    "Host: x", "Connection: keep-alive", "Content-Length: 5", "Content-Length: " + "9" * 20,
    "Content-Length: -1", "Content-Length: 0x5", "Transfer-Encoding: chunked", "Host", ":",
    "Transfer-Encoding: chunked, identity", "Expect: more", " folded", "X: \x00", "X" * 9000,
    "Upgrade: websocket", "Upgrade: h2c", "Connection: Upgrade",
)  # fmt: skip
VERSIONS = ("1.1", "1.1", "1.0", "2", "x")


def a_request(sound: list[bytes], rng: random.Random) -> bytes:
    """Half of them are HTTP that the server must think about; the others may be anything."""
    is_sane = rng.random() < 0.5
    body = rng.choice((b"", b"5\r\nhello\r\n0\r\n\r\n", broken(sound, rng), rng.choice(sound)))
    line = f"{rng.choice(METHODS[:4])} {rng.choice(PATHS[:8])} HTTP/1.1"
    headers = [f"Content-Length: {len(body)}", *rng.choices(SANE_HEADERS, k=rng.randrange(3))]
    if not is_sane:
        line = f"{rng.choice(METHODS)} {rng.choice(PATHS)} HTTP/{rng.choice(VERSIONS)}"
        headers = rng.choices((*HEADERS, *SANE_HEADERS, headers[0]), k=rng.randrange(6))
    request = "\r\n".join((line, "Host: x", *headers, "", "")).encode("latin-1") + body
    return request if is_sane or rng.random() < 0.5 else broken([request], rng)


async def status_of(request: bytes, port: int) -> int:
    """Of the first answer; 0 if the server ends the connection without one."""
    reader, writer = await asyncio.open_connection(HOST, port)
    came = b""
    with suppress(ConnectionError):
        writer.write(request)
        while part := await reader.read(1 << 16):
            came += part
    writer.transport.abort()
    return int(came.split()[1]) if came else 0


async def send_all(requests: list[bytes], port: int) -> Counter[int]:
    """How often each status was answered. Exits with the request that made the server fail."""
    statuses = await asyncio.gather(*(status_of(request, port) for request in requests))
    for request, status in zip(requests, statuses, strict=True):
        if status not in EXPECTED:
            raise SystemExit(f"{status} for {request!r}")
    return Counter(statuses)


async def fuzz_server(count: int, seed: int) -> tuple[Counter[int], int]:
    """How often each status was answered, and by how many bytes the server grew."""
    rng, sound, ends = random.Random(seed), mails(), Counter[int]()
    good = (
        f"POST {mail_path(RUN)} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(sound[0])}\r\n\r\n"
    ).encode() + sound[0]
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / DIGEST).write_bytes(A_FILE)
        port = free_port()
        command = [sys.executable, "-m", "bench.fuzz", "serve", directory, str(port)]
        with running(command, [port]) as server:
            began_bytes = grown_bytes = 0
            for first in range(0, count, AT_ONCE):
                some = [a_request(sound, rng) for _ in range(min(AT_ONCE, count - first))]
                ends += await send_all(some, port)
                assert await status_of(good, port) == 204
                began_bytes = began_bytes or server.memory_info().rss
                grown_bytes = server.memory_info().rss - began_bytes
                assert grown_bytes < MEMORY_BYTES_MAX
            left = sorted(path.name for path in Path(directory).iterdir())
        assert left == [DIGEST], left
    return ends, grown_bytes


async def serve(directory: Path, port: int) -> None:
    """The process of the server; it ends with SIGTERM."""
    inbox = AsyncioKernel().queue()
    incoming = iter(range(sys.maxsize))

    def mailbox(run: str) -> Any:
        inbox.take_all()
        return inbox if run == RUN else None

    def find(digest: str) -> Place | None:
        return (
            Place(str(directory / DIGEST), len(A_FILE), DIGEST, False) if digest == DIGEST else None
        )

    server = NodeServer(
        mailbox,
        find,
        lambda: str(directory / f"incoming-{next(incoming)}"),
        lambda path, *_: os.unlink(path),
        None,
        ServerSettings(
            body_seconds=SHORT_SECONDS,
            idle_seconds=SHORT_SECONDS,
            linger_seconds=SHORT_SECONDS,
            files=FileSettings(chunk_seconds=SHORT_SECONDS),
        ),
    )
    await server.start(HOST, port)
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    await over.wait()
    await server.close()


def run(out: Console, *, mails: int = 1_000_000, requests: int = 100_000, seed: int = 1) -> None:
    found = fuzz_decoders(mails, seed)
    out.print(f"seed {seed}: {mails:,} mails, {dict(sorted(found.items()))}")
    statuses, grown_bytes = asyncio.run(fuzz_server(requests, seed))
    out.print(f"seed {seed}: {requests:,} requests, {dict(sorted(statuses.items()))}")
    out.print(f"the server grew by {grown_bytes / 1e6:.1f} MB, and serves; no file is left")


def main() -> None:
    match sys.argv[1:]:
        case ["serve", directory, port]:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(serve(Path(directory), int(port)))
            return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mails", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    run(Console(width=110), **vars(parser.parse_args()))


if __name__ == "__main__":
    main()
