"""Merge configurations of different precedence (docs/reference/experiment-config.md)."""

from collections.abc import Callable, Mapping
from typing import Any

Path = tuple[str, ...]

_UNION_KEYS: dict[Path, str] = {("checkpoint_storage",): "type", ("searcher",): "name"}
# The keys that every kind of a union has. They are merged even if the higher layer chooses another kind.
COMMON_KEYS: dict[Path, tuple[str, ...]] = {
    ("checkpoint_storage",): ("save_experiment_best", "save_trial_best", "save_trial_latest"),
    ("searcher",): ("metric", "smaller_is_better", "source_trial_id", "source_checkpoint_uuid"),
}
_OPEN = (("hyperparameters",), ("data",), ("pbs",), ("slurm",), ("environment", "pod_spec"))


def merge(high: Mapping[str, Any], low: Mapping[str, Any]) -> dict[str, Any]:
    """Return `high` with the missing keys from `low`. Both must be in the current form."""
    result: dict[str, Any] = _object(high, low, ())
    return result


def without_nulls(raw: Any, path: Path = ()) -> Any:
    """Remove nulls, which mean the same as missing values. The user's own data keeps them."""
    if not isinstance(raw, dict) or path in _OPEN:
        return raw
    return {
        key: without_nulls(value, (*path, key)) for key, value in raw.items() if value is not None
    }


def _object(high: Mapping[str, Any], low: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Merge two objects. The keys of `high` come first and keep their order."""
    own = _is_own_data(path)
    below = {key: value for key, value in low.items() if own or value is not None}
    result = {
        key: _value(value, below[key], (*path, key)) if key in below else value
        for key, value in high.items()
        if own or value is not None
    }
    return result | {key: value for key, value in below.items() if key not in result}


def _value(high: Any, low: Any, path: Path) -> Any:
    if isinstance(high, dict) and isinstance(low, dict):
        if _is_one_object(high, low, path):
            return _object(high, low, path)
        common = {key: low[key] for key in COMMON_KEYS.get(path, ()) if key in low}
        return _object(high, common, path) if common else high
    if isinstance(high, list | tuple) and isinstance(low, list | tuple):
        rule = _LISTS.get(path)
        return rule(list(high), list(low)) if rule else high
    return high


def _is_one_object(high: dict[str, Any], low: dict[str, Any], path: Path) -> bool:
    if path[0] == "hyperparameters" and len(path) > 1:
        # A range or constant is replaced as a whole. Only nested groups are merged.
        return "type" not in high and "type" not in low
    key = _UNION_KEYS.get(path)
    if key is None:
        return True
    kinds = {repr(side[key]) for side in (high, low) if side.get(key) is not None}
    return len(kinds) < 2


def _is_own_data(path: Path) -> bool:
    return any(path[: len(start)] == start for start in _OPEN)


def _append_by_key(key: str) -> Callable[[list[Any], list[Any]], list[Any]]:
    """Return a rule that appends the entries of the low list with other keys to the high list."""

    def appended(high: list[Any], low: list[Any]) -> list[Any]:
        present = [_get(item, key) for item in high]
        return high + [item for item in low if _get(item, key) not in present]

    return appended


def _variables(high: list[Any], low: list[Any]) -> list[Any]:
    # Later entries win in a container, so the user's variables come last.
    present = {_variable(entry) for entry in high}
    return [entry for entry in low if _variable(entry) not in present] + high


def _policies(high: list[Any], low: list[Any]) -> list[Any]:
    present = {_policy(item) for item in high}
    return high + [item for item in low if _policy(item) not in present]


def _get(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else item


def _variable(entry: Any) -> str:
    return entry.partition("=")[0] if isinstance(entry, str) else repr(entry)


def _policy(item: Any) -> str:
    name = _get(item, "name")
    return f"named {name}" if isinstance(item, dict) and isinstance(name, str) else repr(item)


_LISTS: dict[Path, Callable[[list[Any], list[Any]], list[Any]]] = {
    ("bind_mounts",): _append_by_key("container_path"),
    ("data",): _append_by_key("at"),
    ("resources", "devices"): _append_by_key("container_path"),
    ("environment", "proxy_ports"): _append_by_key("proxy_port"),
    ("environment", "environment_variables", "cpu"): _variables,
    ("environment", "environment_variables", "cuda"): _variables,
    ("environment", "environment_variables", "rocm"): _variables,
    ("log_policies",): _policies,
}
