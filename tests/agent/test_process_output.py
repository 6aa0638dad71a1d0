"""The output that a container without an engine wrote is read to its last line."""

from pathlib import Path

import pytest
from det_agent import process_runtime
from det_agent.process_runtime import ProcessRuntime
from det_agent.runtime import ContainerKey, Started

STARTED = Started(ContainerKey("c", 1, "a", "t"), "1")


def read(root: Path, content: bytes, cursor: str = "") -> list[tuple[str, str]]:
    """Return text and cursor of each line that an ended container left."""
    folder = root / STARTED.key.place
    folder.mkdir(exist_ok=True)
    (folder / "stdout").write_bytes(content)
    runtime = ProcessRuntime(root, lambda: "cluster-1", (), root, root)
    return [(line.text, line.cursor) for line in runtime.output(STARTED, "stdout", cursor)]


def test_reads_all_output_of_an_ended_container(tmp_path: Path) -> None:
    texts = [f"{n:0100}" for n in range(100_000)]
    assert [text for text, _ in read(tmp_path, "\n".join(texts).encode())] == texts


@pytest.mark.parametrize("size", [4, 5, 6, 7, 100])
def test_lines_are_complete_at_every_read_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(process_runtime, "READ_BYTES", size)
    content = b"\na\r\nb\n\nc\n"
    lines = read(tmp_path, content)
    assert [text for text, _ in lines] == ["", "a", "b", "", "c"]
    assert lines[-1] == ("c", str(len(content)))


def test_unterminated_line_is_split_at_the_read_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_runtime, "READ_BYTES", 10)
    assert read(tmp_path, b"x" * 25) == [("x" * 10, "10"), ("x" * 10, "20"), ("x" * 5, "25")]


def test_reading_continues_after_the_cursor(tmp_path: Path) -> None:
    ((_, first), *_) = read(tmp_path, b"one\ntwo\n")
    assert [text for text, _ in read(tmp_path, b"one\ntwo\n", first)] == ["two"]
