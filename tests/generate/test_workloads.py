"""The papers' synthetic workloads: MATRIX, PeerComp and the two taken from Falkon."""

import numpy as np
import pytest

from dataward.generate import generate
from dataward.generate.all_pairs import rectangle


@pytest.mark.parametrize("name", ["bag", "fan-in", "fan-out", "pipeline"])
def test_matrix_draws_are_uniform_up_to_100_ms_and_10_mb(name):
    workflow = generate(name, 20_000, seed=3)

    # MATRIX, Table 3. A uniform draw has its quartiles at the quarters.
    for values, most in ((workflow.runtime_seconds, 0.1), (workflow.size_bytes, 10e6)):
        assert values.min() >= 0
        assert values.max() <= most
        quartiles = np.quantile(values, [0.25, 0.5, 0.75]) / most
        assert quartiles == pytest.approx([0.25, 0.5, 0.75], abs=0.015)
    assert np.corrcoef(workflow.runtime_seconds, workflow.size_bytes)[0, 1] < 0.03


def test_a_bag_has_no_edges():
    assert generate("bag", 100).edge_count == 0


@pytest.mark.parametrize("degree", [1, 2, 10])
@pytest.mark.parametrize("tasks", [1, 2, 11, 12, 111, 500])
def test_fan_in_and_fan_out_mirror_each_other(tasks, degree):
    fan_in = generate("fan-in", tasks, degree=degree)
    fan_out = generate("fan-out", tasks, degree=degree)

    last = tasks - 1
    mirrored = sorted(
        (last - parent, last - task)
        for task, parents in enumerate(fan_in.parents.rows())
        for parent in parents
    )
    assert mirrored == sorted(
        (task, parent) for task, parents in enumerate(fan_out.parents.rows()) for parent in parents
    )
    assert (fan_out.parents.degrees()[1:] == 1).all()
    assert fan_out.children.degrees().max() <= degree
    assert (fan_out.children.degrees() == degree).sum() >= (tasks - 1) // degree


def test_a_full_tree_of_degree_10_has_three_levels_at_111_tasks():
    assert np.diff(generate("fan-out", 111).layers.starts).tolist() == [1, 10, 100]
    assert np.diff(generate("fan-in", 111).layers.starts).tolist() == [100, 10, 1]


def test_a_pipeline_is_chains_of_ten():
    workflow = generate("pipeline", 95)

    assert (workflow.parents.degrees() == 0).sum() == 10
    assert workflow.parents.degrees().max() == 1
    assert workflow.children.degrees().max() == 1
    assert np.diff(workflow.layers.starts).tolist() == [10] * 5 + [9] * 5


@pytest.mark.parametrize("locality", [1, 1.38, 5, 30])
def test_stacking_reads_each_image_as_often_as_its_locality(locality):
    workflow = generate("image-stacking", 1801, locality=locality)

    images = [i for i, file in enumerate(workflow.file_ids) if file.startswith("image_")]
    readers = workflow.consumers.degrees()[images]
    assert len(images) == round(1800 / locality)
    assert readers.sum() == 1800
    assert readers.max() - readers.min() <= 1
    assert (workflow.runtime_seconds == 0.158).all()
    assert (workflow.input_bytes()[:-1] == 2_000_000).all()
    assert (workflow.output_bytes() == 10_000).all()
    assert workflow.parents.row(1800).tolist() == list(range(1800))


def test_all_pairs_compares_each_with_each():
    workflow = generate("all-pairs", 400)

    pairs = {tuple(files) for files in workflow.inputs.rows()}
    assert len(pairs) == 400
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == 20
    assert (workflow.runtime_seconds == 0.1).all()
    assert (workflow.input_bytes() == 24_000_000).all()


def test_drawn_pairs_are_the_same_pairs_in_another_order():
    by_rows, drawn = (generate("all-pairs", 400, drawn=drawn) for drawn in (0, 1))

    rows, others = (
        [tuple(workflow.file_ids[file] for file in files) for files in workflow.inputs.rows()]
        for workflow in (by_rows, drawn)
    )
    assert rows == sorted(rows)
    assert others != rows
    assert sorted(others) == rows


def test_a_quarter_of_a_million_pairs_is_500_by_500():
    assert rectangle(250_000) == (500, 500)


def longest_path_seconds(workflow) -> float:
    finish = np.zeros(len(workflow))
    for task in workflow.layers.order.tolist():
        above = workflow.parents.row(task)
        finish[task] = finish[above].max(initial=0) + workflow.runtime_seconds[task]
    return float(finish.max())


@pytest.mark.parametrize(
    ("name", "tasks", "speed_up"), [("fork-join", 10, 3.3), ("laplace", 9, 1.8)]
)
def test_peercomp_workflows_have_the_largest_speed_up_of_its_table_2(name, tasks, speed_up):
    workflow = generate(name, tasks)

    reached = workflow.runtime_seconds.sum() / longest_path_seconds(workflow)
    assert reached == pytest.approx(speed_up, abs=0.04)


def test_a_fork_join_may_have_stages():
    workflow = generate("fork-join", 20, stages=3)

    assert np.diff(workflow.layers.starts).tolist() == [1, 4, 1, 1, 5, 1, 1, 5, 1]


def test_a_laplace_point_waits_for_its_two_neighbours():
    workflow = generate("laplace", 16)

    assert np.diff(workflow.layers.starts).tolist() == [1, 2, 3, 4, 3, 2, 1]
    assert sorted(workflow.parents.row(5).tolist()) == [1, 4]
