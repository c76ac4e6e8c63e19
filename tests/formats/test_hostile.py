"""Whatever a file holds, reading it ends in a workflow or in a DatawardError."""

import contextlib
import gzip
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.errors import DatawardError, FormatError
from dataward.formats import parse_workflow
from formats.documents import DAX_2, DAX_3, PEGASUS_YAML, VERSIONS, as_bytes, document

DEEP = 1_000_000
FUZZ = settings(max_examples=300, deadline=None)


def survives(data: bytes) -> None:
    with contextlib.suppress(DatawardError):
        parse_workflow(data)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**30, -(10**400), 2**63, 2**31, -1, 0])
    | st.floats()
    | st.text()
    | st.sampled_from(["split", "\ud800", "a\0b", "../../etc/x", "/etc/passwd", "\x1b[31m"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@FUZZ
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    survives(data)
    survives(gzip.compress(data))
    survives(b"{" + data)
    survives(b"<adag>" + data)
    survives(b"jobs:" + data)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(inner, (*path, key))
    return found


PLACES = [(version, path) for version in VERSIONS for path in places(document(version)) if path]


@settings(max_examples=800, deadline=None)
@given(place=st.sampled_from(PLACES), value=json_values, delete=st.booleans())
def test_any_value_anywhere_in_wfformat(
    place: tuple[str, tuple[Any, ...]], value: Any, delete: bool
) -> None:
    version, path = place
    whole: Any = document(version)
    target = whole
    for key in path[:-1]:
        target = target[key]
    if delete:
        del target[path[-1]]
    else:
        target[path[-1]] = value

    survives(as_bytes(whole))


TEXTS = [DAX_2, DAX_3, PEGASUS_YAML, as_bytes(document("1.6")), as_bytes(document("1.0"))]
SCRAPS = [
    b'"', b"'", b"<", b">", b"/>", b"&", b"&#0;", b"&amp;", b"&x;", b"\0", b"\xff", b"\n", b"  ",
    b"- ", b": ", b"[", b"]", b"{", b"}", b"*a", b"&a ", b"!!python/object:os.system", b"|", b"---",
    b"-1", b"1e999", b"nan", b"1,5", b"..", b"</job>", b"<job>", b"<![CDATA[", b"<!--", b"%", b"\t",
    b"\\ud800", b"ID1", b"null", b"~", b"<!DOCTYPE a>", b'encoding="utf-7"', b"#",
]  # fmt: skip


@settings(max_examples=800, deadline=None)
@given(
    text=st.sampled_from(TEXTS),
    cuts=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 30), st.sampled_from([*SCRAPS, b""])),
        min_size=1,
        max_size=4,
    ),
)
def test_any_text_with_pieces_cut_out_and_put_in(
    text: bytes, cuts: list[tuple[float, int, bytes]]
) -> None:
    for where, length, scrap in cuts:
        at = int(where * len(text))
        text = text[:at] + scrap + text[at + length :]

    survives(text)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * DEEP,
        b'{"a":' * DEEP,
        b'{"schemaVersion":"1.6","workflow":' + b"[" * DEEP,
        b'{"schemaVersion":"1.6","workflow":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"schemaVersion":"1.6","workflow":{"specification":{"tasks":[{"id":"a","x":'
        + b"[" * 500
        + b"]" * 500
        + b"}]}}}",
        b"<adag>" * DEEP,
        b"<adag>" + b"<job>" * DEEP,
        b"jobs: " + b"[" * DEEP,
        b"jobs: " + b"{a: " * DEEP,
        b"jobs:\n" + b"- " * DEEP,
        b"jobs:\n" + b"? " * DEEP,
        b"x: " + b"[" * DEEP,
    ],
    ids=lambda data: f"{data[:60]!r}",
)
def test_nesting_a_million_deep_is_no_crash(data: bytes) -> None:
    survives(data)


def test_deep_nesting_is_told_as_such() -> None:
    for data in (b'{"a":' * DEEP, b"<adag>" + b"<x>" * DEEP, b"jobs:\n" + b"- " * DEEP):
        with pytest.raises(FormatError, match="nested too deeply"):
            parse_workflow(data)


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "lol"}">' for i in range(10))


@pytest.mark.parametrize(
    "doctype",
    [
        f"<!DOCTYPE adag [{LAUGHS}]>",
        '<!DOCTYPE adag [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE adag [<!ENTITY % x SYSTEM "http://127.0.0.1:9/x"> %x;]>',
        '<!DOCTYPE adag SYSTEM "http://127.0.0.1:9/x.dtd">',
    ],
)
def test_xml_entities_are_neither_expanded_nor_fetched(doctype: str) -> None:
    body = '<adag name="&l9;&x;"><job id="a" name="&l9;&x;"/></adag>'

    with pytest.raises(FormatError, match="DOCTYPE"):
        parse_workflow(f"{doctype}{body}".encode())


def test_yaml_aliases_are_refused() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
    )

    with pytest.raises(FormatError, match="anchors or aliases"):
        parse_workflow((bomb + "jobs: [*j]\n").encode())


def test_yaml_tags_make_no_objects() -> None:
    data = b"jobs:\n- !!python/object/apply:os.system ['echo oops > /tmp/oops']\n"

    with pytest.raises(FormatError, match="a job should be a mapping"):
        parse_workflow(data)


@pytest.mark.parametrize("lead", [b"", b"{", b"<", b"jobs:\n- ", b"\x1f\x8b"])
def test_ten_megabytes_of_rubbish(lead: bytes) -> None:
    with pytest.raises(FormatError):
        parse_workflow(lead + random.Random(1).randbytes(10_000_000))


@pytest.mark.parametrize(
    "byte", [b"a", b'"', b"<", b"{", b"-", b"#", b" ", b"\n", b"&", b":", b"'"]
)
def test_ten_megabytes_of_one_byte(byte: bytes) -> None:
    for lead in (b"", b'{"name": "', b'<adag name="', b"<adag>", b"jobs: ", b"jobs:\n- id: "):
        survives(lead + byte * 10_000_000)


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "1e999", "-1", "1" + "0" * 5000, '"5"', "[]"]
)
@pytest.mark.parametrize(
    "key", [b'"runtimeInSeconds": 0.5', b'"sizeInBytes": 10', b'"coreCount": 2']
)
def test_numbers_that_are_none_are_refused(number: str, key: bytes) -> None:
    data = as_bytes(document("1.6"))
    assert key in data

    with pytest.raises(FormatError):
        parse_workflow(data.replace(key, key.split(b":")[0] + b": " + number.encode()))


@pytest.mark.parametrize("name", ["../../etc/x", "/etc/passwd", "..", "C:\\x", "~root"])
def test_names_that_lead_outside_load_with_a_warning(name: str) -> None:
    value = document("1.6")
    value["workflow"]["specification"]["files"][0]["id"] = name

    workflow = parse_workflow(as_bytes(value))

    assert any("studied but not run" in warning for warning in workflow.warnings)


@pytest.mark.parametrize("name", ["a\nb", "a\0b", "\x1b[31mred", "\ud800", "", "x" * 5000])
@pytest.mark.parametrize("place", ["task", "file", "parent"])
def test_names_that_cannot_be_shown_are_refused_and_not_shown(name: str, place: str) -> None:
    value = document("1.6")
    specification = value["workflow"]["specification"]
    match place:
        case "task":
            specification["tasks"][0]["id"] = name
        case "file":
            specification["files"][0]["id"] = name
        case "parent":
            specification["tasks"][0]["parents"] = [name]

    with pytest.raises(FormatError) as caught:
        parse_workflow(as_bytes(value))

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
