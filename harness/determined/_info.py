"""Information about the task and its cluster for user code: `get_cluster_info()`."""

import json
import os
from typing import Any, Dict, List, Mapping, Optional

from determined import _paths
from determined._example_hparams import example

# `det experiment create --local --test-mode` sets this variable to the configuration, in JSON.
LOCAL_TEST_CONFIG = "DET_LOCAL_TEST_CONFIG"


class TrialInfo:
    """The trial that this task runs."""

    def __init__(
        self,
        trial_id: int,
        experiment_id: int,
        trial_seed: int,
        hparams: Dict[str, Any],
        config: Dict[str, Any],
        steps_completed: int,
        trial_run_id: int,
        debug: bool = False,
        inter_node_network_interface: Optional[str] = None,
    ) -> None:
        self.trial_id = trial_id
        self.experiment_id = experiment_id
        self.trial_seed = trial_seed
        self.hparams = hparams
        self._config = config
        self._steps_completed = steps_completed
        self._trial_run_id = trial_run_id
        self._debug = debug
        self._inter_node_network_interface = inter_node_network_interface


class RendezvousInfo:
    """The addresses and slot counts of the allocation's containers, ordered by rank."""

    def __init__(
        self, container_addrs: List[str], container_rank: int, container_slot_counts: List[int]
    ) -> None:
        self.container_addrs = container_addrs
        self.container_rank = container_rank
        self.container_slot_counts = container_slot_counts


class ResourcesInfo:
    """The GPUs of this container."""

    def __init__(self, gpu_uuids: List[str]) -> None:
        self.gpu_uuids = gpu_uuids


class ClusterInfo:
    """The task, its allocation, and the rank of this container in the allocation."""

    def __init__(
        self,
        master_url: str,
        cluster_id: str,
        agent_id: str,
        slot_ids: List[int],
        task_id: str,
        allocation_id: str,
        session_token: str,
        task_type: str,
        master_cert_name: Optional[str] = None,
        master_cert_file: Optional[str] = None,
        latest_checkpoint: Optional[str] = None,
        trial_info: Optional[TrialInfo] = None,
        rendezvous_info: Optional[RendezvousInfo] = None,
        resources_info: Optional[ResourcesInfo] = None,
    ) -> None:
        self.master_url = master_url
        self.cluster_id = cluster_id
        self.agent_id = agent_id
        self.slot_ids = slot_ids
        self.task_id = task_id
        self.allocation_id = allocation_id
        self.session_token = session_token
        self.task_type = task_type
        self.master_cert_name = master_cert_name
        self.master_cert_file = master_cert_file
        self._latest_checkpoint = latest_checkpoint
        self._trial_info = trial_info
        # Only trials have a rendezvous; other tasks run in one container.
        self._rendezvous_info = rendezvous_info or RendezvousInfo(["127.0.0.1"], 0, [len(slot_ids)])
        self._resources_info = resources_info or ResourcesInfo([])

    @property
    def latest_checkpoint(self) -> Optional[str]:
        """Return the checkpoint to resume from, or None for a fresh start."""
        return self._latest_checkpoint

    @property
    def trial(self) -> TrialInfo:
        if self._trial_info is None:
            raise RuntimeError(f"a task of type {self.task_type} has no trial")
        return self._trial_info

    @property
    def user_data(self) -> Dict[str, Any]:
        """Return the `data` section of the experiment configuration."""
        data = self.trial._config.get("data") if self._trial_info else None
        return dict(data) if isinstance(data, dict) else {}

    @property
    def container_addrs(self) -> List[str]:
        return list(self._rendezvous_info.container_addrs)

    @property
    def container_slot_counts(self) -> List[int]:
        return list(self._rendezvous_info.container_slot_counts)

    @property
    def container_rank(self) -> int:
        return self._rendezvous_info.container_rank

    @property
    def gpu_uuids(self) -> List[str]:
        return list(self._resources_info.gpu_uuids)


