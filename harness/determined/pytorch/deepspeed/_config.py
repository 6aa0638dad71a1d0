import copy
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Union


def overwrite_deepspeed_config(
    base_ds_config: "Union[str, os.PathLike[str], Mapping[str, Any]]",
    source_ds_dict: Mapping[str, Any],
) -> Dict[str, Any]:
    """Return a DeepSpeed configuration, given as a file or a mapping, with some values replaced recursively."""
    if not isinstance(base_ds_config, (str, os.PathLike, Mapping)):
        raise TypeError(
            "Expected string or dict for base_ds_config argument (the path of a file, or its content), not "
            f"{type(base_ds_config).__name__}"
        )
    if not isinstance(base_ds_config, Mapping):
        with open(base_ds_config) as f:
            merged: Dict[str, Any] = json.load(f)
    else:
        merged = copy.deepcopy(dict(base_ds_config))
    _merge(merged, source_ds_dict)
    return merged


def get_ds_config_from_args(args: List[str]) -> Optional[str]:
    """Return the path of `--deepspeed_config PATH` in a command line, or None."""
    for i, argument in enumerate(args):
        if argument == "--deepspeed_config" and i + 1 < len(args):
            return args[i + 1]
    return None


def _merge(into: Dict[str, Any], source: Mapping[str, Any]) -> None:
    for name, value in source.items():
        if isinstance(value, Mapping) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)
