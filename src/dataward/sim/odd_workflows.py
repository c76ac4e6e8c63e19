"""Odd workflows: what real files contain and no generator of applications makes.

Their declared edges and their files disagree: files that several tasks write, readers that do not
wait for the writer, order without files, tasks that read what they write. Sizes and run times may
be 0, or one of them gigantic. All are drawn from a seed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from dataward.model.builder import WorkflowBuilder
from dataward.model.edges import Edges
from dataward.model.seeds import seeded
from dataward.model.workflow import Workflow

TASKS_MAX = 40
GIANT = 1000.0  # times as long, or as large, as the others

Parents = Callable[[Random, int], list[int]]
"""The declared parents of a task, drawn from those with lower numbers."""


def _chain(random: Random, task: int) -> list[int]:
    return [task - 1] if task else []


def _star(random: Random, task: int) -> list[int]:
    return [0] if task else []


def _twins(random: Random, task: int) -> list[int]:
    """Two equal halves, each a binary tree."""
    return [2 * ((task // 2 - 1) // 2) + task % 2] if task > 1 else []


def _layers(random: Random, task: int) -> list[int]:
    width = 5
    start = task // width * width
    return [p for p in range(max(start - width, 0), start) if random.random() < 0.6]


def _anyhow(random: Random, task: int) -> list[int]:
    return sorted(random.sample(range(task), min(random.choice((0, 1, 1, 2, 3)), task)))


def _none(random: Random, task: int) -> list[int]:
    return []


SHAPES: dict[str, Parents] = {
    "chain": _chain,
    "star": _star,
    "twins": _twins,
    "layers": _layers,
    "anyhow": _anyhow,
    "loose": _none,
}


@dataclass(frozen=True, slots=True)
class Oddities:
    """How often each oddity is drawn, from 0 to 1, for one workflow."""

    without_file: float  # a declared edge has no file
    undeclared: float  # a task reads a file of any task, waiting for it or not
    second_writer: float  # a task also writes the file of another
    own_input: float  # a task reads what it writes
    empty: float  # a file of size 0
    instant: float  # a run time of 0


def odd_workflow(seed: int) -> Workflow:
    """The odd workflow of this seed: a trace, of which only the declared edges count."""
    random = seeded(seed, "odd workflow")
    shape = random.choice(tuple(SHAPES))
    count = random.randint(1, TASKS_MAX)
    odd = Oddities(*(random.choice((0.0, 0.0, 0.2, 1.0)) for _ in range(6)))
    giant = random.randrange(2 * count)  # half of them have none
    wf = WorkflowBuilder(f"odd-{shape}")
    for task in range(count):
        parents = SHAPES[shape](random, task)
        size = 0 if random.random() < odd.empty else random.randint(1, 100_000_000)
        wf.file(f"f{task}", size * int(GIANT) if task == giant and random.random() < 0.5 else size)
        seconds = 0.0 if random.random() < odd.instant else random.uniform(0.1, 20.0)
        wf.task(
            f"t{task}",
            inputs=_inputs(random, odd, task, count, parents),
            outputs=_outputs(random, odd, task, count),
            after=[f"t{parent}" for parent in parents],
            runtime_seconds=seconds * GIANT if task == giant else seconds,
        )
    return wf.build(Edges.DECLARED)


def _inputs(
    random: Random, odd: Oddities, task: int, count: int, parents: list[int]
) -> dict[str, None]:
    files = [parent for parent in parents if random.random() >= odd.without_file]
    if random.random() < odd.undeclared:
        files += [random.randrange(count) for _ in range(random.randint(1, 3))]
    if random.random() < odd.own_input:
        files.append(task)
    names = [f"f{file}" for file in files]
    if not parents and random.random() < 0.5:
        names.append("given")
    return dict.fromkeys(names)


def _outputs(random: Random, odd: Oddities, task: int, count: int) -> dict[str, None]:
    files = [task] if random.random() >= odd.without_file / 2 else []
    if random.random() < odd.second_writer:
        files.append(random.randrange(count))
    return dict.fromkeys(f"f{file}" for file in files)