def get_cluster_info() -> Optional[ClusterInfo]:
    """Return the task that this process belongs to, or None outside of a cluster.

    In `det experiment create --local --test-mode`, it has the hyperparameters of the configuration.
    """
    info = task_info()
    return _local_test_info() if info is None else info


def _local_test_info() -> Optional[ClusterInfo]:
    text = os.environ.get(LOCAL_TEST_CONFIG)
    if not text:
        return None
    config = json.loads(text)
    trial = TrialInfo(
        trial_id=0,
        experiment_id=0,
        trial_seed=int((config.get("reproducibility") or {}).get("experiment_seed") or 0),
        hparams=example(config.get("hyperparameters") or {}),
        config=config,
        steps_completed=0,
        trial_run_id=0,
        debug=bool(config.get("debug", False)),
    )
    return ClusterInfo("", "", "", [], "", "", "", "TRIAL", trial_info=trial)


def task_info() -> Optional[ClusterInfo]:
    """Return the task of a cluster that this process belongs to, or None."""
    env = task_environment()
    if env is None:
        return None
    return ClusterInfo(
        master_url=env.get("DET_MASTER", ""),
        cluster_id=env.get("DET_CLUSTER_ID", ""),
        agent_id=env.get("DET_AGENT_ID", ""),
        slot_ids=[int(i) for i in json.loads(env.get("DET_SLOT_IDS") or "[]")],
        task_id=env.get("DET_TASK_ID", ""),
        allocation_id=env["DET_ALLOCATION_ID"],
        session_token=env.get("DET_SESSION_TOKEN", ""),
        task_type=env.get("DET_TASK_TYPE", "TRIAL"),
        master_cert_name=env.get("DET_MASTER_CERT_NAME") or None,
        master_cert_file=env.get("DET_MASTER_CERT_FILE") or None,
        latest_checkpoint=env.get("DET_LATEST_CHECKPOINT") or None,
        trial_info=_trial_info(env),
        rendezvous_info=_rendezvous_info(),
        resources_info=ResourcesInfo((read_info_file("resources") or {}).get("gpu_uuids") or []),
    )


def task_environment() -> Optional[Mapping[str, str]]:
    """Return the DET_* variables, or None outside of a task.

    A shell opened by ssh does not inherit them, so they are read from the file that the entry script wrote.
    """
    if os.environ.get("DET_ALLOCATION_ID"):
        return os.environ
    saved = read_info_file("environment")
    return saved if saved and saved.get("DET_ALLOCATION_ID") else None


def read_info_file(name: str) -> Optional[Dict[str, Any]]:
    try:
        with open(os.path.join(_paths.info_dir(), f"{name}.json")) as f:
            content = json.load(f)
    except FileNotFoundError:
        return None
    return content if isinstance(content, dict) else None


def _rendezvous_info() -> Optional[RendezvousInfo]:
    peers = read_info_file("rendezvous")
    if peers is None:
        return None
    slots = [int(n) for n in peers["container_slot_counts"]]
    return RendezvousInfo(list(peers["container_addrs"]), int(peers["container_rank"]), slots)


def _trial_info(env: Mapping[str, str]) -> Optional[TrialInfo]:
    if not env.get("DET_TRIAL_ID"):
        return None
    config = json.loads(env.get("DET_EXPERIMENT_CONFIG") or "{}")
    return TrialInfo(
        trial_id=int(env["DET_TRIAL_ID"]),
        experiment_id=int(env.get("DET_EXPERIMENT_ID") or 0),
        trial_seed=int(env.get("DET_TRIAL_SEED") or 0),
        hparams=json.loads(env.get("DET_HPARAMS") or "{}"),
        config=config,
        steps_completed=int(env.get("DET_STEPS_COMPLETED") or 0),
        trial_run_id=int(env.get("DET_TRIAL_RUN_ID") or 0),
        debug=bool(config.get("debug", False)),
        inter_node_network_interface=env.get("DET_INTER_NODE_NETWORK_INTERFACE") or None,
    )
