"""The common base of the Trial classes of all frameworks."""

from typing import Any, Dict, Type


class TrialContext:
    """What a trial is constructed with."""


class TrialController:
    """What runs a trial of one framework."""


class LegacyTrial:
    """A trial that a launcher can run by its class alone (`--trial model_def:MyTrial`)."""

    trial_context_class: Type[Any] = TrialContext
    trial_controller_class: Type[Any] = TrialController

    def __init__(self, context: Any) -> None:
        self.context = context

    def build_training_data_loader(self) -> Any:
        raise NotImplementedError

    def build_validation_data_loader(self) -> Any:
        raise NotImplementedError

    def build_callbacks(self) -> Dict[str, Any]:
        return {}
