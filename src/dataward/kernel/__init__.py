"""Sleep, spawn, cancel, flag and queue, implemented over asyncio and under virtual time."""

from dataward.kernel.fibers import VirtualFiber
from dataward.kernel.interface import (
    Cancelled,
    Deadlock,
    Fiber,
    FiberCancelled,
    Flag,
    Kernel,
    Queue,
    TimedOut,
)
from dataward.kernel.realtime import AsyncioKernel
from dataward.kernel.timeline import Timer
from dataward.kernel.timeout import with_timeout
from dataward.kernel.virtual import VirtualKernel

__all__ = [
    "AsyncioKernel",
    "Cancelled",
    "Deadlock",
    "Fiber",
    "FiberCancelled",
    "Flag",
    "Kernel",
    "Queue",
    "TimedOut",
    "Timer",
    "VirtualFiber",
    "VirtualKernel",
    "with_timeout",
]
