"""Shows the progress of ``dataward reproduce``, and prints what came of it."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dataward.cli.exit_codes import ExitCode
from dataward.cli.output import counted, print_json, stderr_console, stdout_console
from dataward.cli.tables import print_table
from dataward.errors import SettingError
from dataward.model.quantities import show_seconds
from dataward.reproduce.claims import Judgement
from dataward.reproduce.experiment import missing_strategies
from dataward.reproduce.page import Told, counts_of
from dataward.reproduce.registry import EXPERIMENTS, chosen_experiments
from dataward.reproduce.reproduction import PAGE_FILE, Reproduction
from dataward.reproduce.sweep import CellJob, CellOutcome, OnCell

LINE_EVERY_SECONDS = 15.0


def list_experiments(*, json: bool) -> None:
    if json:
        print_json([_listed(name) for name in EXPERIMENTS])
        return
    rows = []
    for name, experiment in EXPERIMENTS.items():
        missing = missing_strategies(experiment, quick=False)
        rows.append(
            (name, experiment.title + (f" (needs {', '.join(missing)})" if missing else ""))
        )
    width = max(len(name) for name, _ in rows)
    for name, title in rows:
        stdout_console().print(f"{name:<{width}}  {title}", soft_wrap=True)


def _listed(name: str) -> dict[str, Any]:
    experiment = EXPERIMENTS[name]
    return {
        "experiment": name,
        "title": experiment.title,
        "claims": len(experiment.claims),
        "cells": len(experiment.cells(False)),
        "missing_strategies": missing_strategies(experiment, quick=False),
    }


def reproduce(words: Sequence[str], out: Path, *, quick: bool, json: bool) -> None:
    chosen = chosen_experiments(words)
    named = {name for word in words for name in word.split(",")}
    for experiment in chosen:
        missing = missing_strategies(experiment, quick=quick)
        if missing and experiment.name in named:
            raise SettingError(
                f"{experiment.name} needs strategies that do not exist: {', '.join(missing)}"
            )
    with ExitStack() as stack:
        meter = _Meter(out)
        stack.callback(meter.stop)
        try:
            told = Reproduction(chosen, out, quick).run(meter.start)
        except KeyboardInterrupt:
            meter.interrupted()
            raise
    if json:
        print_json(_as_json(told))
    else:
        _print_claims(told)
        stdout_console().print(f"{out / PAGE_FILE} has the figures.", soft_wrap=True)
    failed = [e for e in told if e.problem and not missing_strategies(e.experiment, quick=quick)]
    if failed:
        raise SystemExit(ExitCode.FAILED)


class _Meter:
    """How many cells are done: a bar on a terminal, else a line now and then, both on stderr."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._console = stderr_console()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,} of {task.total:,} cells"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._total = self._done = self._kept = 0
        self._began = self._said = time.monotonic()

    def start(self, jobs: Sequence[CellJob]) -> OnCell:
        self._total = len(jobs)
        self._bar = self._progress.add_task("cells", total=len(jobs))
        self._progress.start()
        return self._on_cell

    def stop(self) -> None:
        self._progress.stop()

    def interrupted(self) -> None:
        self.stop()
        self._console.print(
            f"{self._done:,} of {counted(self._total, 'cell')} are kept in {self._out}: "
            "the same command goes on from there",
            soft_wrap=True,
        )

    def _on_cell(self, job: CellJob, outcome: CellOutcome) -> None:
        self._done += 1
        self._kept += not (outcome.seconds or outcome.problem)
        study, values, _ = job.key
        if outcome.problem:
            shown = ", ".join(f"{name} {value}" for name, value in values)
            self._console.print(f"{study} ({shown}): {outcome.problem}", soft_wrap=True)
        self._progress.update(self._bar, completed=self._done, description=study)
        now = time.monotonic()
        if not self._console.is_terminal and (
            now - self._said >= LINE_EVERY_SECONDS or self._done == self._total
        ):
            self._said = now
            before = f", {self._kept:,} of them kept from before" if self._kept else ""
            self._console.print(
                f"{self._done:,} of {counted(self._total, 'cell')}{before}, "
                f"{show_seconds(now - self._began)}",
                soft_wrap=True,
            )


def _print_claims(told: Sequence[Told]) -> None:
    console = stdout_console()
    for each in told:
        console.print(f"{each.experiment.name}: {each.experiment.title}", style="bold",
                      soft_wrap=True)  # fmt: skip
        if each.problem:
            console.print(f"  not done: {each.problem}", soft_wrap=True)
        for judged in each.judged:
            finding = judged.finding
            console.print(f"  {finding.judgement.value}: {judged.claim.statement}", soft_wrap=True)
            console.print(f"    paper: {judged.claim.paper}; here: {finding.ours}", soft_wrap=True)
            if finding.judgement is Judgement.FAILS and judged.claim.reason:
                console.print(f"    likely reason: {judged.claim.reason}", soft_wrap=True)
    counts = counts_of(told)
    rows = [(judgement.value, f"{counts[judgement]:,}") for judgement in Judgement]
    print_table(("verdict", "claims"), rows)


def _as_json(told: Sequence[Told]) -> list[dict[str, Any]]:
    return [
        {
            "experiment": each.experiment.name,
            "title": each.experiment.title,
            "problem": each.problem,
            "figures": [chart.name for chart in each.charts],
            "claims": [
                {
                    "statement": judged.claim.statement,
                    "paper": judged.claim.paper,
                    "ours": judged.finding.ours,
                    "verdict": judged.finding.judgement.value,
                    "reason": judged.claim.reason
                    if judged.finding.judgement is Judgement.FAILS
                    else "",
                }
                for judged in each.judged
            ],
        }
        for each in told
    ]
