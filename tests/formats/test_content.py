import gzip
import os
import zlib
from pathlib import Path

import pytest

from dataward.errors import FormatError
from dataward.formats import ReadLimits, parse_workflow, read_workflow
from formats.documents import DAX_2, PEGASUS_YAML, as_bytes, split_document

DOCUMENT = as_bytes(split_document())


def packed(data: bytes) -> bytes:
    """Gzip without the time in it: a test's name must not depend on when it is collected."""
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize("data", [DOCUMENT, DAX_2, PEGASUS_YAML])
@pytest.mark.parametrize("lead", [b"", b"\n \t", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("packed", [False, True])
def test_content_decides_the_format_and_the_name_does_not(
    tmp_path: Path, data: bytes, lead: bytes, packed: bool
) -> None:
    if data is DAX_2 and lead.isspace():
        data = data.partition(b"?>")[2]  # an XML declaration may only come first
    if data is PEGASUS_YAML and lead.isspace():
        lead = b"# a comment\n\n"
    path = tmp_path / "misleading.txt"
    path.write_bytes(gzip.compress(lead + data) if packed else lead + data)

    assert read_workflow(path).name == "diamond"
    assert read_workflow(str(path)) == parse_workflow(lead + data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty"),
        (b" \n", "nothing but white space"),
        (packed(b""), "is empty"),
        (b"\x7fELF\0\0", "is not a workflow file"),
        (b"PK\x03\x04", "is not a workflow file"),
        (b"[1, 2]", "is not a workflow file"),
        (b"hello world\n", "is not a workflow file"),
        (packed(packed(DOCUMENT)), "compressed twice"),
        (packed(DOCUMENT)[:-9], "ends early"),
        (packed(DOCUMENT)[:5], "ends early"),
        (packed(DOCUMENT)[:40] + b"\xff" * 40, "damaged"),
        (packed(DOCUMENT) + b"rubbish", "damaged"),
        (b"\x1f\x8b", "ends early"),
        (DOCUMENT[:-5], "ends early"),
        (DOCUMENT.replace(b"diamond", b"diamo\xffd"), "is not UTF-8"),
    ],
)
def test_content_that_is_no_workflow_is_told_so(data: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        parse_workflow(data)


def test_gzip_may_have_several_members_and_padding() -> None:
    halves = gzip.compress(DOCUMENT[:50]) + gzip.compress(b"") + gzip.compress(DOCUMENT[50:])

    assert parse_workflow(halves + b"\0" * 100) == parse_workflow(DOCUMENT)


def test_content_beyond_the_limit_is_refused_packed_or_not() -> None:
    limits = ReadLimits(size_bytes_max=1000)
    spacious = DOCUMENT + b" " * 1000

    for data in (spacious, gzip.compress(spacious)):
        with pytest.raises(FormatError, match="more than 1000 bytes"):
            parse_workflow(data, limits=limits)


def test_a_gzip_bomb_is_refused_long_before_it_is_unpacked() -> None:
    packer = zlib.compressobj(9, wbits=31)
    blank = packer.compress(b"{" + b" " * 2**20)
    bomb = blank + b"".join(packer.compress(b" " * 2**20) for _ in range(100)) + packer.flush()

    with pytest.raises(FormatError, match="gzip bombs"):
        parse_workflow(bomb, limits=ReadLimits(inflation_from_bytes=2**20))
    with pytest.raises(FormatError, match="more than 5000000 bytes"):
        parse_workflow(bomb, limits=ReadLimits(size_bytes_max=5_000_000))


def test_a_great_many_empty_members_cost_little() -> None:
    with pytest.raises(FormatError, match="is empty"):
        parse_workflow(gzip.compress(b"") * 20_000)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("missing.json", "no such file"), ("", "is a directory"), ("nul\0", "cannot be read")],
)
def test_paths_that_cannot_be_read_are_told_so(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read_workflow(tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_one_may_not_read_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_bytes(DOCUMENT)
    path.chmod(0)

    with pytest.raises(FormatError, match="cannot be read"):
        read_workflow(path)


def test_an_endless_device_is_refused_at_its_first_bytes() -> None:
    with pytest.raises(FormatError, match="is not a workflow file"):
        read_workflow("/dev/zero")
