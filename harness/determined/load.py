"""Import the Trial class that an entrypoint names."""

import importlib
from typing import Any, NoReturn, Type

from determined._trial import LegacyTrial


def trial_class_from_entrypoint(entrypoint_spec: str) -> Type[LegacyTrial]:
    """Return the class of an entrypoint `package.module:Class`."""
    module, _, name = entrypoint_spec.partition(":")
    target: Any = importlib.import_module(module)
    for part in name.split(".") if name else ():
        target = getattr(target, part)
    if not (isinstance(target, type) and issubclass(target, LegacyTrial)):
        raise AssertionError(f"{entrypoint_spec!r} does not name a subclass of det.LegacyTrial")
    return target


def __getattr__(name: str) -> NoReturn:
    if name == "get_trial_controller_class":
        raise AttributeError(
            "determined.load has no get_trial_controller_class: this package has no trial controllers."
            " Run a Trial with determined.pytorch.Trainer, or with `python3 -m determined.exec.harness`"
        )
    raise AttributeError(f"module 'determined.load' has no attribute {name!r}")
