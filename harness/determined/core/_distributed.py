"""The rank of this worker in its trial, and the communication between workers."""

import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from determined._info import task_environment
from determined.core._star import Alone, Centre, Spoke, Star


def _port(name: str, fallback: int) -> int:
    return int(os.environ.get(name) or fallback)


class DistributedContext:
    """The rank and size of this worker, and methods to gather and broadcast Python values.

    `rank` counts all workers, `local_rank` counts workers of the container, and `cross_rank` counts containers.
    The constructor blocks until every worker has called it. Workers of one container connect through a local socket,
    or with `force_tcp` through a port that the system chooses. `pull_port` is not used.
    """

    def __init__(
        self,
        *,
        rank: int,
        size: int,
        local_rank: int,
        local_size: int,
        cross_rank: int,
        cross_size: int,
        chief_ip: Optional[str] = None,
        pub_port: Optional[int] = None,
        pull_port: Optional[int] = None,
        port_offset: int = 0,
        force_tcp: bool = False,
    ) -> None:
        _check_shape(rank, size, local_rank, local_size, cross_rank, cross_size)
        self.rank = rank
        self.size = size
        self.local_rank = local_rank
        self.local_size = local_size
        self.cross_rank = cross_rank
        self.cross_size = cross_size
        self._is_chief = rank == 0
        self._is_local_chief = local_rank == 0
        self._chief_ip = chief_ip or ("127.0.0.1" if cross_size == 1 else None)
        pub = _port("INTER_TRAIN_PROCESS_COMM_PORT_1", 12360) if pub_port is None else pub_port
        self._pub_port = pub + port_offset
        self._force_tcp = force_tcp
        self._closed = False
        self._global: Star = self._join_global()
        self._local: Star = self._join_local()

    @classmethod
    def from_horovod(cls, hvd: Any, chief_ip: Optional[str] = None) -> "DistributedContext":
        """Make the context of Horovod's workers. `hvd` is your framework's horovod module, after `hvd.init()`."""
        return cls(
            rank=hvd.rank(),
            size=hvd.size(),
            local_rank=hvd.local_rank(),
            local_size=hvd.local_size(),
            cross_rank=hvd.cross_rank(),
            cross_size=hvd.cross_size(),
            chief_ip=chief_ip or os.environ.get("DET_CHIEF_IP"),
        )

    @classmethod
    def from_torch_distributed(cls, chief_ip: Optional[str] = None) -> "DistributedContext":
        """Make the context of workers started by `torch.distributed.run` (torchrun)."""
        _require("RANK", "WORLD_SIZE", "LOCAL_RANK", by="torch.distributed.run")
        local_size = _env_int("LOCAL_WORLD_SIZE", 1)
        return cls._from_variables(local_size, "GROUP_RANK", "GROUP_WORLD_SIZE", chief_ip)

    @classmethod
    def from_deepspeed(cls, chief_ip: Optional[str] = None) -> "DistributedContext":
        """Make the context of workers started by the deepspeed launcher."""
        _require("RANK", "WORLD_SIZE", "LOCAL_RANK", by="the deepspeed launcher")
        local_size = _env_int("LOCAL_SIZE", _env_int("LOCAL_WORLD_SIZE", _env_int("WORLD_SIZE")))
        return cls._from_variables(local_size, "CROSS_RANK", "CROSS_SIZE", chief_ip)

    @classmethod
    def _from_variables(
        cls, local_size: int, cross_rank: str, cross_size: str, chief_ip: Optional[str]
    ) -> "DistributedContext":
        """Make the context from torch's variables. The names of the container's variables depend on the launcher."""
        rank, size = _env_int("RANK"), _env_int("WORLD_SIZE")
        return cls(
            rank=rank,
            size=size,
            local_rank=_env_int("LOCAL_RANK"),
            local_size=local_size,
            cross_rank=_env_int(cross_rank, rank // local_size),
            cross_size=_env_int(cross_size, size // local_size),
            chief_ip=chief_ip or os.environ.get("DET_CHIEF_IP") or os.environ.get("MASTER_ADDR"),
        )

    @classmethod
    def from_tf_config(cls) -> "Tuple[DistributedContext, Any]":
        """Make the context of TensorFlow's workers, and the distribution strategy for building the model.

        There is one worker for each container. With several containers, the tensorflow launcher sets TF_CONFIG.
        """
        workers = tf_workers_of_environment()
        # TensorFlow requires that the strategy is created before any other operation.
        strategy = _choose_tf_strategy(workers)
        rank, size = workers.rank, len(workers.addresses)
        chief = workers.addresses[0].rsplit(":", 1)[0].strip("[]")
        context = cls(
            rank=rank,
            size=size,
            local_rank=0,
            local_size=1,
            cross_rank=rank,
            cross_size=size,
            chief_ip=os.environ.get("DET_CHIEF_IP") or chief,
        )
        return context, strategy

    def get_rank(self) -> int:
        return self.rank

    def get_local_rank(self) -> int:
        return self.local_rank

    def get_size(self) -> int:
        return self.size

    def get_num_agents(self) -> int:
        return self.cross_size

    def gather(self, stuff: Any) -> Optional[List[Any]]:
        """Send one value to the chief. The chief gets all values ordered by rank, other workers get None."""
        return self._global.gather(stuff)

    def gather_local(self, stuff: Any) -> Optional[List[Any]]:
        return self._local.gather(stuff)

    def allgather(self, stuff: Any) -> List[Any]:
        values: List[Any] = self._global.broadcast(self._global.gather(stuff))
        return values

    def allgather_local(self, stuff: Any) -> List[Any]:
        values: List[Any] = self._local.broadcast(self._local.gather(stuff))
        return values

    def broadcast(self, stuff: Any) -> Any:
        """Return the chief's value on every worker."""
        return self._global.broadcast(stuff)

    def broadcast_local(self, stuff: Any = None) -> Any:
        """Return the local chief's value on every worker of this container."""
        return self._local.broadcast(stuff)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._local.close()
            self._global.close()

    def __enter__(self) -> "DistributedContext":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _join_global(self) -> Star:
        if self.size == 1:
            return Alone()
        if self._chief_ip is None:
            raise ValueError(
                "chief_ip is missing: with more than one container, name the address of rank 0 "
                "(get_cluster_info().container_addrs[0], or DET_CHIEF_IP)"
            )
        if self._is_chief:
            host = "127.0.0.1" if self.cross_size == 1 else ""
            centre = Centre(self.size, peer_key(), (host, self._pub_port))
            centre.accept_all()
            return centre
        return Spoke(self.rank, peer_key(), (self._chief_ip, self._pub_port))

    def _join_local(self) -> Star:
        """Connect the workers of this container. The address is exchanged through the global connections."""
        if self.cross_size == 1 or self.size == 1:
            return self._global
        centre = None
        if self._is_local_chief and self.local_size > 1:
            # The system chooses the port, because other containers of the trial may share this host's network.
            tcp = ("127.0.0.1", 0) if self._force_tcp else None
            centre = Centre(self.local_size, peer_key(), tcp)
        own_address = (self.cross_rank, centre.address) if centre else None
        addresses = dict(pair for pair in self.allgather(own_address) if pair)
        if self.local_size == 1:
            return Alone()
        if centre is not None:
            centre.accept_all()
            return centre
        return Spoke(self.local_rank, peer_key(), addresses[self.cross_rank])


class DummyDistributedContext(DistributedContext):
    """The context of a single worker."""

    def __init__(self) -> None:
        super().__init__(
            rank=0, size=1, local_rank=0, local_size=1, cross_rank=0, cross_size=1, chief_ip=None
        )


def peer_key() -> bytes:
    """Return the secret that the workers share. Containers have different session tokens, so it is DET_PEER_KEY."""
    env = task_environment() or os.environ
    return (env.get("DET_PEER_KEY") or env.get("DET_SESSION_TOKEN") or "off-cluster").encode()


def _check_shape(
    rank: int, size: int, local_rank: int, local_size: int, cross_rank: int, cross_size: int
) -> None:
    for name, value, limit in (
        ("rank", rank, size),
        ("local_rank", local_rank, local_size),
        ("cross_rank", cross_rank, cross_size),
    ):
        if not 0 <= value < limit:
            raise ValueError(f"{name} {value} must be at least 0 and below its size {limit}")


def _require(*names: str, by: str) -> None:
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise RuntimeError(
            f"{', '.join(missing)} not set: this process was not started by {by}; check entrypoint"
        )


def _env_int(name: str, fallback: int = 0) -> int:
    value = os.environ.get(name)
    return int(value) if value else fallback


@dataclass(frozen=True)
class _TFWorkers:
    """TensorFlow's workers, ordered by rank: one for each container, or a single one without TF_CONFIG."""

    rank: int
    addresses: List[str]


def tf_workers_of_environment() -> _TFWorkers:
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster: Dict[str, List[str]] = config.get("cluster", {})
    chiefs = cluster.get("chief", [])
    addresses = [*chiefs, *cluster.get("worker", [])]
    task = config.get("task", {})
    before = len(chiefs) if task.get("type") == "worker" else 0
    return _TFWorkers(before + int(task.get("index", 0)), addresses or ["127.0.0.1"])


def _choose_tf_strategy(workers: _TFWorkers) -> Any:
    """Return a strategy for several containers, for several GPUs of a container, or the default strategy."""
    import tensorflow as tf

    if len(workers.addresses) > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()
