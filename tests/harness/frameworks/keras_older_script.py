"""Load checkpoints of a TFKerasTrial that Determined's own package wrote, and print the weights."""

import json
import pathlib
import sys
from typing import Any

import numpy
import tensorflow as tf
from determined import keras

CODE = """
import tensorflow as tf
from determined import keras

class MyTrial(keras.TFKerasTrial):
    def build_model(self):
        layers = [tf.keras.Input((2,)), tf.keras.layers.Dense(2), tf.keras.layers.ReLU(), tf.keras.layers.Dense(1)]
        model = self.context.wrap_model(tf.keras.Sequential(layers))
        model.compile(optimizer="sgd", loss="mse")
        return model
"""
SHAPES = [(2, 2), (2,), (2, 1), (1,)]


def folder(home: pathlib.Path, paths: str) -> pathlib.Path:
    path = home / paths
    (path / "code").mkdir(parents=True)
    (path / "code" / "model_def.py").write_text(CODE)
    config = {"entrypoint": "model_def:MyTrial"}
    metadata = {"framework": "tensorflow-2.4.1", "format": paths, "experiment_config": config}
    (path / "metadata.json").write_text(json.dumps({**metadata, "hparams": {}}))
    return path


def layer(kernel: Any, bias: Any) -> Any:
    return tf.train.Checkpoint(kernel=tf.Variable(kernel), bias=tf.Variable(bias))


weights: list[Any] = [numpy.full(shape, n, "float32") for n, shape in enumerate(SHAPES)]
home = pathlib.Path(sys.argv[1])
tensors = folder(home, "saved_weights")
layers = {
    "layer_with_weights-0": layer(*weights[:2]),
    "layer_with_weights-1": layer(*weights[2:]),
}
tf.train.Checkpoint(**layers).write(str(tensors / "determined-keras-model-weights"))
h5_folder = folder(home, "h5")
model = tf.keras.Sequential(
    [
        tf.keras.Input((2,)),
        tf.keras.layers.Dense(2),
        tf.keras.layers.ReLU(),
        tf.keras.layers.Dense(1),
    ]
)
model.set_weights(weights)
model.save(str(h5_folder / "determined-keras-model.h5"))
same_weights = {}
for path in (tensors, h5_folder):
    loaded = keras.load_model_from_checkpoint_path(str(path))
    same = [bool((a == b).all()) for a, b in zip(loaded.get_weights(), weights, strict=True)]
    same_weights[path.name] = all(same)
print(json.dumps(same_weights))
