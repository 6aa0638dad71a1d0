"""Save and load a model's weights and optimizer with Keras 2 and 3. Paths are prefixes: Keras 3 adds an extension."""

import os
import pathlib
import tempfile
from typing import Any, List, Optional

from determined import _trial_files
from determined._trial_settings import make_settings
from determined.keras._trial import TFKerasTrialContext

WEIGHTS = "model_checkpoint"
# Keras 3 accepts only this extension, and stores the optimizer in the same file.
_ENDING_KERAS_3 = ".weights.h5"
# File names in Determined's own checkpoints of a TFKerasTrial: format "saved_weights", and "h5" before 0.13.
TENSORS = "determined-keras-model-weights"
WHOLE_MODEL = "determined-keras-model.h5"


def is_keras_3(model: Any) -> bool:
    return not hasattr(model, "_training_state")


def save(model: Any, path: str, distributed: Any) -> None:
    """Save the weights. Every worker takes part, because distribution strategies may require it.

    Only the chief's files are kept.
    """
    if distributed is None or distributed.rank == 0:
        _save(model, path)
        return
    with tempfile.TemporaryDirectory() as unused:
        _save(model, os.path.join(unused, WEIGHTS))


def load(model: Any, path: str) -> None:
    """Load the weights of a checkpoint, written by this library or by Determined itself."""
    directory = os.path.dirname(path)
    keras_3 = f"{path}{_ENDING_KERAS_3}"
    if os.path.exists(os.path.join(directory, WHOLE_MODEL)):
        # Load only the weights. The model description in the file could contain foreign code.
        model.load_weights(os.path.join(directory, WHOLE_MODEL))
        return
    if os.path.exists(os.path.join(directory, f"{TENSORS}.index")):
        _load_tensors(model, os.path.join(directory, TENSORS))
        return
    if not os.path.exists(keras_3):
        model.load_weights(path)
        return
    optimizer: Optional[Any] = getattr(model, "optimizer", None)
    if optimizer is not None and not getattr(optimizer, "built", True):
        # Keras does not load values of optimizer variables that do not exist yet.
        optimizer.build(model.trainable_variables)
    model.load_weights(keras_3)


def _load_tensors(model: Any, prefix: str) -> None:
    """Load a TensorFlow checkpoint that Keras 2 wrote. Keras 3 cannot read this format itself."""
    if not is_keras_3(model):
        model.load_weights(prefix).expect_partial()
        return
    import tensorflow as tf

    stored = tf.train.load_checkpoint(prefix)
    layers = [layer for layer in model.layers if layer.weights]
    for number, layer in enumerate(layers):
        for variable in layer.weights:
            key = f"layer_with_weights-{number}/{variable.name}/.ATTRIBUTES/VARIABLE_VALUE"
            if not stored.has_tensor(key):
                raise RuntimeError(
                    f"{prefix} has no {variable.name} of layer {layer.name}: Keras 3 reads models of plain layers; "
                    "load this checkpoint with TensorFlow 2.15 or older"
                )
            variable.assign(stored.get_tensor(key))


def seeds(model: Any) -> List[List[int]]:
    """Return the random states of layers such as Dropout, which Keras does not save."""
    return [[int(n) for n in state.numpy()] for state in _seed_states(model)]


def set_seeds(model: Any, stored: List[List[int]]) -> None:
    for state, numbers in zip(_seed_states(model), stored):
        state.assign(numbers)


def _seed_states(model: Any) -> List[Any]:
    """Return the variables with random states, in layer order. Keras 2 has none."""
    return [
        variable
        for variable in model.variables
        if str(getattr(variable, "path", "")).endswith("seed_generator_state")
    ]


def _save(model: Any, path: str) -> None:
    model.save_weights(f"{path}{_ENDING_KERAS_3}" if is_keras_3(model) else path)


def load_model_from_checkpoint_path(path: str, tags: Optional[List[str]] = None) -> Any:
    """Load the compiled model of a TFKerasTrial. This runs the code in the checkpoint, so only load trusted ones."""
    from determined import core

    directory = pathlib.Path(path)
    origin = _trial_files.read_origin(directory)
    if origin.get("trial_type") != "TFKerasTrial":
        raise ValueError(f"{path} is a checkpoint of a {origin.get('trial_type')}")
    with (
        core.init() as core_context,
        _trial_files.imported(directory, origin["trial_cls_spec"]) as trial_class,
    ):
        settings = make_settings(
            core_context, origin["hparams"] or {}, origin["experiment_config"] or {}
        )
        trial = trial_class(TFKerasTrialContext(core_context, settings))
        model = trial.build_model()
        load(model, str(directory / WEIGHTS))
    return model
