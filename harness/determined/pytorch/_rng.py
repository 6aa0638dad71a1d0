"""The state of all random number generators that training uses."""

import random
from typing import Any, Dict, Optional

import torch

_trial_seed: Optional[int] = None


def trial_seed() -> int:
    """Return the seed of this trial. It is the same on all of its ranks."""
    return 0 if _trial_seed is None else _trial_seed


def seed_everything(seed: int) -> None:
    global _trial_seed
    _trial_seed = seed
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = _numpy()
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def capture() -> Dict[str, Any]:
    """Return the state under the names that Determined's checkpoints use."""
    state: Dict[str, Any] = {
        "cpu_rng_state": torch.random.get_rng_state(),
        "random_rng_state": random.getstate(),
    }
    numpy = _numpy()
    if numpy is not None:
        state["np_rng_state"] = numpy.random.get_state()
    if torch.cuda.is_available():
        state["gpu_rng_state"] = torch.cuda.get_rng_state(torch.cuda.current_device())
    return state


def restore(state: Dict[str, Any]) -> None:
    torch.random.set_rng_state(state["cpu_rng_state"])
    version, numbers, gauss = state["random_rng_state"]
    random.setstate((version, tuple(numbers), gauss))
    numpy = _numpy()
    if numpy is not None and "np_rng_state" in state:
        numpy.random.set_state(tuple(state["np_rng_state"]))
    if torch.cuda.is_available() and "gpu_rng_state" in state:
        torch.cuda.set_rng_state(state["gpu_rng_state"], torch.cuda.current_device())


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy
