"""Train Keras models: pass a DeterminedCallback to `model.fit`, or write a TFKerasTrial."""

from determined.keras import callbacks
from determined.keras._callback import DeterminedCallback
from determined.keras._data import ArrayLike, InputData, SequenceAdapter
from determined.keras._tensorboard import TensorBoard
from determined.keras._trial import TFKerasTrial, TFKerasTrialContext
from determined.keras._weights import load_model_from_checkpoint_path

__all__ = [
    "ArrayLike",
    "DeterminedCallback",
    "InputData",
    "SequenceAdapter",
    "TFKerasTrial",
    "TFKerasTrialContext",
    "TensorBoard",
    "callbacks",
    "load_model_from_checkpoint_path",
]
