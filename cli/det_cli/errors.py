"""Messages and exit codes of failed commands (docs/reference/cli.md)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from determined.common.failures import Failure

OK, FAILED, USAGE, NOT_FOUND, DENIED, CONFLICT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class CommandError(Exception):
    """A failure that the command line detected itself."""

    code = FAILED

    def __init__(self, cause: str, hint: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.hint = hint


class UsageError(CommandError):
    code = USAGE


def require_change(change: object) -> None:
    """Raise UsageError if the user gave no option that changes something."""
    if not change:
        raise UsageError("nothing to change", "give one of the options; --help lists them")


class MissingError(CommandError):
    """An object that the user named does not exist."""

    code = NOT_FOUND


class ErrorReport:
    """A failure as the user sees it: exit status, cause and hint."""

    def __init__(self, code: int, cause: str, hint: str = "") -> None:
        self.code = code
        self.cause = cause
        self.hint = hint


_HINTS = {
    401: "sign in with `det user login`",
    403: "ask an administrator of the cluster for the right to do this",
    413: "send less: keep data out of the context directory, or list it in .detignore",
    501: "this cluster does not offer it; `det version` shows what it runs",
}
_INTERACTIVE = ("command", "notebook", "shell", "tensorboard")
_CODES = {401: DENIED, 403: DENIED, 404: NOT_FOUND, 409: CONFLICT}


def report_for(error: BaseException, path: str = "") -> "ErrorReport | None":
    """Return the message and exit status of an expected failure, or None for a bug."""
    if isinstance(error, KeyboardInterrupt):
        return ErrorReport(INTERRUPTED, "interrupted")
    if isinstance(error, CommandError):
        return ErrorReport(error.code, error.cause, error.hint)
    return _remote_report(error, path) or _local_report(error)


def _remote_report(error: BaseException, path: str) -> "ErrorReport | None":
    import sys

    if "determined.common.http" not in sys.modules:
        return None
    from determined.common.failures import Failure
    from determined.common.http import APIError, MasterUnreachableError

    if isinstance(error, Failure):
        return ErrorReport(_failure_code(error), error.cause, error.hint)
    if isinstance(error, MasterUnreachableError):
        return ErrorReport(FAILED, str(error), _reach_hint(str(error)))
    if isinstance(error, APIError):
        code = _CODES.get(error.status, FAILED)
        hint = _HINTS.get(error.status, "")
        if error.status == 404:
            unknown_route = error.message.startswith("no such path")
            hint = _HINTS[501] if unknown_route else _where_to_look(path, error.message)
        if error.status == 403 and "det user login" in error.message:
            hint = ""  # the user must sign in; more permissions would not help
        return ErrorReport(
            code, error.message, "" if _message_has_command(error.message, hint) else hint
        )
    return None


def _failure_code(error: "Failure") -> int:
    from determined.common.failures import MissingContext
    from determined.common.http import SignInFailed

    if isinstance(error, SignInFailed):
        return DENIED
    return NOT_FOUND if isinstance(error, MissingContext) else FAILED


def _reach_hint(message: str) -> str:
    """Return the next step after a failed connection."""
    if "plain HTTP" in message:
        return "write http:// before its address (-m, or the variable DET_MASTER)"
    if "cannot reach http:" in message and "without an answer" in message:
        return "if the cluster speaks HTTPS, write https:// before its address"
    if "connection refused" in message and (name := _stopped_cluster(message)):
        flag = "" if name == "determined" else f" --cluster-name {name}"
        return f"cluster '{name}' is down: `det deploy local cluster-up{flag}` starts it"
    return (
        "check the address (-m, or the variable DET_MASTER);"
        " `det deploy local cluster-up` starts a cluster here"
    )


def _stopped_cluster(message: str) -> str:
    """Return the name of this user's local cluster with the address in the message, or ''."""
    from det_controlplane.entry.local.files import stopped_clusters

    return next((name for name, url in stopped_clusters() if f"{url}:" in message), "")


def as_typed(message: str, names: "Iterable[str]") -> str:
    """Replace an API field name at the start of a message with the argument's name: `startDate` by `start_date`."""
    word, blank, rest = message.partition(" ")
    if not (word.isalpha() and word[0].islower()) or word.islower():
        return message
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in word)
    typed = next((n for n in names if n.lstrip("-").replace("-", "_") == snake), word)
    return f"{typed}{blank}{rest}"


def _message_has_command(message: str, hint: str) -> bool:
    """Return True if the cluster's message already names the command in the hint."""
    command = hint.split("`")[1] if "`" in hint else hint
    return bool(command) and command in message


def _where_to_look(path: str, message: str) -> str:
    """Return a hint with the command that lists objects of the missing kind."""
    lists = {
        "experiment": "det experiment list --all",
        "trial": "det experiment list-trials EXPERIMENT_ID",
        "checkpoint": "det experiment list-checkpoints EXPERIMENT_ID",
        "agent": "det agent list",
        "slot": "det slot list",
        "job": "det job list",
        "user": "det user list --all",
        "group": "det user-group list",
        "template": "det template list",
        "workspace": "det workspace list",
        "project": "det project list WORKSPACE",
        "model": "det model list",
        "resource-pool": "det pool list",
        "resource": "det pool list",
        "command": "det command list --all",
        "notebook": "det notebook list --all",
        "shell": "det shell list --all",
        "tensorboard": "det tensorboard list --all",
        "instance": "det instance list --all",
        "budget": "det budget list",
        "pool": "det pool list",
    }
    missing, group = message.split(" ")[0].lower().removesuffix("s"), path.split(" ")[0]
    if "not found" not in message or "`det " in message or "'det " in message:
        return ""
    if missing == "task" and group not in _INTERACTIVE:
        return (
            "`det task list` shows active tasks; `det job list --all` lists tasks of all types, also those"
            " that have ended"
        )
    list_command = lists.get(group if missing == "task" else missing) or lists.get(group)
    return f"`{list_command}` lists the existing ones" if list_command else ""


def _local_report(error: BaseException) -> "ErrorReport | None":
    if isinstance(error, FileNotFoundError):
        return ErrorReport(NOT_FOUND, f"'{error.filename}' does not exist")
    if isinstance(error, OSError) and error.filename is not None:
        return ErrorReport(FAILED, f"cannot use '{error.filename}': {error.strerror}")
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return ErrorReport(
            FAILED,
            f"this command needs the Python package {error.name}, which is not installed here",
            "install the whole package (pip install determined-serverless); tasks have only a part of it",
        )
    return None
