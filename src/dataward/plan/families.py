"""The order in which tasks of equal rank are placed: families and neighbours kept together.

A family are tasks whose largest input is the same file. Placed one after another, they fill the
node that has the file and then the others, to which it has to be moved; the next family does the
same the other way round. In turn, each goes where its file is, and all nodes are filled alike.

Tasks that are listed side by side mostly have children in common. Placed one after another, they
would be dealt out to all nodes, and half of what each child reads would have to be moved. So each
node is meant to have a stretch of them, and a few tasks of every stretch are placed in turn.
"""

from collections.abc import Sequence

import numpy as np

from dataward.model.adjacency import Indices, Offsets
from dataward.model.workflow import Seconds, Workflow
from dataward.plan.heft import rounded_ranks


def families_in_turn(workflow: Workflow, ranks: Seconds, cores: Sequence[int] = (1,)) -> Indices:
    """The tasks by falling rank; equal ranks level by level, one of each family in turn.

    Of those, each node is meant to have a stretch, as long as its share of all ``cores``; first
    come as many tasks of each stretch as its node has cores, then as many again, and so on.
    """
    shares, levels = rounded_ranks(ranks), workflow.layers.level_of
    family = main_inputs(workflow)
    index = np.arange(len(workflow))
    by_family = np.lexsort((index, family, levels, -shares))
    turns = np.empty(len(workflow), dtype=np.int64)
    turns[by_family] = _places_in_runs(shares[by_family], levels[by_family], family[by_family])
    in_turn = np.lexsort((index, turns, levels, -shares))
    rounds, stretches = np.empty((2, len(workflow)), dtype=np.int64)
    rounds[in_turn], stretches[in_turn] = _dealt_out(
        cores, shares[in_turn], levels[in_turn], turns[in_turn]
    )
    order: Indices = np.lexsort((index, stretches, rounds, turns, levels, -shares)).astype(np.int32)
    return order


def main_inputs(workflow: Workflow) -> Offsets:
    """Each task's largest input, the first of equals; a task without any is a family of its own."""
    degrees = workflow.inputs.degrees()
    readers = np.repeat(np.arange(len(workflow)), degrees)
    files = workflow.inputs.targets
    by_size = np.lexsort((np.arange(len(files)), -workflow.size_bytes[files], readers))
    found = -1 - np.arange(len(workflow), dtype=np.int64)
    has_any = np.flatnonzero(degrees)
    firsts = np.concatenate(([0], np.cumsum(degrees)))[has_any]
    found[has_any] = files[by_size][firsts]
    return found


def _dealt_out(cores: Sequence[int], *keys: Seconds | Indices | Offsets) -> tuple[Offsets, Offsets]:
    """For each entry of a sorted list its round and its stretch, among those of the same keys."""
    starts, lengths = _runs(*keys)
    places = np.arange(len(keys[0])) - np.repeat(starts, lengths)
    firsts = np.concatenate(([0], np.cumsum(cores)))
    of_run = np.repeat(lengths, lengths)
    # The entry's share of its run is that of its stretch's node.
    stretches = np.searchsorted(firsts, places * firsts[-1] // of_run, side="right") - 1
    begins = -(-firsts[stretches] * of_run // firsts[-1])
    return (places - begins) // np.asarray(cores)[stretches], stretches


def _runs(*keys: Seconds | Indices | Offsets) -> tuple[Offsets, Offsets]:
    """Where each run of equal keys begins, in a list that is sorted by them, and its length."""
    count = len(keys[0])
    if not count:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    changes = np.ones(count, dtype=bool)
    changes[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    starts = np.flatnonzero(changes)
    return starts, np.diff(np.append(starts, count))


def _places_in_runs(*keys: Seconds | Indices | Offsets) -> Offsets:
    """For each entry, how many before it have the same keys, in a list that is sorted by them."""
    starts, lengths = _runs(*keys)
    places: Offsets = np.arange(len(keys[0])) - np.repeat(starts, lengths)
    return places
