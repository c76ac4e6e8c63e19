"""Chooses a strategy by name and applies ``--set`` to it."""

from dataclasses import replace

from dataward.api.settings import change_settings
from dataward.strategies.registry import strategy_named
from dataward.strategies.strategy import Strategy


def changed_strategy(strategy: Strategy, changes: list[str]) -> Strategy:
    """The strategy with ``name=value`` applied to its settings. Raises SettingError."""
    return replace(strategy, settings=change_settings(strategy.settings, changes))


def chosen_strategy(name: str, changes: list[str]) -> Strategy:
    """The strategy of that name with ``name=value`` applied. Raises SettingError."""
    return changed_strategy(strategy_named(name), changes)
