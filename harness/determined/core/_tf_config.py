"""Read TF_CONFIG, which lists TensorFlow's workers, and choose a distribution strategy."""

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List


@dataclass(frozen=True)
class TFWorkers:
    """TensorFlow's workers, ordered by rank: one for each container, or a single one without TF_CONFIG."""

    rank: int
    addresses: List[str]


def workers_of_environment() -> TFWorkers:
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster: Dict[str, List[str]] = config.get("cluster", {})
    chiefs = cluster.get("chief", [])
    addresses = [*chiefs, *cluster.get("worker", [])]
    task = config.get("task", {})
    before = len(chiefs) if task.get("type") == "worker" else 0
    return TFWorkers(before + int(task.get("index", 0)), addresses or ["127.0.0.1"])


def choose_strategy(workers: TFWorkers) -> Any:
    """Return a strategy for several containers, for several GPUs of a container, or the default strategy."""
    import tensorflow as tf

    if len(workers.addresses) > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()
