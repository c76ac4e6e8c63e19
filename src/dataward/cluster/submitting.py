"""Submits a workflow to a cluster: finds what must run, uploads what that needs, plans, registers.

When the run is registered the submitter may leave: everything about it is in the cluster.
"""

import asyncio
import getpass
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

import msgspec

from dataward.cluster.description import (
    PlacedFile,
    RunOrders,
    RunPromises,
    SkippedTask,
    TaskList,
    digest_of,
    packed,
)
from dataward.cluster.exchange import NewRun
from dataward.cluster.finding_inputs import Inputs, LocalInput, as_one_file
from dataward.cluster.known_outcomes import Skipping, known_outcomes
from dataward.cluster.outcome_keys import KnownOutcome, unpacked_outcome
from dataward.cluster.promise_wanted import answer_if_known, plan_of, promise_for, promises_of
from dataward.cluster.run_here import runner_settings_of, strategy_of
from dataward.cluster.visitor import ClusterError, Visitor
from dataward.errors import SettingError
from dataward.formats.wfformat_write import render
from dataward.live.depot_disk import Place
from dataward.live.fitting import fitted_to_network
from dataward.live.runner_settings import RunnerSettings
from dataward.model.deadline import WantedDeadline
from dataward.model.file_edges import with_file_edges
from dataward.model.ids import NodeId
from dataward.model.members import ClusterRun, Member, RunPromise
from dataward.model.parameters import with_parameters
from dataward.model.platform import Machine, Platform
from dataward.model.runnable import as_run
from dataward.model.settings import check_names, is_setting_of, values_of
from dataward.model.workflow import FileId, TaskId, Workflow
from dataward.model.wrapping import wrapped
from dataward.node.client import task_specs
from dataward.plan.adage import Plan, check_width
from dataward.plan.estimates import Estimated
from dataward.runs.deadline_answer import DeadlineAnswer
from dataward.runs.known_times import estimated_from
from dataward.runs.outcomes import Outcome
from dataward.runs.preparation import remaining_workflow
from dataward.runs.programs import with_programs
from dataward.runs.selection import select, tasks_named
from dataward.strategies.choosing import settings_of
from dataward.strategies.registry import DEFAULT, KEEPING, check_keeping, strategy_named

