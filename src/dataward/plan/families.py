"""The order in which tasks of equal rank are placed: one of each family in turn.

A family are tasks whose largest input is the same file. Placed one after another, they fill the
node that has the file and then the others, to which it has to be moved; the next family does the
same the other way round. In turn, each goes where its file is, and all nodes are filled alike.
"""

import numpy as np

from dataward.model.adjacency import Indices, Offsets
from dataward.model.workflow import Seconds, Workflow
from dataward.plan.heft import rounded_ranks


def families_in_turn(workflow: Workflow, ranks: Seconds) -> Indices:
    """The tasks by falling rank; equal ranks level by level, one of each family, then by index."""
    shares, levels = rounded_ranks(ranks), workflow.layers.level_of
    family = main_inputs(workflow)
    index = np.arange(len(workflow))
    by_family = np.lexsort((index, family, levels, -shares))
    turns = np.empty(len(workflow), dtype=np.int64)
    turns[by_family] = _places_in_runs(shares[by_family], levels[by_family], family[by_family])
    order: Indices = np.lexsort((index, turns, levels, -shares)).astype(np.int32)
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


def _places_in_runs(*keys: Seconds | Indices | Offsets) -> Offsets:
    """For each entry, how many before it have the same keys, in a list that is sorted by them."""
    count = len(keys[0])
    if not count:
        return np.zeros(0, dtype=np.int64)
    changes = np.ones(count, dtype=bool)
    changes[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    starts = np.flatnonzero(changes)
    lengths = np.diff(np.append(starts, count))
    places: Offsets = np.arange(count) - np.repeat(starts, lengths)
    return places
