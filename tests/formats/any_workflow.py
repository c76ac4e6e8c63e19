"""Hypothesis strategies for workflows: any at all, and plainly named ones."""

from hypothesis import strategies as st

from dataward.model.builder import SIZE_BYTES_MAX, Edges, WorkflowBuilder
from dataward.model.function_calls import CALL
from dataward.model.launch import launch_of
from dataward.model.workflow import Workflow

_any_text = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029"), min_size=1
)
_plain_text = st.from_regex(r"[0-9a-zA-Z_.-]{1,12}", fullmatch=True)
_any_word = st.text(st.characters(exclude_categories=["Cs"]))
_variables = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0="), min_size=1)
_values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@st.composite
def workflows(draw: st.DrawFn, *, plain: bool = False) -> Workflow:
    names = _plain_text if plain else _any_text
    words = _plain_text if plain else _any_word
    ids = draw(st.lists(names, min_size=1, max_size=8, unique=True))
    files = draw(st.lists(names, max_size=8, unique=True))
    some_files = st.lists(st.sampled_from(files), max_size=4) if files else st.just([])
    builder = WorkflowBuilder(draw(names))
    for file in files:
        path = draw(st.just("") | names)
        builder.file(file, draw(st.integers(-1, SIZE_BYTES_MAX)), path=path)
    a_file = st.sampled_from(["", *(file for file in files if not file.endswith("/"))])
    launches = st.builds(
        launch_of, a_file, a_file, a_file, st.dictionaries(_variables, _values, max_size=2)
    )
    rank = draw(st.permutations(ids))
    for id in ids:
        earlier = rank[: rank.index(id)]
        command = draw(st.none() | st.lists(words, min_size=int(plain), max_size=4))
        builder.task(
            id,
            name=draw(st.just("") | names),
            command=command,
            inputs=draw(some_files),
            outputs=draw(some_files),
            after=draw(st.lists(st.sampled_from(earlier), max_size=4)) if earlier else [],
            runtime_seconds=draw(st.floats(0, 1e11)),
            cores=draw(st.integers(1, 1000)),
            memory_bytes=draw(st.integers(0, SIZE_BYTES_MAX)),
            retries=draw(st.none() | st.integers(0, 9)),
            launch=None if command and command[0] == CALL else draw(st.none() | launches),
        )
    return builder.build(Edges.DECLARED)
