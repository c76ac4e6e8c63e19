"""Tells the registry what tasks have made, for other runs to find: in batches, and until heard."""

import asyncio
from contextlib import suppress

from dataward.cluster.outcome_keys import KEEP_SECONDS
from dataward.stores.registry import Registry
from dataward.world import StoreUnavailable

BATCH_SECONDS = 1.0


class ToldOutcomes:
    def __init__(self) -> None:
        self._untold: dict[str, bytes] = {}

    def remember(self, key: str, outcome: bytes) -> None:
        self._untold[key] = outcome

    async def keep_telling(self, registry: Registry) -> None:
        while True:
            await asyncio.sleep(BATCH_SECONDS)
            with suppress(StoreUnavailable):
                await self.tell(registry)

    async def tell(self, registry: Registry) -> None:
        """Tell all that has not been told. Raises StoreUnavailable; it is told again then."""
        if self._untold:
            told = dict(self._untold)
            await registry.remember(told, KEEP_SECONDS)
            for key in told:
                self._untold.pop(key, None)
