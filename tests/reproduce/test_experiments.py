"""Every experiment: it has cells, charts and claims that fit each other, in both versions."""

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dataward.errors import SettingError
from dataward.reproduce.cells import Results, a_cell
from dataward.reproduce.claims import Judgement
from dataward.reproduce.coadd_runs import AFFINITY, ALGORITHMS
from dataward.reproduce.experiment import Experiment
from dataward.reproduce.grid import TOPOLOGIES, grid, speed_mflops
from dataward.reproduce.matrix_8 import tail
from dataward.reproduce.matrix_13 import no_ops
from dataward.reproduce.registry import EXPERIMENTS, chosen_experiments
from dataward.reproduce.worker_1 import READERS
from dataward.reproduce.worker_9 import find_wider

every_experiment = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
both_versions = pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])

PUBLISHED = {
    "adage-3", "adage-4", "adage-5", "adage-6", "matrix-5", "matrix-6", "matrix-7", "matrix-8",
    "matrix-9", "matrix-11", "matrix-12", "matrix-13", "worker-1", "worker-5", "worker-6",
    "worker-7", "worker-8", "worker-9", "worker-10", "worker-table4",
    "peercomp-6", "peercomp-growth", "peercomp-table2", "peercomp-traffic",
}  # fmt: skip


LENGTHS = {
    "busy_profile": 100,
    "completion_seconds": 101,
    "read_by_at_least": len(READERS),
    "together": 1000,
    "sent_peaks": 101,
    "received_peaks": 101,
    **{f"allocation_{kind}": 101 for kind in range(8)},
}


class MadeUp(dict[str, Any]):
    """Numbers of a cell that was never measured: whatever is asked for."""

    def __missing__(self, name: str) -> Any:
        draw = random.Random(name)
        if name in LENGTHS:
            return sorted((draw.random() for _ in range(LENGTHS[name])), reverse=True)
        return 0.1 + draw.random()


def made_up_results(experiment: Experiment, *, quick: bool) -> Results:
    return Results({cell: MadeUp() for cell in experiment.cells(quick)})


def test_every_figure_of_the_papers_is_here() -> None:
    assert set(EXPERIMENTS) == PUBLISHED


@every_experiment
@both_versions
def test_charts_and_claims_can_be_made_from_an_experiments_cells(
    experiment: Experiment, quick: bool
) -> None:
    results = made_up_results(experiment, quick=quick)

    charts = experiment.charts(results)
    findings = [claim.find(results) for claim in experiment.claims]

    assert [chart.name for chart in charts] == [experiment.name]
    assert all(series.x for chart in charts for panel in chart.panels for series in panel.series)
    assert findings
    assert all(finding.ours and finding.judgement in Judgement for finding in findings)


@every_experiment
def test_every_claim_has_the_papers_word_and_a_statement_of_its_own(experiment: Experiment) -> None:
    statements = [claim.statement for claim in experiment.claims]

    assert len(set(statements)) == len(statements)
    assert all(statement.endswith(".") for statement in statements)
    assert all(claim.paper for claim in experiment.claims)


@every_experiment
def test_every_experiment_says_what_it_repeats(experiment: Experiment) -> None:
    number = re.sub(r"\D", "", experiment.name)

    assert re.search(rf"(figure|table) {number}\b", experiment.about.partition("\n")[0])


@every_experiment
def test_the_quick_version_is_a_small_part_of_the_work(experiment: Experiment) -> None:
    quick, full = (
        sum(cell.weight for cell in experiment.cells(version)) for version in (True, False)
    )

    assert quick <= full / 5 or experiment.name == "worker-1"


@every_experiment
@both_versions
def test_every_cell_can_be_set_up(experiment: Experiment, quick: bool) -> None:
    for cell in list(experiment.cells(quick))[::17]:
        assert experiment.study.settings(cell.as_dict())


@every_experiment
def test_cells_are_different_from_each_other(experiment: Experiment) -> None:
    cells = list(experiment.cells(False))

    assert len(set(cells)) == len(cells) or experiment.name == "worker-9"  # its panels share a row


# --- choosing ------------------------------------------------------------------------------------


def names_of(*words: str) -> Iterator[str]:
    return (experiment.name for experiment in chosen_experiments(words))


def test_experiments_are_chosen_by_name_by_paper_or_all_in_the_papers_order() -> None:
    assert list(names_of("matrix-7,adage-4", "matrix-5")) == ["adage-4", "matrix-5", "matrix-7"]
    assert list(names_of("adage")) == ["adage-3", "adage-4", "adage-5", "adage-6"]
    assert set(names_of("all")) == PUBLISHED


def test_an_unknown_name_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(SettingError, match=r"no experiment is called 'adage-7'; .*worker-table4"):
        chosen_experiments(["adage-3,adage-7"])


def test_no_name_at_all_is_refused() -> None:
    with pytest.raises(SettingError, match="no experiment given"):
        chosen_experiments([","])


# --- what they find ------------------------------------------------------------------------------


def at_two_costs(affinity: tuple[float, float], others: tuple[float, float]) -> Results:
    """Makespans at a low and a high cost: of storage affinity, and of all other algorithms."""
    return Results(
        {
            a_cell(algorithm=algorithm, mflop=mflop, file_mb=25): {
                "makespan_hours": (affinity if algorithm == AFFINITY else others)[place]
            }
            for algorithm in ALGORITHMS
            for place, mflop in enumerate((50, 1000))
        }
    )


@pytest.mark.parametrize(
    ("affinity", "others", "judgement"),
    [
        ((10.0, 100.0), (8.0, 90.0), Judgement.HOLDS),
        ((10.0, 100.0), (9.5, 90.0), Judgement.FAILS),  # the gap is wider at the high cost
        ((10.0, 100.0), (11.0, 120.0), Judgement.FAILS),  # there is none: storage affinity wins
    ],
)
def test_a_gap_becomes_wider_only_if_there_is_one(
    affinity: tuple[float, float], others: tuple[float, float], judgement: Judgement
) -> None:
    assert find_wider(at_two_costs(affinity, others)).judgement is judgement


# --- what they are made of -----------------------------------------------------------------------


def test_the_list_of_fast_machines_runs_from_its_first_to_its_last() -> None:
    assert speed_mflops(1) == pytest.approx(2806.0)
    assert speed_mflops(500) == pytest.approx(27.37)


@pytest.mark.parametrize("topology", range(5))
def test_sites_have_about_the_published_bandwidths(topology: int) -> None:
    sites = grid(topology, 90, 1, 6000, 25_000_000, 0).machines

    mean, _ = TOPOLOGIES[topology]
    drawn = sum(site.down_bytes_per_second for site in sites) / len(sites) / 1e6
    assert drawn == pytest.approx(mean, rel=0.35)


def test_fewer_sites_are_the_first_of_more() -> None:
    assert grid(2, 26, 1, 10, 10, 0).machines[:10] == grid(2, 10, 1, 10, 10, 0).machines


def test_no_ops_read_and_write_nothing() -> None:
    workflow = no_ops(7)

    assert len(workflow) == 7
    assert not workflow.file_ids


@pytest.mark.parametrize(
    ("profile", "share"),
    [([1.0] * 10, 0.0), ([1.0] * 8 + [0.5, 0.1], 0.2), ([0.5] * 4, 1.0)],
)
def test_a_tail_begins_after_the_last_busy_slice(profile: list[float], share: float) -> None:
    assert tail(profile) == pytest.approx(share)
