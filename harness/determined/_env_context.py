"""The environment of a trial as older Trial classes read it: `context.env`."""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from determined._experiment_config import ExperimentConfig
from determined._info import ClusterInfo, task_info


@dataclass(frozen=True)
class EnvContext:
    """The task, configuration and devices of a trial. Outside of a cluster the ids are empty."""

    master_url: str
    master_cert_file: Optional[str]
    master_cert_name: Optional[str]
    experiment_config: ExperimentConfig
    hparams: Dict[str, Any]
    latest_checkpoint: Optional[str]
    steps_completed: int
    use_gpu: bool
    container_gpus: List[str]
    slot_ids: List[int]
    debug: bool
    det_trial_id: str
    det_experiment_id: str
    det_agent_id: str
    det_cluster_id: str
    trial_seed: int
    trial_run_id: int
    allocation_id: str
    managed_training: bool
    test_mode: bool
    on_cluster: bool


def make_env(settings: Any) -> EnvContext:
    """Describe the trial of these settings. On a cluster, add the details of its task."""
    info = task_info() if settings.managed else None
    return EnvContext(
        **(_on_cluster(info) if info is not None else _off_cluster()),
        experiment_config=ExperimentConfig(settings.exp_conf),
        hparams=settings.hparams,
        trial_seed=settings.trial_seed,
        managed_training=settings.managed,
        test_mode=False,
        on_cluster=settings.managed,
    )


def _on_cluster(info: ClusterInfo) -> Dict[str, Any]:
    trial = info.trial
    return {
        "master_url": info.master_url,
        "master_cert_file": info.master_cert_file,
        "master_cert_name": info.master_cert_name,
        "latest_checkpoint": info.latest_checkpoint,
        "steps_completed": trial._steps_completed,
        "use_gpu": bool(info.gpu_uuids),
        "container_gpus": info.gpu_uuids,
        "slot_ids": info.slot_ids,
        "debug": trial._debug,
        "det_trial_id": str(trial.trial_id),
        "det_experiment_id": str(trial.experiment_id),
        "det_agent_id": info.agent_id,
        "det_cluster_id": info.cluster_id,
        "trial_run_id": trial._trial_run_id,
        "allocation_id": info.allocation_id,
    }


def _off_cluster() -> Dict[str, Any]:
    names = ("det_trial_id", "det_experiment_id", "det_agent_id", "det_cluster_id", "allocation_id")
    return {
        **dict.fromkeys(("master_url", *names), ""),
        **dict.fromkeys(("master_cert_file", "master_cert_name", "latest_checkpoint")),
        "steps_completed": 0,
        "use_gpu": False,
        "container_gpus": [],
        "slot_ids": [],
        "debug": False,
        "trial_run_id": 1,
    }
