"""Separate the secrets of a configuration from the rest (docs/concepts/security.md#secrets).

Configurations are stored and shown with asterisks in place of secrets. The encrypted values are stored separately."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

HIDDEN = "********"
_NAME = re.compile(
    r"(^|[_-]|(?<=[a-z]))(password|passwd|passphrase|secret|secrets|token|credential|credentials|auth"
    r"|(api|access|secret|private|account|signing|encryption)[_-]?key|connection[_-]?string)$",
    re.IGNORECASE,
)
_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
# Searches sample, compare and display these sections, so they cannot contain secrets.
_OPEN = frozenset({"hyperparameters", "searcher"})
_VARIABLES = "environment_variables"
# The names look like names of secrets, but their values are not secret.
_NO_SECRETS = frozenset({"registry_auth", "det_token"})
# Settings of well-known libraries, which other users may see.
_KNOWN_VARIABLE = re.compile(
    r"(NCCL|GLOO|CUDA|CUBLAS|CUDNN|NVIDIA|ROCR|HIP|HSA|RCCL|OMP|MKL|KMP|OPENBLAS|NUMEXPR|TORCH|PYTORCH|PYTHON|TF|XLA|UCX|FI"
    r"|MALLOC|TOKENIZERS|LC)_?[A-Z0-9_]*|PATH|LD_LIBRARY_PATH|LANG|TZ|DET_DEBUG|DET_PYTHON_EXECUTABLE"
    r"|DET_INSTALL_MISSING"
)
_SECRET_WORD = re.compile(
    r"KEY(?!BOARD)|TOKEN(?!IZER)|SECRET|PASS|CRED|AUTH(?!OR(_|ITY|$))", re.IGNORECASE
)

T = TypeVar("T")
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that only `reveal` returns. Printed, logged or formatted it shows asterisks, and JSON rejects it."""

    _value: Any

    def reveal(self) -> Any:
        return self._value

    def __repr__(self) -> str:
        return HIDDEN


@dataclass(frozen=True, slots=True)
class Separated:
    """A configuration without its secrets, and the secrets by their paths."""

    shown: Any
    secrets: Mapping[Path, Secret] = field(default_factory=dict)


def separated(config: Any) -> Separated:
    secrets: dict[Path, Secret] = {}
    return Separated(_mask_secrets(config, (), secrets), secrets)


def joined(shown: Any, secrets: Mapping[Path, Secret]) -> Any:
    """Return the configuration with its secrets. Secrets of missing parts are ignored."""
    return _insert_secrets(shown, (), secrets) if secrets else shown


def redacted(value: T) -> T:
    """Return a configuration with every secret hidden."""
    result: T = separated(value).shown
    return result


def with_variables(shown: T, complete: Any) -> T:
    """Return a redacted configuration for its owner: it shows the values of environment variables.

    A value stays hidden if the name of its variable indicates a secret, or if it is a URL with a password."""
    value: T = _with_variables(shown, complete)
    return value


def is_masked(value: Any) -> bool:
    """Return whether a value is the placeholder of a secret."""
    return isinstance(value, str) and (value == HIDDEN or value.endswith(f"={HIDDEN}"))


def restored(edited: T, earlier: Any) -> T:
    """Return the edited configuration with the earlier values in place of the placeholders of secrets.

    A placeholder without an earlier value stays: see `masked_paths`."""
    value: T = _restore_masked(edited, earlier)
    return value


def masked_paths(config: Any, path: str = "") -> list[str]:
    """Return the paths at which a configuration contains a placeholder instead of a value."""
    if isinstance(config, Mapping):
        pairs = [(f"{path}.{key}" if path else str(key), value) for key, value in config.items()]
    elif isinstance(config, list | tuple):
        pairs = [(f"{path}[{index}]", value) for index, value in enumerate(config)]
    else:
        return [path] if is_masked(config) else []
    return [masked_path for where, value in pairs for masked_path in masked_paths(value, where)]


