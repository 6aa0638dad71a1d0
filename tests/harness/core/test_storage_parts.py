"""Stretches of files as uploads read them."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from determined.common.storage import _parts
from determined.common.storage._parts import FilePart


def lend(size: int) -> memoryview:
    return memoryview(bytearray(size))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(_parts, "PIECE_BYTES", 1000)
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(10_000))
    return path


@pytest.mark.parametrize(("start", "length"), [(0, 10_000), (2500, 3001), (9999, 1), (400, 999)])
def test_pieces_and_whole_are_the_same_stretch(file: Path, start: int, length: int) -> None:
    part = FilePart(str(file), start, length, lend)
    expected = file.read_bytes()[start : start + length]
    pieces = [bytes(piece) for piece in part.pieces()]
    assert b"".join(pieces) == expected == bytes(part.whole())
    assert max(map(len, pieces)) <= 1000
    assert part.crc32 == zlib.crc32(expected)


def test_the_checksum_is_that_of_the_attempt_that_ran_to_its_end(file: Path) -> None:
    part = FilePart(str(file), 0, 10_000, lend)
    next(part.pieces())  # a connection that breaks
    file.write_bytes(b"x" * 10_000)
    for _ in part.pieces():
        pass
    assert part.crc32 == zlib.crc32(b"x" * 10_000)


def test_a_file_that_shrinks_is_not_taken_for_a_shorter_one(file: Path) -> None:
    part = FilePart(str(file), 5000, 5000, lend)
    os.truncate(file, 7500)
    with pytest.raises(OSError, match=r"weights changed while it was uploaded.*before byte 10000"):
        part.whole()
    with pytest.raises(OSError, match="changed"):
        list(part.pieces())


@pytest.mark.parametrize("installed", [True, False])
def test_sums_are_the_same_with_and_without_isal(file: Path, installed: bool) -> None:
    hide = "" if installed else "sys.modules['isal'] = None; "
    code = (
        f"import sys; {hide}from determined.common.storage._crc import crc32\n"
        "rest = open(sys.argv[1], 'rb').read()\n"
        "print(crc32.__module__, crc32(rest[3000:], crc32(rest[:3000])))"
    )
    command = [sys.executable, "-c", code, str(file)]
    module, total = subprocess.run(command, capture_output=True, check=True).stdout.split()
    assert module.startswith(b"isal") == installed
    assert int(total) == zlib.crc32(file.read_bytes())
