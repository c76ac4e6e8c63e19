"""Access files: what somebody needs to take part in a cluster, in one file that only they may read.

``cluster init`` writes one for each role. A node's file names the store; submitters and readers
never talk to the store, so theirs does not.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from dataward.errors import FormatError, OutputError, SettingError
from dataward.live.credentials import Credentials, Role
from dataward.live.durability import replace_content

ROLES = {"node": Role.NODE, "submit": Role.SUBMIT, "read": Role.READ}
CONTACTS = "contacts"  # a directory beside the access files, with an address for each node


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """``store`` is the address of the store's server, with its password if it has one."""

    cluster: str
    role: str
    authority: str
    certificate: str
    key: str
    store: str = ""
    contacts: tuple[str, ...] = ()

    @property
    def credentials(self) -> Credentials:
        return Credentials(self.authority, self.certificate, self.key)

    def __repr__(self) -> str:  # never the key, nor the store's password
        return f"Access({self.cluster!r}, {self.role!r})"


def read_access(path: Path) -> Access:
    """The access in a file. Raises FormatError, or SettingError if others may read the file."""
    try:
        with open(path, "rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            access = msgspec.json.decode(file.read(), type=Access)
    except OSError as error:
        raise FormatError(str(path), f"cannot be read ({error.strerror})") from error
    except msgspec.MsgspecError as error:
        raise _no_access_file(path, error) from error
    if mode & 0o077:
        raise SettingError(
            f"{path} can be read by others, who could act in your name: chmod 600 {path}"
        )
    if access.role not in ROLES:
        raise FormatError(str(path), f"has an unknown role {access.role!r}")
    try:
        access.credentials.client_context()
    except SettingError as error:  # later nobody would know which file it was
        raise _no_access_file(path, error) from error
    return access


def _no_access_file(path: Path, why: Exception) -> FormatError:
    remedy = "name a file that 'dataward cluster init' wrote"
    return FormatError(str(path), f"is no access file ({why})", remedy=remedy)


def write_access(path: Path, access: Access) -> None:
    """Write an access file that nobody else may read. Raises OutputError."""
    write_private(path, msgspec.json.format(msgspec.json.encode(access)) + b"\n")


def write_private(path: Path, content: bytes) -> None:
    """Replace a file that only its owner may read, durably. Raises OutputError."""
    try:
        replace_content(path, content, mode=0o600)
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error


# --- contacts ------------------------------------------------------------------------------------


def contacts_for(path: Path, access: Access) -> list[str]:
    """Addresses at which a node may be found, those that came last first."""
    found: list[tuple[float, str]] = []
    with suppress(OSError):
        for entry in (path.parent / CONTACTS).iterdir():
            with suppress(OSError, UnicodeDecodeError):
                found.append((-entry.stat().st_mtime, entry.read_text("utf-8").strip()))
    return list(dict.fromkeys([*(address for _, address in sorted(found)), *access.contacts]))


def note_contact(path: Path, node: str, address: str) -> None:
    """Say beside an access file where a node is, if that can be written; a shared disk will do."""
    with suppress(OSError):
        directory = path.parent / CONTACTS
        directory.mkdir(exist_ok=True)
        replace_content(directory / node, f"{address}\n".encode())


def remove_contact(path: Path, node: str, address: str) -> None:
    """Take back what `note_contact` said, unless the node has been started elsewhere since."""
    with suppress(OSError):
        contact = path.parent / CONTACTS / node
        if contact.read_text("utf-8").strip() == address:
            contact.unlink()
