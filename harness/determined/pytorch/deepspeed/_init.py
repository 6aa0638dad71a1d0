"""`deepspeed.init()`, which makes a context for a training script with or without GPUs."""

import contextlib
import os
import socket
from typing import Any, Dict, Iterator, Optional

import torch

from determined._trial_settings import make_settings
from determined.pytorch import _rng
from determined.pytorch._init import close_tensorboard_writer
from determined.pytorch._trial_context import choose_device
from determined.pytorch.deepspeed._context import DeepSpeedTrialContext


@contextlib.contextmanager
def init(
    *,
    hparams: Optional[Dict[str, Any]] = None,
    exp_conf: Optional[Dict[str, Any]] = None,
    distributed: Optional[Any] = None,
    enable_tensorboard_logging: bool = True,
) -> Iterator[DeepSpeedTrialContext]:
    """Yield a DeepSpeedTrialContext. Processes that the deepspeed launcher started are connected automatically."""
    from determined import core

    if distributed is None and int(os.environ.get("WORLD_SIZE") or 1) > 1:
        distributed = core.DistributedContext.from_deepspeed()
    join_process_group()
    with contextlib.ExitStack() as stack:
        core_context = stack.enter_context(
            core.init(distributed=distributed, preempt_mode=core.PreemptMode.ChiefOnly)
        )
        settings = make_settings(
            core_context, hparams, exp_conf, enable_tensorboard_logging=enable_tensorboard_logging
        )
        _rng.seed_everything(settings.trial_seed)
        device = choose_device(core_context.distributed.local_rank)
        context = DeepSpeedTrialContext(core_context, settings, device)
        stack.callback(close_tensorboard_writer, context)
        yield context


def join_process_group() -> None:
    """Join a process group with NCCL, or with gloo without GPUs. DeepSpeed needs one even for a single process."""
    import deepspeed

    if torch.distributed.is_initialized():
        return
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    if "RANK" not in os.environ:
        os.environ.update({**alone, "MASTER_PORT": str(_free_port())})
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False)


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])