def _mask_secrets(value: Any, path: Path, secrets: dict[Path, Secret]) -> Any:
    # Most values are strings and numbers, so these types are tested first.
    if isinstance(value, str):
        is_secret = "://" in value and _URL_WITH_PASSWORD.search(value)
        return _hide(value, path, secrets) if is_secret else value
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {k: _mask_member(str(k), v, (*path, k), secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_mask_secrets(v, (*path, i), secrets) for i, v in enumerate(value)]
    return value


def _mask_member(name: str, value: Any, path: Path, secrets: dict[Path, Secret]) -> Any:
    if name in _OPEN:
        return value
    if name == _VARIABLES:
        return _shown_variables(value, path, secrets)
    # The files of a task, headers of requests and the variables of a Kubernetes pod may contain any secret.
    may_be_secret = name in ("content_b64", "otel_headers") or (
        name == "value" and "pod_spec" in path
    )
    if may_be_secret or _names_a_secret(name):
        return _hide(value, path, secrets)
    return _mask_secrets(value, path, secrets)


@lru_cache(maxsize=1024)
def _names_a_secret(name: str) -> bool:
    return name not in _NO_SECRETS and _NAME.search(name) is not None


def _hide(value: Any, path: Path, secrets: dict[Path, Secret]) -> Any:
    """Hide a value, or all values in a container."""
    if isinstance(value, Mapping):
        return {k: _hide(v, (*path, k), secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(v, (*path, i), secrets) for i, v in enumerate(value)]
    if value is None or value == "" or isinstance(value, bool) or value == HIDDEN:
        return value
    secrets[path] = Secret(value)
    return HIDDEN


def _shown_variables(value: Any, path: Path, secrets: dict[Path, Secret]) -> Any:
    """Hide the values of variables: `NAME=value` in lists, or `NAME: value`."""
    if isinstance(value, Mapping):
        return {
            k: v
            if isinstance(v, str) and _is_setting(str(k))
            else _shown_variables(v, (*path, k), secrets)
            if isinstance(v, Mapping | list | tuple)
            else _hide(v, (*path, k), secrets)
            for k, v in value.items()
        }
    if isinstance(value, list | tuple):
        return [_shown_variables(v, (*path, i), secrets) for i, v in enumerate(value)]
    name, equals, content = value.partition("=") if isinstance(value, str) else ("", "", "")
    if not equals or not content or content == HIDDEN or _is_setting(name):
        return value
    secrets[path] = Secret(value)
    return f"{name}={HIDDEN}"


def _is_setting(variable: str) -> bool:
    is_known = _KNOWN_VARIABLE.fullmatch(variable.strip()) is not None
    return is_known and not speaks_of_secrets(variable)


def _with_variables(shown: Any, complete: Any) -> Any:
    if isinstance(shown, Mapping):
        return {
            k: (_reveal_value if k == _VARIABLES else _with_variables)(v, complete[k])
            for k, v in shown.items()
        }
    if isinstance(shown, list | tuple):
        return [_with_variables(v, c) for v, c in zip(shown, complete, strict=True)]
    return shown


def _reveal_value(shown: Any, complete: Any, name: str = "") -> Any:
    if isinstance(shown, Mapping):
        return {k: _reveal_value(v, complete[k], str(k)) for k, v in shown.items()}
    if isinstance(shown, list | tuple):
        return [_reveal_value(v, c) for v, c in zip(shown, complete, strict=True)]
    if not is_masked(shown):
        return shown
    variable = str(shown).partition("=")[0] if shown != HIDDEN else name
    is_secret = speaks_of_secrets(variable) or _URL_WITH_PASSWORD.search(str(complete))
    return shown if is_secret else complete


def speaks_of_secrets(variable: str) -> bool:
    """Return whether the name of a variable indicates a secret."""
    return _SECRET_WORD.search(variable) is not None


def _insert_secrets(value: Any, path: Path, secrets: Mapping[Path, Secret]) -> Any:
    if isinstance(value, Mapping):
        return {k: _insert_secrets(v, (*path, k), secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_insert_secrets(v, (*path, i), secrets) for i, v in enumerate(value)]
    secret = secrets.get(path)
    return secret.reveal() if secret is not None and is_masked(value) else value


def _restore_masked(edited: Any, earlier: Any) -> Any:
    if isinstance(edited, Mapping):
        members = earlier if isinstance(earlier, Mapping) else {}
        return {k: _restore_masked(v, members.get(k)) for k, v in edited.items()}
    if isinstance(edited, list | tuple):
        entries = earlier if isinstance(earlier, list | tuple) else ()
        return [_restored_entry(v, i, entries) for i, v in enumerate(edited)]
    if not is_masked(edited) or earlier is None:
        return edited
    start = edited.removesuffix(HIDDEN)
    return earlier if str(earlier).startswith(start) else edited


def _restored_entry(entry: Any, index: int, earlier: Sequence[Any]) -> Any:
    """Restore an entry of a list by its index. If a variable has another index now, find it by its name."""
    same_index = earlier[index] if index < len(earlier) else None
    restored_entry = _restore_masked(entry, same_index)
    if not is_masked(restored_entry) or entry == HIDDEN:
        return restored_entry
    start = entry.removesuffix(HIDDEN)
    matches = [e for e in earlier if isinstance(e, str) and e.startswith(start)]
    return matches[-1] if matches else entry
