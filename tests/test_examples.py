"""Each file of docs/examples runs as a stranger would run it, and prints what is kept beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "docs" / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_is_kept_beside_it(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stderr == ""
    assert done.stdout == example.with_suffix(".txt").read_text(encoding="utf-8")


def test_the_word_count_really_counts(tmp_path: Path) -> None:
    example = next(path for path in EXAMPLES if path.stem == "word_count")
    subprocess.run([sys.executable, example], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "book.txt").write_text("a rose is a rose\nis a rose\nis a rose\n" * 5)

    run_all = (
        "import subprocess, dataward\n"
        "workflow = dataward.read_workflow('word-count.json')\n"
        "for i in workflow.layers.order:\n"
        "    subprocess.run(workflow.commands[i], check=True)\n"
    )
    subprocess.run([sys.executable, "-c", run_all], cwd=tmp_path, check=True)

    counts = [line.split() for line in (tmp_path / "words.txt").read_text().splitlines()]
    assert sorted(counts) == [["15", "is"], ["20", "a"], ["20", "rose"]]
