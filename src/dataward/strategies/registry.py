"""Lists every strategy by name."""

from dataward.errors import SettingError
from dataward.strategies import adage, matrix, static
from dataward.strategies.albatross import ALBATROSS
from dataward.strategies.cloudkon import CLOUDKON
from dataward.strategies.cpfl import CPFL
from dataward.strategies.data_diffusion import DATA_DIFFUSION
from dataward.strategies.dataward import DATAWARD
from dataward.strategies.peercomp import PEERCOMP
from dataward.strategies.sparrow import SPARROW
from dataward.strategies.storage_affinity import STORAGE_AFFINITY
from dataward.strategies.strategy import Strategy
from dataward.strategies.worker_centric import WORKER_CENTRIC
from dataward.strategies.workqueue import WORKQUEUE

ALL = (
    DATAWARD, *adage.ALL, *matrix.ALL, *static.ALL, CPFL,
    ALBATROSS, WORKQUEUE, CLOUDKON, SPARROW, WORKER_CENTRIC,
    STORAGE_AFFINITY, DATA_DIFFUSION, PEERCOMP,
)  # fmt: skip
DEFAULT = "dataward"
KEEPING = PEERCOMP.name  # the strategy that keeps promises
STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in ALL}


def strategies_named(names: str) -> list[Strategy]:
    """The strategies of these names, with commas between them, or ``all``. Raises SettingError."""
    if names == "all":
        return list(ALL)
    found = [strategy_named(name) for name in names.split(",") if name]
    if not found:
        raise SettingError(f"no strategy given; there are {', '.join(STRATEGIES)}")
    return found


def check_keeping(name: str) -> None:
    """Raise SettingError if the strategy of that name keeps no promises."""
    if name != KEEPING:
        raise SettingError(f"a deadline is kept by --strategy {KEEPING}, which is then the default")


def strategy_named(name: str) -> Strategy:
    """The strategy of that name. Raises a SettingError that lists all names."""
    if name not in STRATEGIES:
        raise SettingError(f"no strategy is called {name!r}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
