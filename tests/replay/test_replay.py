"""The same seed gives the same event list, byte for byte, in processes that hash differently.

A single process can hide the fault: whatever walks a set walks it the same way twice.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dataward import write_workflow
from dataward.generate import generate

HASH_SEEDS = ("0", "1", "12345")
CASES = {
    "no faults": (),
    "chaos": ("--faults", "chaos", "--set", "lease_seconds=20", "--set", "validation_seconds=10"),
    "wrong estimates": ("--estimates", "1.0", "--faults", "slow=0.2"),
    "nothing known": ("--estimates", "unknown", "--faults", "crashes"),
    "background load": ("--faults", "background=0.3,slow=0.2", "--inputs", "spread"),
}


@pytest.fixture(scope="module")
def montage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "montage.json"
    write_workflow(generate("montage", 60, seed=1), path)
    return path


def events_of(montage: Path, into: Path, hash_seed: str, seed: int, *options: str) -> bytes:
    """What a process with this hash seed writes down of a run."""
    subprocess.run(
        [
            sys.executable, "-m", "dataward.cli.main", "simulate", montage, "--nodes", "8",
            "--seed", str(seed), "--events", into, *options,
        ],
        check=True,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )  # fmt: skip
    return into.read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_events_do_not_depend_on_the_hash_seed(montage: Path, tmp_path: Path, case: str) -> None:
    runs = [events_of(montage, tmp_path / h, h, 7, *CASES[case]) for h in HASH_SEEDS]

    assert len(runs[0]) > 1000
    assert runs[1:] == [runs[0]] * 2


def test_events_depend_on_the_seed(montage: Path, tmp_path: Path) -> None:
    one, other = (
        events_of(montage, tmp_path / str(seed), "0", seed, *CASES["chaos"]) for seed in (1, 2)
    )

    assert one != other


def test_what_a_seed_heals_does_not_depend_on_the_hash_seed() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-m", "dataward.cli.main", "seeds", "--seed", "19", "--json"],
            check=True,
            capture_output=True,
            timeout=60,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in HASH_SEEDS
    ]

    assert b'"repeated"' in said[0]
    assert said[1:] == [said[0]] * 2
