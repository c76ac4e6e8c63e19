"""Chooses a strategy by name and applies ``--set`` to its parts."""

from dataclasses import replace
from typing import Any

from dataward.api.settings import change_settings, check_names, is_setting_of, values_of
from dataward.strategies.registry import strategy_named
from dataward.strategies.strategy import Strategy

PARTS = ("settings", "home", "mover")  # whose fields can be set


def settings_of(strategy: Strategy) -> dict[str, Any]:
    """Every setting of a strategy's parts by name, with its present value."""
    return {
        name: value for part in PARTS for name, value in values_of(getattr(strategy, part)).items()
    }


def changed_strategy(strategy: Strategy, changes: list[str]) -> Strategy:
    """The strategy with ``name=value`` applied to its parts. Raises SettingError."""
    check_names(changes, settings_of(strategy))
    for part in PARTS:
        present = getattr(strategy, part)
        for_part = [change for change in changes if is_setting_of(present, change)]
        strategy = replace(strategy, **{part: change_settings(present, for_part)})
    return strategy


def chosen_strategy(name: str, changes: list[str]) -> Strategy:
    """The strategy of that name with ``name=value`` applied. Raises SettingError."""
    return changed_strategy(strategy_named(name), changes)
