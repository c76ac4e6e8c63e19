"""Worker-centric, figure 1: how many tasks read a file of Coadd, and two files together.

(a) The share of files that are read by so many tasks or more, of all 44,000 tasks. (b) For 1,000
pairs of files, the number of tasks that read both over the number to be expected if tasks drew
their files independently. The paper picks "sample pairs of files accessed by Coadd tasks"; two
files drawn from all 588,900 hardly ever go together, so we draw a task and two of its files. "Much
larger than 1" is taken as 10 times or more for nine of ten pairs. Nothing is scheduled here: this
is the generated Coadd, fitted to the paper's published figures, since the trace is not public.
"""

from functools import lru_cache

import numpy as np

from dataward.generate import generate
from dataward.model.seeds import seeded
from dataward.model.workflow import Workflow
from dataward.reproduce.cells import Cell, CellValues, Numbers, Results, Study, a_cell, as_number
from dataward.reproduce.charts import Chart, Panel, Series
from dataward.reproduce.claims import Finding, PaperClaim, as_percent, judge_at_least, judge_number
from dataward.reproduce.experiment import Experiment

TASKS = 44_000
TASKS_QUICK = 600
PAIRS = 1000
READERS = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40)
MUCH = 10.0
REVISION = 1  # raised when these numbers are computed in another way


@lru_cache(maxsize=1)
def _coadd(tasks: int) -> Workflow:
    return generate("coadd", tasks)


def measure(values: CellValues) -> Numbers:
    workflow = _coadd(int(values["tasks"]))
    readers = workflow.consumers.degrees()
    read = readers[readers > 0]
    return {
        "read_by_at_least": [float((read >= count).mean()) for count in READERS],
        "together": _together(workflow, int(values["pairs"])),
        "files": float(len(read)),
        "files_per_task": float(workflow.inputs.degrees().mean()),
    }


def _together(workflow: Workflow, pairs: int) -> list[float]:
    """Actual over expected number of common readers, for pairs of files, in falling order."""
    readers = workflow.consumers
    random, tasks = seeded(0, "coadd pairs"), len(workflow)
    found: list[float] = []
    while len(found) < pairs:
        files = workflow.inputs.row(random.randrange(tasks)).tolist()
        if len(files) < 2:
            continue
        one, other = (readers.row(file) for file in random.sample(files, 2))
        both = np.intersect1d(one, other, assume_unique=True).size
        found.append(both / (one.size / tasks * other.size))
    return sorted(found, reverse=True)


def settings(values: CellValues) -> str:
    return repr((REVISION, READERS))


def no_strategy(values: CellValues) -> str:
    return ""


COADD = Study("coadd-locality", measure, settings, no_strategy)


def cells(quick: bool) -> list[Cell]:
    return [a_cell(tasks=TASKS_QUICK if quick else TASKS, pairs=PAIRS)]


def charts(results: Results) -> list[Chart]:
    shares = [100 * share for share in results.mean_profile("read_by_at_least")]
    ratios = results.mean_profile("together")
    panels = [
        Panel(
            "(a) readers of a file",
            "read by so many tasks or more",
            "of all files (%)",
            [Series("Coadd", list(READERS), shares)],
            y_max=105,
        ),
        Panel(
            "(b) files that go together",
            "pairs of files",
            "common readers, times expected",
            [Series("Coadd", list(range(1, len(ratios) + 1)), ratios)],
            y_base=10,
            level=1.0,
            level_label="independent",
        ),
    ]
    return [Chart("worker-1", "Locality of interest in Coadd", panels, series_word="workload")]


def find_readers(results: Results) -> Finding:
    share = results.mean_profile("read_by_at_least")[READERS.index(6)]
    return Finding(as_percent(share), judge_number(share, 0.9, near=0.05))


def find_together(results: Results) -> Finding:
    ratios = results.mean_profile("together")
    low = ratios[round(0.9 * (len(ratios) - 1))]
    middle = ratios[len(ratios) // 2]
    shown = f"{middle:,.0f} at the median, {low:,.0f} or more for nine of ten"
    return Finding(shown, judge_at_least(low, MUCH, neutral=1.0))


def find_size(results: Results) -> Finding:
    files = as_number(results.mean("files"))
    each = results.mean("files_per_task")
    shown = f"{files:,.0f} files, {each:.0f} a task"
    return Finding(shown, judge_number(files * each, 588_900 * 124, near=0.05))


EXPERIMENT = Experiment(
    "worker-1",
    "Coadd's locality of interest",
    __doc__ or "",
    COADD,
    cells,
    charts,
    (
        PaperClaim("Roughly 90% of files are read by 6 or more tasks.", "90%", find_readers),
        PaperClaim(
            "Two files are read together much more often than if they were independent.",
            "much larger than 1",
            find_together,
        ),
        PaperClaim(
            "44,000 tasks read 588,900 files, about 124 each.",
            "588,900 files, 124 a task",
            find_size,
        ),
    ),
)
