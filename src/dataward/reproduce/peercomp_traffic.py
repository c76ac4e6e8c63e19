"""PeerComp, beside figure 6: events and traffic of a node on a million nodes.

The paper gives these numbers in its text. An event is a message that a node receives or a task that
ends; traffic is the most that a node sends, or receives, within one second.
"""

from dataward.reproduce.cells import Cell, Results, as_profile
from dataward.reproduce.charts import Chart, Panel, Series
from dataward.reproduce.claims import Finding, PaperClaim, judge_at_most, worst
from dataward.reproduce.experiment import Experiment
from dataward.reproduce.peercomp_runs import (
    MILLION,
    PEERCOMP,
    SETUP,
    most_nodes,
    shown_nodes,
    ten_minutes,
)


def cells(quick: bool) -> list[Cell]:
    return [ten_minutes(2_000 if quick else MILLION)]


def peaks(results: Results, name: str) -> list[float]:
    ((_, numbers),) = results.where(nodes=most_nodes(results))
    return list(as_profile(numbers[name]))


def charts(results: Results) -> list[Chart]:
    panels = [
        Panel(
            title,
            "peak bytes per second",
            "nodes (%)",
            [
                Series(
                    "nodes",
                    peaks(results, name),
                    [float(p) for p in range(len(peaks(results, name)))],
                )
            ],
            y_max=100.0,
        )
        for title, name in (("(a) Sent", "sent_peaks"), ("(b) Received", "received_peaks"))
    ]
    title = f"Peak traffic of a node, {shown_nodes(most_nodes(results))}"
    return [Chart("peercomp-traffic", title, panels, series_word="what")]


def find_mean(results: Results) -> Finding:
    ours = results.mean("events_mean")
    return Finding(f"{ours:.3f} a second", judge_at_most(ours, 2.0, neutral=4.0))


def find_most(results: Results) -> Finding:
    ours = results.mean("events_max")
    return Finding(f"{ours:.0f} in one second", judge_at_most(ours, 40.0, neutral=80.0))


def find_sent(results: Results) -> Finding:
    found = peaks(results, "sent_peaks")
    shown = f"75% below {found[75]:,.0f} B/s, {found[-1]:,.0f} at most"
    judged = [judge_at_most(found[75], 2500.0, neutral=5000.0)]
    judged.append(judge_at_most(found[-1], 8200.0, neutral=16_400.0))
    return Finding(shown, worst(judged))


def find_received(results: Results) -> Finding:
    found = peaks(results, "received_peaks")
    shown = f"75% below {found[75]:,.0f} B/s, 99% below {found[99]:,.0f}, {found[-1]:,.0f} at most"
    bounds = ((found[75], 1000.0), (found[99], 8000.0), (found[-1], 29_000.0))
    judged = [judge_at_most(value, bound, neutral=2 * bound) for value, bound in bounds]
    return Finding(shown, worst(judged))


TOP = (
    "Requests that no hole surely serves climb to the root, and those that came down in vain climb "
    "again. With 100,000 nodes the root's host has 104 events in its busiest second and sends "
    "7,332 bytes; ten times as many workflows arrive at a million. Below the top the busiest "
    "nodes, with 118 events, are near the leaves: a fork-join of 40 tasks asks for 37 sequences at "
    "once. The paper's sizes are not known."
)

EXPERIMENT = Experiment(
    "peercomp-traffic",
    "events and traffic on a million nodes",
    f"{__doc__}{SETUP}",
    PEERCOMP,
    cells,
    charts,
    (
        PaperClaim("A node processes few events on average.", "a mean of 2 a second", find_mean),
        PaperClaim("The most events of a node are few.", "40 in a second", find_most, TOP),
        PaperClaim("Most nodes send little.", "75% below 2,500 B/s, 8,200 at most", find_sent, TOP),
        PaperClaim(
            "Most nodes receive little.",
            "75% below 1,000 B/s, 99% below 8,000, 29,000 at most",
            find_received,
            TOP,
        ),
    ),
)
