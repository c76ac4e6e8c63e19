"""A short campaign on real processes: a cluster that is hurt keeps its promises."""

import asyncio
from pathlib import Path

import pytest

from bench.cluster_chaos.campaign import WEIGHTS, RoundReport, hurt
from bench.cluster_chaos.harm import Harm
from bench.cluster_chaos.rig import Rig
from valkey_servers import program_of

SECONDS = 15.0


@pytest.mark.parametrize("seed", [3, 11])
def test_a_cluster_that_is_hurt_keeps_its_promises(seed: int, tmp_path: Path) -> None:
    program_of("any")
    told: list[RoundReport] = []

    with Rig(tmp_path / "lab") as rig:
        asyncio.run(hurt(rig, seed, SECONDS, told.append))

    assert told
    assert [problem for report in told for problem in report.problems] == []
    assert any(report.harms for report in told)


def test_every_harm_has_a_weight() -> None:
    assert Harm.KINDS.keys() == WEIGHTS.keys()
