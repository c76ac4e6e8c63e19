"""What pytest is told by the bench, and tells it: loaded by pytest itself, beside broken code.

In a rehearsal every test runs, and it is written down how long each took, whether it passed and,
if coverage is there, which lines it reached. In a trial the chosen tests run in the order given,
each with a time limit. An errand and what came of it are JSON files; see ``trials.py``.
"""

import faulthandler
import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

Errand = dict[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--errand", type=Path, help="what to do, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    errand = json.loads(config.getoption("errand").read_text())
    plugin = Trial(errand) if "tests" in errand else Rehearsal(errand)
    config.pluginmanager.register(plugin, "errand")
    _hurry_hypothesis()


def _hurry_hypothesis() -> None:
    """Whether there is an example that fails is all that is asked, not which is the smallest.

    What else the project's own profile says stays.
    """
    try:
        from hypothesis import Phase, settings
    except ImportError:
        return
    phases = (Phase.explicit, Phase.generate, Phase.target)
    profile = settings(settings.default, phases=phases, database=None)
    settings.register_profile("mutants", profile)
    settings.load_profile("mutants")


class Trial:
    """Runs the tests that were chosen, and says which was the first to fail."""

    def __init__(self, errand: Errand) -> None:
        self._limits: dict[str, float] = dict(errand["tests"])
        self._told = Path(errand["told"])
        self._failed = ""
        self._timed_out = open(errand["timed_out"], "w")  # noqa: SIM115 - written at its last moment

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self._limits if test in found]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        # A thread of C, so that not even code that never gives way outlives it.
        limit = self._limits[item.nodeid]
        faulthandler.dump_traceback_later(limit, exit=True, file=self._timed_out)
        self._told.with_suffix(".running").write_text(item.nodeid)
        result = yield
        faulthandler.cancel_dump_traceback_later()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failed:
            self._failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self._failed:
            self._failed = report.nodeid

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._timed_out.close()
        self._told.write_text(json.dumps({"status": exitstatus, "failed": self._failed}))


class Rehearsal:
    """Runs everything, and says how each test went."""

    def __init__(self, errand: Errand) -> None:
        self._told = Path(errand["told"])
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._skipped: set[str] = set()
        self._coverage = _started_coverage(errand)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began = monotonic()
        if self._coverage:
            self._coverage.switch_context(item.nodeid)
        result = yield
        if self._coverage:
            self._coverage.switch_context("")
        self._seconds[item.nodeid] = monotonic() - began
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.skipped:
            self._skipped.add(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._coverage:
            self._coverage.stop()
            self._coverage.save()
        others = self._failed | self._skipped
        passed = {test: s for test, s in self._seconds.items() if test not in others}
        told = {"status": exitstatus, "passed": passed, "failed": sorted(self._failed)}
        self._told.write_text(json.dumps(told))


def _started_coverage(errand: Errand) -> Any:
    if not errand["coverage"]:
        return None
    import coverage

    started = coverage.Coverage(
        data_file=errand["coverage"], config_file=False, include=errand["sources"], messages=False
    )
    # From where pytest was started, so that all copies of the project have the same names.
    started.set_option("run:relative_files", True)
    started.set_option("run:disable_warnings", ["module-not-measured", "no-data-collected"])
    started.start()
    return started
