import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataward.model import layers
from dataward.model.adjacency import Adjacency
from dataward.model.layers import find_cycle, layers_of

Pairs = list[tuple[int, int]]


def graph(pairs: Pairs, count: int) -> tuple[Adjacency, Adjacency]:
    """(parents, children) from (child, parent) pairs."""
    rows = np.array([c for c, _ in pairs], dtype=np.int32)
    targets = np.array([p for _, p in pairs], dtype=np.int32)
    parents = Adjacency.from_edges(rows, targets, count)
    return parents, parents.transposed(count)


graphs = st.integers(1, 15).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30), st.just(n)
    )
)


@given(graphs)
def test_either_there_are_layers_or_the_cycle_found_is_real(case: tuple[Pairs, int]) -> None:
    parents, children = graph(*case)

    if layers_of(parents, children) is None:
        cycle = find_cycle(parents, children)
        assert len(set(cycle)) == len(cycle)
        for before, after in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            assert before in parents.row(after)
    else:
        assert all(c != p for c, p in case[0])


@given(graphs)
def test_wide_and_narrow_levels_are_computed_alike(case: tuple[Pairs, int]) -> None:
    parents, children = graph([(max(p), min(p)) for p in case[0] if p[0] != p[1]], case[1])
    narrow = layers_of(parents, children)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "NARROW", 0)
        wide = layers_of(parents, children)

    assert narrow is not None
    assert wide is not None
    assert narrow.order.tolist() == wide.order.tolist()
    assert narrow.level_of.tolist() == wide.level_of.tolist()


@given(graphs)
def test_transposing_twice_gives_the_same_graph(case: tuple[Pairs, int]) -> None:
    parents, children = graph(*case)

    assert children.transposed(case[1]) == parents


def test_gather_is_the_rows_one_after_another() -> None:
    parents, _ = graph([(0, 1), (0, 2), (2, 1)], 3)

    targets, offsets = parents.gather(np.array([2, 1, 0], dtype=np.int32))

    assert targets.tolist() == [1, 1, 2]
    assert offsets.tolist() == [0, 1, 1, 3]
