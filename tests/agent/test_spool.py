"""No line is lost or doubled between the containers and the control plane."""

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from det_agent.spool import Batch, Spool, SpoolFull
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.full_disk import full_disk


def lines(first: int, last: int) -> list[bytes]:
    return [b'{"log":"%d"}' % i for i in range(first, last + 1)]


def drain(spool: Spool) -> list[bytes]:
    drained: list[bytes] = []
    while batch := spool.next_batch(max_lines=3):
        drained += batch.lines
        spool.acknowledge(batch)
    return drained


OpenSpool = Callable[..., Spool]


@pytest.fixture
def open_spool(tmp_path: Path) -> Iterator[OpenSpool]:
    """Open the spool of this test. Opening it again simulates a restart after a crash."""
    opened: list[Spool] = []

    def open_it(**limits: int) -> Spool:
        opened.append(Spool(tmp_path, **limits))
        return opened[-1]

    yield open_it
    for spool in opened:
        spool.close()


@pytest.fixture
def spool(open_spool: OpenSpool) -> Spool:
    return open_spool()


def test_lines_keep_their_order(spool: Spool) -> None:
    spool.append(lines(1, 4))
    spool.append(lines(5, 8))
    assert drain(spool) == lines(1, 8)
    assert spool.next_batch() is None


def test_batch_is_unchanged_until_it_is_acknowledged(spool: Spool) -> None:
    spool.append(lines(1, 2))
    first = spool.next_batch()
    spool.append(lines(3, 4))
    assert spool.next_batch() == first
    assert first is not None
    spool.acknowledge(first)
    second = spool.next_batch()
    assert second is not None
    assert list(second.lines) == lines(3, 4)


def test_unacknowledged_batch_keeps_its_id_after_a_crash(
    open_spool: OpenSpool,
) -> None:
    before = open_spool()
    before.append(lines(1, 2))
    batch = before.next_batch()
    before.append(lines(3, 4))
    after = open_spool()
    second_batch = after.next_batch()
    assert second_batch is not None
    assert batch is not None
    assert (second_batch.id, second_batch.lines) == (batch.id, batch.lines)
    after.acknowledge(second_batch)
    assert drain(after) == lines(3, 4)


def test_lines_with_a_repeated_key_are_stored_once(open_spool: OpenSpool) -> None:
    before = open_spool()
    before.append(lines(1, 2), "a")
    before.append(lines(1, 2), "a")
    before.append(lines(3, 4), "b")
    after = open_spool()
    after.append(lines(3, 4), "b")
    after.append(lines(5, 6), "c")
    assert drain(after) == lines(1, 6)
    assert not after.wait_for_lines(0, threading.Event())


def test_keys_are_remembered_after_several_restarts(open_spool: OpenSpool) -> None:
    before = open_spool(segment_bytes=10)
    before.append(lines(1, 2), "a")
    before.append(lines(3, 4), "b")
    for _ in range(3):
        open_spool()
    after = open_spool()
    after.append(lines(1, 2), "a")
    after.append(lines(3, 4), "b")
    assert drain(after) == lines(1, 4)


def test_keys_of_sent_lines_are_remembered_after_a_restart(open_spool: OpenSpool) -> None:
    before = open_spool()
    before.append(lines(1, 3), "a")
    assert drain(before) == lines(1, 3)
    after = open_spool()
    after.append(lines(1, 3), "a")
    assert drain(after) == lines(1, 3), "the last batch is sent again with its id"


def test_incomplete_line_is_dropped_after_a_crash(open_spool: OpenSpool, tmp_path: Path) -> None:
    before = open_spool()
    before.append(lines(1, 1))
    with open(tmp_path / "00000001.ndjson", "ab") as segment:
        segment.write(b'{"log":"ha')
    after = open_spool()
    after.append(lines(2, 2))
    assert drain(after) == lines(1, 2)


def test_sent_segments_are_deleted(open_spool: OpenSpool, tmp_path: Path) -> None:
    spool = open_spool(segment_bytes=40)
    for i in range(1, 30):
        spool.append(lines(i, i))
    assert len(list(tmp_path.glob("*.ndjson"))) > 5
    assert drain(spool) == lines(1, 29)
    assert len(list(tmp_path.glob("*.ndjson"))) == 1


def test_full_spool_rejects_lines_until_some_are_sent(
    open_spool: OpenSpool,
) -> None:
    spool = open_spool(max_bytes=100, segment_bytes=40)
    for i in range(8):
        spool.append(lines(i, i))
    with pytest.raises(SpoolFull, match="unsent logs"):
        spool.append(lines(8, 8))
    drain(spool)
    spool.append(lines(1, 1))
    assert drain(spool) == lines(1, 1)


@pytest.mark.parametrize("room", [0, 5, 1600])
def test_full_disk_rejects_lines_until_it_has_room(open_spool: OpenSpool, room: int) -> None:
    spool = open_spool()
    spool.append([b"a" * 1000])
    with full_disk(1001 + room), pytest.raises(SpoolFull, match="disk takes no more logs"):
        spool.append([b"b" * 1000, b"c" * 1000], "key")
    spool.append([b"b" * 1000, b"c" * 1000], "key")
    spool.append([b"d"])
    expected = [b"a" * 1000, b"b" * 1000, b"c" * 1000, b"d"]
    assert drain(spool) == expected
    assert not spool.wait_for_lines(0, threading.Event())


