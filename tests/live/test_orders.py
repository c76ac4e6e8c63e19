"""Messages between a node and its runner processes, however they are cut up on the way."""

from hypothesis import given
from hypothesis import strategies as st

from dataward.live.orders import (
    Cancel,
    Frames,
    Input,
    Limits,
    Order,
    Recall,
    Report,
    RunnerMessage,
    Written,
    framed,
)
from dataward.model.launch import Launch

words = st.text(max_size=20)
numbers = st.integers(0, 2**40)
seconds = st.floats(0, 1e9)
launches = st.builds(
    Launch, words, words, words, st.lists(st.tuples(words, words), max_size=2).map(tuple)
)
orders = st.builds(
    Order,
    words,
    st.lists(words, max_size=4).map(tuple),
    st.booleans(),
    st.lists(st.builds(Input, words, words, st.booleans()), max_size=3).map(tuple),
    st.lists(words, max_size=3).map(tuple),
    words,
    words,
    numbers,
    st.builds(Limits, seconds, numbers, numbers, seconds),
    seconds,
    st.none() | launches,
)
reports = st.builds(
    Report,
    seconds,
    words,
    numbers,
    numbers,
    seconds,
    seconds,
    numbers,
    outputs=st.lists(st.builds(Written, words, numbers, words, words), max_size=3).map(tuple),
    spoiled=st.lists(words, max_size=3).map(tuple),
    gone=words,
    not_begun=st.booleans(),
)
messages = st.one_of(orders, reports, st.just(Cancel()), st.just(Recall()))


@given(
    st.lists(st.lists(st.tuples(numbers, messages), max_size=4), max_size=4),
    st.integers(1, 200),
)
def test_what_was_sent_arrives_whole_and_in_order(
    frames: list[list[tuple[int, RunnerMessage]]], piece: int
) -> None:
    stream = b"".join(framed(frame) for frame in frames)
    reader = Frames()

    arrived = [
        message
        for start in range(0, len(stream), piece)
        for message in reader.add(stream[start : start + piece])
    ]

    sent = [message for frame in frames for message in frame]
    assert arrived == sent
    assert [type(message) for _, message in arrived] == [type(message) for _, message in sent]
