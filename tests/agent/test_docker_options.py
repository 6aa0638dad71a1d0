"""The engine's options for GPUs, which test machines lack, and options that must never be set."""

from pathlib import Path
from typing import Any

import pytest
from det_agent import docker_options, host_address
from det_agent.docker_options import create_options, key_from, labels
from det_agent.docker_runtime import DockerRuntime
from det_agent.harness_mount import Payload
from det_agent.runtime import ContainerKey
from det_controlplane.core.agent_protocol import ContainerSpec, Slot

from tests.support.agents import make_spec

PACKAGES = {name: Path(f"/venv/{name}") for name in ("determined", "det_cli")}
PAYLOAD = Payload(PACKAGES, {"boto3": Path("/venv/boto3")})
CUDA = (Slot(0, "cuda", "GPU-a", "A100"), Slot(1, "cuda", "GPU-b", "A100"))
ROCM = (Slot(0, "rocm", "0xaa", "MI250"), Slot(1, "rocm", "0xbb", "MI250"))


def options(slots: tuple[Slot, ...], **changes: Any) -> dict[str, Any]:
    return create_options(
        ContainerSpec.from_json(make_spec("true", **changes)), {"A": "1"}, slots, PAYLOAD
    )


def test_task_sees_only_its_nvidia_gpus() -> None:
    (request,) = options(CUDA, slot_ids=[1])["device_requests"]
    assert request["DeviceIDs"] == ["GPU-b"]
    assert request["Count"] == 0
    assert ["gpu", "compute", "utility"] in request["Capabilities"]


def test_task_without_slots_sees_no_gpus() -> None:
    new_docker_options = options(CUDA)
    assert "device_requests" not in new_docker_options
    assert new_docker_options["environment"]["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_task_sees_its_amd_gpus() -> None:
    new_docker_options = options(ROCM, slot_ids=[0, 1])
    assert "/dev/kfd:/dev/kfd:rwm" in new_docker_options["devices"]
    assert new_docker_options["environment"]["ROCR_VISIBLE_DEVICES"] == "0,1"


def test_distributed_tasks_use_infiniband(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_options, "FABRIC", tmp_path / "none")
    assert "ulimits" not in options(CUDA, slot_ids=[0, 1], network="host")
    monkeypatch.setattr(docker_options, "FABRIC", tmp_path)
    new_docker_options = options(CUDA, slot_ids=[0, 1], network="host")
    assert f"{tmp_path}:/dev/infiniband:rwm" in new_docker_options["devices"]
    assert [(u["Name"], u["Soft"], u["Hard"]) for u in new_docker_options["ulimits"]] == [
        ("memlock", -1, -1)
    ]
    for alone in (options(CUDA, slot_ids=[0]), options(CUDA, network="host")):
        assert "ulimits" not in alone


def test_pip_installs_into_an_externally_managed_python() -> None:
    assert options(())["environment"]["PIP_BREAK_SYSTEM_PACKAGES"] == "1"
    spec = ContainerSpec.from_json(make_spec("true"))
    new_docker_options = create_options(spec, {"PIP_BREAK_SYSTEM_PACKAGES": "0"}, (), PAYLOAD)
    assert new_docker_options["environment"]["PIP_BREAK_SYSTEM_PACKAGES"] == "0"


def test_net_raw_is_dropped_unless_the_task_adds_it() -> None:
    assert options(())["cap_drop"] == ["NET_RAW"]
    assert options((), cap_drop=["CHOWN"], cap_add=["SYS_PTRACE"])["cap_drop"] == [
        "CHOWN",
        "NET_RAW",
    ]
    for capability in ("NET_RAW", "cap_net_raw", "ALL"):
        assert options((), cap_add=[capability])["cap_drop"] == []


def test_harness_and_dependencies_are_mounted_read_only() -> None:
    mounts = {m["Target"]: m for m in options(())["mounts"]}
    for name in ("determined", "det_cli"):
        assert mounts[f"/opt/determined/harness/{name}"]["Source"] == f"/venv/{name}"
    assert all(m["ReadOnly"] for m in mounts.values())
    assert options(())["environment"]["DET_DEPS_DIR"] == "/opt/determined/deps"


def test_harness_precedes_the_users_python_path() -> None:
    spec = ContainerSpec.from_json(make_spec("true"))
    new_docker_options = create_options(spec, {"PYTHONPATH": "/mine"}, (), PAYLOAD)
    assert new_docker_options["environment"]["PYTHONPATH"] == "/opt/determined/harness:/mine"


def test_only_bridged_containers_publish_ports() -> None:
    assert options(())["ports"] == {"1734/tcp": None}
    assert "ports" not in options((), network="host")


def test_host_network_containers_run_in_the_blocked_slice() -> None:
    spec = ContainerSpec.from_json(make_spec("true", network="host"))
    new_docker_options = create_options(spec, {}, (), PAYLOAD, "determined.slice")
    assert new_docker_options["cgroup_parent"] == "determined.slice"
    bridged = ContainerSpec.from_json(make_spec("true"))
    assert "cgroup_parent" not in create_options(bridged, {}, (), PAYLOAD, "determined.slice")
    assert "cgroup_parent" not in options((), network="host")


class Engine:
    def __init__(self, version: str, driver: str) -> None:
        self._told = {"CgroupVersion": version, "CgroupDriver": driver}

    def info(self) -> dict[str, str]:
        return self._told


@pytest.mark.parametrize(
    ("engine", "parent"),
    [
        (Engine("2", "systemd"), "determined.slice"),
        (Engine("2", "cgroupfs"), "/determined.slice"),
        (Engine("1", "cgroupfs"), ""),
    ],
    ids=["systemd", "cgroupfs", "first version"],
)
def test_slice_needs_a_machine_setup_and_cgroup_v2(
    engine: Engine, parent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_address, "SLICE", tmp_path / "slice")
    assert host_address.cgroup_parent(engine) == ""
    (tmp_path / "slice").write_text("determined.slice\n")
    assert host_address.cgroup_parent(engine) == parent
    runtime = DockerRuntime(engine, "agent", lambda: "cluster", (), PAYLOAD)
    assert [runtime.is_isolated(n) for n in ("bridge", "host")] == [True, bool(parent)], (
        "gets credentials of the machine"
    )


def test_labels_identify_a_container_without_its_token() -> None:
    key = ContainerKey("c", 3, "alloc", "task", "secret", ("out of .*", "é"))
    container_labels = labels(key, "agent", "cluster", (1734,))
    assert "secret" not in container_labels.values()
    assert key_from(container_labels, ["X=1", "DET_SESSION_TOKEN=secret"]) == key
