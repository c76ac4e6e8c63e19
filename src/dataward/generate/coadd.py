"""Coadd: images of a strip of sky added up, piece by piece (SDSS; worker-centric paper, 2.1, 4.1).

The trace is not public; this is a made-up scan with the published figures. Tasks move along the
strip, and consecutive tasks read a file while its image is in view. The first 6,000 tasks, the
paper's workload, read 53,390 files: 36 to 101 per task, 78.4327 on average. All 44,000 tasks read
588,900 files: up to 181 per task, 124 on average. Some 90% of files are read by six tasks or more.
A smaller Coadd is the beginning of a larger one with the same seed. Beyond 44,000 tasks the strip
goes on as it did after the first 6,000.

The paper does not say how the tasks lie on the sky. With ``strips`` above 1, several strips are
scanned side by side, as the survey's camera does with its columns, and take turns in the list of
tasks. Each strip then has the first 6,000 tasks' figures in small, whatever its length.
"""

from dataclasses import dataclass, replace
from heapq import heappop, heappush

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from dataward.errors import SettingError
from dataward.generate.shape import Draft, Parameter, Shape, Values

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the strip: its tasks, new files, total reads, and least and most reads per task.

    Files leave the view in the order they came, but each file's turn is delayed at random, by up to
    ``out_of_turn`` times the number of files in view. The value is fitted so that a tenth of the
    files leave before six tasks have read them. With at most 1, a later stretch does not change
    this one.
    """

    tasks: int
    files: int
    reads: int
    least: int
    most: int
    out_of_turn: float


FIRST = Stretch(tasks=6_000, files=53_390, reads=470_596, least=36, most=101, out_of_turn=0.95)
# The rest of the 44,000 tasks, 588,900 files and 44,000 x 124 reads.
LATER = Stretch(tasks=38_000, files=535_510, reads=4_985_404, least=50, most=181, out_of_turn=1.0)

SMOOTHING_TASKS = 200
STRIP_MIN = 20  # tasks; a shorter strip has not enough files for so many in view

# The paper models no outputs; here every task writes a small one.
OUTPUT_BYTES = 1000


def in_view(random: RandomState, stretch: Stretch) -> Counts:
    """How many files each task reads: a smooth curve with the stretch's sum, least and most."""
    smoothing = min(SMOOTHING_TASKS, stretch.tasks // 4)
    steps = random.randint(-1000, 1001, stretch.tasks + 2 * smoothing, dtype=np.int64)
    for _ in range(2):  # integers only, so that ranks do not depend on rounding
        total = np.cumsum(steps)
        steps = total[smoothing:] - total[:-smoothing]
    curve = np.cumsum(steps - steps.sum() // len(steps))[: stretch.tasks]
    counts = np.empty(stretch.tasks, dtype=np.int64)
    counts[np.argsort(curve, kind="stable")] = _spread(stretch)
    return counts


def _spread(stretch: Stretch) -> Counts:
    """The reads per task of a stretch in rising order, with more values near ``most``."""
    span = stretch.most - stretch.least
    power = span / (stretch.reads / stretch.tasks - stretch.least) - 1.0
    u = (np.arange(stretch.tasks) + 0.5) / stretch.tasks
    counts = np.rint(stretch.least + span * u**power).astype(np.int64)
    counts[0], counts[-1] = stretch.least, stretch.most
    missing = stretch.reads - int(counts.sum())
    middle = stretch.tasks // 2
    at = slice(middle - abs(missing) // 2, middle - abs(missing) // 2 + abs(missing))
    counts[at] += np.sign(missing)
    return np.sort(counts)


def arriving(counts: Counts, before: int, files: int) -> Counts:
    """How many new files each task reads.

    Where the number of files in view rises, that many are new; the remaining new files replace
    others at a steady rate.
    """
    rises = np.maximum(np.diff(counts, prepend=before), 0)
    exchanged = files - int(rises.sum())
    assert exchanged > 0, "the counts rise too steeply for so few files"
    reads = np.cumsum(counts) - counts[0]  # the first task of all has nothing to exchange
    steady = np.diff(reads * exchanged // int(reads[-1]), prepend=0)
    result: Counts = rises + steady
    return result


def views(random: RandomState, tasks: int, first: Stretch = FIRST) -> tuple[Counts, Counts]:
    """For every file, the first task that reads it, and the first task after the last that does."""
    counts: list[Counts] = []
    arrivals: list[Counts] = []
    keys: list[NDArray[np.float64]] = []
    made = files = before = 0
    while made < tasks:
        stretch = LATER if made else first
        counts.append(in_view(random, stretch))
        arrivals.append(arriving(counts[-1], before, stretch.files))
        wait = random.random_sample(stretch.files) * stretch.out_of_turn
        wait *= np.repeat(counts[-1], arrivals[-1])
        keys.append(np.arange(files, files + stretch.files) + wait)
        made, files, before = made + stretch.tasks, files + stretch.files, int(counts[-1][-1])
    count, arrival = np.concatenate(counts), np.concatenate(arrivals)
    leaving = np.concatenate([[0], count[:-1]]) + arrival - count
    begin = np.repeat(np.arange(made), arrival)
    return begin, departures(np.concatenate(keys), arrival, leaving)


def departures(keys: NDArray[np.float64], arrival: Counts, leaving: Counts) -> Counts:
    """For every file, the first task that does not see it: those with the least keys go first.

    Only what is in view can go. On a short strip, where views shrink fast, a file that has not come
    yet may have a lesser key.
    """
    turns = keys.tolist()
    end = [len(arrival)] * len(turns)
    seen: list[tuple[float, int]] = []
    first = 0
    for task, (new, gone) in enumerate(zip(arrival.tolist(), leaving.tolist(), strict=True)):
        for _ in range(gone):
            end[heappop(seen)[1]] = task
        for file in range(first, first + new):
            heappush(seen, (turns[file], file))
        first += new
    return np.array(end)


def fill(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    strips = int(values["strips"])
    length = -(-tasks // strips)
    if strips > 1 and length < STRIP_MIN:
        raise SettingError(f"coadd: {strips} strips need {STRIP_MIN * strips} tasks, not {tasks}")
    first = FIRST if strips == 1 else in_small(FIRST, length)
    begin, end = views(random, length, first)
    seen = int(np.searchsorted(begin, length))
    begin, end = begin[:seen], np.minimum(end[:seen], length)
    assert (end > begin).all(), "a file left the view before it came into view"
    lasting = end - begin
    starts = np.cumsum(lasting) - lasting
    readers = np.arange(int(lasting.sum())) + np.repeat(begin - starts, lasting)
    order = np.argsort(readers, kind="stable")
    read = np.repeat(np.arange(seen), lasting)[order].tolist()
    bounds = np.searchsorted(readers[order], np.arange(length + 1)).tolist()
    size = round(values["file_mb"] * 1e6)
    names = [draft.file(f"fpC_{i:07d}.fit", size) for i in range(strips * seen)]
    for t in range(tasks):
        place, strip = divmod(t, strips)
        inputs = [names[strip * seen + f] for f in read[bounds[place] : bounds[place + 1]]]
        out = draft.file(f"coadd_{t:07d}.fit", OUTPUT_BYTES)
        draft.task("coadd", len(inputs) * values["seconds_per_file"], inputs, (out,))


def in_small(stretch: Stretch, tasks: int) -> Stretch:
    """A stretch of another length, with as many files in view, new files and reads per task."""
    share = tasks / stretch.tasks
    files, reads = round(share * stretch.files), round(share * stretch.reads)
    return replace(stretch, tasks=tasks, files=files, reads=reads)


SHAPE = Shape(
    name="coadd",
    description="add up images along a strip of sky; neighbours share most files (worker-centric)",
    granularity="any number of tasks; 6000 is the paper's workload and 44000 all of Coadd",
    smallest=1,
    fill=fill,
    parameters=(
        Parameter("file_mb", 25.0, "size of every input in MB; 5, 25 or 50 in the paper", low=0),
        Parameter("strips", 1, "strips of sky side by side, which take turns", low=1),
        Parameter("seconds_per_file", 1.0, "run time per input: 1000 MFLOP at 1000 MFLOPS", low=0),
    ),
)
