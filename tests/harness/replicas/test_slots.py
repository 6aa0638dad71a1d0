"""Files of replicas: an interrupted write or damaged memory leaves the replica before valid."""

import os
from pathlib import Path

import pytest
import torch
from determined.replicas import _states
from determined.replicas._slots import DATA_AT, Folder, Header, read_header


def header(sequence: int, item: str = "state") -> Header:
    return Header(item, 1, sequence, 10 * sequence, 1, True, False)


def store(folder: Folder, sequence: int, state: object, item: str = "state") -> Header:
    encoded = _states.encode(state)
    slot = folder.slot(item, sequence)
    _states.fill(slot.reserve(encoded.size + len(encoded.skeleton)), encoded)
    sizes = {"data": encoded.size, "skeleton": len(encoded.skeleton)}
    return slot.commit(Header(**{**vars(header(sequence, item)), **sizes}))


def load(folder: Folder, stored: Header) -> object:
    content = folder.read(stored)
    assert content is not None
    return _states.decode(content, stored.data)


def test_states_of_tensors_and_of_bytes_are_read_as_stored(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    weights = torch.arange(6.0).reshape(2, 3).t()
    stored = store(
        folder, 1, {"weights": weights, "names": ["a", ("b", 2)], "empty": torch.empty(0)}
    )
    restored = load(folder, stored)
    assert isinstance(restored, dict)
    assert torch.equal(restored["weights"], weights)
    assert restored["names"] == ["a", ("b", 2)]
    assert load(folder, store(folder, 2, b"bytes", "rank-0")) == b"bytes"


def test_two_replicas_are_kept_and_the_third_replaces_the_first(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    for sequence in (1, 2, 3):
        store(folder, sequence, f"state {sequence}".encode())
    assert sorted(h.sequence for h in folder.headers()) == [2, 3]


def test_interrupted_write_leaves_the_replica_before(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    store(folder, 1, b"one")
    second = store(folder, 2, b"two")
    # The process ends after it began to overwrite the first replica.
    folder.slot("state", 3).reserve(100)[DATA_AT : DATA_AT + 3] = b"thr"
    assert Folder(str(tmp_path)).headers() == [second]
    assert load(Folder(str(tmp_path)), second) == b"two"


@pytest.mark.parametrize("position", [0, 10, 30, DATA_AT, DATA_AT + 20])
def test_damaged_byte_is_detected(tmp_path: Path, position: int) -> None:
    folder = Folder(str(tmp_path))
    stored = store(folder, 1, torch.ones(10))
    path = tmp_path / "state.1"
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert folder.read(stored) is None


@pytest.mark.parametrize("content", [b"", b"short", bytes(DATA_AT), b"DETREPL1" + b"\xff" * 100])
def test_file_without_a_header_has_no_item(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state.0").write_bytes(content)
    assert read_header(str(tmp_path / "state.0")) is None


def test_smaller_state_gives_memory_back(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    store(folder, 1, torch.ones(1_000_000))
    store(folder, 3, torch.ones(10))
    assert folder.used_bytes() < 1_000_000


def test_full_memory_is_an_error_and_not_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        Folder(str(tmp_path)).slot("state", 1).reserve(1000)
