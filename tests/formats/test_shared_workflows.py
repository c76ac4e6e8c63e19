"""Every published trace at hand loads with the counts its README states."""

import re
from pathlib import Path

import pytest

from dataward.formats import parse_workflow, read_workflow, render

SHARED = Path(__file__).parents[3] / "shared" / "workflows"
LINE = re.compile(r"- (\S+): .*?(\d+) tasks; (\d+) files; (\d+) edges")


def listed() -> list[tuple[str, tuple[int, int, int]]]:
    if not (SHARED / "README.md").exists():
        return []
    found, folder = [], ""
    for line in (SHARED / "README.md").read_text().splitlines():
        if line.startswith("## "):
            folder = line.split()[1]
        elif match := LINE.match(line):
            counts = (int(match[2]), int(match[3]), int(match[4]))
            found.append((folder + match[1], counts))
    return found


needs_shared = pytest.mark.skipif(not listed(), reason="the shared workflows are not here")


@needs_shared
def test_the_readme_lists_every_file() -> None:
    files = {str(p.relative_to(SHARED)) for p in SHARED.glob("*/*") if p.is_file()}

    assert files == {name for name, _ in listed()}


@needs_shared
@pytest.mark.parametrize(("name", "counts"), listed())
def test_a_trace_has_the_tasks_files_and_edges_its_readme_lists(
    name: str, counts: tuple[int, int, int]
) -> None:
    workflow = read_workflow(SHARED / name)

    assert (len(workflow), len(workflow.file_ids), workflow.edge_count) == counts


@needs_shared
@pytest.mark.parametrize("name", [name for name, _ in listed()])
def test_a_trace_survives_being_written_and_read_again(name: str) -> None:
    workflow = read_workflow(SHARED / name)

    for version in ("1.5", "1.6"):
        assert parse_workflow(b"".join(render(workflow, version))) == workflow


@needs_shared
def test_a_trace_without_declared_edges_warns_that_files_imply_some() -> None:
    workflow = read_workflow(SHARED / "wfformat/bacass-dirt02-001.schema-v1.4.json")

    # Four of its file names have two producers, which account for 8 of the 18.
    assert workflow.edge_count == 0
    assert any("files imply 18 edges" in warning for warning in workflow.warnings)


@needs_shared
def test_one_trace_has_the_same_tasks_and_edges_in_every_version() -> None:
    base = "wfformat/srasearch-chameleon-10a-001"
    newest = read_workflow(SHARED / f"{base}.json")

    for version in ("1.0", "1.2", "1.3", "1.4"):
        older = read_workflow(SHARED / f"{base}.schema-v{version}.json")
        assert sorted(older.task_ids) == sorted(newest.task_ids)
        assert edges(older) == edges(newest)
        assert runtimes(older) == runtimes(newest)
        assert memory(older) == memory(newest)


@needs_shared
def test_decimal_commas_are_run_times() -> None:
    workflow = read_workflow(SHARED / "dax/adage_Montage_1000.xml")

    assert workflow.task(0).runtime_seconds == 13.93


def edges(workflow):  # type: ignore[no-untyped-def]
    ids = workflow.task_ids
    owners = workflow.parents.owners().tolist()
    return {
        (ids[p], ids[c]) for c, p in zip(owners, workflow.parents.targets.tolist(), strict=True)
    }


def runtimes(workflow):  # type: ignore[no-untyped-def]
    return dict(zip(workflow.task_ids, workflow.runtime_seconds.tolist(), strict=True))


def memory(workflow):  # type: ignore[no-untyped-def]
    return dict(zip(workflow.task_ids, workflow.memory_bytes.tolist(), strict=True))
