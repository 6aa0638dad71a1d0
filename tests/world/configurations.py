"""Clusters and experiments, drawn by a seed."""

import json
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

from det_controlplane.core.config import ClusterConfig, load_cluster
from det_controlplane.core.config.pools import Pool
from det_controlplane.core.config.providers import Section
from det_controlplane.core.provision.model import Limits
from det_controlplane.core.provision.offers import Capacity, Offer

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
    """Return something this cluster can hold when all of it is there. YAML is a superset of JSON."""
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


def _model(rng: Random) -> dict[str, Any]:
    own = {"name": "model_asha", "num_rungs": 2, "max_trials": rng.randint(2, 12), "divisor": 2}
    return {**own, "max_length": {"batches": _LENGTH}, "stop_once": False, **_concurrent(rng)}


def _pbt(rng: Random) -> dict[str, Any]:
    return {
        "name": "pbt", "population_size": 2, "num_rounds": 2,
        "time_metric": "batches", "time_per_round": _LENGTH // 2,
    }  # fmt: skip


def _custom(rng: Random) -> dict[str, Any]:
    return {"name": "custom", "unit": "batches"}


def _concurrent(rng: Random) -> dict[str, Any]:
    return {"max_concurrent_trials": rng.randint(1, 3)}


_SEARCHERS = (_single, _random, _grid, _stopping, _promotion, _local, _model, _pbt, _custom)


def rented_cluster_config(rng: Random) -> ClusterConfig:
    """Return a cluster with one or two pools that rent from two clouds."""
    config = cluster_config(rng)
    names = ("default", "other")[: rng.randint(1, 2)]
    return replace(config, resource_pools=tuple(_rented_pool(rng, config, n) for n in names))


def _rented_pool(rng: Random, config: ClusterConfig, name: str) -> Pool:
    scheduler = config.resource_pools[0].scheduler
    limits = Limits(
        min_instances=rng.choice((0, 0, 1)),
        max_instances=rng.choice((1, 2, 3, 5)),
        warm_instances=rng.choice((0, 0, 1)),
        max_idle_s=rng.choice((60.0, 120.0, 300.0)),
        max_starting_s=rng.choice((180.0, 600.0)),
        max_hourly_cost=rng.choice((None, None, Decimal(4))),
        max_aux_containers=3,
        allow_heterogeneous_fits=scheduler.allow_heterogeneous_fits,
        fitting_policy=scheduler.fitting_policy,
        preemption=scheduler.preemption or scheduler.type != "priority",
    )
    sections = (Section("aws", {}, ("us-east-1",)), Section("gcp", {}, ("us-central1",)))
    aws = [
        _offer(rng, "aws", "us-east-1", zone, f"g5.{slots}", slots, capacity, 0)
        for zone in rng.choice((("",), ("us-east-1a", "us-east-1b")))
        for slots in (1, 4)
        for capacity in Capacity
    ]
    gcp = [
        _offer(rng, "gcp", "us-central1", zone, f"g2-{slots}", slots, capacity, 1)
        for zone in ("us-central1-a", "us-central1-b")
        for slots in (1, 2, 4)
        for capacity in rng.choice(((Capacity.SPOT,), tuple(Capacity)))
    ]
    return replace(
        config.resource_pools[0], pool_name=name, sections=sections, offers=(*aws, *gcp), limits=limits
    )  # fmt: skip


def _offer(
    rng: Random, provider: str, region: str, zone: str, name: str, slots: int, capacity: Capacity, section: int
) -> Offer:  # fmt: skip
    cents = rng.randint(30, 60) if capacity is Capacity.SPOT else rng.randint(90, 130)
    price = Decimal(cents * slots) / 100
    return Offer(provider, region, zone, name, capacity, slots, price, section)


def _cheap(searcher: dict[str, Any]) -> dict[str, Any]:
    """Give some searches a cost limit of a few minutes of a machine. It draws no random number."""
    if searcher.get("max_trials") == 3:
        searcher["stop_when"] = {"or_cost_above": 0.02}
    return searcher


def rented_experiment_config(rng: Random, pools: tuple[str, ...]) -> str:
    """Return work for machines of up to four slots; a pool that may rent one alone refuses eight."""
    resources: dict[str, Any] = {
        "slots_per_trial": rng.choice((0, 1, 1, 1, 2, 4, 8)),
        "resource_pool": rng.choice(pools),
    }
    if rng.random() < 0.5:
        resources["priority"] = rng.choice((10, 42, 60))
    searcher = rng.choice((_single, _random, _grid, _stopping, _promotion))
    config = {
        "name": "rented", "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": {"type": "log", "base": 10, "minval": -4, "maxval": -1, "count": 3}},
        "searcher": _cheap({"metric": "loss", **searcher(rng)}), "resources": resources,
        "max_restarts": rng.choice((0, 1)), "preemption_timeout": rng.choice((30, 60)),
        "data": {"length": _LENGTH, "chunk": _CHUNK, "asks_for_lengths": rng.random() < 0.7},
        "checkpoint_policy": "best",
    }  # fmt: skip
    return json.dumps(config)
