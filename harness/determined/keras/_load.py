"""Load a model with its weights from the checkpoint directory of a TFKerasTrial."""

import pathlib
from typing import Any, List, Optional

from determined import _trial_files
from determined._trial_settings import make_settings
from determined.keras import _weights
from determined.keras._context import TFKerasTrialContext


def load_model_from_checkpoint_path(path: str, tags: Optional[List[str]] = None) -> Any:
    """Load the compiled model of a TFKerasTrial. This runs the code in the checkpoint, so only load trusted ones."""
    from determined import core

    directory = pathlib.Path(path)
    load = _trial_files.read_origin(directory)
    if load.get("trial_type") != "TFKerasTrial":
        raise ValueError(f"{path} is a checkpoint of a {load.get('trial_type')}")
    with (
        core.init() as core_context,
        _trial_files.imported(directory, load["trial_cls_spec"]) as trial_class,
    ):
        settings = make_settings(
            core_context, load["hparams"] or {}, load["experiment_config"] or {}
        )
        trial = trial_class(TFKerasTrialContext(core_context, settings))
        model = trial.build_model()
        _weights.load(model, str(directory / _weights.WEIGHTS))
    return model
