import gzip
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataward.errors import FormatError, OutputError
from dataward.model.events import Event, RunEnded
from dataward.reports.event_file import EventFileReader, EventFileWriter
from reports.runs import a_run, simulated

FIRST_LINE = b'["dataward-events",2]\n'


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Anything a field may hold. JSON knows neither infinity nor lone surrogates; nor do events."""
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if kind is int:
        return st.integers(-(2**63), 2**63 - 1)
    if kind is bool:
        return st.booleans()
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return events_of(kind)
    if get_origin(kind) is tuple:
        inner = get_args(kind)
        if inner[-1] is Ellipsis:
            return st.lists(values(inner[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, inner))
    assert kind is str or kind.__supertype__ is str
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def events_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, *(values(field.type) for field in msgspec.structs.fields(kind)))


def write(path: Path, events: list[Event] | tuple[Event, ...]) -> Path:
    with EventFileWriter(path) as file:
        for event in events:
            file.add(event)
    return path


def problem_of(path: Path) -> FormatError:
    with pytest.raises(FormatError) as caught:
        list(EventFileReader(path))
    return caught.value


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(st.one_of([events_of(kind) for kind in get_args(Event)]), max_size=8))
@pytest.mark.parametrize("name", ["run.events", "run.events.gz"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str, events: list[Event]) -> None:
    reader = EventFileReader(write(tmp_path / name, events))

    assert list(reader) == events
    assert reader.warnings == []


def test_every_kind_of_event_has_a_place_in_the_file(tmp_path: Path) -> None:
    kinds = {type(event) for event in simulated(crashes=((10.0, "n1", 40.0),))}

    read = EventFileReader(write(tmp_path / "run", simulated(crashes=((10.0, "n1", 40.0),))))

    assert {type(event) for event in read} == kinds


def test_a_file_can_be_read_twice(tmp_path: Path) -> None:
    reader = EventFileReader(write(tmp_path / "run", a_run()))

    assert list(reader) == list(reader) == a_run()


def test_reading_stops_where_the_reader_does(tmp_path: Path) -> None:
    path = write(tmp_path / "run", a_run())
    path.write_bytes(path.read_bytes() + b"garbage\n")

    assert next(iter(EventFileReader(path))) == a_run()[0]


def test_equal_runs_make_equal_files_compressed_or_not(tmp_path: Path) -> None:
    for name in ("run", "run.gz"):
        one = write(tmp_path / f"one-{name}", a_run())
        other = write(tmp_path / f"another-{name}", a_run())

        assert one.read_bytes() == other.read_bytes()
    assert one.read_bytes()[4:8] == bytes(4)  # no time of writing


def test_compression_is_known_by_content_not_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "run.gz", a_run()).rename(tmp_path / "renamed")

    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert list(EventFileReader(path)) == a_run()


def test_the_file_says_what_it_is_before_anything_happens(tmp_path: Path) -> None:
    writer = EventFileWriter(tmp_path / "run")

    assert (tmp_path / "run").read_bytes() == FIRST_LINE

    writer.close()


def test_flushed_events_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    for name in ("run", "run.gz"):
        writer = EventFileWriter(tmp_path / name)
        for event in a_run():
            writer.add(event)
        writer.flush()

        assert list(EventFileReader(tmp_path / name)) == a_run()

        writer.close()


def test_a_run_killed_at_any_byte_gives_its_whole_events_and_says_so(tmp_path: Path) -> None:
    whole = write(tmp_path / "run", a_run()[:6]).read_bytes()
    for length in range(len(FIRST_LINE), len(whole)):
        path = tmp_path / "cut"
        path.write_bytes(whole[:length])
        reader = EventFileReader(path)

        read = list(reader)

        lines = whole[:length].count(b"\n") - 1
        # A last event that only lacks its newline is whole.
        assert read in (a_run()[:lines], a_run()[: lines + 1])
        at_an_end = whole[:length].endswith(b"\n") or len(read) > lines
        assert bool(reader.warnings) is not at_an_end


def test_what_is_before_a_hole_that_a_power_cut_left_is_read_and_the_run_goes_on_there(
    tmp_path: Path,
) -> None:
    events, path = a_run()[:6], tmp_path / "run"
    whole = write(path, events).read_bytes()
    for start in range(len(FIRST_LINE), len(whole)):
        for end in {start + 1, min(start + 150, len(whole)), len(whole)}:
            path.write_bytes(whole[:start] + bytes(end - start) + whole[end:])
            before = whole[:start].count(b"\n") - 1
            reader = EventFileReader(path)

            assert list(reader) == events[:before]
            assert reader.warnings
            with EventFileWriter(path, append=True) as file:
                file.add_all(events[before:])

            assert path.read_bytes() == whole


def test_a_cut_in_compressed_events_is_told_too(tmp_path: Path) -> None:
    path = write(tmp_path / "run.gz", simulated())
    path.write_bytes(path.read_bytes()[:-2000])
    reader = EventFileReader(path)

    read = list(reader)

    assert 0 < len(read) < len(simulated())
    assert tuple(read) == simulated()[: len(read)]
    assert "breaks off" in reader.warnings[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "line 1: is empty"),
        (b"\x00\x01\x02", "line 1: holds no list of dataward events"),
        (b'{"name": "montage"}\n', "line 1: holds no list of dataward events"),
        (b'["another-list",1]\n', "line 1: holds no list of dataward events"),
        (b"x" * 1_000_000, "line 1: holds no list of dataward events"),
        (b'["dataward-events",3]\n', "line 1: holds events of version 3, but this dataward reads"),
        (FIRST_LINE + b'["node-lost",1.0,"a"]\ngarbage\n', "line 3: is not an event"),
        (FIRST_LINE + b'["node-gone",1.0,"a"]\n', "line 2: is not an event"),
        (FIRST_LINE + b'["node-lost","soon","a"]\n', "line 2: is not an event"),
        (FIRST_LINE + b'["node-lost",1.0,"\xff"]\n', "line 2: is not an event"),
        (gzip.compress(b"hello", mtime=0), "line 1: holds no list of dataward events"),
        (gzip.compress(b"", mtime=0)[:10] + b"\xff" * 50, "its gzip compression is damaged"),
        (b"\x1f\x8bnonsense", "its gzip compression is damaged"),
    ],
)
def test_what_is_no_event_list_is_refused_with_its_place(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)

    assert words in str(problem_of(path))


def test_damage_inside_compressed_events_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "run.gz", simulated())
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)

    problem_of(path)


def test_what_cannot_be_opened_is_an_error_with_its_name(tmp_path: Path) -> None:
    assert "cannot be read" in str(problem_of(tmp_path / "nowhere"))
    assert "cannot be read" in str(problem_of(tmp_path))
    assert "cannot be read" in str(problem_of(Path("a\0b")))


@pytest.mark.parametrize("name", ["run", "run.gz"])
def test_what_the_disk_refuses_is_an_output_error(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()

    with pytest.raises(OutputError):
        EventFileWriter(tmp_path / name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_is_an_output_error() -> None:
    with pytest.raises(OutputError, match="No space left"), EventFileWriter(Path("/dev/full")) as f:
        f.add(RunEnded(1.0, 1, 0, 0, 0))


def test_a_task_takes_less_than_a_third_of_a_kilobyte_compressed(tmp_path: Path) -> None:
    path = write(tmp_path / "run.gz", simulated("montage", 300, 4))

    assert path.stat().st_size / 300 < 333
