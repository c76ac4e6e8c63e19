"""`--set name=value`, read as the type of the setting it names."""

from enum import Enum

import pytest

from builders import a_diamond
from cli.conftest import Dataward
from dataward import write_workflow
from dataward.cli.exit_codes import ExitCode
from dataward.errors import SettingError
from dataward.model.settings import values_of
from dataward.node.giving import Giving
from dataward.node.neighbourhood import Neighbourhood
from dataward.node.settings import NodeSettings
from dataward.strategies.choosing import PARTS, changed_strategy, settings_of
from dataward.strategies.registry import STRATEGIES
from dataward.strategies.strategy import Strategy

ADAGE = STRATEGIES["adage"]


def change(*pairs: str) -> Strategy:
    return changed_strategy(ADAGE, list(pairs))


def test_values_are_read_as_their_settings_type_and_reach_their_part() -> None:
    changed = change(
        "lease_seconds=100", "backups_max=1", "replication=off", "neighbourhood=static"
    )

    assert changed.settings == NodeSettings(lease_seconds=100.0, backups_max=1)
    assert changed.mover == Giving(replication=False, neighbourhood=Neighbourhood.STATIC)
    assert isinstance(changed.settings.lease_seconds, float)


@pytest.mark.parametrize(
    ("word", "value"),
    [("true", True), ("On", True), ("1", True), ("FALSE", False), ("off", False), ("0", False)],
)
def test_a_switch_has_several_words(word: str, value: bool) -> None:
    assert change(f"replication={word}").mover == Giving(replication=value)


def test_the_last_of_two_counts() -> None:
    assert change("backups_max=1", "backups_max=5").settings.backups_max == 5


def test_nothing_asked_nothing_changed() -> None:
    assert change() == ADAGE


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_setting_can_be_set_to_what_it_is(name: str) -> None:
    strategy = STRATEGIES[name]
    for setting, present in settings_of(strategy).items():
        text = present.value if isinstance(present, Enum) else str(present)
        assert changed_strategy(strategy, [f"{setting}={text}"]) == strategy


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_two_parts_of_a_strategy_have_a_setting_of_the_same_name(name: str) -> None:
    names = [n for part in PARTS for n in values_of(getattr(STRATEGIES[name], part))]

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        ("speed=3", "no setting is called 'speed'; there are lease_seconds=125, .*, replication="),
        ("replication", "--set takes NAME=VALUE, as replication=true"),
        ("=3", "no setting is called ''"),
        ("replication=perhaps", "replication cannot be 'perhaps'; at present it is true"),
        ("replication=", "replication cannot be ''"),
        ("backups_max=1.5", "backups_max cannot be '1.5'; at present it is 2"),
        ("neighbourhood=far", "neighbourhood cannot be 'far'; at present it is dynamic"),
        ("lease_seconds=-1", "lease_seconds cannot be -1"),
        ("lease_seconds=nan", "lease_seconds cannot be nan"),
    ],
)
def test_what_makes_no_sense_is_refused(pair: str, problem: str) -> None:
    with pytest.raises(SettingError, match=problem):
        change(pair)


@pytest.mark.parametrize("name", ["claim_max", "transfers_max", "fetch_rounds"])
def test_what_would_stop_a_node_is_refused(name: str) -> None:
    with pytest.raises(SettingError):
        change(f"{name}=0")


def test_run_lists_what_can_be_set_there_with_its_defaults(dataward: Dataward) -> None:
    write_workflow(a_diamond(), "diamond.json")

    said = dataward("run", "diamond.json", "--set", "nosuch=1")

    assert said.code == ExitCode.USAGE
    assert "no setting is called 'nosuch'; there are time_limit_seconds=0, " in said.err
    assert ", log_bytes_max=268435456, " in said.err
    assert ", claim_max=1024, " in said.err
    assert "lease_seconds" not in said.err  # one node of one process has no use for it


@pytest.mark.parametrize("limit", ["0", "0s", "0min"])
def test_a_time_limit_of_0_is_refused(dataward: Dataward, limit: str) -> None:
    said = dataward("run", "nosuch.json", "--time-limit", limit)

    assert said.code == ExitCode.USAGE
    assert "leave it out for no limit" in said.err
