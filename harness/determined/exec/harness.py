"""`python3 -m determined.exec.harness --trial module:Class`: run a trial class in this process."""

import argparse
import importlib
import logging
import os
import sys
from typing import Any, List, Optional, Type

from determined import LOG_FORMAT
from determined._info import task_info
from determined.errors import InvalidConfigurationException, InvalidHP

_RUNNERS = {
    "keras": "determined.keras._trainer",
    "deepspeed": "determined.pytorch.deepspeed._trainer",
    "pytorch": "determined.pytorch._trainer",
}


class NoTrialClass(Exception):
    """The entrypoint does not name a class of the model's code."""


def load_trial_class(location: str) -> type:
    """Import `module:Class` from the work directory."""
    module_name, _, class_name = location.partition(":")
    if not class_name:
        raise NoTrialClass(f"--trial {location!r} must look like module:Class")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = importlib.import_module(module_name)
    target: Any = module
    for part in class_name.split("."):
        target = getattr(target, part, None)
    if not isinstance(target, type):
        classes_here = [
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module_name
        ]
        classes = f"it has {', '.join(classes_here)}" if classes_here else "it has none"
        raise NoTrialClass(f"module {module_name} has no class {class_name}: {classes}")
    return target


def main(argv: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m determined.exec.harness")
    parser.add_argument("--trial", required=True, metavar="MODULE:CLASS")
    args = parser.parse_args(argv)
    _start_logging()
    try:
        return run_trial_class(load_trial_class(args.trial))
    except InvalidHP as e:
        _report_invalid_hp()
        print(f"invalid hyperparameters, the trial ends early: {e}", file=sys.stderr)
        return 0
    except NoTrialClass as e:
        print(f"the entrypoint is wrong: {e}", file=sys.stderr)
        return 1


def _start_logging() -> None:
    """Configure logging for a trial class. Scripts configure logging themselves."""
    info = task_info()
    debugging = info is not None and info._trial_info is not None and info.trial._debug
    logging.basicConfig(level=logging.DEBUG if debugging else logging.INFO, format=LOG_FORMAT)


def _report_invalid_hp() -> None:
    """Report an InvalidHP that was raised before the framework had its own context."""
    from determined._task_session import task_session

    info = task_info()
    is_chief = int(os.environ.get("RANK") or 0) == 0
    if info is not None and info._trial_info is not None and is_chief:
        path = f"/api/v1/trials/{info.trial.trial_id}/early_exit"
        task_session().post(path, {"reason": "EXITED_REASON_INVALID_HP"})


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


def run_trial_class(trial_class: Type[Any]) -> int:
    """Train `trial_class` according to the experiment configuration and return the exit code. Every rank calls this."""
    info = task_info()
    if info is None:
        raise RuntimeError(
            "a trial class runs by itself only on a cluster; off-cluster use Trainer.fit() in a script, or "
            "`det experiment create --local --test-mode`"
        )
    importlib.import_module(_RUNNERS[framework_of(trial_class)]).train_on_cluster(trial_class, info)
    return 0


if __name__ == "__main__":
    sys.exit(main())
