"""Show the deadlines of experiments: columns of tables, and lines of a summary."""

from collections.abc import Mapping, Sequence
from typing import Any

from det_cli.render import Column, local_time

_CHOICES = {"WAIT": "wait", "SPOT": "spot", "ON_DEMAND": "on demand"}
_STATES = {
    "ON_TRACK": "on track", "LAST_CHANCE": "last chance", "IN_DANGER": "in danger", "MISSED": "missed", "MET": "met",
}  # fmt: skip
_BAD = ("IN_DANGER", "MISSED")


def columns(items: Sequence[dict[str, Any]]) -> tuple[Column, ...]:
    """Return the columns of deadlines, or () if no experiment has one."""
    if not any(item.get("deadline") for item in items):
        return ()
    return (
        ("Deadline", lambda item: local_time(_of(item, "time"))),
        ("Predicted End", lambda item: local_time(_of(item, "predictedEnd"))),
        ("In Time", lambda item: _in_time(item.get("deadline") or {})),
        ("Machines", lambda item: _CHOICES.get(_of(item, "choice") or "", "")),
    )


def _of(item: dict[str, Any], field: str) -> "str | None":
    return (item.get("deadline") or {}).get(field)


def _in_time(deadline: Mapping[str, Any]) -> str:
    state = _STATES.get(deadline.get("state", ""), "")
    probability = deadline.get("probability")
    return state if probability is None else f"{probability:.0%}, {state}"


def sentence(deadline: Mapping[str, Any]) -> str:
    """Return the deadline, the predicted end, the probability and the chosen machines as one line."""
    parts = [local_time(deadline["time"]), _in_time(deadline)]
    if deadline.get("predictedEnd"):
        parts.append(f"predicted end {local_time(deadline['predictedEnd'])}")
    if deadline.get("choice"):
        parts.append(f"now: {_CHOICES[deadline['choice']]}")
    return "; ".join(filter(None, parts))


def style(deadline: Mapping[str, Any]) -> str:
    return "bad" if deadline.get("state") in _BAD else ""
