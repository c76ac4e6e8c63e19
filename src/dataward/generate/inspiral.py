"""Inspiral: the search for gravitational waves in segments of detector data (LIGO).

Characterised by Bharathi et al. 2008 and Juve et al. 2013; structure and numbers here come from
the three public Pegasus instances of 30 to 1,000 tasks (282 segments in 24 groups). Each segment
of a group is analysed twice, with a coincidence test (Thinca) after each pass. As in those
instances, a group may also test a segment of its neighbour, which connects the two groups.
"""

from itertools import pairwise

import numpy as np
from numpy.random import RandomState

from dataward.generate.draws import (
    Normal,
    draw_seconds,
    draw_sizes,
    half_either_way,
)
from dataward.generate.shape import Draft, Shape, Values

BANK_SECONDS = Normal(18.15, 0.43, 16.95, 19.17)
INSPIRAL_SECONDS = half_either_way(460.5)
THINCA_SECONDS = Normal(5.34, 0.25, 4.61, 5.85)
TRIGGER_SECONDS = Normal(5.117, 0.333, 4.23, 6.32)

RAW_BYTES = Normal(1.56e7, 1.9e4, 1.553e7, 1.565e7)
BANK_BYTES = Normal(9.874e5, 1.84e4, 9.37e5, 1.036e6)
INSPIRAL_BYTES = half_either_way(3.13e5)
THINCA_BYTES = half_either_way(3.40e4)
TRIGGER_BYTES = half_either_way(1.281e4)
CALIBRATION_BYTES = 902_334
FACTORS_BYTES = 8_415_922
INJECTIONS_BYTES = 2_421_423

SEGMENTS_PER_GROUP = 12.5
SEGMENTS_PER_GROUP_MIN = 2


def split_count(tasks: int) -> tuple[int, int, int, bool]:
    """Segments, groups, segments borrowed, and whether two segments share a template bank.

    A segment takes four tasks and a group two; a borrowed segment takes two, because it has no
    first pass of its own. The sum is always even. For an odd number of tasks, two segments share a
    template bank.
    """
    shared = tasks % 2 == 1
    half = (tasks + shared) // 2
    groups = max(1, round(tasks / (4 * SEGMENTS_PER_GROUP)))
    if groups == 1 and half % 2 == 0:
        groups = 2
    borrowed = 2 * (groups - 1) // 3
    if (half - groups + borrowed) % 2:
        borrowed += 1
    return (half - groups + borrowed) // 2, groups, borrowed, shared


def fill(draft: Draft, tasks: int, random: RandomState, values: Values) -> None:
    segments, groups, borrowed, shared = split_count(tasks)
    bounds = _group_bounds(random, segments, groups)
    # In the first pass group g borrows the last segment of group g - 1 instead of its own first.
    lent = {bounds[g]: bounds[g] - 1 for g in range(1, borrowed + 1)}
    calibration = (
        draft.file("H-CAL_REF_DARM_ERR_H1_S5_V1.gwf", CALIBRATION_BYTES),
        draft.file("H-CAL_FAC_DARM_ERR_H1_S5_U.gwf", FACTORS_BYTES),
    )
    raw = _raw(draft, random, segments)
    banks = _banks(draft, random, raw, calibration, lent, shared)
    common = (draft.file("HL-INJECTIONS_100.xml", INJECTIONS_BYTES), *calibration)
    first = _inspirals(draft, random, raw, banks, common, "INSPIRAL")
    tested = {s: first[lent.get(s, s)] for s in range(segments)}
    coincident = _thincas(draft, random, bounds, tested, "THINCA")
    triggers = _triggers(draft, random, bounds, coincident)
    second = _inspirals(draft, random, raw, triggers, common, "INSPIRAL_H1")
    _thincas(draft, random, bounds, second, "THINCA_H1")


