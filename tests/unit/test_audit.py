"""The fields of a request in the audit log."""

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


@given(
    st.dictionaries(NAMES.filter(lambda name: audit._camel(name) not in audit._HARMLESS), NESTED)
)
def test_secret_values_are_not_recorded(body: dict[str, Any]) -> None:
    assert PLANTED not in json.dumps(audit.details_of(body))


def test_names_with_underscores_are_recorded_in_camel_case() -> None:
    body = {
        "display_name": "Ada",
        "user_id": 7,
        "userId": None,
        "user": {"agent_user_group": {"agent_uid": 3}},
    }
    details = audit.details_of({**body, "max_slots": 1, "maxSlots": 2})
    assert details == {
        "displayName": "Ada", "userId": 7, "user": {"agentUserGroup": {"agentUid": 3}}, "maxSlots": 2,
    }  # fmt: skip


def test_invalid_list_items_do_not_hide_valid_ones() -> None:
    assert audit.details_of({"userIds": [{}, None, *([1] * 100), 7]}) == {"userIds": [1, 7]}


def test_shortened_values_are_marked() -> None:
    details = audit.details_of({"description": "x" * 1000, **{f"n{i}": 0 for i in range(100)}})
    assert (len(details["description"]), details["description"][-1]) == (200, "…")
    assert details["fields"][30:] == ["and 70 more"]
