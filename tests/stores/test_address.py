"""Where a store is, read from a URL; and a URL that is wrong, which never shows its password."""

from pathlib import Path

import pytest

from dataward.errors import SettingError
from dataward.stores.address import ServerAddress, read_address, warnings_about
from dataward.stores.connection import connect


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("valkey://a.b", ServerAddress("a.b")),
        ("redis://a.b:1234/", ServerAddress("a.b", 1234)),
        ("valkey://a.b/3", ServerAddress("a.b", db=3)),
        ("valkey://:p%40ss%2F@a.b", ServerAddress("a.b", password="p@ss/")),
        (
            "valkey://me:secret@[::1]:7000",
            ServerAddress("::1", 7000, username="me", password="secret"),
        ),
        ("valkeys://a.b", ServerAddress("a.b", tls=True)),
        ("rediss://u:p@a.b:1/0", ServerAddress("a.b", 1, username="u", password="p", tls=True)),
        ("unix:///run/a%20b.sock", ServerAddress(path="/run/a b.sock")),
        ("unix://:secret@/run/s", ServerAddress(path="/run/s", password="secret")),
    ],
)
def test_a_url_names_a_server(url: str, address: ServerAddress) -> None:
    assert read_address(url) == address


def test_files_with_certificates_come_with_the_url(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("ca", "cert", "key")}
    for path in files.values():
        path.touch()
    query = "&".join(f"{name}={path}" for name, path in files.items())

    address = read_address(f"valkeys://a.b?{query}")

    assert [address.ca, address.cert, address.key] == [str(path) for path in files.values()]
    assert address.options()["ssl_check_hostname"] is True


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hunter2",
        "a.b:6379",
        "http://:hunter2@a.b",
        "hunter2://a.b",
        "valkey://:hunter2@",
        "valkey://:hunter2@a.b:port",
        "valkey://:hunter2@a.b:99999",
        "valkey://:hunter2@a.b/x",
        "valkey://:hunter2@a.b/-1",
        "valkey://:hunter2@[a.b",
        "valkey://:hunter2#x@a.b",
        "valkey://:hunter2@a.b?ca=/a",
        "valkeys://:hunter2@a.b?cafile=/a",
        "valkeys://:hunter2@a.b?key=/a",
        "valkeys://:hunter2@a.b?ca=/not/there",
        "unix://hunter2",
        "unix://:hunter2@",
        "unix://:hunter2@/s?db=1",
    ],
)
def test_a_wrong_url_is_refused_in_one_sentence_without_its_password(url: str) -> None:
    with pytest.raises(SettingError) as refused:
        connect(url)

    said = str(refused.value)
    assert said.startswith("the store's ")
    assert "\n" not in said
    assert "hunter2" not in said
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_an_address_does_not_show_its_password() -> None:
    assert "secret" not in repr(read_address("valkey://me:secret@a.b"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("valkey://127.0.0.1", []),
        ("valkey://127.8.9.1", []),
        ("valkey://[::1]", []),
        ("valkey://localhost", []),
        ("unix:///run/s", []),
        ("valkey://10.0.0.1", ["without a password", "use valkeys://"]),
        ("valkey://:secret@a.b", ["use valkeys://"]),
        ("valkeys://a.b", ["without a password"]),
        ("valkeys://:secret@a.b", []),
    ],
)
def test_what_is_beyond_this_machine_should_have_a_password_and_tls(url, words) -> None:
    warnings = warnings_about(url)

    assert len(warnings) == len(words)
    for warning, word in zip(warnings, words, strict=True):
        assert word in warning
        assert "secret" not in warning


def test_who_has_a_certificate_needs_no_password(tmp_path: Path) -> None:
    (tmp_path / "cert").touch()

    assert warnings_about(f"valkeys://a.b?cert={tmp_path / 'cert'}") == []
