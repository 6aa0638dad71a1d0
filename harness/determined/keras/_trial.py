"""TFKerasTrial, the trial class of Determined before 0.38."""

from typing import Any, List

from determined._trial import LegacyTrial
from determined.keras._context import TFKerasTrialContext
from determined.keras._inputs import InputData


class TFKerasTrial(LegacyTrial):
    """Defines a compiled model and its data. It is deprecated: use `model.fit` with a DeterminedCallback."""

    trial_context_class = TFKerasTrialContext

    def __init__(self, context: TFKerasTrialContext) -> None:
        super().__init__(context)

    def build_model(self) -> Any:
        """Return a compiled tf.keras.Model. `context.wrap_model` must have been called before compiling."""
        raise NotImplementedError(f"{type(self).__name__} must define build_model()")

    def build_training_data_loader(self) -> InputData:
        """Return a tf.data.Dataset of batches, a Keras Sequence, or (x, y) arrays."""
        raise NotImplementedError(f"{type(self).__name__} must define build_training_data_loader()")

    def build_validation_data_loader(self) -> InputData:
        raise NotImplementedError(
            f"{type(self).__name__} must define build_validation_data_loader()"
        )

    def session_config(self) -> Any:
        """Return None. It is never called, because TensorFlow 2 has no sessions."""
        return None

    def keras_callbacks(self) -> List[Any]:
        return []
