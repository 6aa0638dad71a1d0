"""Read the pool, slots and workspace of a submitted configuration, before it can be resolved.

The pool decides which defaults apply, so it has to be known first. This never fails: what is wrong
with the configuration is told when it is resolved.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ResourcesAsked:
    pool: str  # empty for the default
    slots: int


def resources_asked(
    submitted: Any, template: Any = None, *, slots_key: str = "slots_per_trial"
) -> ResourcesAsked:
    """Return pool and slots as they will be after merging the template below the submitted configuration."""
    sections = [_section(source, "resources") for source in (submitted, template)]
    pool = _first(sections, "resource_pool")
    slots = _first(sections, slots_key)
    is_count = isinstance(slots, int | float) and not isinstance(slots, bool) and 0 <= slots < 2**31
    return ResourcesAsked(pool if isinstance(pool, str) else "", int(slots) if is_count else 1)


def _section(source: Any, key: str) -> Mapping[str, Any]:
    section = source.get(key) if isinstance(source, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def _first(sections: list[Mapping[str, Any]], key: str) -> Any:
    return next((s[key] for s in sections if s.get(key) is not None), None)
