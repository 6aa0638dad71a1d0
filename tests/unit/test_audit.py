"""What of a request the audit log tells."""

import json
from typing import Any

from det_controlplane.core import audit
from hypothesis import given
from hypothesis import strategies as st

PLANTED = "a planted secret"
NAMES = st.one_of(st.sampled_from(["config", "password", "user", "token", "value"]), st.text())
NESTED = st.recursive(
    st.just(PLANTED),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES.filter(lambda name: name not in audit._TOLD), NESTED))
def test_values_are_told_by_name_only(body: dict[str, Any]) -> None:
    assert PLANTED not in json.dumps(audit.details_of(body))


def test_who_is_given_which_role_is_told() -> None:
    role = {"role": {"roleId": 4}, "scopeWorkspaceId": 2, "note": PLANTED}
    given = [{"userId": 7, "roleAssignment": role}]
    told = audit.details_of({"userRoleAssignments": given})["userRoleAssignments"]
    assert told == [{"userId": 7, "roleAssignment": {"role": {"roleId": 4}, "scopeWorkspaceId": 2}}]


def test_long_values_and_many_names_are_cut() -> None:
    told = audit.details_of({"description": "x" * 1000, **{f"n{i}": 0 for i in range(100)}})
    assert len(told["description"]) == 200
    assert len(told["fields"]) == 30


def test_objects_are_named_by_the_path() -> None:
    path = "/api/v1/models/{modelName}/versions/{modelVersionNum}"
    told = audit.object_of(path, {"modelName": "digits", "modelVersionNum": "3"})
    assert told == "model digits version 3"
    assert audit.object_of("/api/v1/users", {}) == ""
