"""The files that say which trial a checkpoint came from: load_data.json and the code of the model."""

import contextlib
import importlib
import inspect
import json
import os
import pathlib
import shutil
from typing import Any, Dict, Iterator, List, Optional, Type

from determined import _paths

LOAD_FILE = "load_data.json"
CODE_DIR = "code"
_NOT_CODE = shutil.ignore_patterns("__pycache__", "*.pyc", ".git", "runs")


def trial_class_spec(trial_class: Type[Any]) -> str:
    return f"{trial_class.__module__}:{trial_class.__qualname__}"


def load_data(trial_class: Type[Any], trial_type: str, context: Any) -> Dict[str, Any]:
    """Return the data from which `load_trial_from_checkpoint_path` constructs the trial again."""
    return {
        "trial_type": trial_type,
        "experiment_config": context.get_experiment_config(),
        "hparams": context.get_hparams(),
        "trial_cls_spec": trial_class_spec(trial_class),
        "is_trainer": True,
    }


def write_origin(path: pathlib.Path, load: Dict[str, Any], trial_class: Type[Any]) -> None:
    (path / LOAD_FILE).write_text(json.dumps(load))
    for source in code_sources(trial_class):
        target = path / CODE_DIR / source.name
        if source.is_dir():
            shutil.copytree(source, target, ignore=_NOT_CODE)
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target)


def code_sources(trial_class: Type[Any]) -> List[pathlib.Path]:
    """Return the code to save: on a cluster the context's pristine copy, elsewhere the module of the trial class."""
    model_dir = pathlib.Path(_paths.on_host("/run/determined/train/model"))
    if os.environ.get("DET_TRIAL_ID") and model_dir.is_dir():
        return sorted(model_dir.iterdir())
    file = _source_file(trial_class)
    return [] if file is None else [file]


def _source_file(trial_class: Type[Any]) -> Optional[pathlib.Path]:
    try:
        file = inspect.getsourcefile(trial_class)
    except TypeError:
        # A class typed into an interactive session has no file.
        return None
    return pathlib.Path(file) if file and os.path.exists(file) else None


def steps_completed(path: pathlib.Path) -> int:
    """Read the steps from the metadata, for checkpoints whose state does not say them."""
    try:
        return int(json.loads((path / "metadata.json").read_text())["steps_completed"])
    except (FileNotFoundError, KeyError):
        return 0


@contextlib.contextmanager
def imported(directory: pathlib.Path, spec: str) -> Iterator[Any]:
    """Import the class `module:Class` from the checkpoint's own copy of the code."""
    from determined._import import import_from_path

    module_name, _, class_name = spec.partition(":")
    code = directory / CODE_DIR
    if module_name == "__main__":
        scripts = sorted(p.stem for p in code.glob("*.py"))
        if len(scripts) != 1:
            raise ValueError(
                f"the trial class {class_name} was defined in a script: import it yourself and give it as trial_class"
            )
        module_name = scripts[0]
    with import_from_path(code):
        found: Any = importlib.import_module(module_name)
        for part in class_name.split("."):
            found = getattr(found, part)
        yield found
