"""Parts of files, as uploads read them."""

import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
from determined.common.storage import _transfer
from determined.common.storage._parts import FilePart, MemoryBudget
from determined.common.storage._transfer import MAX_PARTS, part_size_for

MIB = 1024 * 1024
MEMORY = MemoryBudget(MIB)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(10_000))
    return path


@pytest.mark.parametrize(("start", "length"), [(0, 10_000), (2500, 3001), (9999, 1), (400, 999)])
def test_stream_and_whole_part_have_the_same_bytes(file: Path, start: int, length: int) -> None:
    part = FilePart(str(file), start, length, MEMORY)
    expected = file.read_bytes()[start : start + length]
    with part.stream() as stream:
        assert len(stream) == length
        assert b"".join(iter(lambda: stream.read(1000), b"")) == expected
    assert part.crc32 == zlib.crc32(expected)
    second_part = FilePart(str(file), start, length, MEMORY)
    with second_part.whole() as body:
        assert body == expected
    assert second_part.crc32 == part.crc32


def test_checksum_belongs_to_the_completed_attempt(file: Path) -> None:
    part = FilePart(str(file), 0, 10_000, MEMORY)
    with part.stream() as stream:
        stream.read(1000)  # simulates a broken connection
        assert stream.tell() == 1000
        file.write_bytes(b"x" * 10_000)
        stream.seek(0)
        assert stream.read() == b"x" * 10_000
    assert part.crc32 == zlib.crc32(b"x" * 10_000)


def test_rejects_file_that_shrank_before_upload(file: Path) -> None:
    part = FilePart(str(file), 5000, 5000, MEMORY)
    os.truncate(file, 7500)
    with (
        pytest.raises(OSError, match=r"weights changed while it was uploaded.*before byte 10000"),
        part.whole(),
    ):
        pass
    with pytest.raises(OSError, match="changed"), part.stream():
        pass


def test_rejects_file_that_shrinks_during_upload(file: Path) -> None:
    with FilePart(str(file), 0, 10_000, MEMORY).stream() as stream:
        stream.read(1000)
        os.truncate(file, 1000)
        with pytest.raises(OSError, match="changed"):
            stream.read(1000)


@pytest.mark.parametrize("installed", [True, False])
def test_checksums_are_equal_with_and_without_isal(file: Path, installed: bool) -> None:
    hide = "" if installed else "sys.modules['isal'] = None; "
    code = (
        f"import sys; {hide}from determined.common.storage._parts import crc32\n"
        "rest = open(sys.argv[1], 'rb').read()\n"
        "print(crc32.__module__, crc32(rest[3000:], crc32(rest[:3000])))"
    )
    command = [sys.executable, "-c", code, str(file)]
    module, total = subprocess.run(command, capture_output=True, check=True).stdout.split()
    assert module.startswith(b"isal") == installed
    assert int(total) == zlib.crc32(file.read_bytes())


def test_whole_parts_wait_for_memory(file: Path) -> None:
    memory = MemoryBudget(5000)
    first, second = (FilePart(str(file), 0, 3000, memory) for _ in range(2))
    entered = threading.Event()

    def read() -> None:
        with second.whole():
            entered.set()

    reader = threading.Thread(target=read)
    with first.whole():
        reader.start()
        assert not entered.wait(0.2)
    assert entered.wait(60)
    reader.join()


@pytest.mark.parametrize(
    ("largest_file", "total", "largest_part", "expected"),
    [
        (100 * MIB, 100 * MIB, 32 * MIB, 8 * MIB),  # every thread has a part to send
        (512 * MIB, 2048 * MIB, 32 * MIB, 32 * MIB),
        (512 * MIB, 1024 * MIB, 32 * MIB, 16 * MIB),
        (512 * MIB, 2048 * MIB, 0, 8 * MIB),
        (300_000 * MIB, 300_000 * MIB, 32 * MIB, 32 * MIB),
        (300_000 * MIB, 300_000 * MIB, 0, 32 * MIB),
    ],
)
def test_part_size_grows_with_total_size(
    largest_file: int, total: int, largest_part: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_transfer, "PART_THREADS", 8)
    size = part_size_for(largest_file, total, largest_part)
    assert size == expected
    assert size * MAX_PARTS >= largest_file
