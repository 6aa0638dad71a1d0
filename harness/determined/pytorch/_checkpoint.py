"""The state of a PyTorchTrial, which is everything that the next batch depends on."""

import collections
import os
import pathlib
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Callable, Deque, Dict, List

from determined.pytorch import _files, _rng, _state
from determined.pytorch._backends import unwrapped
from determined.pytorch._callback import Hooks


def capture(context: Any, hooks: Hooks, rng_states: List[Any]) -> Dict[str, Any]:
    """Return the chief's state, and the random states of all ranks. The weights are equal on all ranks."""
    state: Dict[str, Any] = {
        "models_state_dict": [unwrapped(model).state_dict() for model in context.models],
        "optimizers_state_dict": [optimizer.state_dict() for optimizer in context.optimizers],
        "lr_schedulers_state_dict": [s.state_dict() for s in context.lr_schedulers],
        "callbacks": hooks.state_dict(),
        "rng_state": rng_states[0],
        "rank_rng_states": rng_states,
        "optimizer_steps": [context._optimizer_steps[id(o)] for o in context.optimizers],
    }
    if context._scaler is not None:
        state["scaler_state_dict"] = context._scaler.state_dict()
    if context._apex is not None:
        state["amp_state"] = context._apex.state_dict()
    return state


def restore(context: Any, hooks: Hooks, state: Dict[str, Any]) -> None:
    """Apply everything except random states, which are restored just before training continues."""
    _load_each("models", [unwrapped(m) for m in context.models], state["models_state_dict"])
    _load_each("optimizers", context.optimizers, state["optimizers_state_dict"])
    _load_each("lr_schedulers", context.lr_schedulers, state["lr_schedulers_state_dict"])
    hooks.load_state_dict(state.get("callbacks") or {})
    for optimizer, steps in zip(context.optimizers, state.get("optimizer_steps") or []):
        context._optimizer_steps[id(optimizer)] = steps
    if context._scaler is not None and "scaler_state_dict" in state:
        context._scaler.load_state_dict(state["scaler_state_dict"])
    if context._apex is not None and "amp_state" in state:
        context._apex.load_state_dict(state["amp_state"])


def restore_rng(state: Dict[str, Any], rank: int) -> None:
    ranks = state.get("rank_rng_states") or []
    rank_state = ranks[rank] if rank < len(ranks) else state.get("rng_state")
    if rank_state:
        _rng.restore(rank_state)


def _load_each(kind: str, targets: List[Any], states: List[Any]) -> None:
    if len(targets) != len(states):
        raise RuntimeError(
            f"the checkpoint holds {len(states)} {kind}, but this trial wrapped {len(targets)}: "
            "the trial must wrap the same objects as when the checkpoint was saved"
        )
    for target, state in zip(targets, states):
        target.load_state_dict(state)


# One is being stored and one waits. More would fill the memory with copies of the state.
_MAX_UNFINISHED = 2


class CheckpointSaver:
    """Stores checkpoints in the background on the chief, one after another, while training continues.

    The caller passes copies of the state. A failure is raised at the next save or at the end.
    """

    def __init__(self, checkpoints: Any, hooks: Hooks) -> None:
        self._checkpoints = checkpoints
        self._hooks = hooks
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._unfinished: Deque[Future[str]] = collections.deque()
        self._write_in_turn = hooks.overridden("on_checkpoint_write_end") or hooks.overridden(
            "on_checkpoint_end"
        )

    def save(self, write: Callable[[pathlib.Path], None], metadata: Dict[str, Any]) -> None:
        self.collect()
        if len(self._unfinished) == _MAX_UNFINISHED:
            self._finish_oldest()
        stored = ExitStack()
        path, uuid = stored.enter_context(self._checkpoints.store_path(metadata))
        if self._write_in_turn:
            self._write_for_callbacks(stored, write, path)
            write = _write_no_more
        self._unfinished.append(self._pool.submit(_complete, stored, write, path, uuid))

    def finish(self) -> None:
        """Wait until all pending checkpoints are stored."""
        while self._unfinished:
            self._finish_oldest()

    def collect(self) -> None:
        """Report the checkpoints that are stored by now, without waiting for others."""
        while self._unfinished and self._unfinished[0].done():
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        self._hooks.call("on_checkpoint_upload_end", self._unfinished.popleft().result())

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _write_for_callbacks(
        self, stored: ExitStack, write: Callable[[pathlib.Path], None], path: pathlib.Path
    ) -> None:
        """Write in the training thread and call the callbacks, which may add files before the upload."""
        with ExitStack() as on_failure:
            on_failure.push(stored)
            write(path)
            self._hooks.call("on_checkpoint_end", str(path))
            self._hooks.call("on_checkpoint_write_end", str(path))
            on_failure.pop_all()


def _complete(
    stored: ExitStack, write: Callable[[pathlib.Path], None], path: pathlib.Path, uuid: str
) -> str:
    with stored:
        write(path)
    return uuid


def _write_no_more(path: pathlib.Path) -> None:
    pass


def state_of(context: Any, hooks: Hooks, state: Dict[str, Any]) -> Dict[str, Any]:
    """Call the save hooks, and return the state on the host in the form that is written."""
    hooks.call("on_checkpoint_save_start", state)
    encoded: Dict[str, Any] = _state.encode(state, _state.host_copy())
    return encoded


def read_state(path: pathlib.Path, **torch_load_kwargs: Any) -> Dict[str, Any]:
    file = os.fspath(path / _files.STATE_FILE)
    trusted = _state.trusted_by_environment()
    state: Dict[str, Any] = _state.read(file, trusted, **torch_load_kwargs)
    return _in_lists(state)


# A trial once had a single model, optimizer and scheduler.
_OLD_NAMES = {
    "model_state_dict": "models_state_dict",
    "optimizer_state_dict": "optimizers_state_dict",
    "lr_scheduler": "lr_schedulers_state_dict",
    "lr_scheduler_state_dict": "lr_schedulers_state_dict",
}


def _in_lists(state: Dict[str, Any]) -> Dict[str, Any]:
    """Convert the state of a checkpoint of Determined's first versions to the current form."""
    if "models_state_dict" in state or "model_state_dict" not in state:
        return state
    converted = {name: value for name, value in state.items() if name not in _OLD_NAMES}
    converted.update({name: [] for name in _OLD_NAMES.values()})
    for name, new_name in _OLD_NAMES.items():
        if state.get(name) is not None:
            converted[new_name] = [state[name]]
    return converted
