"""A plain machine that runs workflows on files that are just their digests, and their histories."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from hypothesis import strategies as st

from dataward.model.builder import WorkflowBuilder
from dataward.model.operations import OutputFile
from dataward.model.workflow import Workflow
from dataward.runs.deciding import Decision, KnownBefore, Presence, decide
from dataward.runs.outcomes import Outcome, recipe_of


@dataclass(frozen=True)
class Step:
    """A task as its author writes it down."""

    id: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    command: str = "make"
    after: tuple[str, ...] = ()


def a_step(id: str, reads: str = "", writes: str = "", **more) -> Step:
    return Step(id, tuple(reads.split()), tuple(writes.split()), **more)


def a_workflow(steps: Iterable[Step]) -> Workflow:
    builder = WorkflowBuilder()
    for step in steps:
        builder.task(
            step.id,
            command=[step.command],
            inputs=step.reads,
            outputs=step.writes,
            after=step.after,
        )
    return builder.build()


def content(*words: object) -> str:
    return blake2b(repr(words).encode(), digest_size=6).hexdigest()


@dataclass
class Machine:
    """Runs tasks the plain way, on files that are just their digests."""

    outside: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def decide(self, workflow: Workflow, wanted: Iterable[str], forced: str = "") -> Decision:
        known = KnownBefore(
            self.outside,
            self.outcomes,
            self.presence,
            set(wanted).__contains__,
            frozenset(forced.split()),
        )
        return decide(workflow, known)

    def presence(self, file: str, digest: str) -> Presence:
        self.asked.append(file)
        if file not in self.files:
            return Presence.GONE
        return Presence.THERE if self.files[file] == digest else Presence.CHANGED

    def run_as_it_goes(self, workflow: Workflow, wanted: Iterable[str]) -> list[str]:
        """The tasks that ran: what was due, and of the rest what turned out to have to.

        A file that is gone, or is not what it should be, is made when a task needs it.
        """
        decision, wanted, ran = self.decide(workflow, wanted), set(wanted), list[str]()
        makers = {file: t for t in range(len(workflow)) for file in workflow.task(t).outputs}

        def make(index: int) -> None:
            task = workflow.task(index)
            for file in task.inputs:
                if file in makers and self.files.get(file) != self.said(workflow, makers, file):
                    make(makers[file])
            self.run_one(workflow, index)
            ran.append(task.id)

        for index in workflow.layers.order.tolist():
            if index in decision.due or (
                index in decision.perhaps and not self.holds(workflow, makers, index, wanted)
            ):
                make(index)
        return ran

    def holds(self, workflow: Workflow, makers: dict, index: int, wanted: set[str]) -> bool:
        """Whether what a task did holds, since it would read the same and its results are there."""
        task, outcome = workflow.task(index), self.outcomes[workflow.task_ids[index]]
        digests = {file.id: file.digest for file in outcome.outputs}
        return all(
            self.said(workflow, makers, file) == digest for file, digest in outcome.inputs
        ) and all(self.files.get(f) == digests[f] for f in task.outputs if f in wanted)

    def said(self, workflow: Workflow, makers: dict, file: str) -> str:
        """The digest that a file has, or would have if it were made."""
        if file not in makers:
            return self.outside[file]
        outputs = self.outcomes[workflow.task_ids[makers[file]]].outputs
        return next(output.digest for output in outputs if output.id == file)

    def run(self, workflow: Workflow, tasks: Iterable[int]) -> None:
        """Raises KeyError if a task finds an input missing."""
        among = set(tasks)
        for index in workflow.layers.order.tolist():
            if index in among:
                self.run_one(workflow, index)

    def run_one(self, workflow: Workflow, index: int, noise: str = "") -> None:
        task = workflow.task(index)
        made_inside = {f for step in range(len(workflow)) for f in workflow.task(step).outputs}
        inputs = tuple(
            (file, self.files[file] if file in made_inside else self.outside[file])
            for file in task.inputs
        )
        outputs = tuple(
            OutputFile(file, 1, content(task.command, sorted(inputs), file, noise))
            for file in task.outputs
        )
        self.files.update((file.id, file.digest) for file in outputs)
        self.outcomes[task.id] = Outcome(recipe_of(task.command, task.outputs), inputs, outputs)


def a_machine_that_ran(steps: Iterable[Step], lost: str = "", **outside: str) -> Machine:
    machine = Machine(outside)
    workflow = a_workflow(steps)
    machine.run(workflow, range(len(workflow)))
    for file in lost.split():
        del machine.files[file]
    return machine


FIRST = a_step("first", "in", "x")
SECOND = a_step("second", "x", "y")
THIRD = a_step("third", "y", "z")
CHAIN = [FIRST, SECOND, THIRD]

OUTSIDE = ["in0", "in1"]


@st.composite
def step_lists(draw: st.DrawFn) -> list[Step]:
    """Steps in an order of their own: a task may be written down before those it reads from."""
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 6))):
        files = [*OUTSIDE, *(file for step in steps for file in step.writes)]
        steps.append(
            Step(
                id=f"t{number}",
                reads=tuple(draw(st.lists(st.sampled_from(files), max_size=3, unique=True))),
                writes=tuple(f"f{number}{end}" for end in "ab"[: draw(st.integers(0, 2))]),
                after=tuple(step.id for step in steps if draw(st.integers(0, 4)) == 0),
            )
        )
    return list(draw(st.permutations(steps)))


def changed_somehow(draw: Callable, steps: list[Step]) -> list[Step]:
    """Another command here, an input less there, at times a task less that nobody needs."""
    result = []
    for step in steps:
        match draw(st.integers(0, 9)):
            case 0:
                step = replace(step, command=draw(st.sampled_from(["make", "make more"])))
            case 1:
                step = replace(step, reads=step.reads[1:])
            case 2:
                step = replace(step, reads=tuple(dict.fromkeys([*step.reads, "in0"])))
        result.append(step)
    needed = {file for step in result for file in step.reads}
    spare = [s for s in result if not needed.intersection(s.writes) and len(result) > 1]
    if spare and draw(st.integers(0, 4)) == 0:
        gone = draw(st.sampled_from(spare))
        result = [
            replace(step, after=tuple(a for a in step.after if a != gone.id))
            for step in result
            if step is not gone
        ]
    return result


@st.composite
def histories(draw: st.DrawFn) -> tuple[Machine, list[Step], set[str]]:
    """A machine on which a changing workflow ran a few times, was killed, and lost files."""
    machine = Machine(dict.fromkeys(OUTSIDE, "1"))
    steps = draw(step_lists())
    for _ in range(draw(st.integers(1, 3))):
        workflow = a_workflow(steps)
        machine.run_as_it_goes(workflow, written_by(steps))
        for task in draw(st.lists(st.sampled_from([step.id for step in steps]), max_size=2)):
            machine.outcomes.pop(task, None)  # it was killed before that
        lose_some(draw, machine)
        if draw(st.booleans()):
            machine.outside[draw(st.sampled_from(OUTSIDE))] = draw(st.sampled_from("12"))
        steps = changed_somehow(draw, steps)
    lose_some(draw, machine)
    wanted = {file for file in written_by(steps) if draw(st.integers(0, 2)) == 0}
    machine.asked.clear()
    return machine, steps, wanted


def lose_some(draw: Callable, machine: Machine) -> None:
    for file in list(machine.files):
        match draw(st.integers(0, 4)):
            case 0 | 1:
                del machine.files[file]
            case 2:
                machine.files[file] = "scribbled on"


def written_by(steps: Iterable[Step]) -> list[str]:
    return [file for step in steps for file in step.writes]


def fresh_run(machine: Machine, workflow: Workflow) -> Machine:
    fresh = Machine(machine.outside)
    fresh.run(workflow, range(len(workflow)))
    return fresh
