"""Weights of a model with its optimizer, for Keras 2 and 3. Their paths are prefixes: Keras 3 adds an ending."""

import os
import tempfile
from typing import Any, List, Optional

WEIGHTS = "model_checkpoint"
# Keras 3 takes no other ending, and keeps the optimizer in the same file.
_ENDING_KERAS_3 = ".weights.h5"
# Determined's own checkpoints of a TFKerasTrial, in their formats "saved_weights" and, before 0.13, "h5".
TENSORS = "determined-keras-model-weights"
WHOLE_MODEL = "determined-keras-model.h5"


def is_keras_3(model: Any) -> bool:
    return not hasattr(model, "_training_state")


def save(model: Any, path: str, distributed: Any) -> None:
    """Save the weights. Every worker takes part, as a distributed strategy may need all; the chief's files count."""
    if distributed is None or distributed.rank == 0:
        _save(model, path)
        return
    with tempfile.TemporaryDirectory() as unused:
        _save(model, os.path.join(unused, WEIGHTS))


def load(model: Any, path: str) -> None:
    """Load the weights of a checkpoint, ours or Determined's own."""
    directory = os.path.dirname(path)
    keras_3 = f"{path}{_ENDING_KERAS_3}"
    if os.path.exists(os.path.join(directory, WHOLE_MODEL)):
        # The model is built by its code: the file's own description of it could hold code of others.
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
        # Variables that do not exist yet would not be loaded.
        optimizer.build(model.trainable_variables)
    model.load_weights(keras_3)


def _load_tensors(model: Any, prefix: str) -> None:
    """Load a checkpoint of TensorFlow, as Keras 2 wrote it; Keras 3 has no reader of its own for these."""
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
    """Return the states of the random generators of layers such as Dropout; Keras leaves them out of its files."""
    return [[int(n) for n in state.numpy()] for state in _seed_states(model)]


def set_seeds(model: Any, found: List[List[int]]) -> None:
    for state, numbers in zip(_seed_states(model), found):
        state.assign(numbers)


def _seed_states(model: Any) -> List[Any]:
    """Return the variables with those states in the order of the layers; Keras 2 has none."""
    return [
        variable
        for variable in model.variables
        if str(getattr(variable, "path", "")).endswith("seed_generator_state")
    ]


def _save(model: Any, path: str) -> None:
    model.save_weights(f"{path}{_ENDING_KERAS_3}" if is_keras_3(model) else path)
