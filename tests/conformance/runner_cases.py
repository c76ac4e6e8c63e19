"""A runner of either world with few cores, and small tasks to give it."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conformance.both_worlds import LiveWorld, SimWorld, a_spec
from dataward.live.live_runner import LiveRunner
from dataward.live.runner_pool import RunnerPool
from dataward.live.runner_settings import RunnerSettings
from dataward.model.operations import InputFile, OutputFile, TaskSpec
from dataward.sim.parts import SimRunner
from dataward.world import Fiber, RunResult
from runs.real_runs import is_alive

NODE = "n0"
SECONDS = 10.0  # a simulated task
AGES_SECONDS = 1e6  # one that does not end by itself while the test looks


@dataclass
class Run:
    """One call of `Runner.run`: what was told of its start, and how it ended."""

    fiber: Fiber[RunResult]
    starts: list[float] = field(default_factory=list)

    @property
    def has_begun(self) -> bool:
        return bool(self.starts)


class LiveBench(LiveWorld):
    """Runner processes of ``n0``, whose tasks are commands that note what they do in files."""

    runner_type: type[LiveRunner] = LiveRunner
    settings = RunnerSettings(grace_seconds=0.1)

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
        super().__init__(directory, monkeypatch)
        self._pool = RunnerPool(directory / "work", cores)
        (directory / "logs").mkdir()
        self.runner = self.runner_type(
            self.kernel,
            self._pool,
            self.disks[NODE],
            self.settings,
            lambda task, attempt: str(directory / "logs" / attempt),
            self._wires.spoil_elsewhere,
        )
        self._pool.launch(cores)
        self.run(self._pool.connect())  # so that whoever may begin, begins at once

    def close(self) -> None:
        async def close_pool() -> None:
            self._pool.close()

        self.run(close_pool())
        self._pool.wait()
        super().close()

    def task(
        self,
        id: str,
        *,
        inputs: Sequence[InputFile] = (),
        output: str = "",
        fails: bool = False,
        stays: bool = False,
        cores: int = 1,
        **more: Any,
    ) -> TaskSpec:
        """``stays``: it says that it has begun, and does not end before it is let go."""
        place = self.directory
        lines = [f"echo {id} >> {place}/executed", f"echo $$ > {place}/{id}.pid"]
        lines += [f"cat {file.id} > /dev/null" for file in inputs]
        if stays:
            os.mkfifo(place / f"{id}.begun")
            os.mkfifo(place / f"{id}.go")
            lines += [f"echo > {place}/{id}.begun", f"read line < {place}/{id}.go"]
        if output:
            lines.append(f"echo written by {id} > {output}")
        lines.append("exit 3" if fails else "exit 0")
        return a_spec(
            id,
            inputs=inputs,
            outputs=[OutputFile(output, 0)] if output else [],
            cores=cores,
            command=("sh", "-c", "; ".join(lines)),
            **more,
        )

    async def begun(self, id: str) -> None:
        await asyncio.to_thread((self.directory / f"{id}.begun").read_text)

    async def let_go(self, id: str) -> None:
        await asyncio.to_thread((self.directory / f"{id}.go").write_text, "\n")

    def executed(self) -> list[str]:
        """The tasks of which anything was executed, in that order."""
        noted = self.directory / "executed"
        return noted.read_text().split() if noted.exists() else []

    def is_executing(self, id: str) -> bool:
        return is_alive(int((self.directory / f"{id}.pid").read_text()))


class NotedRunner(SimRunner):
    """Notes what it executes, and when that ends, where a real task would leave traces."""

    async def _run(self, task: TaskSpec) -> RunResult:
        self.executed.append(task.id)
        self.executing.add(task.id)
        try:
            return await super()._run(task)
        finally:
            self.executing.discard(task.id)


class SimBench(SimWorld):
    runner_type: type[SimRunner] = SimRunner

    def __init__(self, cores: int) -> None:
        super().__init__(cores)
        self._failures: dict[str, int] = {}
        noted = type("Noted", (NotedRunner, self.runner_type), {"executed": [], "executing": set()})
        self.runner = noted(self.machines[NODE], self._failures, self.truth)

    def task(
        self,
        id: str,
        *,
        inputs: Sequence[InputFile] = (),
        output: str = "",
        fails: bool = False,
        stays: bool = False,
        cores: int = 1,
        **more: Any,
    ) -> TaskSpec:
        if fails:
            self._failures[id] = 1
        outputs = [OutputFile(output, len(f"written by {id}\n"))] if output else []
        self.sizes.update((file.id, file.size_bytes) for file in outputs)
        self.seconds[id] = AGES_SECONDS if stays else SECONDS
        return a_spec(id, inputs=inputs, outputs=outputs, cores=cores, **more)

    async def begun(self, id: str) -> None:
        await self.kernel.sleep(SECONDS / 2)

    async def let_go(self, id: str) -> None:
        """So fast a machine is done with anything at once."""
        self.machines[NODE].change_speed(1 / AGES_SECONDS)
        await self.kernel.sleep(SECONDS / 2)
        self.machines[NODE].change_speed(1.0)

    def executed(self) -> list[str]:
        return self.runner.executed

    def is_executing(self, id: str) -> bool:
        return id in self.runner.executing


Bench = LiveBench | SimBench


def start(bench: Bench, task: TaskSpec) -> Run:
    """Give the runner a task, and go on."""
    starts: list[float] = []
    attempt = f"{NODE}.1.{task.id}"
    fiber = bench.kernel.spawn(bench.runner.run(task, attempt, starts.append), task.id)
    return Run(fiber, starts)


def run(bench: Bench, task: TaskSpec) -> tuple[RunResult, list[float]]:
    """Have a task run to its end; the result, and what was told of its start."""

    async def main() -> tuple[RunResult, list[float]]:
        begun = start(bench, task)
        return await begun.fiber.join(), begun.starts

    return bench.run(main())


def a_bench(name: str, request: pytest.FixtureRequest, cores: int = 1, **types: Any) -> Bench:
    """A bench of the world named, closed after the test; ``types`` take the place of its own."""
    kind: Any = LiveBench if name == "live" else SimBench
    kind = type(kind.__name__, (kind,), types)
    if name == "live":
        given = (request.getfixturevalue("tmp_path"), request.getfixturevalue("monkeypatch"))
        bench = kind(*given, cores)
    else:
        bench = kind(cores)
    request.addfinalizer(bench.close)
    return bench
