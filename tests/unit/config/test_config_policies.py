"""Config policies: constraints of administrators."""

from typing import Any

import pytest
from det_controlplane.core.config import InvalidConfig
from det_controlplane.core.config.policies import (
    Constraints,
    check,
    check_priority,
    read_policies,
)


def test_reads_policies_of_an_administrator() -> None:
    raw = {
        "invariant_config": {"resources": {"priority": 50}},
        "constraints": {"resources": {"max_slots": 8}, "priority_limit": 40},
    }
    policies = read_policies(raw, "experiment")
    assert policies.constraints == Constraints(8, 40)
    assert policies.invariant_config == {"resources": {"priority": 50}}


@pytest.mark.parametrize(
    ("raw", "workload", "path"),
    [
        ({"constraint": {}}, "experiment", "constraint"),
        ({"constraints": {"priority_limit": 100}}, "experiment", "constraints.priority_limit"),
        (
            {"constraints": {"resources": {"max_slots": "x"}}},
            "tasks",
            "constraints.resources.max_slots",
        ),
        ({"invariant_config": {"debug": True}}, "tasks", "invariant_config"),
        ([], "tasks", ""),
    ],
)
def test_rejects_wrong_policies(raw: Any, workload: str, path: str) -> None:
    with pytest.raises(InvalidConfig) as error:
        read_policies(raw, workload)
    assert path in {problem.path for problem in error.value.problems}


def test_the_clusters_constraints_win_over_the_workspaces() -> None:
    assert Constraints(8, 20).under(Constraints(4, None)) == Constraints(4, 20)
    assert Constraints(None, None).under(Constraints(None, 9)) == Constraints(None, 9)


def test_slots_beyond_the_limit_are_reported() -> None:
    config = {"resources": {"slots_per_trial": 9, "max_slots": 20, "priority": 42}}
    problems = check(config, Constraints(max_slots=8))
    assert [p.path for p in problems] == ["resources.max_slots", "resources.slots_per_trial"]
    assert check({"resources": {"slots_per_trial": 8}}, Constraints(max_slots=8)) == []


def test_priority_more_urgent_than_the_limit_is_reported() -> None:
    (problem,) = check_priority(39, Constraints(priority_limit=40))
    assert "use 40 to 99" in problem.message
    assert check_priority(40, Constraints(priority_limit=40)) == []
    assert check_priority(1, Constraints()) == []
