"""Clusters and experiments, drawn by a seed."""

import json
from random import Random
from typing import Any

from det_controlplane.core.config import ClusterConfig, load_cluster

_LENGTH, _CHUNK = 64, 16


def cluster_config(rng: Random) -> ClusterConfig:
    kind = rng.choice(("priority", "priority", "fair_share", "round_robin"))
    scheduler: dict[str, Any] = {"type": kind, "fitting_policy": rng.choice(("best", "worst"))}
    if kind == "priority":
        scheduler["preemption"] = rng.random() < 0.7
    scheduler["allow_heterogeneous_fits"] = rng.random() < 0.3
    return load_cluster(
        {
            "checkpoint_storage": {"type": "directory", "container_path": "/checkpoints"},
            "resource_manager": {"type": "agent", "scheduler": scheduler},
            "resource_pools": [{"pool_name": "default", "max_aux_containers_per_agent": 3}],
        }
    )


def experiment_config(rng: Random, slots_per_agent: int, agents: int) -> str:
    """Something this cluster can hold when all of it is there. YAML is a superset of JSON."""
    gang = slots_per_agent * rng.randint(1, agents)
    resources: dict[str, Any] = {"slots_per_trial": rng.choice((0, 1, 1, 1, slots_per_agent, gang))}
    if rng.random() < 0.5:
        resources["priority"] = rng.choice((10, 42, 60))
    if rng.random() < 0.2:
        resources["max_slots"] = max(resources["slots_per_trial"], rng.randint(1, 4))
    if resources["slots_per_trial"] <= slots_per_agent and rng.random() < 0.2:
        resources["is_single_node"] = True
    config = {
        "name": "simulated", "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1, "count": 3}},
        "searcher": _searcher(rng), "resources": resources,
        "max_restarts": rng.choice((0, 1, 2)), "preemption_timeout": rng.choice((5, 30, 60)),
        "data": {"length": _LENGTH, "chunk": _CHUNK, "asks_for_lengths": rng.random() < 0.7},
        "checkpoint_policy": "best",
    }  # fmt: skip
    return json.dumps(config)


def _searcher(rng: Random) -> dict[str, Any]:
    searcher = rng.choice(_SEARCHERS)(rng)
    return {"metric": "loss", **searcher}


def _single(rng: Random) -> dict[str, Any]:
    return {"name": "single"}


def _random(rng: Random) -> dict[str, Any]:
    return {"name": "random", "max_trials": rng.randint(1, 4), **_concurrent(rng)}


def _grid(rng: Random) -> dict[str, Any]:
    return {"name": "grid", **_concurrent(rng)}


def _stopping(rng: Random) -> dict[str, Any]:
    return {"time_metric": "batches", "max_time": _LENGTH, **_asha(rng)}


def _promotion(rng: Random) -> dict[str, Any]:
    return {"max_length": {"batches": _LENGTH}, "stop_once": False, **_asha(rng)}


def _asha(rng: Random) -> dict[str, Any]:
    own: dict[str, Any] = {"name": "adaptive_asha", "mode": "aggressive"}
    if rng.random() < 0.4:
        own = {"name": "async_halving", "num_rungs": 2}
    return {**own, "max_trials": rng.randint(2, 6), "divisor": 2, **_concurrent(rng)}


def _local(rng: Random) -> dict[str, Any]:
    own = {"name": "local_asha", "num_rungs": 2, "max_trials": rng.randint(2, 5), "divisor": 2}
    return {**own, "time_metric": "batches", "max_time": _LENGTH, **_concurrent(rng)}


def _pbt(rng: Random) -> dict[str, Any]:
    return {
        "name": "pbt", "population_size": 2, "num_rounds": 2,
        "time_metric": "batches", "time_per_round": _LENGTH // 2,
    }  # fmt: skip


def _custom(rng: Random) -> dict[str, Any]:
    return {"name": "custom", "unit": "batches"}


def _concurrent(rng: Random) -> dict[str, Any]:
    return {"max_concurrent_trials": rng.randint(1, 3)}


_SEARCHERS = (_single, _random, _grid, _stopping, _promotion, _local, _pbt, _custom)
