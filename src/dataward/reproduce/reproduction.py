"""Does experiments from their cells to their page: measures, draws, judges and writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dataward.errors import OutputError
from dataward.reproduce.drawing import check_drawing, draw_chart
from dataward.reproduce.experiment import Experiment, missing_strategies
from dataward.reproduce.kept_cells import CellFile, key_of
from dataward.reproduce.page import JudgedClaim, Told, page_of
from dataward.reproduce.sweep import CellJob, OnCell, jobs_of, results_of, sweep
from dataward.reproduce.tables import as_csv

CELLS_FILE = "cells.jsonl"
PAGE_FILE = "report.md"

OnJobs = Callable[[Sequence[CellJob]], OnCell]
"""Called with all cells before the first is measured; returns whom to tell of each."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Experiments to be done, and where their results go."""

    experiments: Sequence[Experiment]
    directory: Path
    quick: bool = False

    def run(self, on_jobs: OnJobs) -> list[Told]:
        """What came of each experiment, all files being written. Raises SettingError, OutputError.

        An experiment that needs a strategy which does not exist, or has a cell that failed, is told
        with its problem. What has been measured stays in the directory, and is not measured again.
        """
        check_drawing()
        self._make_directory()
        kept = CellFile(self.directory / CELLS_FILE)
        problems = {
            experiment.name: f"needs strategies that do not exist: {', '.join(missing)}"
            for experiment in self.experiments
            if (missing := missing_strategies(experiment, quick=self.quick))
        }
        ready = [e for e in self.experiments if e.name not in problems]
        jobs = jobs_of(ready, quick=self.quick)
        failed = sweep(jobs, kept, on_jobs(jobs))
        for experiment in ready:
            for cell in experiment.cells(self.quick):
                if problem := failed.get(key_of(experiment.study, cell)):
                    problems.setdefault(experiment.name, f"{_shown(cell.values)}: {problem}")
        told = [self._tell(e, kept, problems.get(e.name, "")) for e in self.experiments]
        self._write(PAGE_FILE, page_of(told, quick=self.quick))
        return told

    def _tell(self, experiment: Experiment, kept: CellFile, problem: str) -> Told:
        if problem:
            return Told(experiment, problem=problem)
        results = results_of(experiment.study, experiment.cells(self.quick), kept)
        charts = list(experiment.charts(results))
        for chart in charts:
            self._write(f"{chart.name}.csv", as_csv(chart))
            draw_chart(chart, self.directory)
        claims = experiment.claims
        if self.quick:  # reasons are about the full version
            claims = [replace(claim, reason="") for claim in claims]
        judged = [JudgedClaim(claim, claim.find(results)) for claim in claims]
        return Told(experiment, charts, judged)

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(str(self.directory), error.strerror or str(error)) from error

    def _write(self, name: str, text: str) -> None:
        path = self.directory / name
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(str(path), error.strerror or str(error)) from error


def _shown(values: Sequence[tuple[str, object]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values)
