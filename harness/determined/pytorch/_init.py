"""`pytorch.init()`: a context for a training script, on a cluster or off."""

import contextlib
import random
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

from determined.pytorch import _backends, _rng
from determined.pytorch._context import PyTorchTrialContext
from determined.pytorch._trial_context import TrialSettings, choose_device


@contextlib.contextmanager
def init(
    *,
    hparams: Optional[Dict[str, Any]] = None,
    exp_conf: Optional[Dict[str, Any]] = None,
    distributed: Optional[Any] = None,
    aggregation_frequency: int = 1,
    enable_tensorboard_logging: bool = True,
) -> Iterator[PyTorchTrialContext]:
    """Give a PyTorchTrialContext; on a cluster with the trial's own hyperparameters and configuration.

    Processes started by torchrun (`determined.launch.torch_distributed`) find each other by themselves.
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
    """Find the other workers of this trial, by whatever started them."""
    from determined.core import DistributedContext

    if distributed is not None:
        backend = _backends.DDP() if distributed.size > 1 else _backends.Backend()
        return backend, distributed
    if _backends.started_by_torch_distributed():
        backend = _backends.DDP()
        return backend, DistributedContext.from_torch_distributed()
    if _backends.started_by_horovod():
        from determined.horovod import hvd

        hvd.require_horovod_type("torch", "the trial was started by Horovod")
        hvd.init()
        return _backends.Horovod(hvd), DistributedContext.from_horovod(hvd)
    return _backends.Backend(), None


def make_settings(
    core_context: Any,
    hparams: Optional[Dict[str, Any]],
    exp_conf: Optional[Dict[str, Any]],
    *,
    aggregation_frequency: int = 1,
    enable_tensorboard_logging: bool = True,
) -> TrialSettings:
    from determined import get_cluster_info

    info = get_cluster_info()
    trial = info.trial if info is not None and info.task_type == "TRIAL" else None
    config = exp_conf if exp_conf is not None else (trial._config if trial else {})
    optimizations: Mapping[str, Any] = config.get("optimizations") or {}
    searcher: Mapping[str, Any] = config.get("searcher") or {}
    seed = trial.trial_seed if trial else _local_seed(core_context, config)
    return TrialSettings(
        trial_seed=seed,
        hparams=hparams if hparams is not None else (trial.hparams if trial else {}),
        exp_conf=config,
        aggregation_frequency=aggregation_frequency,
        average_aggregated_gradients=bool(optimizations.get("average_aggregated_gradients", True)),
        average_training_metrics=bool(optimizations.get("average_training_metrics", True)),
        managed=trial is not None,
        trial_id=trial.trial_id if trial else None,
        experiment_id=trial.experiment_id if trial else None,
        enable_tensorboard_logging=enable_tensorboard_logging,
        searcher_metric=searcher.get("metric"),
        smaller_is_better=bool(searcher.get("smaller_is_better", True)),
    )


def _local_seed(core_context: Any, config: Mapping[str, Any]) -> int:
    """The configured seed, or one that the chief draws: shuffling must agree on all ranks."""
    configured = (config.get("reproducibility") or {}).get("experiment_seed")
    if configured is not None:
        return int(configured)
    drawn: int = core_context.distributed.broadcast(random.SystemRandom().randrange(2**31))
    return drawn


def close_tensorboard_writer(context: Any) -> None:
    if context._tensorboard_writer is not None:
        context._tensorboard_writer.close()
