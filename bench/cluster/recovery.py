"""What a node costs that is killed, and one that has nothing to do."""

import asyncio
import os
import signal
import time

import psutil
from rich.console import Console

from bench.cluster.lab import lab_of, seconds_of
from dataward import WorkflowBuilder
from dataward.cluster.exchange import RunFactsNow
from dataward.model.quantities import show_seconds

IDLE_SECONDS = 60.0


def show_recovery(out: Console, quick: bool) -> None:
    wf = WorkflowBuilder("recovery")
    for number in range(200):
        wf.task(f"t{number}", command=("sleep", "0.1"))
    with lab_of(2) as lab:
        calm = asyncio.run(lab.run(wf))
    with lab_of(2) as lab:
        (one, _) = lab.laptop.started()
        process = psutil.Process(one.pid)
        children = process.children()

        async def killed() -> RunFactsNow:
            asyncio.get_running_loop().call_later(2.5, os.kill, one.pid, signal.SIGKILL)
            return await lab.run(wf)

        facts = asyncio.run(killed())
        for child in children:
            if child.is_running():
                child.kill()
    # From then on, one slot is left of two.
    took = seconds_of(facts)
    ideal = 2.0 + 2 * (seconds_of(calm) - 2.0)
    out.print(
        f"recovery: {show_seconds(seconds_of(calm))} undisturbed; with a node killed after 2 s "
        f"{show_seconds(took)}, {show_seconds(max(took - ideal, 0.0))} more than one slot needs"
    )


def show_idle(out: Console, quick: bool) -> None:
    seconds = IDLE_SECONDS / 6 if quick else IDLE_SECONDS
    with lab_of(2) as lab:
        processes = [psutil.Process(node.pid) for node in lab.laptop.started()]
        calls = lab.spent().store_calls
        before = [sum(process.cpu_times()[:2]) for process in processes]
        time.sleep(seconds)
        after = [sum(process.cpu_times()[:2]) for process in processes]
        calls_after = lab.spent().store_calls
    share = max(b - a for a, b in zip(before, after, strict=True)) / seconds
    asked = (calls_after - calls) / len(processes) * 60 / seconds
    out.print(f"an idle node: {100 * share:.2f}% of a core, {asked:.0f} store calls a minute")
