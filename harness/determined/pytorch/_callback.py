"""Callbacks and their dispatch. The overridden hooks are determined once, not for each batch."""

import inspect
import logging
from typing import Any, Callable, Dict, List, Mapping, Optional

logger = logging.getLogger("determined.pytorch")


class PyTorchCallback:
    """A set of hooks to override. Every rank calls them in the order of `build_callbacks`."""

    def state_dict(self) -> Dict[str, Any]:
        """Return the state to store in checkpoints."""
        return {}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: Optional[str]) -> None:
        """Run before training, after a checkpoint (if any) was loaded."""

    def on_trial_shutdown(self) -> None:
        """Run at the very end, even after a failure."""

    def on_training_start(self) -> None:
        """Run before the first batch of this run."""

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        """Run before the first batch of an epoch."""

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        """Run after the last batch of an epoch."""

    def on_training_workload_end(
        self, avg_metrics: Dict[str, Any], batch_metrics: List[Dict[str, Any]]
    ) -> None:
        """Run after each reporting period, with the metrics about to be reported."""

    def on_validation_start(self) -> None:
        """Run before a validation."""

    def on_validation_end(self, metrics: Dict[str, Any]) -> None:
        """Run after a validation, with its reduced metrics."""

    def on_validation_epoch_start(self) -> None:
        """Run before the first validation batch."""

    def on_validation_epoch_end(self, outputs: List[Any]) -> None:
        """Run after the last validation batch, with the results of `evaluate_batch` on this rank."""

    def on_checkpoint_load_start(self, checkpoint: Dict[str, Any]) -> None:
        """Run before the state of a checkpoint is applied. The hook may change it."""

    def on_checkpoint_save_start(self, checkpoint: Dict[str, Any]) -> None:
        """Run before the state of a checkpoint is written. The hook may change it."""

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        """Run after the files of a checkpoint were written. The hook may add files."""

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        """Run after a checkpoint was stored and reported."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """Run like `on_checkpoint_write_end`, which replaces this deprecated hook."""


class Hooks:
    """The overridden hooks of all callbacks, as lists of bound methods."""

    def __init__(self, callbacks: Mapping[str, Any]) -> None:
        for name, callback in callbacks.items():
            if not isinstance(callback, PyTorchCallback):
                raise TypeError(
                    f"build_callbacks() must return PyTorchCallback objects; {name!r} is {callback!r}"
                )
        self.callbacks = dict(callbacks)
        names = [name for name in vars(PyTorchCallback) if name.startswith("on_")]
        self._hooks = {name: self._overriders(name) for name in names}
        starts = self._hooks["on_training_epoch_start"]
        self._hooks["on_training_epoch_start"] = [_with_epoch(method) for method in starts]

    def overridden(self, name: str) -> bool:
        return bool(self._hooks[name])

    def call(self, name: str, *args: Any) -> None:
        for hook in self._hooks[name]:
            hook(*args)

    def state_dict(self) -> Dict[str, Any]:
        return {name: callback.state_dict() for name, callback in self.callbacks.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, callback in self.callbacks.items():
            if name in state:
                callback.load_state_dict(state[name])

    def _overriders(self, name: str) -> List[Callable[..., None]]:
        default = getattr(PyTorchCallback, name)
        methods = (getattr(callback, name) for callback in self.callbacks.values())
        return [method for method in methods if getattr(method, "__func__", None) is not default]


def _with_epoch(method: Callable[..., None]) -> Callable[..., None]:
    """Adapt hooks without the argument `epoch_idx`, which callbacks of Determined before 0.13 have."""
    if inspect.signature(method).parameters:
        return method
    logger.warning(
        "%s takes no argument, which is deprecated: write on_training_epoch_start(self, epoch_idx)",
        getattr(method, "__qualname__", method),
    )
    return lambda epoch_idx: method()
