"""Lists every experiment by name, and chooses among them."""

from collections.abc import Sequence

from dataward.errors import SettingError
from dataward.reproduce import (
    adage_3,
    adage_4,
    adage_5,
    adage_6,
    matrix_5,
    matrix_6,
    matrix_7,
    matrix_8,
    matrix_9,
    matrix_11,
    matrix_12,
    matrix_13,
    peercomp_6,
    peercomp_growth,
    peercomp_table2,
    peercomp_traffic,
    worker_1,
    worker_5,
    worker_6,
    worker_7,
    worker_8,
    worker_9,
    worker_10,
    worker_table4,
)
from dataward.reproduce.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        adage_3, adage_4, adage_5, adage_6,
        matrix_5, matrix_6, matrix_7, matrix_8, matrix_9, matrix_11, matrix_12, matrix_13,
        worker_1, worker_5, worker_6, worker_7, worker_table4, worker_8, worker_9, worker_10,
        peercomp_6, peercomp_growth, peercomp_table2, peercomp_traffic,
    )
}  # fmt: skip
ALL = "all"


def chosen_experiments(words: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, in the order of the papers; ``all``, or a paper's name, too.

    Raises SettingError.
    """
    asked = {name for word in words for name in word.split(",") if name}
    if not asked:
        raise SettingError(f"no experiment given; there are {', '.join(EXPERIMENTS)}")
    papers = {experiment.paper for experiment in EXPERIMENTS.values()}
    for name in sorted(asked - EXPERIMENTS.keys() - papers - {ALL}):
        raise SettingError(
            f"no experiment is called {name!r}; there are all, {', '.join(sorted(papers))}, "
            f"{', '.join(EXPERIMENTS)}"
        )
    return [e for e in EXPERIMENTS.values() if asked & {ALL, e.paper, e.name}]
