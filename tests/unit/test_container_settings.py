"""The settings of a configuration that reach a container's machine."""

from det_controlplane.core.agent_protocol import ContainerSpec
from det_controlplane.core.config.task_defaults import TaskContainerDefaults
from det_controlplane.services.agents.container_settings import (
    applied,
    network_interface,
    variables,
)

DEFAULTS = TaskContainerDefaults()


def test_a_relative_mount_is_below_the_work_directory() -> None:
    mounts = [
        {"host_path": "/mnt/data", "container_path": "data"},
        {"host_path": "/mnt/models", "container_path": "/models"},
    ]
    spec = ContainerSpec("c", "a", "t", 1, (), "token", work_dir="/app")
    matching_mounts = applied(spec, {"bind_mounts": mounts}, DEFAULTS, "cpu").mounts
    assert [mount.container_path for mount in matching_mounts] == ["/app/data", "/models"]


def test_agent_resolves_variables_without_a_value() -> None:
    given_variables = ["A=1", "HOME_OF_DATA", "EMPTY=", "B=x=y"]
    values, of_agent = variables({"environment": {"environment_variables": given_variables}}, "cpu")
    assert values == {"A": "1", "EMPTY": "", "B": "x=y"}
    assert of_agent == ["HOME_OF_DATA"]


def test_variables_depend_on_the_kind_of_slot() -> None:
    given_variables = {"cpu": ["KIND=cpu"], "cuda": ["KIND=cuda"]}
    values, _ = variables({"environment": {"environment_variables": given_variables}}, "cuda")
    assert values == {"KIND": "cuda"}


def test_network_interface_is_set_for_every_library() -> None:
    name = network_interface(TaskContainerDefaults(dtrain_network_interface="ens5"))
    assert name["NCCL_SOCKET_IFNAME"] == name["GLOO_SOCKET_IFNAME"] == "ens5"
    assert network_interface(DEFAULTS) == {}
