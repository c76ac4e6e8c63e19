"""The search for our worst instances: the same for a seed, and what it writes can be replayed."""

from pathlib import Path

from bench.worst.instance import write_platform
from bench.worst.moves import CORES_MAX, NODES, TASKS, moved, random_instance
from bench.worst.search import OURS, annealed, makespan_seconds, worst_ratio
from dataward.formats.platform_yaml import read_platform
from dataward.formats.read import read_workflow
from dataward.formats.write import write_workflow
from dataward.model.seeds import seeded


def test_the_same_seed_finds_the_same_instance_and_another_restart_another() -> None:
    found = annealed(1, 0, steps=5)

    assert annealed(1, 0, steps=5) == found
    assert annealed(1, 1, steps=5).instance != found.instance


def test_what_is_found_is_no_better_for_us_than_what_the_search_began_with() -> None:
    found = annealed(1, 3, steps=8)

    first = random_instance(seeded(1, "worst", 3))
    assert found.ratio >= worst_ratio(first)[0]
    assert found.ratio == worst_ratio(found.instance)[0]


def test_after_any_moves_an_instance_can_still_be_run() -> None:
    random = seeded("moves")
    instance = random_instance(random)

    for _ in range(2000):
        instance = moved(random, instance)
        assert TASKS[0] <= len(instance.tasks) <= TASKS[1]
        assert NODES[0] <= len(instance.nodes) <= NODES[1]
        assert instance.copies <= len(instance.nodes)
        for number, task in enumerate(instance.tasks):
            assert all(parent < number for parent in task.parents)
            assert all(file < len(instance.inputs_bytes) for file in task.inputs)
    assert instance.workflow().cores.max() <= instance.cores_max <= CORES_MAX
    assert makespan_seconds(instance, OURS) > 0


def test_an_instance_is_written_as_simulate_reads_it(tmp_path: Path) -> None:
    instance = random_instance(seeded("written"))

    write_workflow(instance.workflow(), tmp_path / "w.json")
    write_platform(instance, tmp_path / "p.yaml")

    workflow = read_workflow(tmp_path / "w.json")
    assert workflow.task_ids == instance.workflow().task_ids
    assert read_platform(tmp_path / "p.yaml") == instance.platform()
