"""The files of a PyTorch checkpoint: state_dict.pth, load_data.json and the model's code."""

import pathlib
from typing import Any, Dict, Type

import torch

from determined import _trial_files
from determined._trial_files import CODE_DIR, LOAD_FILE, load_data, steps_completed

__all__ = [
    "CODE_DIR",
    "LOAD_FILE",
    "STATE_FILE",
    "load_data",
    "metadata",
    "steps_completed",
    "write",
]

STATE_FILE = "state_dict.pth"


def metadata(steps_completed: int, form: str = "pickle") -> Dict[str, Any]:
    import determined

    return {
        "determined_version": determined.__version__,
        "steps_completed": steps_completed,
        "framework": f"torch-{torch.__version__}",
        "format": form,
    }


def write(path: pathlib.Path, state: Any, load: Dict[str, Any], trial_class: Type[Any]) -> None:
    torch.save(state, str(path / STATE_FILE))
    _trial_files.write_origin(path, load, trial_class)
