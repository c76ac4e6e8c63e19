"""Settings for nodes of one process: what fits them, and what would change nothing for them."""

from dataclasses import fields, replace

import pytest

from dataward.errors import SettingError
from dataward.live.fitting import FOR_EVER_SECONDS, check_settable, fitted
from dataward.live.slice import Slice
from dataward.node.mover import Staying
from dataward.node.settings import NodeSettings
from dataward.strategies.registry import STRATEGIES

ALONE, SEVERAL = Slice(1, 2), Slice(3, 2)
ADAGE = STRATEGIES["adage"]


def test_nodes_of_one_process_hold_their_leases_for_ever():
    assert fitted(ADAGE, SEVERAL).settings.lease_seconds == FOR_EVER_SECONDS


def test_a_node_that_is_alone_gives_nothing_and_has_no_backups():
    alone = fitted(ADAGE, ALONE)

    assert alone.mover == Staying()
    assert alone.settings.backups_max == 0


def test_several_nodes_give_and_back_up_as_the_strategy_says():
    quiet = replace(ADAGE, settings=replace(ADAGE.settings, backups_max=1), mover=Staying())

    assert fitted(ADAGE, SEVERAL).mover == ADAGE.mover
    assert fitted(ADAGE, SEVERAL).settings.backups_max == ADAGE.settings.backups_max
    assert fitted(quiet, SEVERAL).mover == Staying()
    assert fitted(quiet, SEVERAL).settings.backups_max == 1


def test_a_node_that_is_alone_still_asks_itself_for_tasks():
    assert fitted(STRATEGIES["workqueue"], ALONE).mover == STRATEGIES["workqueue"].mover


def test_outcomes_that_others_than_tasks_wait_for_are_not_held_back():
    assert fitted(ADAGE, ALONE).settings.unawaited_seconds > 0
    assert fitted(ADAGE, ALONE, unawaited_seconds=0.0).settings.unawaited_seconds == 0


@pytest.mark.parametrize("machine", [ALONE, SEVERAL], ids=["alone", "several"])
def test_a_lease_cannot_be_set(machine):
    with pytest.raises(SettingError, match="lease_seconds would change nothing here"):
        check_settable("lease_seconds", ADAGE, machine)


@pytest.mark.parametrize("name", ["replication", "backups_max", "neighbours"])
def test_what_is_about_giving_can_be_set_only_for_several_nodes(name):
    check_settable(name, ADAGE, SEVERAL)

    with pytest.raises(SettingError, match="use --nodes 2 or more"):
        check_settable(name, ADAGE, ALONE)


def test_everything_else_can_be_set():
    for field in fields(NodeSettings):
        if field.name not in ("lease_seconds", "shuns_dead"):
            check_settable(field.name, ADAGE, SEVERAL)
