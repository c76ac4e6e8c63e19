"""The work that is about data, and the tables of it; no contestant runs here."""

import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.cluster import data_contest
from bench.cluster.data_contest import CONTESTANTS, DASK, FILES, RAY, VALUES, WORK
from bench.peers.contest import Failure, Result
from bench.peers.tables import Shown

sys.path.insert(0, str(Path(data_contest.__file__).parents[1] / "peers" / "contestants"))

import data_work


def test_the_work_is_as_the_readme_says():
    locality, joins, hot, tight = (data_work.WORK[name](100) for name in WORK)

    assert (locality.nodes, len(locality.sizes), len(locality.reads)) == (2, 40, 400)
    assert {len(needs) for needs in locality.reads} == {1}
    assert (joins.nodes, len(joins.sizes), len(joins.reads)) == (4, 40, 200)
    assert (min(joins.sizes), max(joins.sizes)) == (1_000_000, 100_000_000)
    assert round(sum(joins.sizes) / 1e6) == 890
    assert all(len(set(needs)) == 2 for needs in joins.reads)
    assert all(40 in needs for needs in hot.reads)
    assert hot.sizes[40] == 100_000_000
    assert tight.room_bytes == sum(joins.sizes) * 60 // 100
    assert tight._replace(room_bytes=0) == joins


def test_a_tenth_of_the_size_is_a_tenth_of_the_bytes():
    for make in data_work.WORK.values():
        assert sum(make(10).sizes) == pytest.approx(sum(make(100).sizes) / 10, rel=1e-4)


def test_objects_differ_and_reading_them_counts_their_bytes():
    one, other = data_work.made(1, 1000), data_work.made(2, 1000)

    assert one.tobytes() != other.tobytes()
    assert data_work.read(one, other) == 2000


def shown(table) -> str:
    out = StringIO()
    Console(file=out, width=250).print(table)
    return out.getvalue()


def test_the_tables_say_who_failed_and_how_much_less_ours_takes():
    def result(seconds, moved):
        return [Result(seconds, 10, cpu_seconds=2.0, network_bytes=moved, told_bytes=None)]

    outcomes = {(FILES.name, "joins"): result(2.0, 100), (DASK.name, "joins"): result(3.0, 250)}
    outcomes[RAY.name, "joins"] = [Failure("failed", "it said nothing")]
    outcomes[VALUES.name, "joins"] = result(1.0, None)

    rows = shown(data_contest._table([Shown(each, "") for each in CONTESTANTS], outcomes))
    ratios = shown(data_contest._ratios(outcomes))

    assert "2.00 s; 100 B (?); 2.0 s" in rows
    assert "failed" in rows
    assert "1.50, 2.50, 1.00" in ratios
    assert "3.00, –, 1.00" in ratios
