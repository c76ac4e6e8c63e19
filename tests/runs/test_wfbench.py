"""WfCommons' own benchmarks, generated and run where WfCommons is installed."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runs.real_runs import OUTPUTS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("wfcommons") is None, reason="wfcommons is not installed"
)

# In a process of its own: importing WfCommons warns and sets up logging. Its smallest recipe.
GENERATE = """
from pathlib import Path
from wfcommons.wfbench import WorkflowBenchmark
from wfcommons.wfchef.recipes import SrasearchRecipe

benchmark = WorkflowBenchmark(recipe=SrasearchRecipe, num_tasks=30)
print("\\n", benchmark.create_benchmark(Path("bench"), cpu_work=1, data=1))
"""


def test_a_benchmark_of_wfcommons_runs_to_its_end(run, monkeypatch):
    places = [Path(sys.executable).parent, *os.environ["PATH"].split(":"), Path("bin").absolute()]
    monkeypatch.setenv("PATH", ":".join(map(str, places)))
    if not shutil.which("stress-ng"):  # WfBench keeps cores busy by it; files are what counts here
        Path("bin").mkdir()
        Path("bin/stress-ng").write_text("#!/bin/sh\n")
        Path("bin/stress-ng").chmod(0o755)
    said = subprocess.run(
        [sys.executable, "-c", GENERATE], stdout=subprocess.PIPE, text=True, check=True
    )
    bench = Path(said.stdout.split()[-1])
    described = json.loads(bench.read_text())["workflow"]["specification"]
    sizes = {file["id"]: file["sizeInBytes"] for file in described["files"]}
    outputs = [file for task in described["tasks"] for file in task["outputFiles"]]

    end = run(bench, "--keep", "all", "--out", "w.run")

    assert end.counts == (len(described["tasks"]), 0, 0, 0), end.reasons
    written = {path.name: path.stat().st_size for path in OUTPUTS.iterdir()}
    assert written == {file: sizes[file] for file in outputs}
