"""Outputs that the workflow no longer makes go, whatever happens on the way."""

import pytest

from dataward.runs.stale_outputs import StaleOutputs
from power.small_cuts import PLACE, cut_at_the_end, cut_everywhere, recorded_lines
from power.tracing import why_impossible
from runs.stale_results import DIRECTORY, OLD, clear, left

pytestmark = pytest.mark.skipif(bool(why_impossible()), reason=why_impossible())

LINES = "import os; from runs.stale_results import *\n"


def test_what_was_noted_is_known_after_a_power_cut(monkeypatch):
    lines = LINES + "set_out(); os.sync(); note()"

    cut_at_the_end(recorded_lines(lines))

    monkeypatch.chdir(PLACE)
    assert clear() == StaleOutputs(removed=OLD)
    assert left() == {"kept"}


def test_after_a_power_cut_while_it_was_removed_the_next_run_removes_the_rest(monkeypatch):
    before = LINES + "set_out(); note(); os.sync()"
    recording = recorded_lines(before, then=LINES + "clear()")
    done = 0

    for cut in cut_everywhere(recording):
        with monkeypatch.context() as patch:
            patch.chdir(PLACE)
            done += not DIRECTORY.stale.exists()
            end = clear()
            assert end.changed == (), cut
            assert left() == {"kept"}, cut

    assert done
