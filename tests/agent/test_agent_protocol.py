"""The messages that the agent and the control plane both import."""

import json

import pytest
from det_controlplane.core.agent_protocol import (
    ContainerFile,
    ContainerReport,
    ContainerSpec,
    Directive,
    JoinAnswer,
    MachineSignal,
    Mount,
    PollAnswer,
    PollRequest,
    TaskUser,
)

SPEC = ContainerSpec(
    "c-1",
    "a-1",
    "t-1",
    2,
    ("python3", "train.py"),
    "secret",
    env={"A": "1"},
    files=(ContainerFile("/run/determined/x", "eA=="),),
    mounts=(Mount("/data", "/mnt", read_only=True),),
    user=TaskUser(1000, 1000, "ada", "ada"),
    registry_auth={"password": "p"},
)


def test_messages_survive_a_json_round_trip() -> None:
    answer = PollAnswer((Directive("c-1", 2, "a-1", spec=SPEC),), ("c-0",), "v", 0.5)
    request = PollRequest(
        "i",
        3,
        (ContainerReport("c-1", 2, "running", host_ports={"80": 1}),),
        (MachineSignal("shutdown"),),
    )
    assert PollAnswer.from_json(json.loads(json.dumps(answer.as_json()))) == answer
    assert PollRequest.from_json(json.loads(json.dumps(request.as_json()))) == request


def test_unknown_fields_are_ignored_and_missing_ones_get_defaults() -> None:
    assert JoinAnswer.from_json({"agent_token": "t", "lease_s": 30}) == JoinAnswer("t")
    body = SPEC.as_json() | {"resources_id": "c-1", "registry_auth": None, "work_dir": None}
    spec = ContainerSpec.from_json(body)
    assert (spec.registry_auth, spec.work_dir) == ({}, "/run/determined/workdir")


def test_rejects_a_message_without_a_required_field() -> None:
    with pytest.raises(TypeError, match="epoch"):
        Directive.from_json({"id": "c-1"})


def test_report_omits_unset_fields() -> None:
    report = ContainerReport("c-1", 2, "assigned")
    assert report.as_json() == {"id": "c-1", "epoch": 2, "state": "assigned"}


@pytest.mark.parametrize("secret", ["secret", "'1'", "'p'"])
def test_repr_of_a_specification_contains_no_secrets(secret: str) -> None:
    assert secret not in repr(SPEC)
