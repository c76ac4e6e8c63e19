"""A node learns how long tasks run, and how long they wait for data."""

from dataward.node.learned import Learned


def test_the_mean_is_that_of_all_tasks_that_ran() -> None:
    learned = Learned()

    learned.ran(1.0)
    learned.ran(4.0)

    assert learned.tasks == 2
    assert learned.mean_seconds == 2.5


def test_before_the_first_task_there_is_no_mean() -> None:
    assert Learned().mean_seconds == 0.0
