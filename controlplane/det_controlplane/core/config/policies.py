"""Read config policies and check configurations against them.

See docs/reference/compatibility.md#configurations."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.config.reading import Reader
from det_controlplane.core.config.text import json_problems
from det_controlplane.core.problems import InvalidConfig, Problem
from det_controlplane.core.schedule.job_settings import HIGHEST_PRIORITY, LOWEST_PRIORITY

_WHAT = "config policies"


@dataclass(frozen=True, slots=True)
class Constraints:
    max_slots: int | None = None
    priority_limit: int | None = None  # smaller numbers are not allowed

    def under(self, cluster: "Constraints") -> "Constraints":
        """Merge a workspace's constraints with the cluster's constraints, which take precedence."""
        max_slots, limit = cluster.max_slots, cluster.priority_limit
        return Constraints(
            self.max_slots if max_slots is None else max_slots,
            self.priority_limit if limit is None else limit,
        )


@dataclass(frozen=True, slots=True)
class Policies:
    constraints: Constraints = Constraints()
    invariant_config: Mapping[str, Any] | None = None


def read_policies(raw: Any, workload: str) -> Policies:
    """Read an administrator's policies for a workload type, `experiment` or `tasks`."""
    problems = list(json_problems(raw))
    if problems:
        raise InvalidConfig(problems, what=_WHAT)
    reader = Reader(raw, "", problems)
    constraints = _constraints(reader.section("constraints"))
    invariant = reader.object("invariant_config") if reader.gives("invariant_config") else None
    reader.raw("invariant_config")
    if invariant is not None and workload != "experiment":
        reader.refuse("invariant_config", "is for experiments; tasks can only have constraints")
    reader.close()
    if problems:
        raise InvalidConfig(problems, what=_WHAT)
    return Policies(constraints, invariant)


def check(config: Mapping[str, Any], constraints: Constraints) -> list[Problem]:
    """Return the problems of a resolved configuration that violates the constraints."""
    return list(_broken(config.get("resources") or {}, constraints))


def check_change(name: str, value: Any, policies: Policies) -> list[Problem]:
    """Return the reasons why a value of `resources` must not be set on existing work."""
    problems = check({"resources": {name: value}}, policies.constraints)
    policy_value = ((policies.invariant_config or {}).get("resources") or {}).get(name)
    if policy_value is not None and value != policy_value:
        message = f"is set to {policy_value} by your administrator: it cannot be changed"
        problems.append(Problem(f"resources.{name}", message))
    return problems


def check_priority(priority: int | None, constraints: Constraints) -> list[Problem]:
    limit = constraints.priority_limit
    if limit is None or priority is None or priority >= limit:
        return []
    message = f"({priority}) is more urgent than the limit of your administrator: use {limit} to {LOWEST_PRIORITY}"
    return [Problem("resources.priority", message)]


def _broken(resources: Mapping[str, Any], constraints: Constraints) -> Iterator[Problem]:
    yield from check_priority(resources.get("priority"), constraints)
    limit = constraints.max_slots
    if limit is None:
        return
    for key in ("max_slots", "slots_per_trial", "slots"):
        value = resources.get(key)
        if value is not None and value > limit:
            message = f"({value}) is more than the {limit} slots that your administrator allows"
            yield Problem(f"resources.{key}", message)


def _constraints(reader: Reader) -> Constraints:
    resources = reader.section("resources")
    most = resources.whole("max_slots", -1, 0, 2**31 - 1)
    limit = reader.whole("priority_limit", 0, HIGHEST_PRIORITY, LOWEST_PRIORITY)
    resources.close()
    reader.close()
    return Constraints(most if most >= 0 else None, limit or None)
