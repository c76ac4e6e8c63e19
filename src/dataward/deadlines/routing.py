"""How a routing node passes a request on: down to a child that can serve, in two pieces, or up."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dataward.deadlines.group import ChildRecord, HostedGroup
from dataward.deadlines.promising import SequenceRequest, pieces_of
from dataward.deadlines.reference_points import reference_points
from dataward.deadlines.reservations import WantedSlots
from dataward.deadlines.search import NONE, best_class, cut_in_two, largest_class, serving_classes
from dataward.deadlines.submission import cut_key
from dataward.deadlines.summary import rest_class
from dataward.deadlines.tree_messages import HoleRequest, NoHole, Send

FALLS = 3  # how often a request may come down to a hole that is gone, or was none
HOPS_MAX = 200  # a request that has come this far goes back to its owner


class ChosenHole(NamedTuple):
    """A child with a hole that serves, and the hole's class."""

    record: ChildRecord
    number: int


def chosen_child(
    records: Sequence[ChildRecord], wanted: WantedSlots, now: float, *, is_sure: bool
) -> ChosenHole | None:
    """The child with the smallest hole that surely serves; or the largest that possibly does.

    Among equal holes the child that has more of them, then the first.
    """
    startline, deadline = wanted.frame
    serving = serving_classes(
        np.array([max(startline, now)]),
        np.array([deadline]),
        np.array([sum(wanted.work)]),
        now,
        reference_points(now),
    )
    rows = np.array([record.summary for record in records])
    mask = np.repeat(serving.surely if is_sure else serving.possibly, len(records), axis=0)
    found = (best_class if is_sure else largest_class)(rows, mask).tolist()
    order = 1 if is_sure else -1
    options = [
        (order * number, -int(rows[place, number]), place)
        for place, number in enumerate(found)
        if number != NONE
    ]
    if not options:
        return None
    number, _, place = min(options)
    return ChosenHole(records[place], order * number)


def pass_on(group: HostedGroup, ask: HoleRequest, now: float) -> list[Send]:
    """What a host sends when its group is asked to find a hole.

    Of a hole that a request was sent after, only the rest is offered to the next one: the child's
    next report tells what has become of it.
    """
    if ask.hops > HOPS_MAX or not group.records:
        return [Send(ask.owner, NoHole(ask.key))]
    ask = replace(ask, hops=ask.hops + 1)
    has_fallen = ask.falls < FALLS  # whole, it is likely to fall again
    chosen = None
    if not has_fallen:
        chosen = chosen_child(group.records, ask.wanted, now, is_sure=ask.is_sure)
    if chosen is None:
        pieces = _in_two(group, ask, now)
        if pieces:
            return pieces
    if has_fallen:
        chosen = chosen_child(group.records, ask.wanted, now, is_sure=ask.is_sure)
    if chosen is not None:
        return [_down(group, ask, chosen)]
    if ask.came_from is None:  # it came down after a hole that is gone
        if ask.falls == 0:
            return [Send(ask.owner, NoHole(ask.key))]
        ask = replace(ask, falls=ask.falls - 1, is_sure=True)
    parent = group.parent
    if group.is_root or parent is None:
        if not ask.is_sure:
            return [Send(ask.owner, NoHole(ask.key))]
        return pass_on(group, replace(ask, is_sure=False, came_from=group.id), now)
    return [Send(parent.host, replace(ask, came_from=group.id, group=parent.group))]


def _down(group: HostedGroup, ask: HoleRequest, chosen: ChosenHole) -> Send:
    record = chosen.record
    record.summary = record.summary.copy()
    record.summary[chosen.number] -= 1
    rest = rest_class(chosen.number, sum(ask.wanted.work))
    if rest >= 0:
        record.summary[rest] += 1
    below = record.child.key if group.level > 1 else None
    assert below is None or isinstance(below, tuple)
    return Send(record.child.host, replace(ask, came_from=None, group=below))


def _in_two(group: HostedGroup, ask: HoleRequest, now: float) -> list[Send]:
    """The request as two that can both be served here, or nothing."""
    wanted = ask.wanted
    cut = cut_in_two(wanted.frame, wanted.work, reference_points(now))
    if cut is None:
        return []
    count, first, second = cut
    places = list(range(len(wanted.work)))
    request = SequenceRequest(places, wanted.frame, wanted.awaited, wanted.pace)
    sends = []
    before = [record.summary for record in group.records]
    keys = cut_key(ask.key, count)
    for key, piece in zip(keys, pieces_of(request, count, first, second), strict=True):
        low, high = piece.tasks[0], piece.tasks[-1] + 1
        part = wanted.part(low, high, piece.frame, piece.awaited)
        chosen = chosen_child(group.records, part, now, is_sure=ask.is_sure)
        if chosen is None:
            for record, summary in zip(group.records, before, strict=True):
                record.summary = summary
            return []
        sends.append(_down(group, replace(ask, key=key, wanted=part), chosen))
    return sends
