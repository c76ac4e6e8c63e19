"""Coadd against the figures of the worker-centric paper (section 2.1 and Table 2)."""

from itertools import pairwise

import numpy as np
import pytest

from dataward.errors import SettingError
from dataward.generate import generate
from dataward.generate.coadd import views
from dataward.generate.draws import random_state
from dataward.model.workflow import Workflow


@pytest.fixture(scope="module")
def full() -> Workflow:
    return generate("coadd", 44_000, seed=1)


@pytest.fixture(scope="module")
def prefix() -> Workflow:
    return generate("coadd", 6_000, seed=1)


def readers(workflow: Workflow) -> np.ndarray:
    degrees = workflow.consumers.degrees()
    return degrees[workflow.producers.degrees() == 0]


def test_all_of_coadd_has_the_papers_figures(full):
    reads = full.inputs.degrees()

    assert len(readers(full)) == 588_900
    assert (reads.min(), reads.max()) == (36, 181)
    assert reads.mean() == pytest.approx(124, abs=0.5)
    assert (readers(full) >= 6).mean() == pytest.approx(0.90, abs=0.015)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_first_6000_tasks_have_the_figures_of_table_2(seed):
    workflow = generate("coadd", 6_000, seed=seed)
    reads = workflow.inputs.degrees()

    assert len(readers(workflow)) == 53_390
    assert (reads.min(), reads.max()) == (36, 101)
    assert round(float(reads.mean()), 4) == 78.4327
    assert (readers(workflow) >= 6).mean() == pytest.approx(0.90, abs=0.015)


@pytest.mark.parametrize("tasks", [1, 25, 777, 6_000, 6_001])
def test_a_smaller_coadd_is_the_beginning_of_a_larger_one(full, tasks):
    small = generate("coadd", tasks, seed=1)

    for i in np.linspace(0, tasks - 1, 40).astype(int).tolist():
        assert small.task(i) == full.task(i)
    assert np.array_equal(small.inputs.degrees(), full.inputs.degrees()[:tasks])


def test_going_on_beyond_44000_changes_nothing_before():
    begin, end = views(random_state("coadd", 1), 44_000)
    longer_begin, longer_end = views(random_state("coadd", 1), 44_001)

    assert len(longer_begin) > len(begin)
    assert np.array_equal(longer_begin[: len(begin)], begin)
    assert np.array_equal(np.minimum(longer_end[: len(end)], 44_000), end)


def test_neighbours_share_most_files_and_strangers_none(prefix):
    rows = [set(row) for row in prefix.inputs.rows()]

    shared = [len(a & b) / len(a) for a, b in pairwise(rows)]
    assert np.mean(shared) > 0.85
    assert not rows[1000] & rows[1100]


def test_a_file_is_read_by_consecutive_tasks(prefix):
    for tasks in list(prefix.consumers.rows())[::7]:
        assert not tasks or tasks == list(range(tasks[0], tasks[-1] + 1))


@pytest.mark.parametrize(("tasks", "strips"), [(6_000, 12), (1_500, 12), (600, 7), (40, 2)])
def test_strips_side_by_side_have_the_figures_of_table_2_in_small(tasks, strips):
    workflow = generate("coadd", tasks, seed=1, strips=strips)
    reads = workflow.inputs.degrees()

    assert len(workflow) == tasks
    assert (reads.min(), reads.max()) == (36, 101)
    assert reads.mean() == pytest.approx(78.4327, rel=0.01)
    assert len(readers(workflow)) / tasks == pytest.approx(53_390 / 6_000, rel=0.01)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length", [20, 25, 30, 40, 200])
def test_strips_may_be_short(length, seed):
    workflow = generate("coadd", 2 * length, seed=seed, strips=2)

    assert (readers(workflow) >= 1).all()
    assert workflow.inputs.degrees().mean() == pytest.approx(78.4327, rel=0.01)


def test_strips_take_turns_and_share_nothing():
    workflow = generate("coadd", 1_200, seed=1, strips=4)
    rows = [set(row) for row in workflow.inputs.rows()]

    assert all(not rows[t] & rows[t + 1] for t in range(1_199))
    assert np.mean([len(rows[t] & rows[t + 4]) / len(rows[t]) for t in range(1_196)]) > 0.8


def test_strips_too_short_for_their_files_are_refused():
    with pytest.raises(SettingError, match="12 strips need 240 tasks, not 200"):
        generate("coadd", 200, strips=12)


def test_cost_and_size_per_file_are_parameters():
    workflow = generate("coadd", 50, file_mb=5, seconds_per_file=0.05)

    assert workflow.runtime_seconds.tolist() == pytest.approx(
        (workflow.inputs.degrees() * 0.05).tolist()
    )
    assert set(workflow.size_bytes.tolist()) == {5_000_000, 1000}
