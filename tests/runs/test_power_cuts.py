"""A power cut at any moment loses nothing that was reported, and nothing torn counts.

``DATAWARD_CUTS=3 pytest tests/runs/test_power_cuts.py`` tries every moment of every run, with all
kinds of cuts and three parts drawn for each.
"""

import os

import pytest

from dataward.runs import input_digests
from power.campaign import Campaign, Cut, cuts_after_words, every_cut, some_cuts
from power.layout import listing, listing_of
from power.left_out import LEFT_OUT
from power.promises import tree_at
from power.scenarios import PLACE, SCENARIOS, Scenario, recording_of, set_out
from power.survival import EXTREMES, NOTHING
from power.tracing import why_impossible

PARTS = int(os.environ.get("DATAWARD_CUTS", "0"))
CUTS = 12

pytestmark = pytest.mark.skipif(bool(why_impossible()), reason=why_impossible())


@pytest.fixture(autouse=True)
def _started_again(monkeypatch):
    monkeypatch.setattr(input_digests, "this_boot", lambda: "after the cut")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_whatever_was_said_holds_after_a_power_cut(scenario, run):
    set_out()
    recording = recording_of(scenario)
    assert listing_of(tree_at(recording.effects)) == listing(PLACE), "not all was recorded"
    campaign = Campaign(scenario, recording, run)

    for stage in campaign.stages:
        if PARTS:
            campaign.try_all(stage, every_cut(stage, PARTS))
        else:
            campaign.try_all(stage, cuts_after_words(recording, stage, NOTHING))
            campaign.try_all(stage, some_cuts(stage, CUTS, seed=len(scenario.name)))

    print(f"{scenario.name}: {dict(campaign.counts)}")
    assert not campaign.problems, "\n\n".join(campaign.problems)


MADE = ("1/run.json", "store/journal", "depot/n0", "outputs/odd", "outputs/shown", "outcomes")


@pytest.mark.parametrize("path", MADE)
def test_what_a_killed_process_had_made_and_not_synced_is_safe_when_the_next_is_complete(path, run):
    scenario = Scenario("killed anywhere, resumed", killed_at=f"w.run/{path}")
    set_out()
    recording = recording_of(scenario)
    campaign = Campaign(scenario, recording, run)
    (stage,) = campaign.stages

    campaign.try_all(stage, [Cut(stage.end, NOTHING)])

    assert recording.codes == (-9, 0)
    assert campaign.counts["after the end"] == 1
    assert not campaign.problems, "\n\n".join(campaign.problems)


# These are missed only when the run has said that it is complete; the others already before.
OF_RESULTS = {"of_results": "", "of_results_of_a_killed_run": "outputs/result"}


@pytest.mark.parametrize("without", LEFT_OUT)
def test_the_campaign_misses_the_sync(without, run):
    scenario = Scenario("with a sync left out", killed_at=OF_RESULTS.get(without, ""))
    set_out()
    recording = recording_of(scenario, without)
    campaign = Campaign(scenario, recording, run, problems_max=1)
    (stage,) = campaign.stages
    cuts = cuts_after_words(recording, stage, *EXTREMES)

    campaign.try_all(stage, cuts[-len(EXTREMES) :] if without in OF_RESULTS else cuts)

    assert campaign.problems
