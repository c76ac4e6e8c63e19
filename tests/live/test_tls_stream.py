"""Reads over TLS from a server in a thread: whole, in pieces, and cut off."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

import pytest

from dataward.cluster.authority import Authority
from dataward.live.credentials import Credentials, Role
from dataward.live.tls_stream import READ_BYTES, TlsStream

SECONDS = 60.0
CONTENT = bytes(range(256)) * 4096 * 3  # several times what is received at once


@cache
def credentials() -> Credentials:
    return Authority.found("a cluster").issue("n1", [Role.NODE])


@contextmanager
def connected(
    serve: Callable[[ssl.SSLSocket], None], name: str = Role.NODE.value
) -> Iterator[TlsStream]:
    """The client's end of a connection whose other end is served in a thread."""
    known = credentials()
    ours, theirs = socket.socketpair()
    ours.settimeout(SECONDS)

    def run() -> None:
        context = known.server_context()
        with (
            theirs,
            suppress(ssl.SSLError),  # the client may not like what it sees
            context.wrap_socket(theirs, server_side=True) as peer,
        ):
            serve(peer)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with ours:
            stream = TlsStream(ours, known.client_context(), name)
            stream.shake_hands()
            yield stream
    finally:
        thread.join(SECONDS)


def test_what_is_sent_comes_whole_and_in_order() -> None:
    with connected(lambda peer: peer.sendall(CONTENT)) as stream, stream.makefile("rb") as file:
        assert len(CONTENT) > 4 * READ_BYTES
        assert file.read(len(CONTENT)) == CONTENT


def test_an_answer_follows_a_question_and_the_connection_stays_for_the_next() -> None:
    def echo(peer: ssl.SSLSocket) -> None:
        while line := peer.recv(100):
            peer.sendall(line)

    with connected(echo) as stream:
        for word in (b"one\n", b"two\n"):
            stream.sendall(word)
            with stream.makefile("rb") as file:
                assert file.readline() == word


def test_an_end_that_was_said_is_an_end() -> None:
    def say_goodbye(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"all")
        peer.unwrap()

    with connected(say_goodbye) as stream, stream.makefile("rb") as file:
        assert file.read() == b"all"


def test_a_connection_that_was_cut_off_is_no_end() -> None:
    def cut_off(peer: ssl.SSLSocket) -> None:
        peer.sendall(b"half")
        socket.socket.shutdown(peer, socket.SHUT_RDWR)

    with (
        connected(cut_off) as stream,
        stream.makefile("rb") as file,
        pytest.raises(OSError, match=r"EOF|eof"),
    ):
        file.read()


def test_a_server_with_another_name_is_not_believed() -> None:
    with (
        pytest.raises(ssl.SSLCertVerificationError),
        connected(lambda peer: None, name=Role.SUBMIT.value),
    ):
        pass
