"""Writes the page that a reader skims: each claim, the paper's number, ours, the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent

from dataward.reproduce.charts import Chart
from dataward.reproduce.claims import Finding, Judgement, PaperClaim
from dataward.reproduce.experiment import Experiment

PAPERS = {
    "adage": "ADAGE",
    "matrix": "MATRIX",
    "worker": "Worker-centric scheduling",
    "peercomp": "PeerComp",
}


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    claim: PaperClaim
    finding: Finding


@dataclass(frozen=True, slots=True)
class Told:
    """What came of one experiment; ``problem`` is why it could not be done, or ""."""

    experiment: Experiment
    charts: Sequence[Chart] = ()
    judged: Sequence[JudgedClaim] = ()
    problem: str = ""


def page_of(told: Sequence[Told], *, quick: bool) -> str:
    """The whole page, in Markdown."""
    parts = [_opening(told, quick=quick), _overview(told)]
    for paper in dict.fromkeys(each.experiment.paper for each in told):
        parts.append(f"## {PAPERS.get(paper, paper)}")
        parts += [_section(each) for each in told if each.experiment.paper == paper]
    return "\n\n".join(parts) + "\n"


def counts_of(told: Sequence[Told]) -> Mapping[Judgement, int]:
    found = [judged.finding.judgement for each in told for judged in each.judged]
    return {judgement: found.count(judgement) for judgement in Judgement}


def _opening(told: Sequence[Told], *, quick: bool) -> str:
    counts = counts_of(told)
    total = sum(counts.values())
    tally = ", ".join(f"{counts[j]} {_plural(j, counts[j])}" for j in Judgement)
    text = f"# The papers' figures, simulated\n\nOf {total} claims {tally}."
    if quick:
        text += (
            " **Made with `--quick`: the workflows are so small that the verdicts say little about"
            " the papers.**"
        )
    return f"{text} Made by `dataward reproduce`."


def _plural(judgement: Judgement, count: int) -> str:
    if count == 1:
        return judgement.value
    return {
        Judgement.HOLDS: "hold",
        Judgement.DIRECTION: "hold in direction",
        Judgement.FAILS: "do not hold",
    }[judgement]


def _overview(told: Sequence[Told]) -> str:
    rows = [
        f"| [{each.experiment.name}](#{_anchor(each.experiment)}) | {_cell(j.claim.statement)} "
        f"| {_cell(j.claim.paper)} | {_cell(j.finding.ours)} | {_marked(j.finding.judgement)} |"
        for each in told
        for j in each.judged
    ]
    rows += [
        f"| [{each.experiment.name}](#{_anchor(each.experiment)}) | | | {_cell(each.problem)} "
        "| not done |"
        for each in told
        if each.problem
    ]
    return "\n".join(["| | Claim | Paper | Here | |", "|---|---|---|---|---|", *rows])


def _section(told: Told) -> str:
    experiment = told.experiment
    parts = [f"### {experiment.name}: {experiment.title}"]
    if told.problem:
        parts.append(f"Not done: {told.problem}.")
    parts += [f"![{chart.title}]({chart.name}.svg)" for chart in told.charts]
    if told.charts:
        links = ", ".join(f"[{chart.name}.csv]({chart.name}.csv)" for chart in told.charts)
        parts.append(f"Numbers: {links}.")
    for judged in told.judged:
        claim, finding = judged.claim, judged.finding
        line = f"- {_marked(finding.judgement)}: {claim.statement} Paper: {claim.paper}; here: "
        line += f"{finding.ours}."
        if finding.judgement is not Judgement.HOLDS and claim.reason:
            line += f" *Likely reason:* {claim.reason}"
        parts.append(line)
    parts.append(
        f"<details><summary>How it was set up</summary>\n\n{_about(experiment)}\n\n</details>"
    )
    return "\n\n".join(parts)


def _about(experiment: Experiment) -> str:
    first, _, rest = experiment.about.partition("\n")
    return f"{first}\n{dedent(rest)}".strip()


def _anchor(experiment: Experiment) -> str:
    """The name under which GitHub and others make a heading reachable."""
    heading = f"{experiment.name}: {experiment.title}".lower()
    kept = "".join(c for c in heading if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def _marked(judgement: Judgement) -> str:
    return f"**{judgement.value}**" if judgement is Judgement.FAILS else judgement.value


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
