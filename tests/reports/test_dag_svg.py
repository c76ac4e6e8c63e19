"""Drawings of workflows: valid, complete, and of a size that can be looked at."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given

from builders import a_diamond, workflows
from dataward import Workflow, WorkflowBuilder, generate
from dataward.generate import SHAPES
from dataward.reports.dag_svg import GROUPS_MAX, TASKS_MAX, draw_workflow, untangled
from dataward.reports.svg import element, text

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text><script>alert(1)</script>]]>&\"'"


def parsed(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def words(root: ElementTree.Element) -> str:
    return "\n".join("".join(each.itertext()) for each in root.iter() if each.text)


def size(root: ElementTree.Element) -> tuple[float, float]:
    return float(root.attrib["width"]), float(root.attrib["height"])


def dots(root: ElementTree.Element) -> list[ElementTree.Element]:
    """The circles with a title: tasks, and not the legend's."""
    return [each for each in root.iter(f"{SVG}circle") if each.find(f"{SVG}title") is not None]


def boxes(root: ElementTree.Element) -> list[ElementTree.Element]:
    return list(root.iter(f"{SVG}g"))


def check_inside(root: ElementTree.Element) -> None:
    """Every dot and box lies on the page."""
    width, height = size(root)
    for dot in root.iter(f"{SVG}circle"):
        x, y, r = (float(dot.attrib[key]) for key in ("cx", "cy", "r"))
        assert r <= x <= width - r
        assert r <= y <= height - r
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.get("x", 0)), float(box.get("y", 0))
        assert 0 <= x <= x + float(box.attrib["width"]) <= width
        assert 0 <= y <= y + float(box.attrib["height"]) <= height


def test_a_small_workflow_has_a_dot_a_task_and_a_line_an_edge() -> None:
    root = parsed(draw_workflow(a_diamond()))

    assert len(dots(root)) == 4
    assert len(list(root.iter(f"{SVG}path"))) == 4
    assert "split (split), 1.00 s, reads 5 B, writes 30 B" in words(root)
    check_inside(root)


def test_children_are_drawn_below_their_parents() -> None:
    root = parsed(draw_workflow(a_diamond()))

    height = {words(dot).split(" ")[0]: float(dot.attrib["cy"]) for dot in dots(root)}
    assert height["split"] < height["left"] == height["right"] < height["join"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tasks", [36, 1024])
def test_every_shape_is_drawn_on_a_page_one_can_look_at(shape: str, tasks: int) -> None:
    workflow = generate(shape, tasks)

    root = parsed(draw_workflow(workflow))

    width, height = size(root)
    assert width <= 2400
    assert height <= 8000
    check_inside(root)
    if len(workflow) > TASKS_MAX:
        assert 1 <= len(boxes(root)) <= GROUPS_MAX
    else:
        assert len(dots(root)) == len(workflow)


def test_boxes_hold_all_tasks_and_lines_all_edges_between_them() -> None:
    workflow = generate("montage", 1000)

    root = parsed(draw_workflow(workflow))

    counts = [
        int(found.replace(",", "")) for found in re.findall(r": ([\d,]+) tasks,", words(root))
    ]
    assert sum(counts) == 1000
    labels = [each.text for each in root.iter(f"{SVG}text") if each.get("font-size") == "10"]
    assert sum(int((label or "").replace(",", "")) for label in labels) == workflow.edge_count


def test_a_line_past_other_boxes_goes_round_them() -> None:
    """Every mProjectPP feeds an mBackground four rows below: a straight line would be hidden."""
    root = parsed(draw_workflow(generate("montage", 1000)))

    centre = {float(box.attrib["x"]) for box in root.iter(f"{SVG}rect") if box.get("rx")}
    assert len(centre) == 1  # all in one column
    straight = [each for each in root.iter(f"{SVG}path") if _is_straight(each.attrib["d"])]
    assert len(list(root.iter(f"{SVG}path"))) - len(straight) == 1


def _is_straight(path: str) -> bool:
    return len({point.split(",")[0] for point in re.findall(r"[\d.]+,[\d.]+", path)}) == 1


@pytest.mark.parametrize("kinds", [1, 5000])
def test_a_chain_of_thousands_fits_on_a_page(kinds: int) -> None:
    wf = WorkflowBuilder("chain")
    for i in range(5000):
        wf.task(
            f"t{i}", name=f"kind{chr(97 + i % kinds)}" if kinds == 1 else f"k{i}k", after=_above(i)
        )

    drawing = draw_workflow(wf.build())

    width, height = size(parsed(drawing))
    assert width <= 2400
    assert height <= 5000
    assert len(drawing) < 100_000
    assert "5,000 tasks" in drawing


def _above(i: int) -> list[str]:
    return [f"t{i - 1}"] if i else []


def test_a_chain_of_the_most_dots_fits_on_a_page() -> None:
    wf = WorkflowBuilder("chain")
    for i in range(TASKS_MAX):
        wf.task(f"t{i}", name=f"k{i}k", after=_above(i))

    root = parsed(draw_workflow(wf.build()))

    assert size(root)[1] <= 5000
    assert len(dots(root)) == TASKS_MAX
    assert "120 more types" in words(root)
    check_inside(root)


def test_a_thousand_types_at_once_are_one_box() -> None:
    wf = WorkflowBuilder("zoo")
    for i in range(1000):
        wf.task(f"t{i}", name=f"k{i}k")

    root = parsed(draw_workflow(wf.build()))

    assert len(boxes(root)) == 1
    assert "1,000 types" in words(root)


@pytest.mark.parametrize("tasks", [3, TASKS_MAX + 50])
def test_hostile_names_are_words_and_not_markup(tasks: int) -> None:
    wf = WorkflowBuilder(HOSTILE)
    for i in range(tasks):
        wf.task(f"{HOSTILE}{i}", name=HOSTILE + "\ufffe\uffff", inputs=[HOSTILE])

    root = parsed(draw_workflow(wf.build()))

    assert "<script>" in words(root)
    assert not [each for each in root.iter() if each.tag.endswith("script")]


def test_attributes_and_text_are_escaped() -> None:
    drawn = parsed(element("g", text(1, 2, HOSTILE), data_name=HOSTILE))

    assert drawn.attrib["data-name"] == HOSTILE
    assert drawn[0].text == HOSTILE


@given(workflows())
def test_any_workflow_can_be_drawn_and_is_drawn_alike_twice(workflow: Workflow) -> None:
    drawing = draw_workflow(workflow)

    assert len(dots(parsed(drawing))) == len(workflow)
    assert draw_workflow(workflow) == drawing


def test_rows_are_ordered_so_that_lines_cross_less() -> None:
    rows = untangled([[0, 1], [2, 3]], {0: [3], 1: [2], 2: [1], 3: [0]})

    assert [rows[0].index(0), rows[0].index(1)] == [rows[1].index(3), rows[1].index(2)]
