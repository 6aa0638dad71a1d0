"""The state of a PyTorchTrial, which is everything that the next batch depends on."""

import os
import pathlib
from typing import Any, Dict, List, Optional

from determined.pytorch import _files, _rng, _sharded_state, _state
from determined.pytorch._backends import unwrapped
from determined.pytorch._callback import Hooks


def capture(context: Any, hooks: Hooks, rng_states: List[Any]) -> Dict[str, Any]:
    """Return the chief's state, and the random states of all ranks. The weights are equal on all ranks."""
    return {
        "models_state_dict": [unwrapped(model).state_dict() for model in context.models],
        "optimizers_state_dict": [optimizer.state_dict() for optimizer in context.optimizers],
        **capture_without_weights(context, hooks, rng_states),
    }


def capture_without_weights(context: Any, hooks: Hooks, rng_states: List[Any]) -> Dict[str, Any]:
    """Return the state of the chief's own parts of a sharded trial, and the random states of all ranks."""
    state: Dict[str, Any] = {
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


def restore(
    context: Any, hooks: Hooks, state: Dict[str, Any], shards: Optional[Any] = None
) -> None:
    """Apply everything except random states, which are restored just before training continues.

    `shards` reads the models and optimizers of a sharded checkpoint.
    """
    if shards is not None:
        _sharded_state.load(context, shards)
    else:
        _load_weights(context, state)
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


def _load_weights(context: Any, state: Dict[str, Any]) -> None:
    models, optimizers = state["models_state_dict"], state["optimizers_state_dict"]
    _check_count("models", context.models, models)
    _check_count("optimizers", context.optimizers, optimizers)
    if _sharded_state.is_needed(context):
        _sharded_state.load_whole(context, state)
        return
    _load_each("models", [unwrapped(m) for m in context.models], models)
    _load_each("optimizers", context.optimizers, optimizers)


def _check_count(kind: str, targets: List[Any], states: List[Any]) -> None:
    if len(targets) != len(states):
        raise RuntimeError(
            f"the checkpoint holds {len(states)} {kind}, but this trial wrapped {len(targets)}: "
            "the trial must wrap the same objects as when the checkpoint was saved"
        )


def _load_each(kind: str, targets: List[Any], states: List[Any]) -> None:
    _check_count(kind, targets, states)
    for target, state in zip(targets, states):
        target.load_state_dict(state)


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
