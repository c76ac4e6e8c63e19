"""Rounds of a campaign: workflows are submitted, the cluster is hurt, and the outcome is judged."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench.cluster_chaos.harm import Harm
from bench.cluster_chaos.rig import LEASE_SECONDS, Rig
from bench.cluster_chaos.stalls import StallMeter
from bench.cluster_chaos.workload import Prepared, digest_of, prepared
from dataward.cluster.exchange import RunFactsNow
from dataward.cluster.history import FinalState, broken_promises
from dataward.cluster.results import RunResultFile, fetch_results, orders_of, results_of
from dataward.cluster.submitting import SubmitRequest, Submitter
from dataward.cluster.troubles import Trouble, TroubleKind, Troubles
from dataward.cluster.visitor import ClusterError, Visitor
from dataward.errors import DatawardError
from dataward.formats.read import read_workflow
from dataward.model.events import Event
from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun
from dataward.model.states import RunState
from dataward.model.workflow import FileId
from dataward.reports.event_file import EventFileReader
from dataward.world import TransferFailed

END_SECONDS = 300.0  # after the last harm was undone; this machine may be busy
FETCH_SECONDS = 60.0
CALM_SECONDS = (0.1, 2.5)  # between two harms
HARMS = (2, 6)  # in a round
TWO_RUNS = 0.4  # of the rounds have two runs at a time
KILLED_SUBMITTERS = 0.3  # of the runs
POLL_SECONDS = 0.2
RETRIES = 3  # a task fails if an input is spoiled while it reads it

# Harms that cost the campaign most of its time are drawn less often.
WEIGHTS = {
    "kill": 3, "kill and empty": 2, "kill all": 1, "pause": 2, "fence": 2, "cut": 3, "runner": 2,
    "spoil": 2, "remove": 2, "fill": 2, "failover": 2, "store": 1,
}  # fmt: skip


@dataclass
class RoundReport:
    number: int
    runs: list[str] = field(default_factory=list)
    tasks: int = 0
    harms: list[str] = field(default_factory=list)
    seconds: float = 0.0
    seconds_to_end: float = 0.0  # since the last harm was undone
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        verdict = "ok" if not self.problems else "FAILED: " + "; ".join(self.problems[:5])
        return (
            f"round {self.number}: {', '.join(self.runs)} ({self.tasks} tasks), "
            f"{self.seconds:.1f} s, {self.seconds_to_end:.1f} s after the last harm; "
            f"{'; '.join(self.harms) or 'no harm'}: {verdict}"
        )


async def hurt(
    rig: Rig,
    seed: int,
    seconds: float,
    tell: Callable[[RoundReport], None],
    kinds: Sequence[str] = (),
) -> list[RoundReport]:
    """Rounds until the time is over or one has failed; ``kinds`` names the only harms to do."""
    reports: list[RoundReport] = []
    spoiled: set[tuple[NodeId, str]] = set()  # uploads stay from round to round
    until = time.monotonic() + seconds
    with StallMeter() as meter:
        while time.monotonic() < until and not any(report.problems for report in reports):
            number = len(reports) + 1
            one = _Round(rig, Random(f"{seed}.{number}"), number, list(kinds), spoiled, meter)
            reports.append(await one.play())
            tell(reports[-1])
    return reports


class _Round:
    def __init__(
        self,
        rig: Rig,
        random: Random,
        number: int,
        kinds: list[str],
        spoiled: set[tuple[NodeId, str]],
        meter: StallMeter,
    ) -> None:
        self._rig = rig
        self._meter = meter
        self._random = random
        self._directory = rig.path / "rounds" / str(number)
        self._directory.mkdir(parents=True)
        self._harm = Harm(rig, random, self._directory / "kept", spoiled)
        self._kinds = kinds or list(WEIGHTS)
        self._report = RoundReport(number)

    async def play(self) -> RoundReport:
        began, report = time.monotonic(), self._report
        try:
            await self._play()
        except (DatawardError, TransferFailed, TimeoutError) as error:
            report.problems.append(f"{type(error).__name__}: {error}")
        report.harms = self._harm.log
        report.seconds = time.monotonic() - began
        return report

    async def _play(self) -> None:
        random, report = self._random, self._report
        count = 2 if random.random() < TWO_RUNS else 1
        works = [
            await asyncio.to_thread(
                prepared, random, self._directory / f"work{n}", self._rig.capacity_bytes
            )
            for n in range(count)
        ]
        runs = [await self._submit(work) for work in works]
        report.runs = [run.name for run in runs]
        report.tasks = sum(len(work.workflow) for work in works)
        await self._note_precious(works, runs)
        await self._hurt(runs)
        await self._harm.undo_all()
        calm = time.monotonic()
        for run in runs:
            await self._wait_for_end(run.name)
        report.seconds_to_end = time.monotonic() - calm
        for work, run in zip(works, runs, strict=True):
            report.problems += await self._judged(work, run)
        torn = set(await asyncio.to_thread(lambda: list(self._rig.torn_files())))
        torn -= self._harm.spoiled
        report.problems += [f"{digest} is torn at {node}" for node, digest in sorted(torn)]
        if not report.problems:
            for run in runs:
                await self._clean(run.name)

    # --- a run -----------------------------------------------------------------------------------

    async def _submit(self, work: Prepared) -> ClusterRun:
        """A run; its submitter may be a process of its own that is killed once it is known."""
        name = f"{work.path.stem}-{self._report.number}-{work.path.parent.name}"
        if self._random.random() < KILLED_SUBMITTERS:
            return await self._submit_and_die(work, name)
        async with self._rig.visitor() as visitor:
            request = SubmitRequest(fresh=True, copies=2, name=name, retries=RETRIES)
            submitter = Submitter(
                visitor,
                read_workflow(work.path),
                work.path,
                request,
                self._directory / "cache",
            )
            return (await submitter.submit()).run

    async def _submit_and_die(self, work: Prepared, name: str) -> ClusterRun:
        access = str(self._rig.laptop.directory.access_file("submit"))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dataward.cli.main", "submit", str(work.path)),
            *("--access", access, "--wait", "--fresh", "--copies", "2", "--name", name),
            *("--retries", str(RETRIES)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(END_SECONDS):
                while True:
                    async with self._rig.visitor() as visitor:
                        with suppress(ClusterError):
                            return (await visitor.run(name)).run
                    await asyncio.sleep(POLL_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()
            self._harm.log.append(f"the submitter of {name} killed")

    async def _note_precious(self, works: list[Prepared], runs: list[ClusterRun]) -> None:
        """What nobody could make again: inputs, results, and what describes the runs."""
        for work, run in zip(works, runs, strict=True):
            self._harm.precious |= work.inputs | set(work.expected.values())
            async with self._rig.visitor() as visitor:
                await visitor.cluster()
                orders = await orders_of(visitor, run)
                self._harm.precious |= {run.description, orders.tasks, orders.workflow}

    async def _hurt(self, runs: list[ClusterRun]) -> None:
        random = self._random
        weights = [WEIGHTS[kind] for kind in self._kinds]
        for _ in range(random.randint(*HARMS)):
            await asyncio.sleep(random.uniform(*CALM_SECONDS))
            await self._harm.do(random.choices(self._kinds, weights)[0])

    async def _facts(self, name: str) -> RunFactsNow:
        while True:
            with suppress(ClusterError):
                async with self._rig.visitor() as visitor:
                    return await visitor.run(name)
            await asyncio.sleep(POLL_SECONDS)

    async def _wait_for_end(self, name: str) -> None:
        try:
            async with asyncio.timeout(END_SECONDS):
                while (await self._facts(name)).run.state is RunState.RUNNING:
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            facts = await self._facts(name)
            for node in self._rig.names:
                self._rig.signal(node, signal.SIGUSR1)  # what each waits for, in its log
            raise TimeoutError(f"{name} did not end: {facts.counts}") from None

    async def _clean(self, name: str) -> None:
        """Forget a run; a host that has not heard of its end yet is asked again."""
        async with asyncio.timeout(END_SECONDS):
            while True:
                async with self._rig.visitor() as visitor:
                    with suppress(ClusterError):
                        return await visitor.clean(name)
                await asyncio.sleep(POLL_SECONDS)

    # --- the verdict -----------------------------------------------------------------------------

    async def _judged(self, work: Prepared, run: ClusterRun) -> list[str]:
        target = self._directory / f"fetched-{run.name}"
        async with self._rig.visitor() as visitor:
            await visitor.cluster()
            facts = await visitor.run(run.name)
            results = await results_of(visitor, run, work.workflow)
            committed = {file: one.file.digest for file, one in results.items() if one is not None}
            tasks = await visitor.look(run.name, work.workflow.task_ids)
            await self._fetch(visitor, results, target)
        fetched = {
            file: digest_of(target / file) for file in work.expected if (target / file).exists()
        }
        final = FinalState(
            states={task.task: task.state for task in tasks},
            generations={task.task: task.generation for task in tasks},
            committed=committed,
            fetched=fetched,
            expected=work.expected,
        )
        troubles = self._troubles(work, facts.run.submitted_at)
        problems = broken_promises(
            self._events(run.name), work.parents, final, troubles, work.outputs
        )
        if facts.run.state is not RunState.COMPLETE:
            problems.append(f"{run.name} is {facts.run.state.value}")
        return problems

    async def _fetch(
        self, visitor: Visitor, results: dict[FileId, RunResultFile | None], target: Path
    ) -> None:
        """Fetch results as a user would, who asks again: a node may have come back just now."""
        until = time.monotonic() + FETCH_SECONDS
        while True:
            try:
                await visitor.cluster()
                await fetch_results(visitor, results, target)
                return
            except ClusterError:
                if time.monotonic() > until:
                    return
            await asyncio.sleep(POLL_SECONDS)

    def _troubles(self, work: Prepared, submitted_at: float) -> Troubles:
        """What was done to the cluster, as the history of one run sees it."""
        names: dict[str, set[FileId]] = {}
        for file, digest in work.digests.items():
            names.setdefault(digest, set()).add(file)
        done = [
            Trouble(
                one.kind,
                one.begin - submitted_at,
                one.end - submitted_at,
                one.node,
                frozenset(names.get(one.digest, ())),
                one.is_emptied,
            )
            for one in self._harm.done
        ]
        stalls = [
            Trouble(TroubleKind.BUSY, begin - submitted_at, end - submitted_at)
            for begin, end in self._meter.stalls
        ]
        return Troubles([*done, *stalls], LEASE_SECONDS)

    def _events(self, run: str) -> dict[NodeId, list[Event]]:
        """The lists of all nodes; those that a depot lost when it was emptied come first."""
        found: dict[NodeId, list[Event]] = {}
        for node in self._rig.names:
            lists = sorted(
                (self._directory / "kept" / run).glob(f"{node}.*"),
                key=lambda path: int(path.suffix[1:]),
            )
            lists.append(self._rig.depot_of(node) / "runs" / run / "events")
            found[node] = [
                event for path in lists if path.exists() for event in EventFileReader(path)
            ]
        return found
