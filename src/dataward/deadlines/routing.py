"""How a routing node passes a request on: down to a child that can serve, in two pieces, or up."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dataward.deadlines.group import ChildRecord, HostedGroup
from dataward.deadlines.local_schedule import Frame
from dataward.deadlines.promising import SequenceRequest, pieces_of
from dataward.deadlines.reference_points import reference_points
from dataward.deadlines.search import NONE, best_class, cut_in_two, largest_class, serving_classes
from dataward.deadlines.submission import cut_key
from dataward.deadlines.summary import rest_class
from dataward.deadlines.tree_messages import Address, GroupId, HoleRequest, NoHole, Send

FALLS = 3  # how often a request may come down to a hole that is gone, or was none
TRIES_MAX = 16  # at leaves, before a request is cut or goes back to its owner
HOPS_MAX = 200  # a request that has come this far goes back to its owner


class ChosenHole(NamedTuple):
    """A child with a hole that serves, and the hole's class."""

    record: ChildRecord
    number: int


def chosen_child(group: HostedGroup, ask: HoleRequest, now: float) -> ChosenHole | None:
    """The child with the smallest hole that surely serves; or one that possibly does.

    Of holes that possibly serve, the smallest if the children are leaves: another one is tried
    soon. Farther up, the largest. Among equal holes the child that has more of them, then the
    first. Children below which the request has been everywhere are left out.
    """
    records = untried(group, ask.tried)
    wanted, is_sure = ask.wanted, ask.is_sure
    if not records:
        return None
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
    is_smallest = is_sure or group.level == 1
    found = (best_class if is_smallest else largest_class)(rows, mask).tolist()
    order = 1 if is_smallest else -1
    options = [
        (order * number, -int(rows[place, number]), place)
        for place, number in enumerate(found)
        if number != NONE
    ]
    if not options:
        return None
    number, _, place = min(options)
    return ChosenHole(records[place], order * number)


def fallen(ask: HoleRequest, leaf: Address, above: GroupId) -> HoleRequest:
    """The request after a leaf had no hole for it, on its way to the group above.

    One that has come down in vain too often is tried at all leaves.
    """
    return replace(
        ask,
        came_from=leaf,
        group=above,
        is_sure=True,
        falls=max(ask.falls - 1, 0),
        hops=ask.hops + 1,
        tried=(*ask.tried, leaf),
        tries=ask.tries or int(ask.falls == 0),
    )


def pass_on(group: HostedGroup, ask: HoleRequest, now: float) -> list[Send]:
    """What a host sends when its group is asked to find a hole.

    Of a hole that a request was sent after, only the rest is offered to the next one: the child's
    next report tells what has become of it.
    """
    if ask.hops > HOPS_MAX or not group.records:
        return [Send(ask.owner, NoHole(ask.key))]
    ask = replace(ask, hops=ask.hops + 1)
    if ask.tries:
        return _tried_on(group, ask, now)
    chosen = chosen_child(group, ask, now)
    if chosen is None:
        pieces = _in_two(group, ask, now)
        if pieces:
            return pieces
    if chosen is not None:
        return [_down(group, ask, chosen)]
    if ask.came_from is None:  # it came down after a hole that is gone
        if ask.falls == 0:
            return _tried_on(group, replace(ask, tries=1), now)
        ask = replace(ask, falls=ask.falls - 1, is_sure=True)
    parent = group.parent
    if group.is_root or parent is None:
        if not ask.is_sure:
            return _tried_on(group, replace(ask, tries=1), now)
        return pass_on(group, replace(ask, is_sure=False, came_from=group.id), now)
    return [Send(parent.host, replace(ask, came_from=group.id, group=parent.group))]


def untried(group: HostedGroup, tried: Sequence[Address]) -> list[ChildRecord]:
    """The children below which there are leaves that a request has not been at."""
    if not tried:
        return list(group.records)
    lows = [record.child.low for record in group.records]
    left = [record.leaves if group.level > 1 else 1 for record in group.records]
    for leaf in tried:
        place = bisect_right(lows, leaf) - 1
        if place >= 0 and (place + 1 < len(lows) or leaf < group.high):
            left[place] -= 1
    return [record for record, count in zip(group.records, left, strict=True) if count > 0]


def _tried_on(group: HostedGroup, ask: HoleRequest, now: float) -> list[Send]:
    """Try leaves one by one: holes that are too small to be told of, or were told of too late.

    From the root, the request is cut when all have been tried, or too many.
    """
    left = untried(group, ask.tried)
    if left and ask.tries <= TRIES_MAX:
        child = left[0].child
        below = child.key if group.level > 1 else None
        assert below is None or isinstance(below, tuple)
        tries = ask.tries + int(group.level == 1)
        return [Send(child.host, replace(ask, came_from=None, group=below, tries=tries))]
    if not group.is_root and group.parent is not None:
        parent = group.parent
        return [Send(parent.host, replace(ask, came_from=group.id, group=parent.group))]
    cut = cut_in_two(ask.wanted.frame, ask.wanted.work, reference_points(now))
    if cut is None:
        return [Send(ask.owner, NoHole(ask.key, is_certain=not left))]
    ask = replace(ask, tried=(), tries=0, is_sure=True, falls=FALLS, came_from=group.id)
    return [send for piece in _pieces(ask, *cut) for send in pass_on(group, piece, now)]


def _pieces(ask: HoleRequest, count: int, first: Frame, second: Frame) -> list[HoleRequest]:
    """The two requests that a request is cut into, the first with so many tasks."""
    wanted = ask.wanted
    places = list(range(len(wanted.work)))
    request = SequenceRequest(places, wanted.frame, wanted.awaited, wanted.pace)
    found = []
    keys = cut_key(ask.key, count)
    for key, piece in zip(keys, pieces_of(request, count, first, second), strict=True):
        low, high = piece.tasks[0], piece.tasks[-1] + 1
        part = wanted.part(low, high, piece.frame, piece.awaited)
        found.append(replace(ask, key=key, wanted=part))
    return found


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
    sends = []
    before = [record.summary for record in group.records]
    for piece in _pieces(replace(ask, tried=()), *cut):
        chosen = chosen_child(group, piece, now)
        if chosen is None:
            for record, summary in zip(group.records, before, strict=True):
                record.summary = summary
            return []
        sends.append(_down(group, piece, chosen))
    return sends
