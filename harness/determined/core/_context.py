"""`core.init()`: the context that user code needs to run as a trial, on a cluster or outside of one."""

import enum
import logging
import os
import pathlib
import sys
import tempfile
from types import TracebackType
from typing import Any, Dict, Mapping, Optional, Type, Union

from determined import _paths, _progress
from determined._info import ClusterInfo, task_info
from determined._task_session import task_session
from determined.common import storage
from determined.common.http import APIError, NotFoundError, Session
from determined.core._checkpoint import CheckpointContext, DummyCheckpointContext
from determined.core._checkpoint_registry import ClusterCheckpointRegistry
from determined.core._distributed import DistributedContext, DummyDistributedContext
from determined.core._outbox import Outbox
from determined.core._preempt import DummyPreemptContext, PreemptContext, PreemptMode
from determined.core._profiler import DummyProfilerContext, ProfilerContext
from determined.core._searcher import (
    DummySearcherContext,
    SearcherContext,
    ServerOperations,
    length_number,
    max_length_of,
)
from determined.core._train import EarlyExitReason, TrainContext
from determined.core._train_offline import DummyTrainContext
from determined.core._user_traces import join_trace
from determined.errors import InvalidHP
from determined.replicas._task import replicator_of_task
from determined.tensorboard._scalars import ReportedScalars
from determined.tensorboard._sync import TensorboardSync

logger = logging.getLogger("determined.core")

StorageChoice = Union[str, Mapping[str, Any], None]


class TensorboardMode(enum.Enum):
    """The way in which TensorBoard files are uploaded: automatically during training, or by the user's code."""

    AUTO = "AUTO"
    MANUAL = "MANUAL"


class Context:
    """The parts of the Core API. It is a context manager."""

    def __init__(
        self,
        checkpoint: CheckpointContext,
        distributed: Optional[DistributedContext] = None,
        preempt: Optional[PreemptContext] = None,
        train: Optional[TrainContext] = None,
        searcher: Optional[SearcherContext] = None,
        info: Optional[ClusterInfo] = None,
        profiler: Optional[ProfilerContext] = None,
        _session: Optional[Session] = None,
        _outbox: Optional[Outbox] = None,
        _tensorboard: Optional[TensorboardSync] = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.distributed = distributed or DummyDistributedContext()
        self.preempt = preempt or DummyPreemptContext(self.distributed)
        self.train = train or DummyTrainContext(distributed=self.distributed)
        self.searcher = searcher or DummySearcherContext(self.distributed)
        self.info = info
        self.profiler = profiler or DummyProfilerContext()
        self._session = _session
        self._outbox = _outbox
        self._tensorboard = _tensorboard

    def start(self) -> None:
        _progress.start()
        self.preempt.start()

    def alert(
        self,
        title: Optional[str] = None,
        description: Optional[str] = None,
        level: Optional[str] = "info",
    ) -> None:
        """Send an event to webhooks with custom triggers."""
        if self._session is None or self.info is None or self.info._trial_info is None:
            logger.info("alert (%s): %s: %s", level, title, description)
            return
        data = {
            "title": title or "",
            "description": description or "",
            "level": f"LOG_LEVEL_{(level or 'info').upper()}",
        }
        trial = self.info.trial
        body = {"data": data, "experimentId": trial.experiment_id, "trialId": trial.trial_id}
        self._session.post("/api/v1/webhooks/custom", body)

    def close(
        self,
        exc_type: Optional[Type[BaseException]] = None,
        exc_val: Optional[BaseException] = None,
        exc_tb: Optional[TracebackType] = None,
    ) -> None:
        """Send all pending reports and uploads, and close. A failure here does not hide an earlier exception."""
        self.preempt.close()
        self.profiler.off()
        self.train.close()
        failures = []
        for part in (self.checkpoint, self._tensorboard, self._outbox, self.distributed):
            try:
                if part is not None:
                    part.close()
            except Exception as e:
                failures.append(e)
        if self._session is not None:
            self._session.close()
        if failures and exc_val is None:
            raise failures[0]
        for failure in failures:
            logger.error("while closing after another error: %s", failure)

    def __enter__(self) -> "Context":
        self.start()
        return self

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc_val: Optional[BaseException],
        exc_tb: Optional[TracebackType],
    ) -> None:
        is_invalid_hp = isinstance(exc_val, InvalidHP) and self._outbox is not None
        if is_invalid_hp and self.distributed.rank == 0:
            logger.info("invalid hyperparameters, the trial ends early: %s", exc_val)
            self.train.report_early_exit(EarlyExitReason.INVALID_HP)
        self.close(exc_type, exc_val, exc_tb)
        if is_invalid_hp:
            # The searcher knows the reason already. Another exit status would count as a failure.
            sys.exit(0)


def init(
    *,
    distributed: Optional[DistributedContext] = None,
    checkpoint_storage: StorageChoice = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
) -> Context:
    """Make the context of this trial. Outside of a cluster, the context logs reports and saves to local files."""
    info = task_info()
    join_trace()
    if info is None or info.task_type != "TRIAL":
        return _init_offline(info, distributed, checkpoint_storage, preempt_mode)
    return _init_trial(info, distributed, checkpoint_storage, preempt_mode, tensorboard_mode)


def _init_trial(
    info: ClusterInfo,
    distributed: Optional[DistributedContext],
    checkpoint_storage: StorageChoice,
    preempt_mode: PreemptMode,
    tensorboard_mode: TensorboardMode,
) -> Context:
    distributed = distributed or _single_worker_context(info)
    chosen = checkpoint_storage or info.trial._config.get("checkpoint_storage") or {}
    manager = resolve_storage(chosen, in_task=True)
    session = task_session()
    context = trial_context(
        info,
        session,
        distributed,
        manager,
        checkpoint_storage,
        tensorboard_mode,
        (info.trial._config.get("searcher") or {}).get("metric"),
    )
    context.preempt = PreemptContext(
        session, info.allocation_id, distributed, preempt_mode, context._outbox
    )
    context.checkpoint._replicator = replicator_of_task(
        info, session, distributed, context._outbox, context.train._reported
    )
    context.checkpoint._times.seconds_left = context.preempt.seconds_left
    return context


