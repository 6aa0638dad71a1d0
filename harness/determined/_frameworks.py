"""Find the framework that a trial class is written for."""

from typing import Any, Type

from determined.errors import InvalidConfigurationException

_RUNNERS = {
    "keras": "determined.keras._trial_runner",
    "deepspeed": "determined.pytorch.deepspeed._trial_runner",
    "pytorch": "determined.pytorch._trial_runner",
}


def framework_of(trial_class: Type[Any]) -> str:
    """Return the name of the framework that a trial class derives from.

    The names of its base classes are compared, because importing a framework requires it to be installed.
    """
    names = {f"{base.__module__}.{base.__qualname__}" for base in trial_class.__mro__}
    if any(n.startswith("determined.pytorch.deepspeed.") for n in names):
        return "deepspeed"
    if any(n.startswith("determined.keras.") for n in names):
        return "keras"
    if any(n.startswith("determined.pytorch.") for n in names):
        return "pytorch"
    raise InvalidConfigurationException(
        f"{trial_class.__name__} is not a trial class: it must derive from PyTorchTrial, DeepSpeedTrial or TFKerasTrial"
    )


def run(trial_class: Type[Any]) -> int:
    """Train `trial_class` according to the experiment configuration and return the exit code. Every rank calls this."""
    import importlib

    from determined._info import task_info

    info = task_info()
    if info is None:
        raise RuntimeError(
            "a trial class runs by itself only on a cluster; off-cluster use Trainer.fit() in a script, or "
            "`det experiment create --local --test-mode`"
        )
    importlib.import_module(_RUNNERS[framework_of(trial_class)]).run(trial_class, info)
    return 0
