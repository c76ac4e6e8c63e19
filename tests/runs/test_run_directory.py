"""A run directory and its records, and what a power cut leaves of them."""

import pytest

from dataward.formats import read_workflow
from dataward.model.states import RunState
from dataward.reports.event_file import EventFileReader
from dataward.runs.run_directory import NoRunError, RunDirectory
from power.small_cuts import PLACE, cut_at_the_end, cut_everywhere, recorded_lines
from power.tracing import why_impossible

pytestmark = pytest.mark.skipif(bool(why_impossible()), reason=why_impossible())

MAKE = """
from pathlib import Path
from dataward.runs.run_directory import RunDirectory
directory = RunDirectory(Path("deep/w.run"))
directory.make()
lock = directory.lock()
"""

BEGIN = (
    MAKE
    + """
import msgspec
from dataward import WorkflowBuilder, write_workflow
from dataward.reports.event_file import EventFileWriter
from dataward.model.states import RunState
from dataward.runs.run_directory import new_facts
record = directory.new_record()
wf = WorkflowBuilder("w")
wf.command("true")
write_workflow(wf.build(), record.workflow)
EventFileWriter(record.events).close()
facts = new_facts("w", "w.json")
record.begin(facts)
"""
)

END = (
    BEGIN
    + """
record.write_facts(msgspec.structs.replace(facts, state=RunState.COMPLETE))
"""
)


def directory() -> RunDirectory:
    return RunDirectory(PLACE / "deep" / "w.run")


def test_a_directory_that_was_made_is_there_after_a_power_cut():
    cut_at_the_end(recorded_lines(MAKE))

    assert directory().exists()


def test_no_power_cut_leaves_a_directory_that_is_refused_as_somebody_elses():
    for cut in cut_everywhere(recorded_lines(MAKE)):
        directory().make()

        assert directory().exists(), cut


def test_a_directory_that_a_killed_process_made_is_safe_once_it_is_used():
    recording = recorded_lines(MAKE, killed_at="w.run", then=MAKE)

    cut_at_the_end(recording)

    assert directory().exists()


def test_a_depot_that_a_killed_process_made_is_safe_once_its_directory_is_used():
    making = MAKE + "(directory.path / 'depot').mkdir(); (directory.path / 'depot' / 'n0').mkdir()"

    cut_at_the_end(recorded_lines(making, killed_at="n0", then=MAKE))

    assert (directory().depot / "n0").is_dir()


def test_a_run_that_has_begun_can_be_resumed_after_a_power_cut():
    cut_at_the_end(recorded_lines(BEGIN))

    record = directory().latest()
    assert record.facts().state is RunState.RUNNING
    assert read_workflow(record.workflow).name == "w"
    assert list(EventFileReader(record.events)) == []


def test_a_run_that_has_ended_says_so_after_a_power_cut():
    cut_at_the_end(recorded_lines(END))

    assert directory().latest().facts().state is RunState.COMPLETE


def test_after_any_power_cut_a_run_is_there_with_all_of_its_record_or_not_at_all():
    begun = 0

    for cut in cut_everywhere(recorded_lines(END)):
        try:
            record = directory().latest()
        except NoRunError:
            continue
        begun += 1
        assert record.facts().workflow == "w", cut
        assert read_workflow(record.workflow).name == "w", cut
        assert list(EventFileReader(record.events)) == [], cut

    assert begun
