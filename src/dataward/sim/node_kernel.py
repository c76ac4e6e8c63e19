"""The virtual kernel as one node sees it: fibers that the node spawns can be killed with it."""

from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from dataward.kernel.interface import Fiber, Flag, Queue
from dataward.kernel.virtual import VirtualKernel
from dataward.sim.sim_machine import SimMachine

T = TypeVar("T")


class NodeKernel:
    """All but ``spawn`` are the kernel's own methods, bound once: they are called most often."""

    def __init__(self, kernel: VirtualKernel, machine: SimMachine) -> None:
        self._kernel = kernel
        self._machine = machine
        self.now = kernel.now
        self._sleep = kernel.sleep

    def sleep(self, seconds: float) -> Awaitable[None]:
        return self._sleep(seconds)

    def flag(self) -> Flag:
        return self._kernel.flag()

    def queue(self) -> Queue[Any]:
        return self._kernel.queue()

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str = "") -> Fiber[T]:
        fiber = self._kernel.spawn(coroutine, name)
        self._machine.remember(fiber)
        return fiber

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        main.close()
        raise AssertionError("a node does not run its own kernel")
