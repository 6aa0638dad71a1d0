"""The cause of a failed run comes first, in a few words."""

import pytest
from det_controlplane.core.run_failures import explain_failure, shorten_paths

TRACEBACK = ["Traceback (most recent call last):", '  File "train.py", line 1, in <module>']
FAILED = "container failed with non-zero exit code: "
WORKDIR = "/data/agents/a/containers/4f828778-9d4f-433a-ba9b-7c718ba05df0.1/run/workdir"


@pytest.mark.parametrize(
    ("exit_reason", "lines", "cause", "needs_new_code"),
    [
        (FAILED + "1", [*TRACEBACK, "ModuleNotFoundError: No module named 'numppy'"], "No module named 'numppy'", True),
        (FAILED + "1", [*TRACEBACK, "ImportError: cannot import name 'x'"], "cannot import name 'x'", True),
        (FAILED + "1", [*TRACEBACK, "FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'"],
            "No such file or directory: 'a.csv'", True),
        (FAILED + "1", [*TRACEBACK, "KeyError: 'a'"], "KeyError: 'a'", False),
        (FAILED + "2", [f"python3: can't open file '{WORKDIR}/no.py': [Errno 2] No such file or directory"],
            "can't open file 'no.py': No such file or directory", True),
        (FAILED + "127", ["sh: 1: pythn: not found"], "command not found: pythn", True),
        (FAILED + "127", ["bash: line 1: pythn: command not found"], "command not found: pythn", True),
        (FAILED + "127", [], "its entrypoint does not exist (exit code 127)", True),
        (FAILED + "1", ["/usr/bin/python3.11: No module named nope"], "No module named nope", True),
        (FAILED + "1", ["ERROR: cannot save"], "cannot save", False),
        (FAILED + "3", [], "exited with code 3", False),
        ("cannot start 'no': No such file or directory", [], "cannot start 'no': No such file or directory", True),
        ("the agent was lost", [], "the agent was lost", False),
    ],
)  # fmt: skip
def test_cause_is_short_and_says_whether_the_code_is_wrong(
    exit_reason: str, lines: list[str], cause: str, needs_new_code: bool
) -> None:
    failure = explain_failure(exit_reason, lines)
    assert (failure.cause, failure.needs_new_code) == (cause, needs_new_code)


def test_details_have_the_exit_code_and_the_whole_error() -> None:
    failure = explain_failure(
        FAILED + "127", [*TRACEBACK, "ModuleNotFoundError: No module named 'a'"]
    )
    assert failure.details == (
        FAILED + "127 (its entrypoint does not exist)",
        "ModuleNotFoundError: No module named 'a'",
    )


@pytest.mark.parametrize(
    ("text", "shortened"),
    [
        (f"'{WORKDIR}/models/a.py'", "'models/a.py'"),
        ("'/run/determined/workdir/train.py'", "'train.py'"),
        ("/data/workdir/train.py", "/data/workdir/train.py"),
        ("/home/ana/run/determined/workdir/a", "/home/ana/run/determined/workdir/a"),
    ],
)
def test_paths_begin_at_the_model_directory(text: str, shortened: str) -> None:
    assert shorten_paths(text) == shortened
