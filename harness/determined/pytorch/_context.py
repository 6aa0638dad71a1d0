"""PyTorchTrialContext, which wraps models, optimizers and schedulers, and steps them."""

from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch import nn

from determined.pytorch import _backends, _parallel
from determined.pytorch._lr_scheduler import LRScheduler
from determined.pytorch._trial_context import (
    BaseExperimentalContext,
    BaseTrialContext,
    TrialSettings,
    choose_device,
)


class PyTorchExperimentalContext(BaseExperimentalContext):
    """`context.experimental` of a PyTorchTrial."""

    def __init__(self, context: "PyTorchTrialContext") -> None:
        super().__init__(context)
        self._trial_context = context

    def use_amp(self) -> None:
        """Train in mixed precision: autocast every batch, and scale losses and gradients on CUDA."""
        context = self._trial_context
        if context._scaler is not None:
            raise RuntimeError("use_amp() excludes wrap_scaler(): it uses a scaler of its own")
        context.wrap_scaler(_make_scaler(context.device))
        context._auto_amp = True
        context._steps_are_plain = False

    def disable_auto_to_device(self) -> None:
        """Pass batches to the trial without moving them. Use `context.to_device` to move them."""
        self._trial_context._auto_to_device = False


class PyTorchTrialContext(BaseTrialContext):
    """The context that a PyTorchTrial's constructor receives, and in which it wraps its models and optimizers.

    Model code does not depend on the number of slots and machines.
    """

    def __init__(
        self,
        core_context: Any,
        settings: TrialSettings,
        device: torch.device,
        backend: _backends.Backend,
    ) -> None:
        super().__init__(core_context, settings, device)
        self.models: List[nn.Module] = []
        self.optimizers: List[Any] = []
        self.lr_schedulers: List[LRScheduler] = []
        self.experimental = PyTorchExperimentalContext(self)
        self._backend = backend
        self._scaler: Optional[Any] = None
        self._auto_amp = False
        # If true, a step only calls the optimizer, unless the caller asks for more.
        self._steps_are_plain = (
            settings.aggregation_frequency == 1 and not backend.takes_part_in_steps
        )
        self._auto_to_device = True
        self._apex: Optional[Any] = None
        self._torch_profiler: Optional[Any] = None
        self._averages: Dict[int, bool] = {}
        self._optimizer_steps: Dict[int, int] = {}
        self._last_loss: Optional[torch.Tensor] = None
        # Of the micro-batch of an elastic trial; see _elastic.py.
        self._loss_weight = 1.0
        self._is_last_part = True

    @classmethod
    def _on_this_machine(cls, core_context: Any, settings: TrialSettings) -> Any:
        return cls(core_context, settings, choose_device(0), _backends.Backend())

    def get_per_slot_batch_size(self) -> int:
        """Return `global_batch_size` divided by the number of slots; by the maximum for an elastic trial."""
        slots = self._settings.elastic_slots
        if slots is None:
            return super().get_per_slot_batch_size()
        return max(1, self.get_global_batch_size() // slots)

    def wrap_model(
        self, model: nn.Module, *, parallel: Optional[_parallel.ParallelPlan] = None
    ) -> Any:
        """Move a model to the device and prepare it for training on all slots.

        Every slot has the whole model, unless it is sharded: by `parallel`, which is `pytorch.FSDP(...)` or a function
        of the model and a mesh of all ranks, or before this call.
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"wrap_model() takes a torch.nn.Module, not {type(model).__name__}")
        self._before_training("wrap_model")
        model = _parallel.distribute(model, parallel, self.device)
        if _parallel.is_sharded(model):
            wrapped = model
        else:
            wrapped = self._backend.wrap_model(model.to(self.device), self.device)
        self.models.append(wrapped)
        return wrapped

    def wrap_optimizer(
        self,
        optimizer: Any,
        backward_passes_per_step: int = 1,
        fp16_compression: Optional[bool] = None,
        average_aggregated_gradients: Optional[bool] = None,
    ) -> Any:
        """Register an optimizer. Set `backward_passes_per_step` if a batch has several backward passes."""
        self._before_training("wrap_optimizer")
        if backward_passes_per_step < 1:
            raise ValueError(
                f"backward_passes_per_step must be at least 1, not {backward_passes_per_step}"
            )
        average = self._settings.average_aggregated_gradients
        if average_aggregated_gradients is not None:
            average = average_aggregated_gradients
        passes = backward_passes_per_step * self._settings.aggregation_frequency
        compress = self._settings.gradient_compression
        if fp16_compression is not None:
            compress = fp16_compression
        wrapped = self._backend.wrap_optimizer(optimizer, self.models, passes, compress)
        self.optimizers.append(wrapped)
        self._averages[id(wrapped)] = average
        self._optimizer_steps[id(wrapped)] = 0
        return wrapped

    def wrap_lr_scheduler(
        self, lr_scheduler: Any, step_mode: LRScheduler.StepMode, frequency: int = 1
    ) -> Any:
        """Register a scheduler and set when the Trainer steps it. Return the scheduler itself."""
        self._before_training("wrap_lr_scheduler")
        optimizer = getattr(lr_scheduler, "optimizer", None)
        if optimizer is not None and all(optimizer is not o for o in self.optimizers):
            raise ValueError(
                "wrap_lr_scheduler() was given a scheduler of an optimizer that is not wrapped: "
                "call wrap_optimizer() first and construct the scheduler with its result"
            )
        self.lr_schedulers.append(LRScheduler(lr_scheduler, step_mode, frequency))
        return lr_scheduler

    def wrap_scaler(self, scaler: Any) -> Any:
        """Register a gradient scaler, so that checkpoints store its state."""
        if self._scaler is not None and self._scaler is not scaler:
            raise RuntimeError("there can be one gradient scaler; wrap_scaler() was called twice")
        self._scaler = scaler
        return scaler

    def configure_apex_amp(self, models: Any, optimizers: Any, **options: Any) -> Any:
        """Initialize NVIDIA Apex mixed precision. Deprecated: use torch.amp or `experimental.use_amp()`."""
        try:
            from apex import amp  # type: ignore[import-not-found]
        except ImportError as e:
            raise RuntimeError(
                "configure_apex_amp() needs the package NVIDIA apex, which is not installed; "
                "torch.amp does the same: call context.experimental.use_amp()"
            ) from e
        before = [models] if isinstance(models, nn.Module) else list(models)
        initialised = amp.initialize(models, optimizers, **options)
        after = initialised[0] if isinstance(initialised[0], list) else [initialised[0]]
        for old, new in zip(before, after):
            self.models = [new if model is old else model for model in self.models]
        self._apex = amp
        return initialised

    def set_profiler(self, *args: Any, **kwargs: Any) -> None:
        """Profile training with torch.profiler.profile. The traces are stored with the trial's TensorBoard files."""
        folder = str(self.get_tensorboard_path())
        kwargs["on_trace_ready"] = torch.profiler.tensorboard_trace_handler(folder)
        self._torch_profiler = torch.profiler.profile(*args, **kwargs)

    def autocast_forward_pass(self, to_wrap: nn.Module) -> nn.Module:
        """Run a model's forward pass under autocast."""
        to_wrap.forward = torch.autocast(self.device.type)(to_wrap.forward)
        return to_wrap

    def backward(
        self,
        loss: torch.Tensor,
        gradient: Optional[torch.Tensor] = None,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> None:
        """Compute gradients, scaled if `use_amp()` or Apex is in use.

        In an elastic trial, the loss must be an average over the batch: it is weighted with the batch's share."""
        if self._loss_weight != 1.0:
            loss = loss * self._loss_weight
        if self._auto_amp and self._scaler is not None:
            loss = self._scaler.scale(loss)
        # Keep the loss alive during the next forward pass, as a handwritten loop does: building a graph is faster
        # while the last graph exists. A retained graph would also keep its tensors, so it is released.
        self._last_loss = None if retain_graph or create_graph else loss
        if self._apex is None:
            loss.backward(gradient, retain_graph, create_graph)
            return
        with self._apex.scale_loss(loss, self.optimizers) as scaled:
            scaled.backward(gradient, retain_graph, create_graph)

    def step_optimizer(
        self,
        optimizer: Any,
        clip_grads: Optional[Callable[[Iterator[Any]], Any]] = None,
        auto_zero_grads: bool = True,
        scaler: Optional[Any] = None,
    ) -> None:
        """Step the optimizer, unless gradients are still being aggregated over batches.

        `clip_grads(parameters)` may clip gradients. They are unscaled, and averaged over slots and batches.
        """
        if not self._is_last_part:
            return
        if self._steps_are_plain and clip_grads is None and scaler is None:
            optimizer.step()
        elif not self._step_in_full(optimizer, clip_grads, scaler):
            return
        if auto_zero_grads:
            optimizer.zero_grad()
        if self.lr_schedulers:
            self._step_schedulers_of(optimizer)

    def _step_in_full(
        self,
        optimizer: Any,
        clip_grads: Optional[Callable[[Iterator[Any]], Any]],
        scaler: Optional[Any],
    ) -> bool:
        """Step with all enabled features. Return False while gradients are still being aggregated."""
        frequency = self._settings.aggregation_frequency
        if frequency > 1 and (self._position.batch + 1) % frequency:
            return False
        scaler = self._scaler if self._auto_amp else scaler
        backend = self._backend
        if backend.takes_part_in_steps:
            backend.synchronize(optimizer)
        if frequency > 1:
            self._average_gradients(optimizer, frequency)
        if clip_grads is not None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            parameters = (p for group in optimizer.param_groups for p in group["params"])
            clip_grads(self._apex.master_params(optimizer) if self._apex else parameters)
        with backend.stepping(optimizer):
            if scaler is not None:
                scaler.step(optimizer)
            else:
                optimizer.step()
        if self._auto_amp and scaler is not None:
            scaler.update()
        return True

    def _average_gradients(self, optimizer: Any, frequency: int) -> None:
        if not self._averages.get(id(optimizer), True):
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.div_(frequency)

    def _step_schedulers_of(self, optimizer: Any) -> None:
        steps = self._optimizer_steps[id(optimizer)] = (
            self._optimizer_steps.get(id(optimizer), 0) + 1
        )
        for scheduler in self.lr_schedulers:
            if scheduler._step_mode is not LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP:
                continue
            if getattr(scheduler._scheduler, "optimizer", optimizer) is optimizer:
                scheduler.step_if_due(steps)

    def _before_training(self, call: str) -> None:
        if self._position.training:
            raise RuntimeError(
                f"{call}() must be called in the trial's constructor, before training"
            )


def _make_scaler(device: torch.device) -> "torch.amp.GradScaler":
    """Return torch's gradient scaler. It is disabled without CUDA."""
    on_cuda = device.type == "cuda"
    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(device.type, enabled=on_cuda)
    from torch.cuda.amp import GradScaler

    return GradScaler(enabled=on_cuda)
