"""Explain failed runs: first the cause in a few words, then the details."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from det_controlplane.core.tracebacks import last_error, last_exception

_EXIT_CODE = re.compile(r"exit code: (\d+)$")
_MEANINGS = {
    "80": "its image lacks what the task needs: see its logs",
    "126": "its entrypoint cannot be executed",
    "127": "its entrypoint does not exist",
    "137": "it was killed, often because it ran out of memory",
    "139": "it crashed: a segmentation fault",
}
# The directory of the model code in a container, and below the data directory of an agent that runs processes.
_MODEL_DIRECTORY = re.compile(
    r"(?<![\w/])(/run/determined|/\S*?/containers/[0-9a-f-]{36}\.\d+/run)/workdir/"
)
# The names of these exceptions repeat their messages.
_PLAIN = re.compile(r"(?:ModuleNotFoundError|ImportError|FileNotFoundError): (?:\[Errno \d+\] )?")
_WRONG_CODE = re.compile(
    r"(ModuleNotFoundError|ImportError|FileNotFoundError|SyntaxError|IndentationError)\b"
)
_NO_SCRIPT = re.compile(r"\S*python[\d.]*: (can't open file .*?: )(?:\[Errno \d+\] )?(.*)")
_NO_MODULE = re.compile(r"\S*python[\d.]*: ((?:No module named|Error while finding module).*)")
_NO_PROGRAM = re.compile(r"\S*sh: (?:(?:line )?\d+: )?(.*)")
_NOT_FOUND = re.compile(r"^(\S+): (?:command )?not found$")
_NOT_STARTED = "cannot start "  # the agent's words for a program that does not exist
_METRIC_ERROR = re.compile(r"trial (\d+): metric ")  # the error of a search without a usable metric
_NEW_METRIC = "fix searcher.metric and create it again"
_NEW_CODE = "fix the code and create it again"
_NEW_FILES = "no files were sent with it: create it again with a model directory, or fix the code in its image"


@dataclass(frozen=True, slots=True)
class RunFailure:
    """The cause of a failed run. A run that failed because of its code fails again unless the user changes the code."""

    cause: str
    details: tuple[str, ...]
    needs_new_code: bool
    trial_id: int | None = None  # the trial of the cause, if it is not the trial of the run

    def next_step(self, *, has_files: bool) -> str:
        """Return the advice for the user, or ''. `has_files` is False if the experiment was created without files."""
        if self.trial_id is not None:
            return _NEW_METRIC
        if not self.needs_new_code:
            return ""
        return _NEW_CODE if has_files else _NEW_FILES


def explain_failure(exit_reason: str, lines: Sequence[str]) -> RunFailure:
    """Return the cause of a failed run. `lines` are the end of its output, with errors marked as in `tracebacks`."""
    match = _EXIT_CODE.search(exit_reason)
    code = match[1] if match else ""
    meaning = _MEANINGS.get(code, "")
    exit = f"{exit_reason} ({meaning})" if meaning else exit_reason
    if exception := last_exception(lines):
        return _from_output(_PLAIN.sub("", exception), exception, exit)
    error = last_error(lines)
    if error and error not in exit:
        return _from_output(_plain_error(error), error, exit, is_start=_is_start_error(error))
    if code:
        exit_words = f"exited with code {code}"
        return RunFailure(
            f"{meaning} (exit code {code})" if meaning else exit_words, (exit,), code == "127"
        )
    return RunFailure(shorten_paths(exit_reason), (), exit_reason.startswith(_NOT_STARTED))


def explain_failed_search(error: str) -> RunFailure | None:
    """Return the failure of a search that could not use a trial's metric, or None for another error."""
    match = _METRIC_ERROR.match(error)
    return RunFailure(error, (), False, int(match[1])) if match else None


def shorten_paths(text: str) -> str:
    """Return a text in which paths of the model code are relative to its directory."""
    return _MODEL_DIRECTORY.sub("", text)


def _from_output(cause: str, line: str, exit: str, *, is_start: bool = False) -> RunFailure:
    cause = shorten_paths(cause)
    details = (exit,) if cause == line else (exit, shorten_paths(line))
    needs_new_code = is_start or exit.endswith(f"({_MEANINGS['127']})")
    return RunFailure(cause, details, needs_new_code or _WRONG_CODE.match(line) is not None)


def _is_start_error(error: str) -> bool:
    return any(pattern.match(error) for pattern in (_NO_SCRIPT, _NO_MODULE, _NO_PROGRAM))


def _plain_error(error: str) -> str:
    """Return an error without the name of the program that printed it."""
    if match := _NO_SCRIPT.match(error):
        return match[1] + match[2]
    match = _NO_MODULE.match(error) or _NO_PROGRAM.match(error)
    return _NOT_FOUND.sub(r"command not found: \1", match[1]) if match else error