def test_failed_file_creation_rejects_lines_without_loss(
    open_spool: OpenSpool, tmp_path: Path
) -> None:
    spool = open_spool(segment_bytes=10)
    spool.append(lines(1, 1))
    (tmp_path / "00000002.ndjson").mkdir()
    with pytest.raises(SpoolFull):
        spool.append(lines(2, 2))
    (tmp_path / "00000002.ndjson").rmdir()
    spool.append(lines(2, 2))
    assert drain(spool) == lines(1, 2)


@pytest.mark.parametrize("before", [0, 2])
def test_batches_are_sent_from_a_full_disk(
    open_spool: OpenSpool, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    spool = open_spool()
    spool.append(lines(1, before))
    drain(spool)
    spool.append(lines(3, 5))

    def no_room(path: Path, value: str | bytes) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr("det_agent.spool.write_atomically", no_room)
    batch = spool.next_batch(max_lines=1)
    after = open_spool()
    assert batch is not None
    assert after.next_batch(max_lines=1) == batch, "the position was stored despite the full disk"
    assert drain(after) == lines(3, 5)


def test_new_lines_reuse_the_room_of_sent_lines_on_a_full_disk(
    open_spool: OpenSpool, tmp_path: Path
) -> None:
    spool = open_spool()
    for text in (b"a", b"b", b"c"):
        with full_disk(1500):
            spool.append([text * 1000])
        assert drain(spool) == [text * 1000]
    assert sum(path.stat().st_size for path in tmp_path.glob("*.ndjson")) == 1001


def test_batch_is_not_sent_until_its_position_is_stored(
    open_spool: OpenSpool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash it would be sent again under another id."""
    spool = open_spool()
    spool.append(lines(1, 2))
    (tmp_path / "position.json").unlink()
    (tmp_path / "position.json").mkdir()
    for _ in range(2):
        with pytest.raises(OSError, match="directory"):
            spool.next_batch()
    (tmp_path / "position.json").rmdir()
    assert drain(spool) == lines(1, 2)


@pytest.mark.parametrize("remove", [Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("deleted", [1, 2])
def test_deleted_or_emptied_segment_does_not_block_other_lines(
    open_spool: OpenSpool, tmp_path: Path, deleted: int, remove: Callable[[Path], object]
) -> None:
    spool = open_spool(segment_bytes=10)
    spool.append(lines(1, 1))
    spool.append(lines(2, 2))
    remove(tmp_path / f"{deleted:08d}.ndjson")
    remaining_lines = drain(spool) + drain(spool)
    assert remaining_lines == lines(3 - deleted, 3 - deleted)
    spool.append(lines(3, 3))
    assert drain(spool) == lines(3, 3)
    assert spool.wait_until_sent(spool.written(), timeout_s=0)


def test_batches_are_limited_by_bytes(spool: Spool) -> None:
    spool.append([b"x" * 1000] * 10)
    batch = spool.next_batch(max_bytes=2500)
    assert batch is not None
    assert len(batch.lines) == 3


def test_wait_until_sent_ignores_later_lines(
    open_spool: OpenSpool,
) -> None:
    spool = open_spool(segment_bytes=40)
    assert spool.wait_until_sent(spool.written(), timeout_s=0)
    for i in range(1, 9):
        spool.append(lines(i, i))
    place = spool.written()
    assert not spool.wait_until_sent(place, timeout_s=0)
    drain(spool)
    spool.append(lines(9, 9))
    assert spool.wait_until_sent(place, timeout_s=0)
    assert not spool.wait_until_sent(spool.written(), timeout_s=0)


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["append", "send", "acknowledge", "crash"]), max_size=40))
def test_every_line_is_stored_once_in_order_after_any_events(
    tmp_path_factory: pytest.TempPathFactory, events: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spool, line_count, batches = Spool(folder, segment_bytes=60), 0, dict[str, Batch]()
    for event in [*events, "send", "acknowledge"]:
        if event == "append":
            spool.append(lines(line_count + 1, line_count + 2))
            line_count += 2
        elif event == "crash":
            spool.close()
            spool = Spool(folder, segment_bytes=60)
        elif batch := spool.next_batch(max_lines=3):
            assert batches.setdefault(batch.id, batch).lines == batch.lines
            if event == "acknowledge":
                spool.acknowledge(batch)
    while batch := spool.next_batch(max_lines=3):
        batches.setdefault(batch.id, batch)
        spool.acknowledge(batch)
    assert [line for batch in batches.values() for line in batch.lines] == lines(1, line_count)
    spool.close()


def test_lines_are_unsent_until_they_are_acknowledged(open_spool: OpenSpool) -> None:
    spool = open_spool()
    assert not spool.has_unsent()
    spool.append(lines(1, 2))
    batch = spool.next_batch()
    assert batch is not None
    assert spool.has_unsent()
    assert open_spool().has_unsent(), "the next process of the agent must send them"
    spool.acknowledge(batch)
    assert not spool.has_unsent()