def _group_bounds(random: RandomState, segments: int, groups: int) -> list[int]:
    """Where each group's segments start, and where the last ends; the cuts are random."""
    spare = segments - SEGMENTS_PER_GROUP_MIN * groups
    cuts = np.sort(random.randint(0, spare + 1, groups - 1, dtype=np.int64))
    starts = cuts + SEGMENTS_PER_GROUP_MIN * np.arange(1, groups)
    return [0, *starts.tolist(), segments]


def _raw(draft: Draft, random: RandomState, segments: int) -> list[tuple[str, str]]:
    raw = draw_sizes(RAW_BYTES, random, 2 * segments)
    names = [draft.file(f"H-H1_RDS_L4-{i:07d}.gwf", size) for i, size in enumerate(raw)]
    return list(zip(names[::2], names[1::2], strict=True))


def _banks(
    draft: Draft,
    random: RandomState,
    raw: list[tuple[str, str]],
    common: tuple[str, ...],
    lent: dict[int, int],
    shared: bool,
) -> dict[int, str]:
    """The template bank of each segment that is not borrowed; the last two may share one."""
    own = [s for s in range(len(raw)) if s not in lent]
    run_times = draw_seconds(BANK_SECONDS, random, len(own))
    bank_bytes = draw_sizes(BANK_BYTES, random, len(own))
    banks: dict[int, str] = {}
    for i, segment in enumerate(own):
        if shared and i == len(own) - 1:
            banks[segment] = banks[own[i - 1]]
            continue
        banks[segment] = draft.file(f"H1-TMPLTBANK-{segment:07d}.xml", bank_bytes[i])
        inputs = (*common, *raw[segment])
        draft.task("TmpltBank", run_times[i], inputs, (banks[segment],))
    return banks


def _inspirals(
    draft: Draft,
    random: RandomState,
    raw: list[tuple[str, str]],
    banks: dict[int, str],
    common: tuple[str, ...],
    kind: str,
) -> dict[int, str]:
    run_times = draw_seconds(INSPIRAL_SECONDS, random, len(banks))
    out_bytes = draw_sizes(INSPIRAL_BYTES, random, len(banks))
    found: dict[int, str] = {}
    for i, (segment, bank) in enumerate(banks.items()):
        found[segment] = draft.file(f"H1-{kind}-{segment:07d}.xml", out_bytes[i])
        draft.task("Inspiral", run_times[i], (*common, *raw[segment], bank), (found[segment],))
    return found


def _thincas(
    draft: Draft, random: RandomState, bounds: list[int], found: dict[int, str], kind: str
) -> list[str]:
    run_times = draw_seconds(THINCA_SECONDS, random, len(bounds) - 1)
    out_bytes = draw_sizes(THINCA_BYTES, random, len(bounds) - 1)
    coincident = []
    for group, (start, end) in enumerate(pairwise(bounds)):
        coincident.append(draft.file(f"H1-{kind}-{group:06d}.xml", out_bytes[group]))
        inputs = [found[segment] for segment in range(start, end)]
        draft.task("Thinca", run_times[group], inputs, coincident[-1:])
    return coincident


def _triggers(
    draft: Draft, random: RandomState, bounds: list[int], coincident: list[str]
) -> dict[int, str]:
    run_times = draw_seconds(TRIGGER_SECONDS, random, bounds[-1])
    out_bytes = draw_sizes(TRIGGER_BYTES, random, bounds[-1])
    triggers: dict[int, str] = {}
    for group, (start, end) in enumerate(pairwise(bounds)):
        for segment in range(start, end):
            name = f"H1-TRIGBANK_H1-{segment:07d}.xml"
            triggers[segment] = draft.file(name, out_bytes[segment])
            outputs = (triggers[segment],)
            draft.task("TrigBank", run_times[segment], (coincident[group],), outputs)
    return triggers


SHAPE = Shape(
    name="inspiral",
    description="gravitational waves: two passes over every segment, a coincidence test after each",
    granularity="any number of tasks from 17",
    smallest=17,
    fill=fill,
)
