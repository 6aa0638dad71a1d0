"""Templates and config policies as people write them: YAML, which may be checked before it is kept."""

import pytest

from tests.support.api import Caller

TEMPLATE, POLICIES = "/api/v1/templates/eight", "/api/v1/config-policies/global/experiment"


def test_a_template_is_kept_from_yaml(user: Caller) -> None:
    user.post(TEMPLATE, {"config": "resources:\n  slots_per_trial: 8  # all of a machine\n"})
    assert user.get(TEMPLATE)["template"]["config"] == {"resources": {"slots_per_trial": 8}}


def test_a_check_of_a_template_keeps_nothing(user: Caller) -> None:
    told = user.post(TEMPLATE, {"config": "max_restarts: 1", "validateOnly": True})
    assert told["template"] == {"name": "eight", "config": {"max_restarts": 1}}
    assert user.ask("GET", TEMPLATE).status == 404


@pytest.mark.parametrize("text", ["a: [", "- a", "", "a: .nan"])
def test_what_is_no_configuration_is_refused_with_its_place(user: Caller, text: str) -> None:
    told = user.ask("POST", TEMPLATE, {"config": text, "validateOnly": True})
    assert (told.status, "invalid template" in told.error) == (400, True)


def test_a_check_of_policies_keeps_nothing(admin: Caller) -> None:
    told = admin.ask("PUT", POLICIES, {"configPolicies": "constraints: 1", "validateOnly": True})
    assert (told.status, "constraints" in told.error) == (400, True)
    written = {"configPolicies": "constraints: {priority_limit: 10}", "validateOnly": True}
    shown = admin.done("PUT", POLICIES, written)["configPolicies"]
    assert shown == {"constraints": {"priority_limit": 10}}
    assert admin.get(POLICIES)["configPolicies"] == {}
