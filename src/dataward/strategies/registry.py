"""Lists every strategy by name."""

from dataward.errors import SettingError
from dataward.strategies import adage, static
from dataward.strategies.strategy import Strategy

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (*adage.ALL, *static.ALL)
}


def strategy_named(name: str) -> Strategy:
    """The strategy of that name. Raises a SettingError that lists all names."""
    if name not in STRATEGIES:
        raise SettingError(f"no strategy is called {name!r}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
