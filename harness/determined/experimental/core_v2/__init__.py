"""The Core API for scripts that do not run on a cluster: call `init()`, then report through this module.

    core_v2.init(defaults=core_v2.DefaultConfig(name="on my laptop"))
    core_v2.train.report_training_metrics(steps_completed=1, metrics={"loss": 0.5})
    core_v2.close()

A script that runs as a trial on a cluster reports to that trial.
"""

import atexit
import sys
from typing import TYPE_CHECKING, Any, Optional

from determined._info import task_info
from determined.core import Context, PreemptMode, TensorboardMode
from determined.core import init as _init_managed
from determined.core._context import StorageChoice
from determined.core._distributed import DistributedContext, DummyDistributedContext
from determined.experimental.core_v2._config import (
    Config,
    DefaultConfig,
    UnmanagedConfig,
    merged,
)
from determined.experimental.core_v2._unmanaged import open_unmanaged

if TYPE_CHECKING:
    from determined.core import (
        CheckpointContext,
        PreemptContext,
        ProfilerContext,
        SearcherContext,
        TrainContext,
    )
    from determined.experimental.client import Determined

    checkpoint: CheckpointContext
    distributed: DistributedContext
    preempt: PreemptContext
    profiler: ProfilerContext
    searcher: SearcherContext
    train: TrainContext
    info: Any

__all__ = [
    "Config",
    "DefaultConfig",
    "UnmanagedConfig",
    "close",
    "init",
    "init_context",
    "url_reverse_webui_exp_view",
]

_PARTS = ("checkpoint", "distributed", "info", "preempt", "profiler", "searcher", "train")
_context: Optional[Context] = None


def init(
    *,
    config: Optional[Config] = None,
    defaults: Optional[DefaultConfig] = None,
    unmanaged: Optional[UnmanagedConfig] = None,
    client: "Optional[Determined]" = None,
    distributed: Optional[DistributedContext] = None,
    checkpoint_storage: StorageChoice = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
) -> None:
    """Start to report. The module's attributes `train`, `checkpoint` and so on are usable until `close()`."""
    global _context
    if _context is not None:
        raise RuntimeError("core_v2 is initialized already: call core_v2.close() first")
    _context = init_context(
        config=config,
        defaults=defaults,
        unmanaged=unmanaged,
        client=client,
        distributed=distributed,
        checkpoint_storage=checkpoint_storage,
        preempt_mode=preempt_mode,
        tensorboard_mode=tensorboard_mode,
    )
    _context.start()
    atexit.register(_close_at_exit)


def init_context(
    *,
    config: Optional[Config] = None,
    defaults: Optional[DefaultConfig] = None,
    unmanaged: Optional[UnmanagedConfig] = None,
    client: "Optional[Determined]" = None,
    distributed: Optional[DistributedContext] = None,
    checkpoint_storage: StorageChoice = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
) -> Context:
    """Return the context as a context manager. It replaces this module's `init()` and `close()`."""
    if task_info() is not None:
        return _init_managed(
            distributed=distributed,
            checkpoint_storage=checkpoint_storage,
            preempt_mode=preempt_mode,
            tensorboard_mode=tensorboard_mode,
        )
    chosen = merged(config, defaults, unmanaged)
    chosen.checkpoint_storage = checkpoint_storage or chosen.checkpoint_storage
    if client is None:
        from determined.experimental.client import Determined

        client = Determined()
    alone = distributed or DummyDistributedContext()
    return open_unmanaged(client._session, chosen, alone, tensorboard_mode)


def close() -> None:
    """Send all pending reports, and end the trial as completed."""
    _close(None)


def url_reverse_webui_exp_view() -> str:
    """Return the address of this experiment in the WebUI."""
    info = _require_context().info
    if info is None:
        raise RuntimeError("this script does not report to an experiment")
    return f"{info.master_url}/det/experiments/{info.trial.experiment_id}"


def _close(error: Optional[BaseException]) -> None:
    global _context
    context, _context = _require_context(), None
    atexit.unregister(_close_at_exit)
    context.close(type(error) if error else None, error)


def _close_at_exit() -> None:
    """Close if the script exits without `close()`. After an uncaught exception, the trial has failed."""
    if _context is not None:
        _close(getattr(sys, "last_value", None))


def _require_context() -> Context:
    if _context is None:
        raise RuntimeError("call core_v2.init() first")
    return _context


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return getattr(_require_context(), name)
    raise AttributeError(f"module 'determined.experimental.core_v2' has no attribute {name!r}")
