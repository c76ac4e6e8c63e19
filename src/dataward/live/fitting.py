"""A strategy's settings for nodes that share one process with their store, or that share a LAN."""

from dataclasses import fields, replace
from typing import Any

from dataward.errors import SettingError
from dataward.live.slice import Slice
from dataward.node.giving import Giving
from dataward.node.mover import Staying
from dataward.node.ready_queue import TakeOrder
from dataward.node.settings import NodeSettings
from dataward.strategies.strategy import Strategy

FOR_EVER_SECONDS = 1e9
OUTCOME_SECONDS = 0.01  # a sync takes some 0.2 ms, and handing it to a thread as much again
UNAWAITED_SECONDS = 0.03
LOST_INPUT_LEASES = 30  # long enough for a machine to start again
LEAD_SECONDS = 0.08  # the node may be busy with other things for this long

_NO_LEASES = "nodes of one process are lost together, so their leases never expire"
_NOBODY_ELSE = (
    "there is only one node, which can give work to no other and moves no files; "
    "use --nodes 2 or more"
)
_MEANINGLESS = {"lease_seconds": _NO_LEASES, "shuns_dead": _NO_LEASES}
_OF_SEVERAL = {
    "backups_max", "give_way_share", "idle_staging", "safe_bytes_per_second", "safe_seconds",
}  # fmt: skip


def fitted(
    strategy: Strategy, machine: Slice, unawaited_seconds: float = UNAWAITED_SECONDS
) -> Strategy:
    """The strategy without leases, with batches that suit a disk and, on one node, no giving.

    ``unawaited_seconds`` is 0 if not only tasks wait for outcomes.
    """
    several = machine.nodes > 1
    settings: NodeSettings = replace(
        strategy.settings,
        lease_seconds=FOR_EVER_SECONDS,
        outcome_seconds=OUTCOME_SECONDS,
        unawaited_seconds=unawaited_seconds,
        lead_seconds=_lead_seconds(strategy),
        backups_max=strategy.settings.backups_max if several else 0,
        # On one node inputs are linked, not moved: no task waits for those of another.
        give_way_share=strategy.settings.give_way_share if several else 0.0,
        idle_staging=strategy.settings.idle_staging if several else 0,
        safe_bytes_per_second=strategy.settings.safe_bytes_per_second if several else 0.0,
    )
    is_idle = isinstance(strategy.mover, Giving) and not several
    return replace(strategy, settings=settings, mover=Staying() if is_idle else strategy.mover)


def fitted_to_network(strategy: Strategy, lease_seconds: float) -> Strategy:
    """The strategy with leases and batches that suit hosts on one network.

    A quarter of the lease passes between renewals, so that two may be lost.
    """
    settings: NodeSettings = replace(
        strategy.settings,
        lease_seconds=lease_seconds,
        validation_seconds=lease_seconds / 4,
        stale_outbox_seconds=min(strategy.settings.stale_outbox_seconds, lease_seconds),
        retry_seconds_max=min(strategy.settings.retry_seconds_max, lease_seconds / 2),
        lost_input_seconds=LOST_INPUT_LEASES * lease_seconds,
        outcome_seconds=OUTCOME_SECONDS,
        unawaited_seconds=UNAWAITED_SECONDS,
        lead_seconds=_lead_seconds(strategy),
    )
    return replace(strategy, settings=settings)


def _lead_seconds(strategy: Strategy) -> float:
    """A core that has promised something is free for it, so no task waits at the runner."""
    return 0.0 if strategy.order is TakeOrder.PROMISED else LEAD_SECONDS


def why_useless(name: str, strategy: Strategy, machine: Slice) -> str:
    """Why setting this would change nothing for nodes of one process; "" if it would."""
    if machine.nodes == 1 and name in _for_several(strategy):
        return _NOBODY_ELSE
    return _MEANINGLESS.get(name, "")


def _for_several(strategy: Strategy) -> set[str]:
    """The settings that matter only if there is another node to run a task."""
    parts: tuple[Any, ...] = (strategy.home, strategy.mover)
    return _OF_SEVERAL | {field.name for part in parts for field in fields(part)}


def check_settable(name: str, strategy: Strategy, machine: Slice) -> None:
    """Raise SettingError if setting this would change nothing for nodes of one process."""
    why = why_useless(name, strategy, machine)
    if why:
        raise SettingError(f"{name} would change nothing here: {why}")
