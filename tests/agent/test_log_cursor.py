"""The next process of the agent knows how far a log was read."""

from pathlib import Path

import pytest
from det_agent.log_cursor import LogCursor


def test_last_written_cursor_is_read_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "c.stdout"
    with LogCursor.at(path) as cursor:
        assert cursor.read() == ""
        cursor.write("2026-11-27T10:00:00.123456789Z#12")
        cursor.write("2026-11-27T10:00:01Z#1")
    with LogCursor.at(path) as cursor:
        assert cursor.read() == "2026-11-27T10:00:01Z#1"


@pytest.mark.parametrize("left", [b"", bytes(64), b"1234"])
def test_reads_damaged_and_older_cursor_files(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "c.stdout"
    path.write_bytes(left)
    with LogCursor.at(path) as cursor:
        assert cursor.read() == left.strip(b"\0").decode()


@pytest.mark.parametrize("strange", ["x" * 65, "not\ufffdtext"])
def test_invalid_cursor_can_be_overwritten(tmp_path: Path, strange: str) -> None:
    with LogCursor.at(tmp_path / "c.stdout") as cursor:
        cursor.write(strange)
        cursor.write("12")
        assert cursor.read() == "12"


def test_unwritable_cursor_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LogCursor.at(tmp_path / "missing" / "c.stdout") as cursor:
        assert cursor.read() == ""
        cursor.write("1")
        (tmp_path / "missing").mkdir()
        cursor.write("2")
        assert cursor.read() == "2"
    (warning,) = (r.getMessage() for r in caplog.records if r.levelname == "WARNING")
    assert "cannot be noted" in warning
