"""Compute the actions that turn the agent's containers into those that the control plane wants."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from det_controlplane.core.agent_protocol import ContainerReport, ContainerSpec, Directive


@dataclass(frozen=True)
class Start:
    spec: ContainerSpec


@dataclass(frozen=True)
class Kill:
    id: str
    reason: str


@dataclass(frozen=True)
class Refuse:
    """Report the end of a container that was cancelled before this agent received it."""

    directive: Directive


@dataclass(frozen=True)
class Forget:
    id: str


Action = Start | Kill | Refuse | Forget


def reconcile(
    desired: Sequence[Directive], forget: Sequence[str], actual: Mapping[str, ContainerReport]
) -> list[Action]:
    """Compare an answer of the control plane with the agent's containers. Applying the answer twice is harmless."""
    removable = [i for i in dict.fromkeys(forget) if i in actual and _has_ended(actual[i])]
    remaining = {i: report for i, report in actual.items() if i not in removable}
    desired_by_id = {d.id: d for d in desired}
    actions: list[Action] = [Forget(i) for i in removable]
    for report in remaining.values():
        reason = _reason_to_kill(report, desired_by_id.get(report.id))
        if reason and not _has_ended(report):
            actions.append(Kill(report.id, reason))
    for directive in desired_by_id.values():
        if directive.id in remaining or not _is_new(directive, actual.get(directive.id)):
            continue
        if directive.desired == "killed":
            actions.append(Refuse(directive))
        elif directive.spec is not None and directive.spec.epoch == directive.epoch:
            actions.append(Start(directive.spec))
    return actions


def preempting(desired: Sequence[Directive]) -> dict[str, float]:
    """Return the allocations that should save a checkpoint and exit, with the seconds until they are killed."""
    return {
        d.allocation_id: math.inf if d.kill_within_s is None else d.kill_within_s
        for d in desired
        if d.preempt
    }


def _has_ended(report: ContainerReport) -> bool:
    return report.state == "terminated"


def _is_new(directive: Directive, ended: ContainerReport | None) -> bool:
    """Return whether this run of the container never ended here. Each lease is valid for one run."""
    return ended is None or ended.epoch < directive.epoch


def _reason_to_kill(report: ContainerReport, wanted: Directive | None) -> str:
    if wanted is None:
        return "the control plane does not list it"
    if wanted.epoch != report.epoch:
        return f"its lease epoch {report.epoch} was replaced by {wanted.epoch}"
    if wanted.desired == "killed":
        return "the control plane asked for it"
    return ""
