"""Kinds of node: those of a kind can stand for each other as far as they hold the same files."""

from math import log

from dataward.model.platform import Machine, Platform

KINDS_MAX = 8


def kinds_of(platform: Platform) -> list[int]:
    """The number of each node's kind; nodes of a kind are equal if there are few kinds.

    If there were more than `KINDS_MAX`, as where every node was measured by itself, nodes of a kind
    are only alike: their numbers are rounded to powers of 2, or coarser.
    """
    for base in (1, 2, 4, 16):
        kinds = [_kind(machine, base) for machine in platform.machines]
        number = {kind: at for at, kind in enumerate(dict.fromkeys(kinds))}
        if len(number) <= KINDS_MAX:
            return [number[kind] for kind in kinds]
    return [0] * len(platform.machines)


def _kind(machine: Machine, base: int) -> tuple[str, ...]:
    numbers = (
        machine.speed,
        machine.cores,
        machine.up_bytes_per_second,
        machine.down_bytes_per_second,
        machine.disk_bytes_per_second,
    )
    if base == 1:
        return machine.site, *map(repr, numbers)
    return machine.site, *(str(round(log(number, base))) for number in numbers)