KEEPERS = 3  # hosts that keep a run's description
UPLOADS_AT_ONCE = 8
LEASE_SECONDS = 10.0  # for a look at settings; what a node's lease is only the node knows
BYTES_PER_SECOND = 125e6  # of a link of which nothing is known, for the plan: 1 Gbps
_UNFIT = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """Everything that can be asked of a submission, as of ``dataward run``."""

    targets: Sequence[str] = ()
    until: Sequence[str] = ()
    force: Sequence[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    wrap: Sequence[str] = ()
    track_programs: bool = False
    strategy: str = "dataward"
    settings: Sequence[str] = ()
    retries: int = 0
    time_limit_seconds: float = 0.0
    fresh: bool = False  # run everything, whatever the cluster knows
    copies: int = 1
    name: str = ""
    deadline: WantedDeadline | None = None


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """What was submitted: so many tasks will run, the others were known."""

    run: ClusterRun
    workflow: Workflow
    due: int
    skipped: int
    uploaded_files: int
    uploaded_bytes: int
    answer: DeadlineAnswer | None = None  # to its deadline, if it has one


OnSubmitting = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


def _silent(what: str, done: int, total: int) -> None:
    pass


class Submitter:
    """Submits one workflow."""

    def __init__(
        self,
        visitor: Visitor,
        workflow: Workflow,
        source: Path,
        request: SubmitRequest,
        cache: Path,
        on_step: OnSubmitting = _silent,
    ) -> None:
        """Raises SettingError, or WorkflowError if the workflow cannot be run."""
        self._visitor = visitor
        self._request = request
        self._cache = cache
        self._on_step = on_step
        workflow = with_parameters(workflow, request.parameters)
        workflow = wrapped(workflow, request.wrap)
        if request.track_programs:
            workflow = with_programs(workflow)
        self._forced = tasks_named(workflow, request.force)
        for names in (request.targets, request.until):
            if names:
                workflow = select(with_file_edges(workflow), names).workflow
        self._inputs = Inputs(workflow, source)
        self.workflow = as_run(workflow, self._inputs.is_provided, self._inputs.places)

    async def submit(self) -> SubmittedRun:
        """The run, once the cluster has all it needs. Raises ClusterError, TransferFailed."""
        if self._request.deadline is not None and self._request.strategy != DEFAULT:
            check_keeping(self._request.strategy)
        facts = await self._visitor.cluster()
        members = [member for member in facts.members if not member.draining]
        if not members:
            raise ClusterError("the cluster has no node that takes work")
        check_width([member.cores for member in members], self.workflow)
        local = self._digested()
        skipping = await self._what_is_known(local, members)
        due = [task for task in range(len(self.workflow)) if task not in skipping.skip]
        starts = self._starting_files(local, skipping)
        remaining = remaining_workflow(self.workflow, due, starts)
        holders = {
            place.digest: skipping.holders.get(place.digest, ()) for place in starts.values()
        }
        orders, tasks = self._described(remaining, starts, holders, skipping, members)
        uploads = {
            file.id: (file.nodes[0], local[file.id])
            for file in orders.placed
            if file.id in local and not holders.get(file.digest)
        }
        await self._upload(uploads)
        promise, promises, answer = None, None, None
        if self._request.deadline is not None and remaining is None:
            answer = answer_if_known(self._request.deadline)
        elif self._request.deadline is not None and remaining is not None:
            known = estimated_from(remaining, self._timed(skipping))
            promised = await promise_for(
                self._visitor, known, orders.placed, self._request.deadline
            )
            promise, answer = promised.promise, promised.answer
            if promised.placed is not None:
                placed = promised.placed
                promises = promises_of(placed.number, remaining, dict(enumerate(placed.tasks)))
                orders = msgspec.structs.replace(orders, strategy=KEEPING)
                plan = plan_of(placed, [member.node for member in members])
                tasks = self._with_plan(orders, tasks, known, plan, members)
        # More would cost more calls: a call goes to each shard that it is about.
        shards = facts.primaries
        run = await self._register(orders, tasks, members, shards, promise, promises)
        uploaded_bytes = sum(one.size_bytes for _, one in uploads.values())
        return SubmittedRun(
            run, self.workflow, len(due), len(skipping.skip), len(uploads), uploaded_bytes, answer
        )

    # --- what must run ---------------------------------------------------------------------------

    def _digested(self) -> dict[FileId, LocalInput]:
        found: dict[FileId, LocalInput] = {}
        total = len(self.workflow.file_ids)
        for done, so_far in self._inputs.digested(self.workflow, self._cache / "digests"):
            self._on_step("looking at inputs", done, total)
            found = so_far
        return found

    async def _what_is_known(
        self, local: Mapping[FileId, LocalInput], members: Sequence[Member]
    ) -> Skipping:
        digests = {file: one.digest for file, one in local.items()}
        is_fresh, deadline = self._request.fresh, self._request.deadline
        if is_fresh and deadline is None:
            held = await self._holders({*digests.values()}, members)
            return Skipping(holders=held)
        forced = {self.workflow.index_of[task] for task in self._forced}

        async def ask(keys: Sequence[str]) -> list[KnownOutcome | None]:
            return [unpacked_outcome(one) for one in await self._visitor.outcomes(keys)]

        async def holders(wanted: Set[str]) -> Mapping[str, tuple[NodeId, ...]]:
            return await self._holders({*wanted, *digests.values()}, members)

        skipping = await known_outcomes(self.workflow, digests, forced, ask, holders)
        if is_fresh:
            skipping.skip = {}  # all run again, and what is known of run times is of use
        if not skipping.holders:
            skipping.holders = await self._holders({*digests.values()}, members)
        return skipping

    async def _holders(
        self, wanted: Set[str], members: Sequence[Member]
    ) -> dict[str, tuple[NodeId, ...]]:
        """Which hosts have which of these contents, as they say themselves."""
        digests = sorted(wanted)
        found: dict[str, list[NodeId]] = {}
        for member in members:
            for digest in await self._visitor.client.have(member.node, digests):
                found.setdefault(digest, []).append(member.node)
        return {digest: tuple(nodes) for digest, nodes in found.items()}

    def _starting_files(
        self, local: Mapping[FileId, LocalInput], skipping: Skipping
    ) -> dict[FileId, Place]:
        """The contents of all files that the remaining tasks may start from."""
        starts = {
            file: Place(str(one.path), one.size_bytes, one.digest, True)
            for file, one in local.items()
        }
        for outcome in skipping.skip.values():
            for file in outcome.outputs:
                if skipping.holders.get(file.digest):
                    starts[file.id] = Place("", file.size_bytes, file.digest, False)
        return starts

    # --- the plan, and what is told of it --------------------------------------------------------

    def _described(
        self,
        remaining: Workflow | None,
        starts: Mapping[FileId, Place],
        holders: Mapping[str, tuple[NodeId, ...]],
        skipping: Skipping,
        members: Sequence[Member],
    ) -> tuple[RunOrders, TaskList]:
        request, workflow = self._request, self.workflow
        limits, settings = _limits_and_settings(request)
        consumers, made = workflow.consumers.degrees(), workflow.producers.degrees()
        wanted = tuple(
            file for i, file in enumerate(workflow.file_ids) if made[i] and not consumers[i]
        )
        orders = RunOrders(
            strategy=request.strategy,
            settings=tuple(settings),
            limits=tuple(limits),
            is_measured=workflow.is_measured,
            placed=(),
            origins=self._inputs.origins,
            tasks="",
            workflow="",
            copies=request.copies,
            wanted=wanted,
        )
        strategy = strategy_of(orders, LEASE_SECONDS)  # raises if a setting makes no sense
        runner_settings_of(orders)
        skipped = tuple(
            SkippedTask(workflow.task_ids[task], outcome.outputs, (outcome.node,))
            for task, outcome in sorted(skipping.skip.items())
        )
        if remaining is None:
            return orders, TaskList((), skipped)
        nodes = [member.node for member in members]
        known = estimated_from(remaining, self._timed(skipping))
        located = _located(remaining, starts, holders, nodes)
        plan = strategy.plan(known.for_planning(), platform_of(members), located, 0)
        digests = {file: place.digest for file, place in starts.items()}
        specs = task_specs(
            known,
            plan,
            nodes,
            backups_max=strategy.settings.backups_max,
            retries=request.retries,
            digests=digests,
        )
        placed = tuple(
            PlacedFile(file, place.size_bytes, place.digest, at)
            for file, place in starts.items()
            if (at := _where(file, place, holders, remaining, plan.preferred.tolist(), nodes))
        )
        return msgspec.structs.replace(orders, placed=placed), TaskList(tuple(specs), skipped)

    def _timed(self, skipping: Skipping) -> dict[TaskId, Outcome]:
        """What is known of the run times of tasks, from earlier runs of the same."""
        return {
            self.workflow.task_ids[task]: Outcome("", (), known.outputs, seconds=known.seconds)
            for task, known in skipping.known.items()
        }

    # --- into the cluster ------------------------------------------------------------------------

    async def _upload(self, uploads: Mapping[FileId, tuple[NodeId, LocalInput]]) -> None:
        """Put each input where the plan wants it; equal contents go there once."""
        places = asyncio.Semaphore(UPLOADS_AT_ONCE)
        done = 0
        once = {(node, one.digest): (file, one) for file, (node, one) in uploads.items()}

        async def put(node: NodeId, file: FileId, one: LocalInput) -> None:
            nonlocal done
            async with places:
                with as_one_file(file, one) as path:
                    await self._visitor.client.put_file(node, path, one.digest)
            done += 1
            self._on_step("uploading inputs", done, len(once))

        await asyncio.gather(*(put(node, *what) for (node, _), what in once.items()))

    def _with_plan(
        self,
        orders: RunOrders,
        tasks: TaskList,
        known: Estimated,
        plan: Plan,
        members: Sequence[Member],
    ) -> TaskList:
        """The same tasks, by another plan."""
        strategy = strategy_of(orders, LEASE_SECONDS)
        specs = task_specs(
            known,
            plan,
            [member.node for member in members],
            backups_max=strategy.settings.backups_max,
            retries=self._request.retries,
            digests={file.id: file.digest for spec in tasks.specs for file in spec.inputs},
        )
        return TaskList(tuple(specs), tasks.skipped)

    async def _register(
        self,
        orders: RunOrders,
        tasks: TaskList,
        members: Sequence[Member],
        shards: int,
        promise: RunPromise | None,
        promises: RunPromises | None,
    ) -> ClusterRun:
        parts = [b"".join(render(self.workflow, "1.6")), packed(tasks)]
        orders = msgspec.structs.replace(
            orders,
            workflow=digest_of(parts[0]),
            tasks=digest_of(parts[1]),
            submission=token_hex(8),
        )
        parts.append(packed(orders))
        if promise is not None and promises is not None:
            parts.append(packed(promises))
            promise = msgspec.structs.replace(promise, part=digest_of(parts[3]))
        name = self._request.name or run_name(self.workflow.name)
        offset = int(digest_of(name.encode())[:8], 16) % len(members)
        keepers = [*members[offset:], *members[:offset]][:KEEPERS]
        with TemporaryDirectory(prefix="dataward-") as directory:
            path = os.path.join(directory, "part")
            for part in parts:
                Path(path).write_bytes(part)
                for keeper in keepers:
                    await self._visitor.client.put_file(keeper.node, path, digest_of(part))
        return await self._visitor.add_run(
            NewRun(
                name=name,
                workflow=self.workflow.name,
                strategy=orders.strategy,
                tasks=len(self.workflow),
                submitter=f"{getpass.getuser()}@{socket.gethostname()}",
                description=digest_of(parts[2]),
                keepers=tuple(keeper.node for keeper in keepers),
                shards=shards,
                promise=promise,
                skipped=len(tasks.skipped),
            )
        )


def run_name(workflow: str) -> str:
    """A name for a run that nobody else has: the workflow's, and a few letters."""
    stem = _UNFIT.sub("-", workflow.lower()).strip("-")[:60].strip("-")
    return f"{stem or 'run'}-{token_hex(2)}"


def platform_of(members: Sequence[Member]) -> Platform:
    """The hosts as the plan sees them; of their links it knows what they were told."""
    return Platform(
        tuple(
            Machine(
                member.node,
                cores=member.cores,
                speed=member.speed,
                memory_bytes=member.memory_bytes,
                site=member.site or "site",
                up_bytes_per_second=member.bytes_per_second or BYTES_PER_SECOND,
                down_bytes_per_second=member.bytes_per_second or BYTES_PER_SECOND,
            )
            for member in members
        )
    )


def _limits_and_settings(request: SubmitRequest) -> tuple[list[str], list[str]]:
    """What is set for the runners, and for the nodes. Raises SettingError, with all there is."""
    strategy = fitted_to_network(strategy_named(request.strategy), LEASE_SECONDS)
    known = {**values_of(RunnerSettings()), **settings_of(strategy)}
    check_names(list(request.settings), known)
    limits = [change for change in request.settings if is_setting_of(RunnerSettings, change)]
    settings = [change for change in request.settings if change not in limits]
    if request.time_limit_seconds:
        limits.append(f"time_limit_seconds={request.time_limit_seconds:g}")
    if request.copies < 1:
        raise SettingError("--copies takes 1 or more")
    return limits, settings


def _located(
    workflow: Workflow,
    starts: Mapping[FileId, Place],
    holders: Mapping[str, tuple[NodeId, ...]],
    nodes: Sequence[NodeId],
) -> dict[int, Sequence[int]]:
    """Which nodes have which inputs now, by number; the others come from the submitter."""
    number = {node: i for i, node in enumerate(nodes)}
    found: dict[int, Sequence[int]] = {}
    for index, file in enumerate(workflow.file_ids):
        place = starts.get(file)
        have = [number[n] for n in holders.get(place.digest, ()) if n in number] if place else []
        if have:
            found[index] = have
    return found


def _where(
    file: FileId,
    place: Place,
    holders: Mapping[str, tuple[NodeId, ...]],
    workflow: Workflow,
    preferred: Sequence[int],
    nodes: Sequence[NodeId],
) -> tuple[NodeId, ...]:
    """The nodes that have an input, or the one it is uploaded to: where its first reader runs."""
    if holders.get(place.digest):
        return holders[place.digest]
    if file not in workflow.index_of_file:
        return ()
    readers = workflow.consumers.row(workflow.index_of_file[file]).tolist()
    return (nodes[preferred[readers[0]]],) if readers else ()
