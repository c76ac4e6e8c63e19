"""What must run again, what perhaps, and why: against a machine that runs everything anew."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import msgspec
from hypothesis import given, settings

from dataward.model.operations import OutputFile
from dataward.runs.outcomes import Outcome, recipe_of
from runs.plain_machine import (
    CHAIN,
    FIRST,
    SECOND,
    THIRD,
    Machine,
    Step,
    a_machine_that_ran,
    a_step,
    a_workflow,
    fresh_run,
    histories,
)


def decided(machine: Machine, steps: Iterable[Step], wanted: str) -> dict[str, str]:
    """Every task that may run: why it must, or "perhaps"."""
    workflow = a_workflow(steps)
    decision = machine.decide(workflow, wanted.split())
    ids = workflow.task_ids
    perhaps = {ids[task]: "perhaps" for task in decision.perhaps}
    return perhaps | {ids[task]: why for task, why in decision.due.items()}


# --- each reason ---------------------------------------------------------------------------------


def test_a_task_without_an_outcome_had_not_run_before():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})

    assert decided(machine, [FIRST, SECOND], "y") == {"second": "it had not run before"}


def test_a_task_that_failed_is_not_said_never_to_have_run():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})
    machine.outcomes["second"] = Outcome("", (), (), failure="exit code 1")

    assert decided(machine, [FIRST, SECOND], "y") == {"second": "it failed in the run before"}


def test_a_finished_run_has_nothing_to_do_though_its_intermediates_are_gone():
    machine = a_machine_that_ran(CHAIN, lost="x y", **{"in": "1"})

    decision = machine.decide(a_workflow(CHAIN), {"z"})

    assert decision.open == []
    assert decision.skip == {
        task: machine.outcomes[id] for task, id in enumerate(["first", "second", "third"])
    }


def test_a_changed_command_makes_its_task_due_and_perhaps_those_below():
    machine = a_machine_that_ran(CHAIN, **{"in": "1"})

    assert decided(machine, [FIRST, replace(SECOND, command="make more"), THIRD], "z") == {
        "second": "its command has changed",
        "third": "perhaps",
    }


def test_a_changed_input_of_the_workflow_makes_its_readers_due():
    machine = a_machine_that_ran([FIRST, a_step("other", "else", "o")], **{"in": "1", "else": "1"})
    machine.outside["in"] = "2"

    assert decided(machine, [FIRST, a_step("other", "else", "o")], "x o") == {
        "first": "its input 'in' has changed"
    }


def test_an_input_that_nobody_has_a_digest_for_is_not_taken_for_unchanged():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})
    del machine.outside["in"]

    assert decided(machine, [FIRST], "x") == {"first": "the content of its input 'in' is not known"}


def test_an_input_made_by_a_task_that_wrote_something_else_since_has_changed():
    machine = a_machine_that_ran(CHAIN, **{"in": "1"})
    machine.run_one(a_workflow(CHAIN), 0, noise="not the same twice")

    assert decided(machine, CHAIN, "z") == {
        "second": "its input 'x' has changed",
        "third": "perhaps",
    }


def test_an_input_more_or_less_is_a_reason():
    more = replace(FIRST, reads=("in", "also"))
    outside = {"in": "1", "also": "1"}

    assert decided(a_machine_that_ran([FIRST], **outside), [more], "x") == {
        "first": "it did not read 'also' before"
    }
    assert decided(a_machine_that_ran([more], **outside), [FIRST], "x") == {
        "first": "it no longer reads 'also'"
    }


def test_an_output_more_or_less_is_a_reason():
    more = replace(FIRST, writes=("x", "log"))

    for before, now in [(FIRST, more), (more, FIRST)]:
        machine = a_machine_that_ran([before], **{"in": "1"})
        assert decided(machine, [now], "x") == {"first": "its list of outputs has changed"}


def test_an_output_of_which_no_digest_is_recorded_is_a_reason():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})
    machine.outcomes["first"] = msgspec.structs.replace(
        machine.outcomes["first"], outputs=(OutputFile("x", 1),)
    )

    assert decided(machine, [FIRST], "x") == {"first": "the content of its output 'x' is not known"}


def test_a_task_that_is_forced_is_due():
    machine = a_machine_that_ran(CHAIN, **{"in": "1"})

    decision = machine.decide(a_workflow(CHAIN), {"z"}, forced="second")

    assert decision.due == {1: "it was asked to"}
    assert list(decision.perhaps) == [2]


def test_a_wanted_output_that_is_gone_is_made_again_and_perhaps_what_that_needs():
    machine = a_machine_that_ran(CHAIN, lost="y z", **{"in": "1"})

    assert decided(machine, CHAIN, "z") == {"second": "perhaps", "third": "its output 'z' is gone"}


def test_a_wanted_output_that_holds_something_else_was_changed():
    machine = a_machine_that_ran([FIRST], **{"in": "1"})
    machine.files["x"] = "scribbled on"

    assert decided(machine, [FIRST], "x") == {"first": "its output 'x' was changed since"}


def test_a_lost_intermediate_that_only_skipped_tasks_read_is_not_looked_for():
    machine = a_machine_that_ran(CHAIN, lost="x y", **{"in": "1"})

    assert decided(machine, CHAIN, "z") == {}
    assert machine.asked == ["z"]


def test_a_task_that_only_comes_after_a_changed_one_is_left_alone():
    steps = [FIRST, a_step("later", "else", "o", after=("first",))]
    machine = a_machine_that_ran(steps, **{"in": "1", "else": "1"})

    changed = [replace(FIRST, command="make more"), steps[1]]

    assert decided(machine, changed, "x o") == {"first": "its command has changed"}


def test_a_file_that_a_task_writes_by_now_is_not_looked_for_outside():
    machine = a_machine_that_ran([SECOND], x="1")

    assert decided(machine, [FIRST, SECOND], "y") == {
        "first": "it had not run before",
        "second": "perhaps",
    }


def test_the_order_of_files_does_not_matter():
    step = a_step("t", "a b", "c d")
    machine = a_machine_that_ran([step], a="1", b="2")

    assert decided(machine, [a_step("t", "b a", "d c")], "c d") == {}


def test_a_task_committed_before_its_run_was_killed_does_not_run_again():
    """It has changed and so have those below it, which had not run yet."""
    machine = a_machine_that_ran(CHAIN, **{"in": "1"})
    machine.outside["in"] = "2"
    machine.run_one(a_workflow(CHAIN), 0)

    assert decided(machine, CHAIN, "z") == {
        "second": "its input 'x' has changed",
        "third": "perhaps",
    }


def test_a_changed_task_that_wrote_the_same_leaves_those_below_alone_once_it_is_committed():
    machine = a_machine_that_ran(CHAIN, **{"in": "1"})
    steps = [replace(FIRST, command="make the same"), SECOND, THIRD]
    machine.outcomes["first"] = msgspec.structs.replace(
        machine.outcomes["first"], recipe=recipe_of(["make the same"], ["x"])
    )

    assert decided(machine, steps, "z") == {}


# --- any workflow, any history -------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(histories())
def test_every_task_is_skipped_due_or_perhaps(history):
    machine, steps, wanted = history
    workflow = a_workflow(steps)

    decision = machine.decide(workflow, wanted)

    assert sorted([*decision.open, *decision.skip]) == list(range(len(workflow)))
    assert not set(decision.due) & set(decision.perhaps)
    assert all(decision.due.values())
    for task, outcome in (decision.skip | decision.perhaps).items():
        assert outcome is machine.outcomes[workflow.task_ids[task]]


@settings(max_examples=400, deadline=None)
@given(histories())
def test_deciding_as_it_goes_leads_where_running_everything_would(history):
    """So a task finds all its inputs, all that is wanted is there, and no skipped one is stale."""
    machine, steps, wanted = history
    workflow = a_workflow(steps)
    fresh = fresh_run(machine, workflow)

    machine.run_as_it_goes(workflow, wanted)

    assert all(machine.files.get(file) == fresh.files[file] for file in wanted)
    for task, outcome in fresh.outcomes.items():
        assert set(machine.outcomes[task].inputs) == set(outcome.inputs)
        assert set(machine.outcomes[task].outputs) == set(outcome.outputs)
    assert machine.run_as_it_goes(workflow, wanted) == []


@settings(max_examples=400, deadline=None)
@given(histories())
def test_no_task_runs_twice_or_in_vain(history):
    """Unless it is new or read something else, what it wrote was gone, and wanted or read."""
    machine, steps, wanted = history
    workflow, before = a_workflow(steps), dict(machine.outcomes)
    files = dict(machine.files)

    ran = machine.run_as_it_goes(workflow, wanted)

    assert max(Counter(ran).values(), default=1) == 1
    read = {file for id in ran for file in workflow.task(workflow.index_of[id]).inputs}
    for id in ran:
        now, then = machine.outcomes[id], before.get(id)
        if then is None or (then.recipe, set(then.inputs)) != (now.recipe, set(now.inputs)):
            continue
        made = {file.id: file.digest for file in now.outputs}
        lost = {file for file, digest in made.items() if files.get(file) != digest}
        assert lost & (wanted | read)


@settings(deadline=None)
@given(histories())
def test_each_file_is_looked_for_once_at_most(history):
    machine, steps, wanted = history

    machine.decide(a_workflow(steps), wanted)

    assert len(machine.asked) == len(set(machine.asked))
