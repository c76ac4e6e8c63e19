"""Where a store's server is, read from one line such as ``valkey://:password@host:6379``.

Nothing here prints a password: messages name the place and never repeat the line.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from dataward.errors import SettingError

PORT = 6379

_PLAIN = frozenset({"valkey", "redis"})
_WITH_TLS = frozenset({"valkeys", "rediss"})
_FORMS = (
    "valkey://[USER:PASSWORD@]HOST[:PORT][/DB], valkeys://... for TLS "
    "(with ?ca=FILE&cert=FILE&key=FILE), or unix:///PATH"
)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One server: at a host's port, or at the path of a socket of this machine."""

    host: str = ""
    port: int = PORT
    path: str = ""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0
    tls: bool = False
    ca: str | None = None  # a file with the certificates that are trusted; None: the system's
    cert: str | None = None
    key: str | None = None

    @property
    def place(self) -> str:
        """How messages name the server."""
        if self.path:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def options(self) -> dict[str, Any]:
        """The options of `valkey.asyncio.Valkey` for this server."""
        options: dict[str, Any] = {"username": self.username, "password": self.password}
        if self.path:
            return {**options, "db": self.db, "unix_socket_path": self.path}
        options |= {"db": self.db, "host": self.host, "port": self.port}
        if self.tls:
            files = {"ca_certs": self.ca, "certfile": self.cert, "keyfile": self.key}
            options |= {f"ssl_{name}": file for name, file in files.items()}
            options |= {"ssl": True, "ssl_check_hostname": True}
        return options


def read_address(url: str) -> ServerAddress:
    """The server that a URL names. Raises SettingError with a sentence that has no password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _wrong("its host or its port cannot be read") from None
    scheme = parts.scheme
    if scheme not in {*_PLAIN, *_WITH_TLS, "unix"}:
        raise _wrong("it does not begin like that")
    if parts.fragment:
        raise _wrong("a # in a password is written %23")
    username, password = _decoded(parts.username), _decoded(parts.password)
    if scheme == "unix":
        path = unquote(parts.path)
        if parts.hostname or not path.startswith("/") or parts.query:
            raise _wrong("after unix:// comes the whole path of a socket")
        return ServerAddress(path=path, username=username, password=password)
    if not parts.hostname:
        raise _wrong("it names no host")
    files = _files(parts, is_allowed=scheme in _WITH_TLS)
    return ServerAddress(
        parts.hostname,
        PORT if port is None else port,
        username=username,
        password=password,
        db=_db(parts.path),
        tls=scheme in _WITH_TLS,
        **files,
    )


def warnings_about(url: str) -> list[str]:
    """What is unsafe about a store at this address: a sentence each, none on this machine."""
    address = read_address(url)
    if address.path or _is_loopback(address.host):
        return []
    warnings = []
    if not address.password and not address.cert:
        warnings.append(
            f"the store at {address.place} is asked for without a password: whoever reaches that "
            "port can change everything, and so run code as the nodes' user"
        )
    if not address.tls:
        warnings.append(
            f"what is said to the store at {address.place} can be read and changed on its way, "
            "a password too: use valkeys://"
        )
    return warnings


def _wrong(problem: str) -> SettingError:
    return SettingError(f"the store's address must be {_FORMS}; {problem}")


def _decoded(text: str | None) -> str | None:
    return unquote(text) if text else None


def _db(path: str) -> int:
    text = path.strip("/")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise _wrong("after the host comes the number of a database, if anything")
    return int(text)


def _files(parts: SplitResult, *, is_allowed: bool) -> dict[str, str]:
    found = parse_qs(parts.query, keep_blank_values=True)
    if found and not is_allowed:
        raise _wrong("files with certificates belong to valkeys://")
    if not found.keys() <= {"ca", "cert", "key"}:
        raise _wrong("after a ? it may only have ca, cert and key")
    if "key" in found and "cert" not in found:
        raise _wrong("a key needs its cert")
    files = {name: values[-1] for name, values in found.items()}
    for name, file in files.items():
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise SettingError(
                f"the store's {name} file {file!r} cannot be read ({error.strerror})"
            ) from None
    return files


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
