"""The base class of all Trial classes, and the context that is passed to them."""

from typing import Any, Dict, Optional, Type

from determined._env_context import EnvContext, make_env
from determined._trial_settings import TrialSettings, local_settings


class TrialContext:
    """The hyperparameters, configuration and distributed rank of a trial."""

    def __init__(self, core_context: Any, settings: TrialSettings) -> None:
        self._core = core_context
        self._settings = settings
        self.distributed = core_context.distributed
        self._stop_requested = False
        self._env: Optional[EnvContext] = None

    @classmethod
    def from_config(cls, config: Dict[str, Any]) -> Any:
        """Make a context on this machine alone, to try a model in a notebook or a script.

        A hyperparameter with a range gets a fixed value inside the range.
        """
        from determined.core._context import offline_context

        return cls._on_this_machine(offline_context(), local_settings(config))

    @classmethod
    def _on_this_machine(cls, core_context: Any, settings: TrialSettings) -> Any:
        return cls(core_context, settings)

    @property
    def env(self) -> EnvContext:
        """Return the task and its configuration in the format of older Trial classes."""
        return make_env(self._settings) if self._env is None else self._env

    @env.setter
    def env(self, env: EnvContext) -> None:
        """Replace the description. Constructors of older trials do this."""
        self._env = env

    def get_hparams(self) -> Dict[str, Any]:
        return self._settings.hparams

    def get_hparam(self, name: str) -> Any:
        try:
            return self._settings.hparams[name]
        except KeyError:
            names = ", ".join(sorted(self._settings.hparams)) or "none"
            raise ValueError(f"there is no hyperparameter {name!r} (there are: {names})") from None

    def get_experiment_config(self) -> Dict[str, Any]:
        return self._settings.exp_conf

    def get_data_config(self) -> Dict[str, Any]:
        """Return the user's own `data` section. A list of data sets, which `determined.data` opens, gives {}."""
        data = self._settings.exp_conf.get("data")
        return dict(data) if isinstance(data, dict) else {}

    def get_experiment_id(self) -> int:
        return int(self._managed("experiment_id"))

    def get_trial_id(self) -> int:
        return int(self._managed("trial_id"))

    def get_initial_batch(self) -> int:
        """Return the number of batches that earlier runs trained."""
        return self.env.steps_completed

    def get_tensorboard_path(self) -> Any:
        """Return the directory for TensorBoard files. Its files are uploaded while the trial runs."""
        return self._core.train.get_tensorboard_path()

    def get_trial_seed(self) -> int:
        return self._settings.trial_seed

    def get_global_batch_size(self) -> int:
        """Return the hyperparameter `global_batch_size`."""
        return int(self.get_hparam("global_batch_size"))

    def get_per_slot_batch_size(self) -> int:
        """Return `global_batch_size` divided by the number of slots."""
        size = int(self.distributed.size)
        per_slot = self.get_global_batch_size() // size
        if per_slot < 1:
            raise ValueError(
                f"global_batch_size {self.get_global_batch_size()} is less than one record for each of {size} slots"
            )
        return per_slot

    def get_stop_requested(self) -> bool:
        return self._stop_requested

    def set_stop_requested(self, stop_requested: bool) -> None:
        """Request, on any rank, that the trial saves a checkpoint and stops after the current reporting period."""
        if not isinstance(stop_requested, bool):
            raise TypeError(f"stop_requested must be a boolean, not {stop_requested!r}")
        self._stop_requested = stop_requested

    def _managed(self, name: str) -> Any:
        value = getattr(self._settings, name)
        if value is None:
            raise RuntimeError(f"there is no {name}: this trial runs outside of a cluster")
        return value


class TrialController:
    """The program that runs a framework's trials."""


class LegacyTrial:
    """A trial class that a launcher can run without a training script (`--trial model_def:MyTrial`)."""

    trial_context_class: Type[Any] = TrialContext
    trial_controller_class: Type[Any] = TrialController

    def __init__(self, context: Any) -> None:
        self.context = context
