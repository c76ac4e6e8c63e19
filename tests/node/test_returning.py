"""Tasks that lost their node go back to their inputs when these are there again."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from dataward.model.events import Event, TaskFinished
from dataward.model.messages import Bid, OfferedTask
from dataward.model.platform import uniform_platform
from dataward.node.returning import Missing, nearer
from dataward.sim.simulation import Simulation
from dataward.strategies.registry import STRATEGIES
from sim.small_runs import GB, one_task


def a_bid(node: str, start: float, missing_bytes: int, places: int = 1) -> Bid:
    return Bid(node, 1, places, ((start, start + 10.0),), (missing_bytes,))


def goes(bids: list[Bid], missing_bytes: int = 100, seconds: float = 60.0) -> str | None:
    task = OfferedTask("t", 0.0, 10.0, 0.0, "", (("f", missing_bytes),))
    return nearer([task], bids, {"t": Missing(missing_bytes, seconds)}).get("t")


def test_a_task_goes_to_who_has_its_inputs() -> None:
    assert goes([a_bid("n1", 1.0, 100), a_bid("n2", 2.0, 0)]) == "n2"


def test_half_of_the_inputs_must_be_there() -> None:
    assert goes([a_bid("n1", 1.0, 50)]) == "n1"
    assert goes([a_bid("n1", 1.0, 51)]) is None


def test_it_must_start_in_half_of_the_time_that_inputs_take() -> None:
    assert goes([a_bid("n1", 30.0, 0)]) == "n1"
    assert goes([a_bid("n1", 30.1, 0)]) is None
    assert goes([a_bid("n1", inf, 0)]) is None


def test_the_first_to_start_has_it() -> None:
    assert goes([a_bid("n1", 9.0, 0), a_bid("n2", 1.0, 50), a_bid("n3", 1.0, 0)]) == "n2"


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 100), st.integers(0, 2)), max_size=6))
def test_no_node_has_more_tasks_than_places(bids: list[tuple[float, int, int]]) -> None:
    tasks = [OfferedTask(f"t{i}", 0.0, 10.0, 0.0, "", (("f", 100),)) for i in range(4)]
    missing = {task.task: Missing(100, 60.0) for task in tasks}
    offered = [
        Bid(f"n{i}", 1, places, ((start, start),) * 4, (lacks,) * 4)
        for i, (start, lacks, places) in enumerate(bids)
    ]

    given_ = nearer(tasks, offered, missing)

    for bid in offered:
        assert sum(node == bid.node for node in given_.values()) <= bid.places
    able = sum(
        bid.places for bid in offered if bid.missing_bytes[0] <= 50 and bid.times[0][0] <= 30
    )
    assert len(given_) == min(able, 4)


def test_a_node_that_comes_back_has_its_task_again_with_the_inputs() -> None:
    simulation = Simulation(
        one_task(100.0, reads=40 * GB), uniform_platform(8), STRATEGIES["dataward"], seed=1
    )
    ended: list[Event] = []
    simulation.watch(ended.append)
    first = simulation.nodes[0]
    simulation.kernel.call_at(450.0, simulation.crash, first)  # it has the inputs, and runs
    simulation.kernel.call_at(550.0, simulation.boot, first)

    result = simulation.run()

    assert [event.node for event in ended if isinstance(event, TaskFinished)] == [first]
    assert result.makespan_seconds < 750  # elsewhere the inputs alone are there at about 900
