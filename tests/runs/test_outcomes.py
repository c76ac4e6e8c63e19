"""Recipes and outcomes of tasks: what tells two apart, where they come from, and on disk."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataward.errors import FormatError, OutputError
from dataward.model.launch import Launch
from dataward.model.operations import Earlier, InputFile, OutputFile, TaskSpec
from dataward.runs.outcomes import (
    Made,
    Outcome,
    load_outcomes,
    outcomes_of,
    recipe_of,
    save_outcomes,
)
from dataward.stores.embedded import CommittedTask
from dataward.stores.journal import Journal
from runs.plain_machine import (
    FIRST,
    OUTSIDE,
    SECOND,
    Machine,
    Step,
    a_workflow,
    fresh_run,
    step_lists,
)

# --- recipes -------------------------------------------------------------------------------------

WORDS = st.lists(st.text(alphabet="ab \0'é", max_size=3), max_size=3)
LAUNCHES = st.sampled_from([None, Launch(stdin="x"), Launch(stdout="x"), Launch(env=(("x", "y"),))])
RECIPES = st.tuples(WORDS, st.frozensets(st.sampled_from(["x", "y", "x y"])), LAUNCHES)


@given(RECIPES, RECIPES)
def test_recipes_are_the_same_only_if_all_their_words_are(one, other):
    assert (recipe_of(*one) == recipe_of(*other)) == (one == other)


def test_a_recipe_is_the_same_in_every_release():
    """Else an upgrade would run everything again: then VERSION must grow, to say so."""
    plain = recipe_of(("sort", "-u", "all"), ("sorted",))
    printed = recipe_of(("sort", "-u", "all"), ("sorted",), Launch(stdout="sorted"))

    assert plain == (
        "36b862408d98b46db2b749f655c80bdd962151a8dae5e0fea118e747436d4fb41f94cbf313b3ce23257a7251ea0fc95a"
    )
    assert printed == plain + "0a68525d4b647ced0d0758cd372568ec"


# --- from committed tasks ------------------------------------------------------------------------


def a_spec(step: Step, made_by: dict[str, str], digests: dict[str, str]) -> TaskSpec:
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
    specs = [
        CommittedTask(a_spec(step, made_by, machine.outside), machine.outcomes[step.id].outputs)
        for step in steps
    ]
    earlier = {t: outcome for t, outcome in machine.outcomes.items() if data.draw(st.booleans())}
    now = [task for task in specs if task.spec.id not in earlier]

    found = outcomes_of(now, earlier, {})

    assert earlier | found == machine.outcomes


def test_a_task_whose_input_has_no_digest_is_left_out_but_not_those_that_read_from_it():
    outputs = (OutputFile("x", 1, "dx"),)
    specs = [
        CommittedTask(a_spec(FIRST, {}, {}), outputs),
        CommittedTask(a_spec(SECOND, {"x": "first"}, {}), (OutputFile("y", 1, "dy"),)),
    ]

    assert outcomes_of(specs, {}, {}) == {
        "second": Outcome(recipe_of(["make"], ["y"]), (("x", "dx"),), (OutputFile("y", 1, "dy"),))
    }


def test_a_task_that_did_not_tell_the_digest_of_an_output_is_left_out():
    for outputs in [(OutputFile("x", 1),), ()]:
        assert outcomes_of([CommittedTask(a_spec(FIRST, {}, {"in": "1"}), outputs)], {}, {}) == {}


BEFORE = Outcome(recipe_of(["make"], ["x"]), (("in", "1"),), (OutputFile("x", 1, "dx"),), 3)


def committed_again(reads: str, writes: str, *, was_recalled: bool = False) -> CommittedTask:
    """The first task, which ran before."""
    known = Earlier(BEFORE.inputs, BEFORE.outputs)
    spec = msgspec.structs.replace(a_spec(FIRST, {}, {"in": reads}), earlier=known)
    return CommittedTask(spec, (OutputFile("x", 1, writes),), was_recalled)


def test_a_task_that_ran_says_when_and_one_that_did_not_keeps_what_it_did_earlier():
    earlier = {"first": BEFORE}

    assert outcomes_of([committed_again("1", "dx", was_recalled=True)], earlier, {}) == earlier
    ran = {"first": Made(4, "n.1.1", 2.5)}
    found = outcomes_of([committed_again("1", "dx")], earlier, ran)["first"]
    assert (found.run, found.attempt, found.seconds) == (4, "n.1.1", 2.5)


@pytest.mark.parametrize(("reads", "writes"), [("2", "dx"), ("1", "other"), ("2", "other")])
def test_a_task_that_ran_again_counts_as_committed_also_if_no_event_tells_of_it(reads, writes):
    """A power cut takes the last events, and so does a kill; no commit is lost with them."""
    found = outcomes_of([committed_again(reads, writes)], {"first": BEFORE}, {})

    written = (OutputFile("x", 1, writes),)
    assert found == {"first": Outcome(BEFORE.recipe, (("in", reads),), written)}


def test_what_a_task_wrote_just_now_goes_before_what_it_wrote_earlier():
    earlier = {"first": Outcome("", (), (OutputFile("x", 1, "old"),))}
    specs = [
        CommittedTask(a_spec(SECOND, {"x": "first"}, {}), (OutputFile("y", 1, "dy"),)),
        CommittedTask(a_spec(FIRST, {}, {"in": "1"}), (OutputFile("x", 1, "new"),)),
    ]

    assert outcomes_of(specs, earlier, {})["second"].inputs == (("x", "new"),)
    assert outcomes_of(specs[:1], earlier, {})["second"].inputs == (("x", "old"),)


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
        ([msgspec.msgpack.encode(("outcomes", 1))] * 2, "outcomes of version 1"),
        ([msgspec.msgpack.encode(("digests", 1))] * 2, "digests of version 1"),
        ([b"\x01"] * 2, "holds no outcomes of tasks"),
        ([msgspec.msgpack.encode(("outcomes", 2)), b"\x01"] * 2, "its end is missing"),
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
