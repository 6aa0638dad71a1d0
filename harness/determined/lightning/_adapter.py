"""LightningAdapter, which runs a LightningModule as a PyTorchTrial."""

from typing import Any, Dict, Iterator, List, Mapping, Tuple

from torch import Tensor, nn

from determined.pytorch import LRScheduler, PyTorchCallback, PyTorchTrial, PyTorchTrialContext

_MODES = {
    "epoch": LRScheduler.StepMode.STEP_EVERY_EPOCH,
    "step": LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP,
}


class _StepModule(nn.Module):  # type: ignore[misc]
    """Runs training and validation steps as forward passes, which DistributedDataParallel requires."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, step: str, *args: Any) -> Any:
        return getattr(self.module, step)(*args)


class _TrainerProxy:
    """A replacement for a Lightning Trainer, from which a module reads progress, rank and loggers."""

    logger = progress_bar_callback = None
    loggers: Tuple[Any, ...] = ()

    def __init__(self, context: PyTorchTrialContext) -> None:
        distributed = context.distributed
        self.current_epoch = self.global_step = 0
        self.global_rank, self.local_rank = distributed.rank, distributed.local_rank
        self.world_size, self.is_global_zero = distributed.size, distributed.rank == 0
        self._passes_per_step = context._settings.aggregation_frequency

    def reach(self, epoch: int, batches: int) -> None:
        self.current_epoch, self.global_step = epoch, batches // self._passes_per_step


class _Epochs(PyTorchCallback):
    """Calls the module's own epoch hooks."""

    def __init__(self, module: Any, context: PyTorchTrialContext) -> None:
        self._module = module
        self._context = context

    def on_training_start(self) -> None:
        context = self._context
        self._module.trainer.reach(context.current_train_epoch(), context.current_train_batch())
        self._module.on_train_start()

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        self._module.trainer.current_epoch = epoch_idx
        self._module.on_train_epoch_start()

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        self._module.on_train_epoch_end()

    def on_validation_epoch_start(self) -> None:
        self._module.on_validation_epoch_start()

    def on_validation_epoch_end(self, outputs: List[Any]) -> None:
        self._module.on_validation_epoch_end()


class LightningAdapter(PyTorchTrial):
    """A PyTorchTrial around a LightningModule. Subclass it and define the two data loaders.

    The metrics are the loss and all values that the module logs with `self.log`. Only automatic optimization with
    one optimizer is supported. For other modules, use a Lightning Trainer with DetLogger.
    """

    def __init__(
        self,
        context: PyTorchTrialContext,
        lightning_module: Any,
        precision: Any = 32,
        gradient_clip_val: float = 0.0,
    ) -> None:
        super().__init__(context)
        if not lightning_module.automatic_optimization:
            raise ValueError(
                "LightningAdapter trains modules with automatic optimization; use a Lightning Trainer "
                "with determined.lightning.experimental.DetLogger for manual optimization"
            )
        self._logged: Dict[str, Any] = {}
        self._clip = gradient_clip_val
        self.module = lightning_module
        lightning_module.trainer = _TrainerProxy(context)
        lightning_module.log = self._log
        lightning_module.log_dict = self._log_dict
        self.steps = context.wrap_model(_StepModule(lightning_module))
        if str(precision).startswith(("16", "bf16")):
            context.experimental.use_amp()
        optimizer, schedulers = _convert_optimizers(lightning_module.configure_optimizers())
        self.optimizer = context.wrap_optimizer(optimizer)
        for scheduler, mode, frequency in schedulers:
            context.wrap_lr_scheduler(scheduler, mode, frequency)

    def build_callbacks(self) -> Dict[str, PyTorchCallback]:
        return {"lightning_module": _Epochs(self.module, self.context)}

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        self._logged = {}
        self.module.trainer.reach(epoch_idx, batch_idx)
        returned = self.steps("training_step", batch, batch_idx)
        loss = returned["loss"] if isinstance(returned, Mapping) else returned
        self.context.backward(loss)
        self.context.step_optimizer(
            self.optimizer, clip_grads=self._clipped if self._clip else None
        )
        self.module.trainer.reach(epoch_idx, batch_idx + 1)
        return {"loss": loss, **self._logged}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Dict[str, Any]:
        self._logged = {}
        returned = self.steps("validation_step", batch, batch_idx)
        metrics = dict(returned) if isinstance(returned, Mapping) else {}
        if isinstance(returned, Tensor):
            metrics["val_loss"] = returned
        return {**metrics, **self._logged}

    def _log(self, name: str, value: Any, *args: Any, **kwargs: Any) -> None:
        self._logged[name] = value

    def _log_dict(self, dictionary: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        self._logged.update(dictionary)

    def _clipped(self, parameters: Iterator[Any]) -> None:
        nn.utils.clip_grad_norm_(list(parameters), self._clip)


def _convert_optimizers(answer: Any) -> Tuple[Any, List[Tuple[Any, Any, int]]]:
    """Convert any result of `configure_optimizers` to one optimizer and its schedulers."""
    schedulers: List[Any] = []
    if isinstance(answer, Mapping):
        optimizer = answer["optimizer"]
        schedulers = [answer["lr_scheduler"]] if "lr_scheduler" in answer else []
    elif isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], list):
        (optimizer,), schedulers = _single(answer[0]), answer[1]
    elif isinstance(answer, (list, tuple)):
        (optimizer,) = _single(list(answer))
    else:
        optimizer = answer
    return optimizer, [_scheduler(s) for s in schedulers]


def _single(optimizers: List[Any]) -> List[Any]:
    if len(optimizers) != 1:
        raise ValueError(
            f"LightningAdapter trains with one optimizer, and the module has {len(optimizers)}"
        )
    return optimizers


def _scheduler(configured: Any) -> Tuple[Any, Any, int]:
    if not isinstance(configured, Mapping):
        return configured, _MODES["epoch"], 1
    mode = _MODES[configured.get("interval", "epoch")]
    return configured["scheduler"], mode, int(configured.get("frequency", 1))
