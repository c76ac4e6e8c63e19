"""Small workflows to test with."""

from hypothesis import strategies as st

from dataward.model.builder import WorkflowBuilder
from dataward.model.workflow import Workflow


def a_diamond() -> Workflow:
    """split -> (left, right) -> join, joined by files of 10, 20, 30 and 40 bytes."""
    wf = WorkflowBuilder("diamond")
    for file, size in [("in", 5), ("a", 10), ("b", 20), ("c", 30), ("d", 40), ("out", 50)]:
        wf.file(file, size)
    wf.task("split", inputs=["in"], outputs=["a", "b"], runtime_seconds=1.0)
    wf.task("left", inputs=["a"], outputs=["c"], runtime_seconds=2.0)
    wf.task("right", inputs=["b"], outputs=["d"], runtime_seconds=3.0)
    wf.task("join", inputs=["c", "d"], outputs=["out"], runtime_seconds=4.0)
    return wf.build()


@st.composite
def workflows(draw: st.DrawFn, max_tasks: int = 12, max_cores: int = 1) -> Workflow:
    """Random small workflows: every task writes one file and reads some earlier ones."""
    count = draw(st.integers(1, max_tasks))
    wf = WorkflowBuilder("random")
    for i in range(count):
        earlier = st.integers(0, i - 1) if i else st.nothing()
        reads = draw(st.lists(earlier, max_size=3, unique=True)) if i else []
        after = draw(st.lists(earlier, max_size=1)) if i else []
        wf.file(f"f{i}", draw(st.integers(0, 1000)))
        wf.task(
            f"t{i}",
            name=draw(st.sampled_from(["alpha", "beta"])),
            inputs=[f"f{r}" for r in reads] or ["source"],
            outputs=[f"f{i}"],
            after=[f"t{a}" for a in after],
            runtime_seconds=draw(st.integers(0, 20)) / 4,
            cores=draw(st.integers(1, max_cores)),
        )
    wf.file("source", 100)
    return wf.build()
