"""Frames between agents and the relay: written frames can be read, and no stream exceeds its window."""

import pytest
from det_controlplane.core.relay_frames import (
    MAX_DATA,
    WINDOW,
    BadFrame,
    Cause,
    Credit,
    Data,
    End,
    Frame,
    Heartbeat,
    Open,
    Opened,
    Receiving,
    Reset,
    Sending,
    decoded,
    encoded,
)
from hypothesis import given
from hypothesis import strategies as st

STREAMS = st.integers(0, 2**32 - 1)
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.just(Heartbeat()),
    st.builds(Open, STREAMS, st.text(max_size=80), st.integers(1, 65535)),
    st.builds(Opened, STREAMS),
    st.builds(Data, STREAMS, st.binary(max_size=200)),
    st.builds(End, STREAMS),
    st.builds(Reset, STREAMS, st.sampled_from(Cause), st.text(max_size=80)),
    st.builds(Credit, STREAMS, st.integers(0, 2**32 - 1)),
)


@given(FRAMES)
def test_frame_is_decoded_unchanged(frame: Frame) -> None:
    assert decoded(encoded(frame)) == frame


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_rejected(message: bytes) -> None:
    try:
        frame = decoded(message)
    except BadFrame:
        return
    assert frame is None or decoded(encoded(frame)) == frame


def test_frame_kinds_of_later_versions_are_ignored() -> None:
    assert decoded(b"\xff\0\0\0\1anything") is None


@pytest.mark.parametrize(
    "message",
    [
        b"\3\0\0\0\1" + bytes(MAX_DATA + 2000),
        b"\1\0\0\0\1" + b'{"container": "c", "port": 65536}',
        b"\1\0\0\0\1" + b'{"container": 1, "port": 80}',
        b"\1\0\0\0\1" + b"[" * 900,
        b"\6\0\0\0\1\0",
        b"\3",
    ],
)
def test_rejects_oversized_and_unnamed_frames(message: bytes) -> None:
    with pytest.raises(BadFrame):
        decoded(message)


@given(
    st.lists(st.tuples(st.sampled_from(["send", "use"]), st.integers(1, 2 * WINDOW)), max_size=60)
)
def test_stream_never_exceeds_its_window_and_never_stalls(
    steps: list[tuple[str, int]],
) -> None:
    sending, receiving = Sending(), Receiving()
    for step, count in steps:
        if step == "send":
            receiving.came(sending.take(count))
        else:
            sending.allow(receiving.use(min(count, receiving.held)))
        assert 0 <= receiving.held <= WINDOW
        # Once everything that came is used, more may come.
        assert receiving.held > 0 or sending.left > 0


def test_rejects_data_beyond_the_window() -> None:
    receiving = Receiving()
    receiving.came(WINDOW)
    with pytest.raises(BadFrame):
        receiving.came(1)
    with pytest.raises(BadFrame):
        Sending().allow(1)
