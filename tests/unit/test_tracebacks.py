"""The exception with which the output of a program ends."""

import pytest
from det_controlplane.core.tracebacks import last_exception

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
def test_the_line_after_the_last_traceback_names_it(lines: list[str], told: str) -> None:
    assert last_exception(lines) == told


def test_long_messages_are_shortened() -> None:
    told = last_exception([BEGIN, PLACE, "ValueError: " + "x" * 1000])
    assert len(told) == 300
    assert told.endswith("x…")
