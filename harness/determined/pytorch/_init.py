"""`pytorch.init()`, which makes a context for a training script on a cluster or outside of one."""

import contextlib
from typing import Any, Dict, Iterator, Optional, Tuple

from determined._trial_settings import make_settings
from determined.pytorch import _backends, _rng
from determined.pytorch._context import PyTorchTrialContext
from determined.pytorch._trial_context import choose_device


@contextlib.contextmanager
def init(
    *,
    hparams: Optional[Dict[str, Any]] = None,
    exp_conf: Optional[Dict[str, Any]] = None,
    distributed: Optional[Any] = None,
    aggregation_frequency: int = 1,
    enable_tensorboard_logging: bool = True,
) -> Iterator[PyTorchTrialContext]:
    """Yield a PyTorchTrialContext. On a cluster it has the trial's hyperparameters and configuration by default.

    Processes that torchrun (`determined.launch.torch_distributed`) started are connected automatically.
    """
    from determined import core

    backend, distributed = join_workers(distributed)
    with contextlib.ExitStack() as stack:
        stack.callback(backend.close)
        core_context = stack.enter_context(
            core.init(distributed=distributed, preempt_mode=core.PreemptMode.ChiefOnly)
        )
        settings = make_settings(
            core_context,
            hparams,
            exp_conf,
            aggregation_frequency=aggregation_frequency,
            enable_tensorboard_logging=enable_tensorboard_logging,
        )
        _rng.seed_everything(settings.trial_seed)
        device = choose_device(core_context.distributed.local_rank)
        context = PyTorchTrialContext(core_context, settings, device, backend)
        stack.callback(close_tensorboard_writer, context)
        yield context


def join_workers(distributed: Optional[Any]) -> Tuple[_backends.Backend, Optional[Any]]:
    """Connect to the other workers of this trial, depending on the launcher."""
    from determined.core import DistributedContext

    if distributed is not None and distributed.size == 1:
        return _backends.Backend(), distributed
    if _backends.started_by_torch_distributed():
        backend = _backends.DDP()
        return backend, distributed or DistributedContext.from_torch_distributed()
    if _backends.started_by_horovod():
        from determined.horovod import hvd

        hvd.require_horovod_type("torch", "the trial was started by Horovod")
        hvd.init()
        return _backends.Horovod(hvd), distributed or DistributedContext.from_horovod(hvd)
    if distributed is not None:
        return _backends.DDP(), distributed
    return _backends.Backend(), None


def close_tensorboard_writer(context: Any) -> None:
    if context._tensorboard_writer is not None:
        context._tensorboard_writer.close()
