"""The numbers kept for each task and node are those that the paper's formulas give."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.model.operations import InputFile
from dataward.model.workflow import FileId, TaskId
from dataward.node.overlaps import Measure, Overlaps
from dataward.node.weights import Metric, drawn, largest, weights_of

FILES = "abcdefgh"
NODES = ("n0", "n1", "n2")
SIZES = {file: 3**i for i, file in enumerate(FILES)}


def reads(files: str) -> tuple[InputFile, ...]:
    return tuple(InputFile(FileId(file), SIZES[file], TaskId("")) for file in files)


# --- the paper's words, as they stand ------------------------------------------------------------


@dataclass
class Naive:
    """Section 3.4's table of references: a row for each site, an entry for each file there."""

    tasks: dict[str, str] = field(default_factory=dict)  # the files that each task reads
    table: dict[str, dict[str, int]] = field(default_factory=lambda: {n: {} for n in NODES})

    def give(self, task: str, site: str) -> None:
        for file in self.tasks.pop(task):
            self.table[site][file] = self.table[site].get(file, 0) + 1

    def overlap(self, task: str, site: str) -> set[str]:
        return {file for file in self.tasks[task] if file in self.table[site]}

    def rest(self, task: str, site: str) -> Fraction | float:
        missing = len(self.tasks[task]) - len(self.overlap(task, site))
        return Fraction(1, missing) if missing else inf

    def ref(self, task: str, site: str) -> int:
        return sum(self.table[site][file] for file in self.overlap(task, site))

    def weight(self, metric: Metric, task: str, site: str) -> float:
        if metric is Metric.OVERLAP:
            return len(self.overlap(task, site))
        rest = self.rest(task, site)
        if metric is Metric.REST or rest == inf:
            return float(rest)
        rests = [self.rest(t, site) for t in self.tasks]
        total_rest = sum(r for r in rests if r != inf)
        total_ref = sum(self.ref(t, site) for t in self.tasks)
        share = Fraction(self.ref(task, site), total_ref) if total_ref else 0
        return float(share + rest / total_rest)


# --- any history ---------------------------------------------------------------------------------

some_files = st.sets(st.sampled_from(FILES)).map(lambda files: "".join(sorted(files)))
some_node = st.sampled_from(NODES)
some_task = st.integers(0, 9)
histories = st.lists(
    st.one_of(
        st.tuples(st.just("come"), some_files),
        st.tuples(st.just("leave"), some_task),
        st.tuples(st.just("give"), some_task, some_node),
        st.tuples(st.just("evict"), some_files, some_node),
        st.tuples(st.just("place"), some_files, some_node),
    ),
    max_size=40,
)


def both_after(history: list[Any], overlaps: Overlaps) -> tuple[Naive, Overlaps]:
    naive, count = Naive(), 0
    for what, *words in history:
        present = list(naive.tasks)
        if what == "come":
            naive.tasks[f"t{count}"] = words[0]
            overlaps.add(TaskId(f"t{count}"), reads(words[0]))
            count += 1
        elif what in ("evict", "place"):
            files, node = words
            for file in files:
                if what == "evict":
                    naive.table[node].pop(file, None)
                else:
                    naive.table[node].setdefault(file, 0)
            if what == "evict":
                overlaps.evict(node, [FileId(file) for file in files])
            else:
                overlaps.place([FileId(file) for file in files], node)
        elif present:
            task = present[words[0] % len(present)]
            if what == "give":
                naive.give(task, words[1])
                overlaps.give(TaskId(task), words[1])
            else:
                del naive.tasks[task]
                overlaps.remove(TaskId(task))
    return naive, overlaps


def by_task(overlaps: Overlaps, node: str, values: Any) -> dict[str, Any]:
    tasks = overlaps.compare(node).tasks
    return {task: value for task, value in zip(tasks, values, strict=True) if task is not None}


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("past_max", [0, 1024])
@given(history=histories)
@settings(max_examples=300)
def test_every_weight_is_what_the_papers_formula_gives(
    metric: Metric, past_max: int, history: list[Any]
) -> None:
    naive, overlaps = both_after(history, Overlaps(past_max=past_max))

    for node in NODES:
        weights = by_task(overlaps, node, weights_of(metric, overlaps.compare(node)).tolist())
        assert weights == pytest.approx({t: naive.weight(metric, t, node) for t in naive.tasks})


@pytest.mark.parametrize("past_max", [0, 1024])
@given(history=histories)
@settings(max_examples=300)
def test_in_bytes_every_file_counts_its_size(past_max: int, history: list[Any]) -> None:
    naive, overlaps = both_after(history, Overlaps(Measure.BYTES, past_max=past_max))

    for node in NODES:
        found = by_task(overlaps, node, overlaps.compare(node).overlap.tolist())
        assert found == {t: sum(SIZES[f] for f in naive.overlap(t, node)) for t in naive.tasks}


@given(history=histories)
def test_tasks_stay_in_the_order_in_which_they_came(history: list[Any]) -> None:
    naive, overlaps = both_after(history, Overlaps(past_max=3))

    tasks = [task for task in overlaps.compare("n0").tasks if task is not None]
    assert tasks == list(naive.tasks)
    assert len(overlaps) == len(tasks)
    assert len(overlaps.compare("n0").tasks) <= 2 * len(tasks) + 3


def test_many_tasks_find_room() -> None:
    overlaps = Overlaps()
    overlaps.place([FileId("a")], "n0")

    for i in range(1000):
        overlaps.add(TaskId(f"t{i}"), reads("a" if i % 2 else "b"))

    assert overlaps.compare("n0").overlap.tolist() == [i % 2 for i in range(1000)]
    assert overlaps.compare("n1").overlap.sum() == 0


# --- the draw ------------------------------------------------------------------------------------


def weights_for(node: str, metric: Metric, **tasks: str) -> Any:
    overlaps = Overlaps()
    overlaps.place([FileId("a"), FileId("b")], "n0")
    for task, files in tasks.items():
        overlaps.add(TaskId(task), reads(files))
    return weights_of(metric, overlaps.compare(node))


def test_the_best_is_drawn_and_of_equals_the_first() -> None:
    weights = weights_for("n0", Metric.OVERLAP, s="c", t="ac", u="bc")

    assert drawn(weights, 1, Random(1)) == 1


def test_two_are_drawn_with_probabilities_like_their_weights() -> None:
    weights = weights_for("n0", Metric.REST, s="acd", t="acdef", u="cdefgh")  # 1/2, 1/4, 1/6
    random = Random(1)

    draws = [drawn(weights, 2, random) for _ in range(3000)]

    assert set(draws) == {0, 1}
    assert draws.count(0) / 3000 == pytest.approx(2 / 3, abs=0.03)


def test_a_task_that_lacks_nothing_is_the_best_there_can_be() -> None:
    for metric in (Metric.REST, Metric.COMBINED):
        weights = weights_for("n0", metric, s="ac", t="ab", u="bd", v="a")

        assert {drawn(weights, 3, Random(seed)) for seed in range(20)} == {1, 3}


def test_weights_of_zero_are_equally_likely() -> None:
    weights = weights_for("n1", Metric.OVERLAP, s="a", t="b", u="c")

    assert {drawn(weights, 2, Random(seed)) for seed in range(20)} == {0, 1}


def test_no_more_are_drawn_from_than_there_are() -> None:
    weights = weights_for("n0", Metric.OVERLAP, s="a")

    assert list(largest(weights, 5)) == [0]
    assert drawn(weights, 5, Random(1)) == 0
