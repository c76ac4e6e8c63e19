"""Chooses a strategy by name and applies ``--set`` to its parts."""

from dataclasses import replace
from typing import Any

from dataward.model.settings import change_settings, check_names, is_setting_of, values_of
from dataward.strategies.registry import strategies_named, strategy_named
from dataward.strategies.strategy import Strategy

PARTS = ("settings", "home", "mover")  # whose fields can be set


def settings_of(strategy: Strategy) -> dict[str, Any]:
    """Every setting of a strategy's parts by name, with its present value."""
    return {
        name: value for part in PARTS for name, value in values_of(getattr(strategy, part)).items()
    }


def parts_of(strategy: Strategy) -> dict[str, str]:
    """What each part of a strategy is called."""
    return {
        "plan": strategy.plan.__name__.replace("_", " "),
        "home": type(strategy.home).__name__,
        "order": strategy.order.value,
        "mover": type(strategy.mover).__name__,
        "load": strategy.load.value,
        "binding": strategy.binding.value,
    }


def changed_strategy(strategy: Strategy, changes: list[str]) -> Strategy:
    """The strategy with ``name=value`` applied to its parts. Raises SettingError."""
    check_names(changes, settings_of(strategy))
    for part in PARTS:
        present = getattr(strategy, part)
        for_part = [change for change in changes if is_setting_of(present, change)]
        strategy = replace(strategy, **{part: change_settings(present, for_part)})
    return strategy


def changed_strategies(names: str, changes: list[str]) -> list[Strategy]:
    """The strategies of these names, or all, each with those changes that it has a setting for.

    Raises SettingError if none of them has it.
    """
    found = strategies_named(names)
    known = {name: value for each in found for name, value in settings_of(each).items()}
    check_names(changes, known)
    return [
        changed_strategy(each, [c for c in changes if c.partition("=")[0] in settings_of(each)])
        for each in found
    ]


def found_strategy(strategy: str | Strategy) -> Strategy:
    """The strategy of that name; one of the caller's own is taken as it is."""
    return strategy if isinstance(strategy, Strategy) else strategy_named(strategy)


def chosen_strategy(strategy: str | Strategy, changes: list[str]) -> Strategy:
    """The strategy, perhaps given by its name, with ``name=value`` applied. Raises SettingError."""
    return changed_strategy(found_strategy(strategy), changes)
