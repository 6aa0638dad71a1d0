"""Lines of containers and the cursor for the next read. Engines write the times of lines in different precisions."""

from collections.abc import Iterator
from typing import Any

import pytest
from det_agent.docker_output import read_output

SECOND = "2026-11-22T16:25:04"
# Times of Docker with and without trailing zeros, and of Podman.
CLOCKS = (
    ("2026-11-22T16:25:04.100000001Z", "2026-11-22T16:25:04.100000002Z"),
    ("2026-11-22T16:25:04.1Z", "2026-11-22T16:25:04.11Z"),
    (f"{SECOND}Z", f"{SECOND}Z"),
)


class Engine:
    """Returns log lines from the requested second on, as engines do."""

    def __init__(self, *frames: str) -> None:
        self._frames = frames

    def logs(self, _: str, **options: Any) -> Iterator[bytes]:
        self.asked = options
        for frame in self._frames:
            yield frame.encode()


def lines(engine: Engine, cursor: str = "", follow: bool = False) -> list[tuple[str, str]]:
    output = read_output(engine, "id", "stdout", cursor, follow)
    return [(line.text, line.cursor) for line in output]


@pytest.mark.parametrize("clock", CLOCKS)
def test_reading_continues_after_the_cursor_of_each_line(clock: tuple[str, str]) -> None:
    first, second = clock
    engine = Engine(f"{first} a\n", f"{first} a\n", f"{second} b\n", f"{second} c\n")
    output_lines = lines(engine)
    assert [text for text, _ in output_lines] == ["a", "a", "b", "c"]
    for count, (_, cursor) in enumerate(output_lines, 1):
        assert lines(engine, cursor) == output_lines[count:]


def test_engine_returns_lines_from_the_second_of_the_cursor() -> None:
    engine = Engine(f"{SECOND}Z a\n")
    assert lines(engine)
    assert engine.asked["since"] is None
    lines(engine, f"{SECOND}.123000000Z#2")
    assert engine.asked["since"] == 1795364704


def test_parts_of_a_line_are_joined_with_the_time_of_the_first() -> None:
    engine = Engine(f"{SECOND}.1Z aa", f"{SECOND}.2Z bb", f"{SECOND}.3Z c\n", f"{SECOND}.4Z next\n")
    (long, cursor), (short, _) = lines(engine)
    assert (long, short) == ("aabbc", "next")
    assert [text for text, _ in lines(engine, cursor)] == ["next"]


def test_unterminated_last_line_is_returned_after_the_end() -> None:
    engine = Engine(f"{SECOND}Z done\n", f"{SECOND}Z end")
    (done, cursor), (end, _) = lines(engine)
    assert (done, end) == ("done", "end")
    assert lines(engine, cursor, follow=True) == []
    assert [text for text, _ in lines(engine, cursor)] == ["end"]
