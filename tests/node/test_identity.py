"""Who a node is: names of attempts are its own, and a new incarnation holds nothing of the last."""

from dataward.model.ids import NodeId
from dataward.model.operations import QueueEntry
from dataward.model.workflow import FileId, TaskId
from dataward.node.identity import Holding, Identity
from dataward.stores.task_record import incarnation_of


def test_no_two_attempts_share_a_name() -> None:
    identity = Identity("n1", 3)

    names = [identity.next_attempt() for _ in range(3)]
    identity.become(identity.incarnation + 1)
    names += [identity.next_attempt() for _ in range(3)]

    assert len(set(names)) == 6


def test_an_attempts_name_tells_the_node_and_its_incarnation() -> None:
    identity = Identity("rack.1.node.2", 3)

    name = identity.next_attempt()

    assert name.startswith("rack.1.node.2.")
    assert incarnation_of(name) == 3


def test_where_outputs_go_ahead_is_remembered_only_of_a_task_that_is_held() -> None:
    identity, held = Identity("n1", 1), TaskId("a")
    identity.holdings[held] = Holding(QueueEntry(1.0, held), 7)

    identity.send_ahead(held, ((FileId("f"), NodeId("n2")),))
    identity.send_ahead(TaskId("b"), ((FileId("g"), NodeId("n2")),))

    assert identity.holdings == {held: Holding(QueueEntry(1.0, held), 7, (("f", "n2"),))}


def test_a_new_incarnation_holds_nothing_of_the_last() -> None:
    identity = Identity("n1", 1)
    identity.holdings[TaskId("a")] = Holding(QueueEntry(1.0, TaskId("a")), 7)

    identity.become(identity.incarnation + 1)

    assert identity.incarnation == 2
    assert not identity.holdings
