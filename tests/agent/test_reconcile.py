"""Safety of the agent's one decision: what to start, kill and forget."""

import math
from dataclasses import replace
from typing import Literal

from det_agent.reconcile import Forget, Kill, Refuse, Start, preempting, reconcile
from det_controlplane.core.agent_protocol import (
    ContainerReport,
    ContainerSpec,
    ContainerState,
    Directive,
)
from hypothesis import assume, given
from hypothesis import strategies as st

IDS = st.sampled_from(["a", "b", "c", "d"])
STATES: list[ContainerState] = ["assigned", "pulling", "starting", "running", "terminated"]


def directive(
    id: str,
    epoch: int = 1,
    desired: Literal["running", "killed"] = "running",
    with_spec: bool = True,
) -> Directive:
    spec = ContainerSpec(id, f"alloc-{id}", f"task-{id}", epoch, ("true",), "token")
    return Directive(id, epoch, f"alloc-{id}", desired, spec=spec if with_spec else None)


def report(id: str, epoch: int = 1, state: ContainerState = "running") -> ContainerReport:
    return ContainerReport(id, epoch, state)


directives = st.lists(
    st.builds(
        directive, IDS, st.integers(1, 3), st.sampled_from(["running", "killed"]), st.booleans()
    ),
    unique_by=lambda d: d.id,
)
actuals = st.lists(
    st.builds(report, IDS, st.integers(1, 3), st.sampled_from(STATES)), unique_by=lambda r: r.id
).map(lambda reports: {r.id: r for r in reports})
forgets = st.lists(IDS)


@given(directives, forgets, actuals)
def test_known_container_is_never_started(
    desired: list[Directive], forget: list[str], actual: dict[str, ContainerReport]
) -> None:
    forgotten_ids = {a.id for a in reconcile(desired, forget, actual) if isinstance(a, Forget)}
    for action in reconcile(desired, forget, actual):
        if isinstance(action, Start):
            assert (
                action.spec.container_id not in actual or action.spec.container_id in forgotten_ids
            )


@given(directives, forgets, actuals)
def test_ended_epoch_never_starts_again(
    desired: list[Directive], forget: list[str], actual: dict[str, ContainerReport]
) -> None:
    for action in reconcile(desired, forget, actual):
        if isinstance(action, Start) and action.spec.container_id in actual:
            assert action.spec.epoch > actual[action.spec.container_id].epoch


@given(directives, forgets, actuals)
def test_kills_exactly_the_unlisted_stale_and_unwanted_containers(
    desired: list[Directive], forget: list[str], actual: dict[str, ContainerReport]
) -> None:
    running = {d.id: d for d in desired if d.desired == "running"}
    killed_ids = {a.id for a in reconcile(desired, forget, actual) if isinstance(a, Kill)}
    alive = {r.id: r for r in actual.values() if r.state != "terminated"}
    assert killed_ids == {
        i for i, r in alive.items() if i not in running or running[i].epoch != r.epoch
    }


@given(directives, forgets, actuals)
def test_only_ended_containers_are_forgotten(
    desired: list[Directive], forget: list[str], actual: dict[str, ContainerReport]
) -> None:
    forgotten_ids = {a.id for a in reconcile(desired, forget, actual) if isinstance(a, Forget)}
    assert forgotten_ids == {i for i in forget if i in actual and actual[i].state == "terminated"}


@given(directives, forgets, actuals)
def test_repeated_response_has_no_effect(
    desired: list[Directive], forget: list[str], actual: dict[str, ContainerReport]
) -> None:
    assume(all(d.epoch > actual[d.id].epoch for d in desired if d.id in forget and d.id in actual))
    after = dict(actual)
    for action in reconcile(desired, forget, actual):
        if isinstance(action, Forget):
            after.pop(action.id)
        elif isinstance(action, Kill):
            after[action.id] = replace(after[action.id], state="terminated")
        elif isinstance(action, Start):
            after[action.spec.container_id] = report(
                action.spec.container_id, action.spec.epoch, "assigned"
            )
        elif isinstance(action, Refuse):
            after[action.directive.id] = report(
                action.directive.id, action.directive.epoch, "terminated"
            )
    assert not [a for a in reconcile(desired, [], after) if isinstance(a, Start | Refuse | Kill)]


def test_killed_container_without_a_start_is_refused() -> None:
    assert reconcile([directive("a", desired="killed")], [], {}) == [
        Refuse(directive("a", desired="killed"))
    ]


def test_container_without_a_specification_is_not_started() -> None:
    assert reconcile([directive("a", with_spec=False)], [], {}) == []


def test_next_epoch_starts_when_the_previous_one_is_forgotten() -> None:
    actions = reconcile([directive("a", epoch=2)], ["a"], {"a": report("a", 1, "terminated")})
    assert [type(a) for a in actions] == [Forget, Start]


def test_every_kill_has_a_reason() -> None:
    actions = reconcile([directive("a", epoch=2)], [], {"a": report("a", 1)})
    assert [a.reason for a in actions if isinstance(a, Kill)] == [
        "its lease epoch 1 was replaced by 2"
    ]


def test_returns_preempted_allocations() -> None:
    preempted = replace(directive("a"), preempt=True)
    assert preempting([preempted, directive("b")]) == {"alloc-a": math.inf}
    assert preempting([replace(preempted, kill_within_s=28.0)]) == {"alloc-a": 28.0}
