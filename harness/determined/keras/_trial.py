"""TFKerasTrial, the trial class of Determined before 0.38, and its context."""

from typing import Any, Dict, List, Optional

from determined._trial import LegacyTrial, TrialContext
from determined.keras._data import InputData


class TFKerasTrialContext(TrialContext):
    """The context that a TFKerasTrial's constructor receives."""

    def __init__(self, core_context: Any, settings: Any) -> None:
        super().__init__(core_context, settings)
        self.fit_options: Dict[str, Any] = {}
        self.model: Optional[Any] = None

    def wrap_model(self, model: Any) -> Any:
        """Register the model of the trial. Call this before `model.compile`."""
        self.model = model
        return model

    def wrap_optimizer(self, optimizer: Any) -> Any:
        """Let Horovod average the optimizer's gradients if there are several slots."""
        if self.distributed.size == 1:
            return optimizer
        from determined.horovod import hvd

        return hvd.DistributedOptimizer(optimizer)

    def wrap_dataset(self, dataset: Any, shard_dataset: bool = True) -> Any:
        """Return this slot's shard of a tf.data.Dataset."""
        if not shard_dataset or self.distributed.size == 1:
            return dataset
        return dataset.shard(self.distributed.size, self.distributed.rank)

    def configure_fit(
        self,
        verbose: Optional[Any] = None,
        class_weight: Optional[Any] = None,
        workers: Optional[int] = None,
        use_multiprocessing: Optional[bool] = None,
        max_queue_size: Optional[int] = None,
        shuffle: Optional[bool] = None,
        validation_steps: Optional[int] = None,
    ) -> None:
        """Set options of `fit` and `evaluate`. `workers` and related options are ignored, as Keras 3 lacks them."""
        options = {"verbose": verbose, "class_weight": class_weight, "shuffle": shuffle}
        self.fit_options = {name: value for name, value in options.items() if value is not None}
        self.validation_steps = validation_steps

    validation_steps: Optional[int] = None


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
