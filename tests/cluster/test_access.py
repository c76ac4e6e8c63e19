"""Access files: who may read them, what they hold, and what is said of bad ones."""

import json
import stat
from pathlib import Path

import pytest

from dataward.cluster.access import (
    contacts_for,
    note_contact,
    read_access,
    remove_contact,
    write_access,
)
from dataward.cluster.founding import ClusterDirectory
from dataward.errors import FormatError, SettingError
from dataward.live.credentials import Role, roles_in


@pytest.fixture
def lab(tmp_path: Path) -> ClusterDirectory:
    directory = ClusterDirectory(tmp_path / "lab")
    directory.found("lab", "valkey://:secret@127.0.0.1:1", ("n1:7000",))
    return directory


def test_nobody_else_may_read_what_is_founded(lab: ClusterDirectory) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in lab.path.iterdir()}

    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(lab.path.stat().st_mode) == 0o700


def test_only_nodes_are_told_where_the_store_is(lab: ClusterDirectory) -> None:
    known = {role: read_access(lab.access_file(role)) for role in ("node", "submit", "read")}

    assert [access.store != "" for access in known.values()] == [True, False, False]
    assert known["submit"].contacts == ("n1:7000",)


def test_each_role_has_a_certificate_for_that_role_alone(lab: ClusterDirectory) -> None:
    from cryptography import x509

    for word, role in (("node", Role.NODE), ("submit", Role.SUBMIT), ("read", Role.READ)):
        certificate = x509.load_pem_x509_certificate(
            read_access(lab.access_file(word)).certificate.encode()
        )
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        shown = [("DNS", name) for name in names.value.get_values_for_type(x509.DNSName)]
        assert roles_in({"subjectAltName": tuple(shown)}) == {role}


def test_an_access_never_shows_its_secrets(lab: ClusterDirectory) -> None:
    shown = repr(read_access(lab.access_file("node")))

    assert "secret" not in shown
    assert "PRIVATE" not in shown


def test_a_file_that_others_may_read_is_refused(lab: ClusterDirectory) -> None:
    path = lab.access_file("submit")
    path.chmod(0o640)

    with pytest.raises(SettingError, match="chmod 600"):
        read_access(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"cluster": 3}'])
def test_what_is_no_access_file_is_called_that(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.access"
    path.touch(mode=0o600)
    path.write_bytes(content)

    with pytest.raises(FormatError, match="is no access file"):
        read_access(path)


@pytest.mark.parametrize("part", ["authority", "certificate", "key"])
def test_a_file_whose_certificates_are_cut_short_is_called_no_access_file(
    part: str, lab: ClusterDirectory
) -> None:
    path = lab.access_file("submit")
    known = json.loads(path.read_bytes())
    known[part] = known[part][: len(known[part]) // 2]
    path.write_text(json.dumps(known))

    with pytest.raises(FormatError, match="is no access file") as raised:
        read_access(path)
    assert str(path) in str(raised.value)
    assert "None" not in str(raised.value)


def test_an_unknown_role_is_refused(lab: ClusterDirectory) -> None:
    path = lab.access_file("read")
    path.write_bytes(path.read_bytes().replace(b'"read"', b'"king"'))

    with pytest.raises(FormatError, match="unknown role 'king'"):
        read_access(path)


def test_a_directory_holds_one_cluster(lab: ClusterDirectory) -> None:
    with pytest.raises(SettingError, match="holds a cluster already"):
        lab.found("other")


def test_the_store_can_be_named_later(lab: ClusterDirectory) -> None:
    lab.name_store("valkey://127.0.0.1:2")

    assert read_access(lab.access_file("node")).store == "valkey://127.0.0.1:2"


def test_nodes_say_where_they_are_beside_the_access_file(lab: ClusterDirectory) -> None:
    path = lab.access_file("node")
    note_contact(path, "a", "host-a:1")
    note_contact(path, "b", "host-b:2")
    note_contact(path, "c", "host-c:3")
    remove_contact(path, "a", "host-a:1")
    remove_contact(path, "b", "host-b:9")  # by another b, which was elsewhere
    remove_contact(path, "c", "host-c:3")
    submit = lab.access_file("submit")

    assert contacts_for(submit, read_access(submit)) == ["host-b:2", "n1:7000"]


def test_an_access_is_read_as_it_was_written(lab: ClusterDirectory, tmp_path: Path) -> None:
    access = read_access(lab.access_file("node"))
    write_access(tmp_path / "copy", access)

    assert read_access(tmp_path / "copy") == access


def test_a_cluster_is_there_only_when_all_of_its_files_are(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path / "lab")
    directory.found("lab")
    when = {path.name: path.stat().st_mtime_ns for path in directory.path.iterdir()}

    assert max(when, key=lambda name: when[name]) == "node.access"
    directory.access_file("node").unlink()
    assert not directory.exists
