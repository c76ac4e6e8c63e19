"""The strategy a person names, with what they set of it."""

from dataclasses import replace

from dataward.cli.settings import change_settings
from dataward.errors import SettingError
from dataward.strategies.adage import STRATEGIES
from dataward.strategies.strategy import Strategy


def chosen_strategy(name: str, changes: list[str]) -> Strategy:
    if name not in STRATEGIES:
        raise SettingError(f"no strategy is called {name!r}; there are {', '.join(STRATEGIES)}")
    found = STRATEGIES[name]
    return replace(found, settings=change_settings(found.settings, changes))
