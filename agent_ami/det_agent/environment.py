"""The environment variables of a container that only its agent knows."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from det_controlplane.core.agent_protocol import ContainerSpec, Slot

RUN_DIR = "/run/determined"
NO_FOLDERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class AgentEnvironment:
    agent_id: str
    runtime: str
    master_host: str
    master_port: int
    slots: tuple[Slot, ...] = ()
    cluster_id: str = ""
    master_id: str = ""
    proxies: Mapping[str, str] = field(default_factory=dict)
    # Clouds for which containers may request the machine's credentials.
    shared_credentials: tuple[str, ...] = ()


def container_env(
    spec: ContainerSpec, here: AgentEnvironment, data_folders: Mapping[str, str] = NO_FOLDERS
) -> dict[str, str]:
    """Return the specification's variables together with the agent's variables.

    `data_folders` are the directories of the task's data sets on this machine, by mount point."""
    return {
        **here.proxies,
        "DET_CLUSTER_ID": here.cluster_id,
        "DET_MASTER_ID": here.master_id,
        **{
            n: os.environ[n]
            for n in spec.env_of_agent
            if n in os.environ and not n.startswith("DET_")
        },
        **spec.env,
        "DET_SESSION_TOKEN": spec.session_token,
        "DET_MASTER": f"http://{here.master_host}:{here.master_port}",
        "DET_MASTER_ADDR": here.master_host,
        "DET_MASTER_HOST": here.master_host,
        "DET_MASTER_PORT": str(here.master_port),
        "DET_USE_TLS": "false",
        "DET_AGENT_ID": here.agent_id,
        "DET_CONTAINER_ID": spec.container_id,
        "DET_RESOURCES_ID": spec.container_id,
        "DET_SLOT_IDS": json.dumps(list(spec.slot_ids)),
        "DET_RUNTIME": here.runtime,
        **_data_env(spec, here, data_folders),
        **(
            {"DET_MACHINE_CREDENTIALS": ",".join(here.shared_credentials)}
            if here.shared_credentials
            else {}
        ),
    }


def _data_env(
    spec: ContainerSpec, here: AgentEnvironment, folders: Mapping[str, str]
) -> dict[str, str]:
    """Return the variable by which `determined.data` finds the data sets. Processes see the machine's own paths."""
    if not spec.data_sets:
        return {}
    entries = [
        {
            "source": one.source,
            "at": one.at,
            "mode": one.mode,
            "path": folders.get(one.at, one.at) if here.runtime == "process" else one.at,
        }
        for one in spec.data_sets
    ]
    return {"DET_DATA_SETS": json.dumps(entries)}


def assigned(spec: ContainerSpec, slots: Sequence[Slot]) -> list[Slot]:
    return [slot for slot in slots if slot.id in spec.slot_ids]


def device_env(spec: ContainerSpec, slots: Sequence[Slot]) -> dict[str, str]:
    """Return the variable with the GPUs that a process may use. It is empty for a task without slots."""
    mine = assigned(spec, slots)
    if any(slot.type == "cuda" for slot in slots):
        return {"CUDA_VISIBLE_DEVICES": ",".join(slot.uuid for slot in mine)}
    if any(slot.type == "rocm" for slot in slots):
        visible = ",".join(str(slot.id) for slot in mine)
        return {"ROCR_VISIBLE_DEVICES": visible}
    return {}


def python_path(harness: str, theirs: str) -> str:
    """Put the harness first, because an older harness in the image must not take precedence."""
    return f"{harness}:{theirs}" if theirs else harness
