"""Load a trial with its trained models from a checkpoint directory."""

import contextlib
import pathlib
from typing import Any, Dict, Optional, Type

from determined import _trial_files
from determined._trial_settings import make_settings
from determined.core._context import offline_context
from determined.pytorch import _backends, _checkpoint, _consolidate
from determined.pytorch._callback import Hooks
from determined.pytorch._context import PyTorchTrialContext
from determined.pytorch._init import init
from determined.pytorch._lr_scheduler import LRScheduler
from determined.pytorch._trial import PyTorchTrial
from determined.pytorch._trial_context import choose_device


class CheckpointLoadContext(PyTorchTrialContext):
    """A context on this machine alone, with which programs construct a trial outside of training.

    Reports have no effect."""

    def __init__(
        self, hparams: Optional[Dict[str, Any]] = None, exp_conf: Optional[Dict[str, Any]] = None
    ) -> None:
        core_context = offline_context()
        settings = make_settings(core_context, hparams or {}, exp_conf or {})
        super().__init__(core_context, settings, choose_device(0), _backends.Backend())


def load_trial_from_checkpoint_path(
    path: str,
    trial_class: Optional[Type[PyTorchTrial]] = None,
    trial_kwargs: Optional[Dict[str, Any]] = None,
    torch_load_kwargs: Optional[Dict[str, Any]] = None,
    **kwargs: Any,
) -> PyTorchTrial:
    """Construct the trial of a checkpoint, with its weights, on any machine.

    Without `trial_class` the code in the checkpoint is imported and runs, so only load trusted checkpoints.
    `torch_load_kwargs` are passed to torch.load; `{"weights_only": False}` allows pickled objects.
    """
    directory = pathlib.Path(path)
    load = _trial_files.read_origin(directory)
    if load.get("trial_type") != "PyTorchTrial":
        raise ValueError(f"{path} is a checkpoint of a {load.get('trial_type')}")
    state = _checkpoint.read_state(directory, **{**(torch_load_kwargs or {}), **kwargs})
    if _consolidate.is_sharded(directory):
        state = {**state, **_consolidate.trial_state(directory)}
    with contextlib.ExitStack() as stack:
        loaded_class = trial_class or stack.enter_context(
            _trial_files.imported(directory, load["trial_cls_spec"])
        )
        context = stack.enter_context(
            init(hparams=load.get("hparams") or {}, exp_conf=load.get("experiment_config") or {})
        )
        trial: PyTorchTrial = loaded_class(context, **(trial_kwargs or {}))
        _wrap_first_interface(trial, context)
        hooks = Hooks({})
        hooks.call("on_checkpoint_load_start", state)
        _checkpoint.restore(context, hooks, state)
    return trial


def _wrap_first_interface(trial: Any, context: Any) -> None:
    """Wrap the model and optimizer of a trial for Determined 0.12, which defines methods that return them."""
    if context.models or not hasattr(trial, "build_model"):
        return
    trial.model = context.wrap_model(trial.build_model())
    if not hasattr(trial, "optimizer"):
        return
    optimizer = context.wrap_optimizer(trial.optimizer(trial.model))
    build_scheduler = getattr(trial, "create_lr_scheduler", None)
    scheduler = build_scheduler(optimizer) if build_scheduler is not None else None
    if isinstance(scheduler, LRScheduler):
        context.lr_schedulers.append(scheduler)
    elif scheduler is not None:
        context.wrap_lr_scheduler(scheduler, LRScheduler.StepMode.MANUAL_STEP)
