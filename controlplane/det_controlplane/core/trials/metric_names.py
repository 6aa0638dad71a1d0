"""The metric names that one experiment may have, over all its trials and groups.

Tables, charts and filters offer the names of all experiments that a user can see, so the number of names that a task
adds must be limited. The names of a trial are a subset of its experiment's names, so one limit is enough.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.trials.metrics import VALIDATION, kind_of

MOST_NAMES, MOST_BYTES, MOST_GROUPS = 2_000, 256 * 1024, 100

# The type of each name of each group. A name that had values of different types is a string.
MetricNames = Mapping[str, Mapping[str, str]]
_STANDARD_GROUPS = ("training", VALIDATION)
# The harness adds these to every report; charts draw other metrics over them.
_POSITIONS = ("batches", "epochs")
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Admission:
    """The names of an experiment after a report, and the rejected names of the report."""

    names: MetricNames
    refused: tuple[str, ...] = ()

    def has_group(self, group: str) -> bool:
        return group in self.names


def are_known(names: MetricNames, group: str, metrics: Mapping[str, Any]) -> bool:
    """Return True if a report adds no name and changes no type."""
    kinds = names.get(group)
    if kinds is None:
        return False
    for name, value in metrics.items():
        kind = kinds.get(name)
        is_number = kind == "number" and type(value) is float  # the common case, without a call
        if not is_number and kind != kind_of(value):
            return False
    return True


def admit(
    names: MetricNames, group: str, metrics: Mapping[str, Any], searched: Collection[str] = ()
) -> Admission:
    """Add the names of a report up to the limits. The searcher's metrics in `searched` are always admitted."""
    kinds = dict(names.get(group, {}))
    is_standard = group in _STANDARD_GROUPS
    count, size = measure(names)
    if group not in names:
        size += _bytes(group)
        if not is_standard and (len(names) >= MOST_GROUPS or size > MOST_BYTES):
            return Admission(names, tuple(metrics))
    refused_names = []
    for name, value in metrics.items():
        kind = kind_of(value)
        growth = _bytes(group) + _bytes(name)
        if name in kinds:
            kinds[name] = kind if kinds[name] == kind else "string"
        elif (count < MOST_NAMES and size + growth <= MOST_BYTES) or (
            is_standard and (name in _POSITIONS or (group == VALIDATION and name in searched))
        ):
            kinds[name] = kind
            count, size = count + 1, size + growth
        else:
            refused_names.append(name)
    if refused_names and not kinds:  # do not store a group without names
        return Admission(names, tuple(refused_names))
    return Admission({**names, group: kinds}, tuple(refused_names))


def measure(names: MetricNames) -> tuple[int, int]:
    """Return the number of names and their bytes. The group counts with each name, because a column contains both."""
    count = sum(map(len, names.values()))
    size = sum(
        _bytes(group) * (len(kinds) + 1) + sum(map(_bytes, kinds)) for group, kinds in names.items()
    )
    return count, size


def _bytes(name: str) -> int:
    return len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass"))


def refusal(experiment_id: int, trial_id: int, group: str, admission: Admission) -> str:
    """Return a message with the refused metrics of a report, the reason and the fix."""
    count, size = measure(admission.names)
    return (
        f"experiment {experiment_id} has {count:,} metric names of {size:,} bytes in {len(admission.names)} groups; new"
        f" names are stored up to {MOST_NAMES:,} names, {MOST_BYTES:,} bytes and {MOST_GROUPS} groups:"
        f" {len(admission.refused):,} new metrics of trial {trial_id} in group {_shorten_name(group)} were not stored"
        f"{''.join(f', such as {_shorten_name(name)}' for name in admission.refused[:1])}. Metrics with known names are"
        " stored. Report fewer different names: put steps, samples and layers into values, not into names."
    )


def _shorten_name(name: str) -> str:
    return repr(name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}…")


def is_logged(refusals: int) -> bool:
    """Return True if the trial's log reports this refusal: the first, the tenth, the hundredth and so on."""
    return str(refusals).rstrip("0") == "1"
