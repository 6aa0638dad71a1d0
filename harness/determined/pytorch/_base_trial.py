"""The common base class of PyTorchTrial and DeepSpeedTrial."""

from typing import Any, Dict, Union

from determined._trial import LegacyTrial
from determined.pytorch import _data
from determined.pytorch._callback import PyTorchCallback
from determined.pytorch._reducer import Reducer


class BaseTorchTrial(LegacyTrial):
    """The methods of a trial that do not depend on how a batch is trained."""

    def build_training_data_loader(self) -> Any:
        """Return the training data, usually as a `determined.pytorch.DataLoader`."""
        raise self._undefined("build_training_data_loader")

    def build_validation_data_loader(self) -> Any:
        """Return the validation data, usually as a `determined.pytorch.DataLoader`."""
        raise self._undefined("build_validation_data_loader")

    def build_callbacks(self) -> Dict[str, PyTorchCallback]:
        """Return callbacks by name. Checkpoints store their states under these names."""
        return {}

    def evaluation_reducer(self) -> Union[Reducer, Dict[str, Reducer]]:
        """Return how to reduce the metrics of `evaluate_batch`: one reducer for all, or a reducer for each name."""
        return Reducer.AVG

    def evaluate_full_dataset(self, data_loader: Any) -> Dict[str, Any]:
        """Return the metrics of all validation data. Define it instead of `evaluate_batch`; only the chief calls it."""
        raise self._undefined("evaluate_full_dataset")

    def get_batch_length(self, batch: Any) -> int:
        """Return the number of records in a batch. Override it for custom types of batches."""
        return _data.data_length(batch)

    def _undefined(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} must define {method}()")
