"""What must run again, against a slow model and a machine that runs it; and outcomes on disk."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.errors import FormatError, OutputError
from dataward.model.builder import WorkflowBuilder
from dataward.model.operations import InputFile, OutputFile, TaskSpec
from dataward.model.workflow import Workflow
from dataward.runs.outcomes import (
    Decision,
    Outcome,
    decide,
    load_outcomes,
    outcomes_of,
    recipe_of,
    save_outcomes,
)
from dataward.stores.journal import Journal

# --- workflows and a machine to run them ---------------------------------------------------------


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

    def decide(self, workflow: Workflow, wanted: Iterable[str]) -> Decision:
        return decide(
            workflow, self.outside, self.outcomes, self.is_there, set(wanted).__contains__
        )

    def is_there(self, file: str, digest: str) -> bool:
        self.asked.append(file)
        return self.files.get(file) == digest

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


def due(machine: Machine, steps: Iterable[Step], wanted: str) -> dict[str, str]:
    workflow = a_workflow(steps)
    decision = machine.decide(workflow, wanted.split())
    return {workflow.task_ids[task]: why for task, why in decision.due.items()}


FIRST = a_step("first", "in", "x")
SECOND = a_step("second", "x", "y")
THIRD = a_step("third", "y", "z")
CHAIN = [FIRST, SECOND, THIRD]

# --- each reason ---------------------------------------------------------------------------------


def test_a_task_without_an_outcome_had_not_run_before():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})

    assert due(machine, [FIRST, SECOND], "y") == {"second": "it had not run before"}


def test_a_finished_run_has_nothing_due_though_its_intermediates_are_gone():
    machine = a_machine_that_ran(CHAIN, lost="x y", **{"in": "1"})

    decision = machine.decide(a_workflow(CHAIN), {"z"})

    assert decision.due == {}
    assert decision.skip == {
        task: machine.outcomes[id] for task, id in enumerate(["first", "second", "third"])
    }


def test_a_changed_command_makes_its_task_and_those_below_due():
    machine = a_machine_that_ran(CHAIN, **{"in": "1"})

    assert due(machine, [FIRST, replace(SECOND, command="make more"), THIRD], "z") == {
        "second": "its command has changed",
        "third": "its input 'y' is made again",
    }


def test_a_changed_input_of_the_workflow_makes_its_readers_due():
    machine = a_machine_that_ran([FIRST, a_step("other", "else", "o")], **{"in": "1", "else": "1"})
    machine.outside["in"] = "2"

    assert due(machine, [FIRST, a_step("other", "else", "o")], "x o") == {
        "first": "its input 'in' has changed"
    }


def test_an_input_that_nobody_has_a_digest_for_is_not_taken_for_unchanged():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})
    del machine.outside["in"]

    assert due(machine, [FIRST], "x") == {"first": "the content of its input 'in' is not known"}


def test_an_input_made_by_a_task_that_wrote_something_else_since_has_changed():
    machine = a_machine_that_ran(CHAIN, **{"in": "1"})
    machine.run_one(a_workflow(CHAIN), 0, noise="not the same twice")

    assert due(machine, CHAIN, "z") == {
        "second": "its input 'x' has changed",
        "third": "its input 'y' is made again",
    }


def test_an_input_more_or_less_is_a_reason():
    more = replace(FIRST, reads=("in", "also"))
    outside = {"in": "1", "also": "1"}

    assert due(a_machine_that_ran([FIRST], **outside), [more], "x") == {
        "first": "it did not read 'also' before"
    }
    assert due(a_machine_that_ran([more], **outside), [FIRST], "x") == {
        "first": "it no longer reads 'also'"
    }


def test_an_output_more_or_less_is_a_reason():
    more = replace(FIRST, writes=("x", "log"))

    for before, now in [(FIRST, more), (more, FIRST)]:
        machine = a_machine_that_ran([before], **{"in": "1"})
        assert due(machine, [now], "x") == {"first": "its list of outputs has changed"}


def test_changed_settings_are_a_reason():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})

    decision = decide(
        a_workflow([FIRST]),
        {"in": "1"},
        machine.outcomes,
        machine.is_there,
        {"x"}.__contains__,
        "!",
    )

    assert decision.due == {0: "its settings have changed"}


def test_an_output_of_which_no_digest_is_recorded_is_a_reason():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})
    machine.outcomes["first"] = msgspec.structs.replace(
        machine.outcomes["first"], outputs=(OutputFile("x", 1),)
    )

    assert due(machine, [FIRST], "x") == {"first": "the content of its output 'x' is not known"}


def test_a_wanted_output_that_is_gone_is_made_again_from_as_far_up_as_needed():
    machine = a_machine_that_ran(CHAIN, lost="y z", **{"in": "1"})

    assert due(machine, CHAIN, "z") == {
        "second": "its output 'y' is gone, and 'third', which must run, reads it",
        "third": "its output 'z' is gone",
    }


def test_a_wanted_output_that_holds_something_else_is_gone():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})
    machine.files["x"] = "scribbled on"

    assert due(machine, [FIRST], "x") == {"first": "its output 'x' is gone"}


def test_readers_of_a_file_that_is_only_made_again_are_left_alone():
    machine = a_machine_that_ran(CHAIN, lost="x y", **{"in": "1"})

    assert due(machine, CHAIN, "x z") == {"first": "its output 'x' is gone"}


def test_a_lost_intermediate_that_only_skipped_tasks_read_is_not_made_again():
    steps = [*CHAIN, a_step("side", "x", "w")]
    machine = a_machine_that_ran(steps, lost="x y w", **{"in": "1"})

    assert due(machine, steps, "z w") == {
        "side": "its output 'w' is gone",
        "first": "its output 'x' is gone, and 'side', which must run, reads it",
    }


def test_of_several_readers_the_first_in_order_is_named():
    steps = [a_step("b", "x", "2"), a_step("a", "x", "1"), FIRST, a_step("c", "x 1", "3")]
    machine = a_machine_that_ran([FIRST], lost="x", **{"in": "1"})

    assert due(machine, steps, "1 2 3")["first"] == (
        "its output 'x' is gone, and 'b', which must run, reads it"
    )


def test_a_task_that_only_comes_after_a_changed_one_is_left_alone():
    steps = [FIRST, a_step("later", "else", "o", after=("first",))]
    machine = a_machine_that_ran(steps, **{"in": "1", "else": "1"})

    changed = [replace(FIRST, command="make more"), steps[1]]

    assert due(machine, changed, "x o") == {"first": "its command has changed"}


def test_a_file_that_a_task_writes_by_now_is_not_looked_for_outside():
    machine = a_machine_that_ran([SECOND], x="1")

    assert due(machine, [FIRST, SECOND], "y") == {
        "first": "it had not run before",
        "second": "its input 'x' is made again",
    }


def test_the_order_of_files_does_not_matter():
    step = a_step("t", "a b", "c d")
    machine = a_machine_that_ran([step], a="1", b="2")

    assert due(machine, [a_step("t", "b a", "d c")], "c d") == {}


def test_a_task_committed_before_its_run_was_killed_does_not_run_again():
    """It has changed and so have those below it, which had not run yet."""
    machine = a_machine_that_ran(CHAIN, **{"in": "1"})
    machine.outside["in"] = "2"
    machine.run_one(a_workflow(CHAIN), 0)

    assert due(machine, CHAIN, "z") == {
        "second": "its input 'x' has changed",
        "third": "its input 'y' is made again",
    }


def test_a_changed_task_that_wrote_the_same_leaves_those_below_alone_once_it_is_committed():
    machine = a_machine_that_ran(CHAIN, **{"in": "1"})
    steps = [replace(FIRST, command="make the same"), SECOND, THIRD]
    machine.outcomes["first"] = msgspec.structs.replace(
        machine.outcomes["first"], recipe=recipe_of(["make the same"], ["x"])
    )

    assert due(machine, steps, "z") == {}


# --- recipes -------------------------------------------------------------------------------------

WORDS = st.lists(st.text(alphabet="ab \0'é", max_size=3), max_size=3)
RECIPES = st.tuples(WORDS, st.frozensets(st.sampled_from(["x", "y", "x y"])), st.sampled_from("ab"))


@given(RECIPES, RECIPES)
def test_recipes_are_the_same_only_if_all_their_words_are(one, other):
    assert (recipe_of(*one) == recipe_of(*other)) == (one == other)


def test_a_recipe_is_the_same_in_every_release():
    """Else an upgrade would run everything again: then VERSION must grow, to say so."""
    recipe = recipe_of(("sort", "-u", "all"), ("sorted",), "")

    assert recipe == (
        "36b862408d98b46db2b749f655c80bdd962151a8dae5e0fea118e747436d4fb41f94cbf313b3ce23257a7251ea0fc95a"
    )


# --- any workflow, any history -------------------------------------------------------------------

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
        decision = machine.decide(workflow, written_by(steps))
        order = [t for t in workflow.layers.order.tolist() if t in decision.due]
        machine.run(workflow, order[: draw(st.integers(0, len(order))) or None])
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


class Model:
    """The rules word for word, asked again and again: no order, nothing remembered."""

    def __init__(self, machine: Machine, steps: list[Step], wanted: set[str]) -> None:
        self.machine = machine
        self.steps = steps
        self.wanted = wanted

    def due(self) -> set[str]:
        return {step.id for step in self.steps if self.must_run(step)}

    def must_run(self, step: Step) -> bool:
        return self.has_changed(step) or any(
            self.is_needed(file) and self.machine.files.get(file) != self.digest(file)
            for file in step.writes
        )

    def is_needed(self, file: str) -> bool:
        return file in self.wanted or any(
            file in step.reads and self.must_run(step) for step in self.steps
        )

    def has_changed(self, step: Step) -> bool:
        outcome = self.machine.outcomes.get(step.id)
        return (
            outcome is None
            or outcome.recipe != recipe_of([step.command], step.writes)
            or set(outcome.inputs) != {(file, self.digest(file)) for file in step.reads}
        )

    def digest(self, file: str) -> str | None:
        """None if it is made anew, so that nobody can say."""
        for step in self.steps:
            if file in step.writes:
                if self.has_changed(step):
                    return None
                outputs = self.machine.outcomes[step.id].outputs
                return next(output.digest for output in outputs if output.id == file)
        return self.machine.outside[file]


def copy_of(machine: Machine) -> Machine:
    return Machine(dict(machine.outside), dict(machine.files), dict(machine.outcomes))


def holds_all(machine: Machine, wanted: Iterable[str], rightly: dict[str, str]) -> bool:
    return all(machine.files.get(file) == rightly[file] for file in wanted)


def fresh_run(machine: Machine, workflow: Workflow) -> Machine:
    fresh = Machine(machine.outside)
    fresh.run(workflow, range(len(workflow)))
    return fresh


@settings(max_examples=400, deadline=None)
@given(histories())
def test_what_is_due_is_what_the_rules_say(history):
    machine, steps, wanted = history
    workflow = a_workflow(steps)

    decision = machine.decide(workflow, wanted)

    assert {workflow.task_ids[task] for task in decision.due} == Model(*history).due()
    assert sorted([*decision.due, *decision.skip]) == list(range(len(workflow)))
    assert all(decision.due.values())
    assert all(
        outcome is machine.outcomes[workflow.task_ids[task]]
        for task, outcome in decision.skip.items()
    )


@settings(max_examples=400, deadline=None)
@given(histories())
def test_running_what_is_due_leads_where_running_everything_would(history):
    """So a task finds all its inputs, all that is wanted is there, and no skipped one is stale."""
    machine, steps, wanted = history
    workflow = a_workflow(steps)
    fresh = fresh_run(machine, workflow)

    machine.run(workflow, machine.decide(workflow, wanted).due)

    assert holds_all(machine, wanted, fresh.files)
    for task, outcome in fresh.outcomes.items():
        assert set(machine.outcomes[task].inputs) == set(outcome.inputs)
        assert set(machine.outcomes[task].outputs) == set(outcome.outputs)
    assert machine.decide(workflow, wanted).due == {}


@settings(max_examples=400, deadline=None)
@given(histories())
def test_no_task_is_due_that_could_be_done_without(history):
    """Unless it has changed, leaving one out leaves another without its input or us without ours.

    Files that were scribbled on are put away first, as `is_there` does not find them.
    """
    machine, steps, wanted = history
    workflow = a_workflow(steps)
    decision = machine.decide(workflow, wanted)
    model = Model(*history)
    unchanged = [t for t in decision.due if not model.has_changed(by_id(steps, workflow, t))]
    fresh = fresh_run(machine, workflow)
    machine.files = {f: d for f, d in machine.files.items() if fresh.files.get(f) == d}

    for left_out in unchanged:
        trial = copy_of(machine)
        try:
            trial.run(workflow, set(decision.due) - {left_out})
        except KeyError:
            continue
        assert not holds_all(trial, wanted, fresh.files)


def by_id(steps: list[Step], workflow: Workflow, task: int) -> Step:
    return next(step for step in steps if step.id == workflow.task_ids[task])


@settings(deadline=None)
@given(histories())
def test_each_file_is_looked_for_once_at_most(history):
    machine, steps, wanted = history

    machine.decide(a_workflow(steps), wanted)

    assert len(machine.asked) == len(set(machine.asked))


# --- from committed tasks ------------------------------------------------------------------------


def a_spec(step: Step, made_by: dict[str, str], **digests: str) -> TaskSpec:
    inputs = [InputFile(f, 1, made_by.get(f, ""), digests.get(f, "")) for f in step.reads]
    outputs = [OutputFile(f, 1) for f in step.writes]
    return TaskSpec(
        step.id, step.id, (), (), tuple(inputs), tuple(outputs), 1.0, 1, 0, 0, "n", 0.0, 0,
        (step.command,),
    )  # fmt: skip


@settings(deadline=None)
@given(step_lists(), st.data())
def test_committed_tasks_come_to_what_they_read_and_wrote_whoever_ran_earlier(steps, data):
    workflow = a_workflow(steps)
    machine = fresh_run(Machine(dict.fromkeys(OUTSIDE, "1")), workflow)
    made_by = {file: step.id for step in steps for file in step.writes}
    specs = [(a_spec(step, made_by), machine.outcomes[step.id].outputs) for step in steps]
    earlier = {t: outcome for t, outcome in machine.outcomes.items() if data.draw(st.booleans())}
    now = [(spec, outputs) for spec, outputs in specs if spec.id not in earlier]

    found = outcomes_of(now, machine.outside, earlier)

    assert earlier | found == machine.outcomes


def test_a_task_whose_input_has_no_digest_is_left_out_but_not_those_that_read_from_it():
    outputs = (OutputFile("x", 1, "dx"),)
    specs = [
        (a_spec(FIRST, {}), outputs),
        (a_spec(SECOND, {"x": "first"}), (OutputFile("y", 1, "dy"),)),
    ]

    assert outcomes_of(specs, {}) == {
        "second": Outcome(recipe_of(["make"], ["y"]), (("x", "dx"),), (OutputFile("y", 1, "dy"),))
    }


def test_a_task_that_did_not_tell_the_digest_of_an_output_is_left_out():
    for outputs in [(OutputFile("x", 1),), ()]:
        assert outcomes_of([(a_spec(FIRST, {}), outputs)], {"in": "1"}) == {}


def test_the_digest_that_a_task_was_submitted_with_goes_before_that_of_today():
    spec = a_spec(FIRST, {}, **{"in": "then"})

    found = outcomes_of([(spec, (OutputFile("x", 1, "dx"),))], {"in": "now"})

    assert found["first"].inputs == (("in", "then"),)


def test_what_a_task_wrote_just_now_goes_before_what_it_wrote_earlier():
    earlier = {"first": Outcome("", (), (OutputFile("x", 1, "old"),))}
    specs = [
        (a_spec(SECOND, {"x": "first"}), (OutputFile("y", 1, "dy"),)),
        (a_spec(FIRST, {}), (OutputFile("x", 1, "new"),)),
    ]

    assert outcomes_of(specs, {"in": "1"}, earlier)["second"].inputs == (("x", "new"),)
    assert outcomes_of(specs[:1], {}, earlier)["second"].inputs == (("x", "old"),)


# --- on disk -------------------------------------------------------------------------------------

SOME = {
    f"task {n}": Outcome(f"r{n}", (("in", "d"),), (OutputFile("é", n, "e"),)) for n in range(25_000)
}
FEW = dict(list(SOME.items())[:3])


@pytest.mark.parametrize("outcomes", [{}, FEW, SOME], ids=len)
def test_what_was_saved_is_loaded(tmp_path, outcomes):
    path = tmp_path / "outcomes"
    save_outcomes(path, {"old": Outcome("", (), ())})

    save_outcomes(path, outcomes)

    assert load_outcomes(path) == outcomes
    assert [file.name for file in tmp_path.iterdir()] == ["outcomes"]


def test_no_file_means_no_outcomes(tmp_path):
    assert load_outcomes(tmp_path / "outcomes") == {}


def test_any_wrong_byte_and_any_missing_end_is_noticed_each_time(tmp_path):
    path = tmp_path / "outcomes"
    save_outcomes(path, FEW)
    whole = path.read_bytes()
    wrong = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    short = [whole[:end] for end in range(len(whole))]

    for content in wrong + short:
        path.write_bytes(content)
        for _ in range(2):
            with pytest.raises(FormatError, match="remove it, and every task runs again"):
                load_outcomes(path)


def test_looking_at_damaged_outcomes_does_not_cut_them(tmp_path):
    path = tmp_path / "outcomes"
    save_outcomes(path, FEW)
    damaged = path.read_bytes().replace(b"task 2", b"task ?")
    path.write_bytes(damaged)

    with pytest.raises(FormatError):
        load_outcomes(path)

    assert path.read_bytes() == damaged


@pytest.mark.parametrize(
    ("frames", "problem"),
    [
        ([msgspec.msgpack.encode(("outcomes", 2))] * 2, "outcomes of version 2"),
        ([msgspec.msgpack.encode(("digests", 1))] * 2, "digests of version 1"),
        ([b"\x01"] * 2, "holds no outcomes of tasks"),
        ([msgspec.msgpack.encode(("outcomes", 1)), b"\x01"] * 2, "its end is missing"),
    ],
)
def test_a_file_of_another_version_or_kind_is_refused(tmp_path, frames, problem):
    path = tmp_path / "outcomes"
    Journal.create(path, frames).close()

    with pytest.raises(FormatError, match=problem):
        load_outcomes(path)


def test_outcomes_that_cannot_be_saved_are_an_error_and_leave_the_old_ones(tmp_path):
    path = tmp_path / "outcomes"
    save_outcomes(path, FEW)
    (tmp_path / "outcomes.new").mkdir()  # where the draft would be

    with pytest.raises(OutputError, match="cannot write"):
        save_outcomes(path, {})

    assert load_outcomes(path) == FEW


def test_outcomes_that_cannot_be_read_are_an_error(tmp_path):
    Path(tmp_path / "outcomes").mkdir()

    with pytest.raises(FormatError, match="cannot be read"):
        load_outcomes(tmp_path / "outcomes")
