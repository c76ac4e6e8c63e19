"""Where a task should run: least to move, then least to do, then the lowest id."""

from hypothesis import given
from hypothesis import strategies as st

from dataward.model.operations import Copy, InputFile
from dataward.model.workflow import FileId, TaskId
from dataward.node.homes import Candidate, best_node, candidates_for, missing_bytes


def a_file(id: str, size_bytes: int) -> InputFile:
    return InputFile(FileId(id), size_bytes, TaskId(f"maker of {id}"))


def a_copy(file: str, node: str) -> Copy:
    return Copy(FileId(file), node)


BIG, SMALL = a_file("big", 100), a_file("small", 1)


def test_the_node_that_has_to_wait_least_for_files_is_best() -> None:
    assert best_node([Candidate("a", 100, 0.0), Candidate("b", 1, 99.0)]) == "b"


def test_equal_waits_go_to_the_less_loaded() -> None:
    assert best_node([Candidate("a", 5, 2.0), Candidate("b", 5, 1.0)]) == "b"


def test_equal_waits_and_loads_go_to_the_lowest_id() -> None:
    assert best_node([Candidate(node, 5, 1.0) for node in ("c", "a", "b")]) == "a"


def test_bytes_held_need_not_be_moved() -> None:
    assert missing_bytes([BIG, SMALL], {"big"}) == 1
    assert missing_bytes([BIG, SMALL], ()) == 101
    assert missing_bytes([], {"big"}) == 0


def test_every_node_asked_is_a_candidate_whatever_it_holds() -> None:
    copies = [a_copy("big", "a"), a_copy("small", "b"), a_copy("small", "a"), a_copy("big", "gone")]

    found = candidates_for([BIG, SMALL], copies, {"b": 2.0, "a": 1.0, "c": 0.0})

    assert found == [Candidate("b", 100, 2.0), Candidate("a", 0, 1.0), Candidate("c", 101, 0.0)]


candidates = st.lists(
    st.builds(Candidate, st.sampled_from("abcdef"), st.integers(0, 2), st.sampled_from([0.0, 1.0])),
    min_size=1,
    unique_by=lambda candidate: candidate.node,
)


@given(candidates, st.randoms())
def test_the_order_in_which_candidates_are_listed_does_not_matter(
    listed: list[Candidate], random: object
) -> None:
    shuffled = list(listed)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert best_node(shuffled) == best_node(listed)