def trial_context(
    info: ClusterInfo,
    session: Session,
    distributed: DistributedContext,
    manager: storage.StorageManager,
    checkpoint_storage: StorageChoice,
    tensorboard_mode: TensorboardMode,
    searcher_metric: Optional[str] = None,
) -> Context:
    """Make the context of a trial that reports to a cluster, without preemption. It may run anywhere."""
    trial = info.trial
    backend_id = None
    if distributed.rank == 0:
        backend_id = prepare_run(session, trial.trial_id, checkpoint_storage)
    outbox = Outbox(session)
    tensorboard = TensorboardSync(
        manager,
        _tensorboard_dir(info, distributed.rank),
        f"{info.cluster_id}/tensorboard/experiment/{trial.experiment_id}/trial/{trial.trial_id}",
        distributed.rank,
        automatic=tensorboard_mode is TensorboardMode.AUTO,
    )
    draws = distributed.rank == 0 and tensorboard_mode is TensorboardMode.AUTO
    train = TrainContext(
        session,
        trial.trial_id,
        trial.experiment_id,
        trial._trial_run_id,
        distributed,
        outbox,
        tensorboard,
        searcher_metric,
        ReportedScalars(tensorboard) if draws else None,
        info.agent_id,
    )
    configured = max_length_of(trial._config)
    operations = ServerOperations(session, trial.trial_id, outbox, length_number(configured))
    registry = ClusterCheckpointRegistry(
        session, outbox, info.task_id, info.allocation_id, backend_id
    )
    return Context(
        checkpoint=CheckpointContext(distributed, manager, registry),
        distributed=distributed,
        train=train,
        searcher=SearcherContext(operations, distributed, configured),
        info=info,
        profiler=ProfilerContext(info.agent_id, train, distributed),
        _session=session,
        _outbox=outbox,
        _tensorboard=tensorboard,
    )


def _tensorboard_dir(info: ClusterInfo, rank: int) -> pathlib.Path:
    name = info.allocation_id or info.task_id
    return pathlib.Path(tempfile.gettempdir()) / f"tensorboard-{name}-{rank}"


def offline_context() -> Context:
    """Make the context of a program that runs on this machine alone."""
    return _init_offline(None, None, None, PreemptMode.WorkersAskChief)


def _init_offline(
    info: Optional[ClusterInfo],
    distributed: Optional[DistributedContext],
    checkpoint_storage: StorageChoice,
    preempt_mode: PreemptMode,
) -> Context:
    distributed = distributed or DummyDistributedContext()
    manager = resolve_storage(checkpoint_storage, in_task=info is not None)
    return Context(
        checkpoint=DummyCheckpointContext(distributed, manager),
        distributed=distributed,
        preempt=DummyPreemptContext(distributed, preempt_mode),
        train=DummyTrainContext(distributed=distributed),
        searcher=DummySearcherContext(distributed),
        info=info,
    )


def resolve_storage(choice: StorageChoice, *, in_task: bool) -> storage.StorageManager:
    """Make the storage of a path, URL or configuration. Outside of a cluster, None means the user's data directory."""
    if isinstance(choice, str):
        return storage.from_string(choice)
    if choice:
        if choice.get("type") == "shared_fs" and not in_task:
            raise ValueError(
                "checkpoint_storage of type shared_fs exists on a cluster only: "
                "give a path or use type directory"
            )
        return storage.from_config(choice, in_task=in_task)
    return storage.DirectoryStorageManager(str(_paths.offline_dir() / "checkpoints"))


def prepare_run(session: Session, run_id: int, checkpoint_storage: StorageChoice) -> Optional[int]:
    """Report the start of the run and, if the code chose another storage, the storage of its checkpoints."""
    body: Dict[str, Any] = {"runId": run_id}
    if isinstance(checkpoint_storage, Mapping):
        body["checkpointStorage"] = dict(checkpoint_storage)
    elif checkpoint_storage:
        body["checkpointStorage"] = storage_config(checkpoint_storage)
    try:
        answer = session.post("/api/v1/runs/start", body) or {}
    except NotFoundError:
        return None
    except APIError as e:
        raise RuntimeError(f"the cluster refused to start run {run_id}: {e}") from e
    backend_id = answer.get("storageId")
    return None if backend_id is None else int(backend_id)


def storage_config(shortcut: str) -> Dict[str, Any]:
    """Return the `checkpoint_storage` configuration for a path or URL."""
    scheme, _, rest = shortcut.partition("://")
    place, _, prefix = rest.partition("/")
    if rest and scheme in ("s3", "gs"):
        kind = "s3" if scheme == "s3" else "gcs"
        return {"type": kind, "bucket": place, **({"prefix": prefix} if prefix else {})}
    if rest and scheme == "ms":
        return {"type": "azure", "account_url": f"https://{place}", "container": prefix}
    return {"type": "directory", "container_path": os.path.abspath(shortcut)}


def _single_worker_context(info: ClusterInfo) -> DistributedContext:
    if len(info.container_addrs) > 1 or len(info.slot_ids) > 1:
        raise ValueError(
            "this trial has more than one slot or container: start workers with a launcher and "
            "pass core.init(distributed=DistributedContext.from_torch_distributed(), or another)"
        )
    return DummyDistributedContext()
