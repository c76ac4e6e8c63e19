"""Founds a cluster: a directory with its certificate authority and an access file for each role."""

from pathlib import Path

from dataward.cluster.access import (
    ROLES,
    Access,
    contacts_for,
    read_access,
    write_access,
    write_private,
)
from dataward.cluster.authority import Authority
from dataward.errors import OutputError, SettingError

AUTHORITY = "authority.pem"
AUTHORITY_KEY = "authority.key"  # whoever has it can let anybody in


class ClusterDirectory:
    """``authority.pem`` and ``.key``, and ``node.access``, ``submit.access``, ``read.access``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def access_file(self, role: str) -> Path:
        return self.path / f"{role}.access"

    @property
    def exists(self) -> bool:
        return self.access_file("node").exists()

    def existing(self) -> "ClusterDirectory":
        """This one. Raises SettingError if there is no cluster in it."""
        if not self.exists:
            raise SettingError(f"{self.path} holds no cluster; 'dataward cluster init' founds one")
        return self

    def found(self, name: str, store: str = "", contacts: tuple[str, ...] = ()) -> None:
        """Make a new cluster here. Raises OutputError, or SettingError if there is one."""
        if self.exists:
            raise SettingError(
                f"{self.path} holds a cluster already; name another directory, or remove it"
            )
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error
        authority = Authority.found(f"dataward {name}")
        write_private(self.path / AUTHORITY, authority.certificate.encode())
        write_private(self.path / AUTHORITY_KEY, authority.key.encode())
        for word, role in reversed(ROLES.items()):  # a node's is last: with it the cluster exists
            issued = authority.issue(f"{name} {word}", [role])
            access = Access(
                cluster=name,
                role=word,
                authority=issued.authority,
                certificate=issued.certificate,
                key=issued.key,
                store=store if word == "node" else "",
                contacts=contacts if word != "node" else (),
            )
            write_access(self.access_file(word), access)

    def name_store(self, store: str) -> None:
        """Write the store's address into the nodes' access file."""
        path = self.access_file("node")
        access = read_access(path)
        if access.store != store:
            write_access(path, _with_store(access, store))

    def contacts(self) -> list[str]:
        path = self.access_file("submit")
        return contacts_for(path, read_access(path))


def _with_store(access: Access, store: str) -> Access:
    import msgspec

    return msgspec.structs.replace(access, store=store)
