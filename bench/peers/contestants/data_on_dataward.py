"""dataward on a cluster of node processes with a slot each, and one Valkey, all on loopback.

With `files` as third argument, commands make files and read them; with `values`, functions make
values and are given them, through `Executor(access=...)`. A depot has no more room than the work
says; values have no such limit.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import data_work
from data_work import PAGE_BYTES, WARM_UP_CALLS, WORK, DataPeer, DataWork, Spent

import dataward
from dataward.cli.laptop_nodes import wait_for_nodes
from dataward.cluster.access import contacts_for, read_access
from dataward.cluster.event_tail import EventTail
from dataward.cluster.founding import ClusterDirectory
from dataward.cluster.laptop import Laptop
from dataward.cluster.submitting import SubmitRequest, Submitter
from dataward.cluster.visitor import Visitor
from dataward.formats.read import read_workflow
from dataward.model.events import Event, FileMoved
from dataward.model.ids import ORIGIN
from dataward.model.states import RunState


@contextmanager
def cluster_of(work: DataWork) -> Iterator[Path]:
    """The access file of those who submit."""
    # Beside the run's other files, in its directory.
    with TemporaryDirectory(dir=Path.cwd(), ignore_cleanup_errors=True) as place:
        directory = ClusterDirectory(Path(place) / "lab")
        directory.found("lab")
        laptop = Laptop(directory)
        options = ["--capacity", str(work.room_bytes)] if work.room_bytes else []
        try:
            laptop.start_store(1, 0)
            wait_for_nodes(laptop, laptop.start_nodes(work.nodes, 1, [*options, "--quiet"]))
            yield directory.access_file("submit")
        finally:
            laptop.stop_nodes()
            laptop.stop_store()


@contextmanager
def executor_on(work: DataWork) -> Iterator[DataPeer]:
    with cluster_of(work) as access, dataward.Executor(access=access) as executor:
        yield DataPeer(executor.submit, lambda futures: [future.result() for future in futures])


def workflow_of(work: DataWork) -> dataward.WorkflowBuilder:
    wf = dataward.WorkflowBuilder("data")
    for i, size in enumerate(work.sizes):
        line, name = f"{i:015}", f"object{i}"  # by which it differs from all others
        zeros = size - len(line) - 1
        wf.file(name, size)
        wf.command(f"{{ echo {line}; head -c {zeros} /dev/zero; }} > {name}", outputs=[name])
    for i, needs in enumerate(work.reads):
        names = [f"object{each}" for each in needs]
        wf.command(f"wc -l {' '.join(names)} > read{i}", inputs=names, outputs=[f"read{i}"])
    return wf


async def submitted(visitor: Visitor, wf: dataward.WorkflowBuilder) -> str:
    """The name of the run, which has ended."""
    source = Path("workflow.json")
    dataward.write_workflow(wf.build(), source)
    request, workflow = SubmitRequest(fresh=True), read_workflow(source)
    run = (await Submitter(visitor, workflow, source, request, Path("cache")).submit()).run
    facts = await visitor.run(run.name)
    while facts.run.state is RunState.RUNNING:
        facts = await visitor.run(run.name, wait_seconds=20.0)
    assert facts.counts == {"complete": len(wf)}, facts
    return run.name


async def run_files(work: DataWork, access: Path) -> None:
    read = read_access(access)
    warm = DataWork(work.nodes, [PAGE_BYTES] * WARM_UP_CALLS * work.nodes, [])
    async with Visitor(read, contacts_for(access, read)) as visitor:
        await submitted(visitor, workflow_of(warm))
        data_work.wait_for_calm()
        data_work.have_memory(work)
        spent = Spent.now()
        name = await submitted(visitor, workflow_of(work))
        took = spent.until_now()
        events = await events_of(visitor, name)
    moved = sum(e.size_bytes for e in events if isinstance(e, FileMoved) and e.source != ORIGIN)
    took.report(work.tasks, moved)


async def events_of(visitor: Visitor, name: str) -> list[Event]:
    tail = EventTail(visitor, name, {})
    return [*await tail.new_events(), *tail.rest()]


def main() -> None:
    if sys.argv[3] == "values":
        data_work.main(executor_on)
        return
    work = WORK[sys.argv[1]](int(sys.argv[2]))
    with cluster_of(work) as access:
        asyncio.run(run_files(work, access))


if __name__ == "__main__":
    main()
