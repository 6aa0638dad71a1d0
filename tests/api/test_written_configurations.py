"""Templates and config policies as people write them: YAML, which may be checked before it is kept."""

from typing import Any

import pytest

from tests.support.api import Caller

TEMPLATE, POLICIES = "/api/v1/templates/eight", "/api/v1/config-policies/global/experiment"


def test_template_is_stored_from_yaml(user: Caller) -> None:
    user.post(TEMPLATE, {"config": "resources:\n  slots_per_trial: 8  # all of a machine\n"})
    assert user.get(TEMPLATE)["template"]["config"] == {"resources": {"slots_per_trial": 8}}


def test_validating_a_template_stores_no_template(user: Caller) -> None:
    response = user.post(TEMPLATE, {"config": "max_restarts: 1", "validateOnly": True})
    assert response["template"] == {"name": "eight", "config": {"max_restarts": 1}}
    assert user.ask("GET", TEMPLATE).status == 404


@pytest.mark.parametrize("text", ["a: [", "- a", "", "a: .nan"])
def test_rejects_invalid_template_with_the_position(user: Caller, text: str) -> None:
    response = user.ask("POST", TEMPLATE, {"config": text, "validateOnly": True})
    assert (response.status, "invalid template" in response.error) == (400, True)


def test_validating_policies_stores_no_policies(admin: Caller) -> None:
    response = admin.ask(
        "PUT", POLICIES, {"configPolicies": "constraints: 1", "validateOnly": True}
    )
    assert (response.status, "constraints" in response.error) == (400, True)
    body = {"configPolicies": "constraints: {priority_limit: 10}", "validateOnly": True}
    config_policies = admin.done("PUT", POLICIES, body)["configPolicies"]
    assert config_policies == {"constraints": {"priority_limit": 10}}
    assert admin.get(POLICIES)["configPolicies"] == {}


@pytest.mark.parametrize("check", [True, False])
def test_rejects_unknown_key_in_a_template(user: Caller, check: bool) -> None:
    body = {"config": "resurces: {slots: 1}", "validateOnly": check}
    response = user.ask("POST", TEMPLATE, body)
    assert (response.status, "invalid template: resurces: is unknown" in response.error) == (
        400,
        True,
    )
    assert "did you mean 'resources'?" in response.error
    user.post(TEMPLATE, {"config": {}})
    assert user.ask("PATCH", TEMPLATE, {"resurces": {}}).status == 400


def test_error_for_a_masked_secret_names_the_template(user: Caller) -> None:
    config = {"environment": {"environment_variables": ["A_TOKEN=********"]}}
    response = user.ask("POST", TEMPLATE, {"config": config})
    assert (response.status, "invalid template: " in response.error) == (400, True)


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/api/v1/commands", {"config": {"entrypoint": ["true"]}, "templateName": "eight"}),
        ("/api/v1/experiments", {"config": "entrypoint: x", "template": "eight"}),
    ],
)
def test_error_of_a_submission_names_the_template_at_fault(
    user: Caller, path: str, asked: dict[str, Any]
) -> None:
    user.post(TEMPLATE, {"config": {"resources": {"resource_pool": "none"}}})
    response = user.ask("POST", path, asked)
    assert (response.status, "(template 'eight' says so)" in response.error) == (400, True)
