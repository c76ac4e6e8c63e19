"""Who a node is to others, and whom it lets in: certificates of one cluster, in both directions.

A certificate says what its holder may do by the names it is issued for: ``node.dataward`` and so
on. Whoever has none of the cluster's own is refused in the handshake, before anything is parsed.
"""

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from dataward.errors import SettingError


class Role(Enum):
    """What the holder of a certificate may do; the value is the name it is issued for."""

    NODE = "node.dataward"  # join, exchange messages and files
    SUBMIT = "submit.dataward"  # submit workflows, which run code as the nodes' user
    READ = "read.dataward"  # look


class _StrictContext(ssl.SSLContext):
    """Speaks TLS 1.3 and nothing older, with certificates on both sides."""

    def __init__(self, protocol: int) -> None:
        self.minimum_version = ssl.TLSVersion.TLSv1_3
        self.verify_mode = ssl.CERT_REQUIRED


@dataclass(frozen=True, slots=True)
class Credentials:
    """The cluster's own certificate, and one of this process with its key, all as PEM."""

    authority: str
    certificate: str
    key: str = field(repr=False)

    def server_context(self) -> ssl.SSLContext:
        """For a server that lets in nobody without a certificate of the cluster."""
        return self._context(ssl.PROTOCOL_TLS_SERVER)

    def client_context(self) -> ssl.SSLContext:
        """For a client that believes no server without a certificate of the cluster."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = _StrictContext(protocol)
        try:
            context.load_verify_locations(cadata=self.authority)
            with tempfile.TemporaryDirectory() as directory:  # ssl reads a key from files only
                own = Path(directory) / "own.pem"
                own.touch(mode=0o600)
                own.write_text(f"{self.key}\n{self.certificate}")
                context.load_cert_chain(own)
        except ssl.SSLError as error:
            # Where the text is no PEM at all, OpenSSL has no reason, and Python a sentence.
            why = error.reason or error
            raise SettingError(f"the certificates cannot be used: {why}") from error
        return context


def roles_in(certificate: Mapping[str, Any] | None) -> frozenset[Role]:
    """The roles of the certificate that a peer has shown, as `ssl` tells of it."""
    names = certificate.get("subjectAltName", ()) if certificate else ()
    known = {role.value: role for role in Role}
    return frozenset(known[name] for kind, name in names if kind == "DNS" and name in known)


def check_listening(host: str, credentials: Credentials | None) -> None:
    """Raise SettingError for a server that anybody on the network could use."""
    if credentials is None and not is_loopback(host):
        raise SettingError(
            f"to listen at {host!r} needs credentials: without, only 127.0.0.1 and ::1 may be used"
        )


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
