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


def test_until_files_have_come_a_described_link_says_how_long_others_take() -> None:
    learned = Learned()
    assert learned.staging_seconds(100) == 0.0
    assert learned.staging_seconds(100, described=20.0) == 5.0

    learned.moved(10.0, 1000)

    assert learned.staging_seconds(100, described=20.0) == 1.0
