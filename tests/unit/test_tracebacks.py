"""The exception with which the output of a program ends."""

import pytest
from det_controlplane.core.tracebacks import last_error, last_exception

BEGIN = "Traceback (most recent call last):"
PLACE = '  File "train.py", line 3, in <module>'


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], ""),
        (["epoch 1", "ValueError: only a message"], ""),
        ([BEGIN, PLACE, "    main()", "ValueError: bad", "stopping"], "ValueError: bad"),
        ([f"ERROR: [7] root: {BEGIN}", PLACE, "torch.OutOfMemoryError: 2 GiB"], "torch.OutOfMemoryError: 2 GiB"),
        ([BEGIN, PLACE, "KeyError: 'a'", "During handling:", "", BEGIN, PLACE, "Lost"], "Lost"),
        ([BEGIN, PLACE, "", "Stopped: here"], "Stopped: here"),
        ([BEGIN, PLACE], ""),
    ],
)  # fmt: skip
def test_last_exception_is_the_line_after_the_last_traceback(lines: list[str], told: str) -> None:
    assert last_exception(lines) == told


def test_error_logged_within_a_traceback_is_not_its_exception() -> None:
    assert last_exception([BEGIN, "ERROR: lost contact", PLACE, "KeyError: 'a'"]) == "KeyError: 'a'"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], ""),
        (["epoch 1", "an ERROR: in words"], ""),
        (["ERROR: first", "ERROR: [7] root: second", "bye"], "[7] root: second"),
        (["python3: can't open file 'no.py': [Errno 2]"], "python3: can't open file 'no.py': [Errno 2]"),
        (["/usr/bin/python3.11: No module named nope"], "/usr/bin/python3.11: No module named nope"),
        (["sh: 1: nope: not found", ""], "sh: 1: nope: not found"),
        (["bash: line 1: nope: command not found"], "bash: line 1: nope: command not found"),
        (["ERROR: " + "x" * 1000], "x" * 299 + "…"),
    ],
)  # fmt: skip
def test_last_error_is_a_logged_error_or_a_failed_start(lines: list[str], told: str) -> None:
    assert last_error(lines) == told


def test_long_messages_are_shortened() -> None:
    text = last_exception([BEGIN, PLACE, "ValueError: " + "x" * 1000])
    assert len(text) == 300
    assert text.endswith("x…")
