"""What `dataward strategies` lists."""

import json

import pytest

from cli.conftest import Dataward
from dataward.strategies.registry import STRATEGIES


def test_every_strategy_has_a_line(dataward: Dataward, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")

    said = dataward("strategies")

    lines = said.out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(STRATEGIES)


def test_json_has_parts_and_settings(dataward: Dataward) -> None:
    listed = {each["name"]: each for each in json.loads(dataward("strategies", "--json").out)}

    assert listed.keys() == STRATEGIES.keys()
    assert listed["adage"]["parts"]["mover"] == "Giving"
    assert listed["adage"]["settings"]["backups_max"] == 2
    assert "IEEE Access" in listed["adage"]["paper"]
