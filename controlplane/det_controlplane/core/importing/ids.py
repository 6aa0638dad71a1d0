"""Map ids of a Determined cluster to ids of this cluster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# The kinds of rows with numbers of their own. Each is a table of this cluster.
KINDS = (
    "users", "groups", "workspaces", "projects", "experiments", "trials", "metrics", "models", "model_versions",
    "webhooks",
)  # fmt: skip
_STEP = 10_000
_REFERENCE = re.compile(r"old:(?:([^/]+)/)?([0-9]{1,10})")
_NAME = re.compile(r"(?![0-9]+$)[\w.-]{1,80}")


@dataclass(frozen=True, slots=True)
class Ids:
    """New ids are old ids plus the offset of their kind, except for rows that were merged into existing ones."""

    offsets: Mapping[str, int]
    merged: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def new(self, kind: str, old: int) -> int:
        return self.merged.get(kind, {}).get(old, old + self.offsets[kind])

    def optional(self, kind: str, old: int | None) -> int | None:
        return None if old is None else self.new(kind, old)


@dataclass(frozen=True, slots=True)
class Reference:
    """An id of an imported cluster: `old:17`, or `old:NAME/17` if several clusters were imported."""

    id: int
    name: str = ""  # the name or the number of an import; '': any import

    def __str__(self) -> str:
        return f"old:{self.name}/{self.id}" if self.name else f"old:{self.id}"


def parse_reference(text: str) -> Reference | None:
    match = _REFERENCE.fullmatch(text)
    return Reference(int(match[2]), match[1] or "") if match else None


def is_name(text: str) -> bool:
    """Return whether an import can have a name. A number would be ambiguous, because imports have numbers."""
    return _NAME.fullmatch(text) is not None


def choose_offsets(largest: Mapping[str, int], *, is_empty: bool, least: int = 0) -> dict[str, int]:
    """Return the offset of each kind. Ids stay the same in an empty cluster.

    Otherwise all kinds share one offset, so that users can remember it. `largest` has the largest id of each kind in
    the cluster, `least` the offset that the user asks for."""
    if is_empty and not least:
        return dict.fromkeys(KINDS, 0)
    needed = max(largest.values(), default=0)
    common = max(least, -(-needed // _STEP) * _STEP)
    # Ids of metrics are not visible to users and can be much larger than the others.
    return dict.fromkeys(KINDS, common)


def offset_problem(offsets: Mapping[str, int], largest: Mapping[str, int]) -> str:
    """Return why the offsets do not fit beside the rows of the cluster; '' if they do."""
    for kind, offset in offsets.items():
        if kind != "metrics" and 0 < offset < largest.get(kind, 0):
            return f"--id-offset {offset} is too small: {kind} of this cluster have ids up to {largest[kind]}"
    return ""
