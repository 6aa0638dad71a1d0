"""The files of a checkpoint that describe its trial: load_data.json and the model's code."""

import contextlib
import importlib
import inspect
import json
import os
import pathlib
import re
import shutil
from typing import Any, Dict, Iterator, List, Optional, Type

from determined import _paths

LOAD_FILE = "load_data.json"
METADATA_FILE = "metadata.json"
_TRIAL_TYPES = {"torch": "PyTorchTrial", "tensorflow": "TFKerasTrial"}
CODE_DIR = "code"
_CLASS_SPEC = re.compile(r"[\w.]+:[\w.]+")
_NOT_CODE = shutil.ignore_patterns("__pycache__", "*.pyc", ".git", "runs")


def read_origin(path: pathlib.Path) -> Dict[str, Any]:
    """Return the description of the checkpoint's trial. Before Determined 0.18 it was part of the metadata."""
    if (path / LOAD_FILE).exists():
        origin: Dict[str, Any] = json.loads((path / LOAD_FILE).read_text())
        return origin
    try:
        metadata = json.loads((path / METADATA_FILE).read_text())
        config = metadata["experiment_config"]
    except (FileNotFoundError, KeyError):
        raise FileNotFoundError(
            f"{path} has neither {LOAD_FILE} nor a {METADATA_FILE} with its experiment configuration: "
            "it is not a downloaded checkpoint of a Trial class"
        ) from None
    framework = str(metadata.get("framework") or "").partition("-")[0]
    return {
        "trial_type": _TRIAL_TYPES.get(framework, "PyTorchTrial"),
        "experiment_config": config,
        "hparams": metadata.get("hparams") or {},
        "trial_cls_spec": config.get("entrypoint"),
    }


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
    """Return the code to save: the context's unchanged copy on a cluster, otherwise the module of the trial class."""
    model_dir = pathlib.Path(_paths.on_host("/run/determined/train/model"))
    if os.environ.get("DET_TRIAL_ID") and model_dir.is_dir():
        return sorted(model_dir.iterdir())
    file = _source_file(trial_class)
    return [] if file is None else [file]


def _source_file(trial_class: Type[Any]) -> Optional[pathlib.Path]:
    try:
        file = inspect.getsourcefile(trial_class)
    except TypeError:
        # A class that was defined in an interactive session has no file.
        return None
    return pathlib.Path(file) if file and os.path.exists(file) else None


def steps_completed(path: pathlib.Path) -> int:
    """Read the completed steps from the metadata, for checkpoints without them in their state."""
    try:
        return int(json.loads((path / METADATA_FILE).read_text())["steps_completed"])
    except (FileNotFoundError, KeyError):
        return 0


@contextlib.contextmanager
def imported(directory: pathlib.Path, spec: Any) -> Iterator[Any]:
    """Import the class `module:Class` from the code inside the checkpoint."""
    from determined._import import import_from_path

    if not isinstance(spec, str) or not _CLASS_SPEC.fullmatch(spec):
        raise ValueError(
            f"the checkpoint does not name its trial class (its entrypoint is {spec!r}): "
            "import the class yourself and give it as trial_class"
        )
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
        target: Any = importlib.import_module(module_name)
        for part in class_name.split("."):
            target = getattr(target, part)
        yield target
