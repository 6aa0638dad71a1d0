"""Telling the secrets of a configuration from the rest of it (docs/concepts/security.md#secrets).

What is stored and shown has asterisks in their place; the values go another way, encrypted."""

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
# Sampled, compared and shown by every search: no place for secrets.
_OPEN = frozenset({"hyperparameters", "searcher"})
_VARIABLES = "environment_variables"
# Their names speak of secrets that they are not themselves.
_NO_SECRETS = frozenset({"registry_auth", "det_token"})
# Settings of well-known libraries, that people look up in each other's configurations.
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
    """A value that is read by `reveal` alone: printed, logged or formatted it is asterisks, and JSON refuses it."""

    _value: Any

    def reveal(self) -> Any:
        return self._value

    def __repr__(self) -> str:
        return HIDDEN


@dataclass(frozen=True, slots=True)
class Separated:
    """A configuration without its secrets, and those by their places in it."""

    shown: Any
    secrets: Mapping[Path, Secret] = field(default_factory=dict)


def separated(config: Any) -> Separated:
    secrets: dict[Path, Secret] = {}
    return Separated(_shown(config, (), secrets), secrets)


def joined(shown: Any, secrets: Mapping[Path, Secret]) -> Any:
    """Return the configuration with its secrets; those of parts that are not given are left out."""
    return _joined(shown, (), secrets) if secrets else shown


def redacted(value: T) -> T:
    """Return a configuration with every secret hidden."""
    shown: T = separated(value).shown
    return shown


def with_variables(shown: T, complete: Any) -> T:
    """Return a redacted configuration as its owner sees it: with the values of environment variables.

    A value stays hidden if the name of its variable speaks of a secret, or if it is an address with a password."""
    value: T = _with_variables(shown, complete)
    return value


def is_masked(value: Any) -> bool:
    """Return whether a value is what is shown in place of a secret."""
    return isinstance(value, str) and (value == HIDDEN or value.endswith(f"={HIDDEN}"))


def restored(given: T, earlier: Any) -> T:
    """Return a configuration in which what was shown hidden, and came back so, has its earlier value again.

    What `earlier` does not have stays hidden: see `masked_paths`."""
    value: T = _restored(given, earlier)
    return value


def masked_paths(config: Any, path: str = "") -> list[str]:
    """Return where a configuration has asterisks instead of a value."""
    if isinstance(config, Mapping):
        pairs = [(f"{path}.{key}" if path else str(key), value) for key, value in config.items()]
    elif isinstance(config, list | tuple):
        pairs = [(f"{path}[{index}]", value) for index, value in enumerate(config)]
    else:
        return [path] if is_masked(config) else []
    return [found for where, value in pairs for found in masked_paths(value, where)]


def _shown(value: Any, path: Path, secrets: dict[Path, Secret]) -> Any:
    # Most values are texts and numbers: what they are is asked first, of a plain type.
    if isinstance(value, str):
        is_secret = "://" in value and _URL_WITH_PASSWORD.search(value)
        return _hide(value, path, secrets) if is_secret else value
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {k: _member(str(k), v, (*path, k), secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(v, (*path, i), secrets) for i, v in enumerate(value)]
    return value


def _member(name: str, value: Any, path: Path, secrets: dict[Path, Secret]) -> Any:
    if name in _OPEN:
        return value
    if name == _VARIABLES:
        return _shown_variables(value, path, secrets)
    # The files of a task, and the variables of a Kubernetes pod, may have anything in them.
    anything = name == "content_b64" or (name == "value" and "pod_spec" in path)
    if anything or _names_a_secret(name):
        return _hide(value, path, secrets)
    return _shown(value, path, secrets)


@lru_cache(maxsize=1024)
def _names_a_secret(name: str) -> bool:
    return name not in _NO_SECRETS and _NAME.search(name) is not None


def _hide(value: Any, path: Path, secrets: dict[Path, Secret]) -> Any:
    """Hide a value, or all that lie in it."""
    if isinstance(value, Mapping):
        return {k: _hide(v, (*path, k), secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(v, (*path, i), secrets) for i, v in enumerate(value)]
    if value is None or value == "" or isinstance(value, bool) or value == HIDDEN:
        return value
    secrets[path] = Secret(value)
    return HIDDEN


def _shown_variables(value: Any, path: Path, secrets: dict[Path, Secret]) -> Any:
    """Hide values of variables: `NAME=value` in lists, or `NAME: value`."""
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
    name, given, content = value.partition("=") if isinstance(value, str) else ("", "", "")
    if not given or not content or content == HIDDEN or _is_setting(name):
        return value
    secrets[path] = Secret(value)
    return f"{name}={HIDDEN}"


def _is_setting(variable: str) -> bool:
    known = _KNOWN_VARIABLE.fullmatch(variable.strip()) is not None
    return known and not speaks_of_secrets(variable)


def _with_variables(shown: Any, complete: Any) -> Any:
    if isinstance(shown, Mapping):
        return {
            k: (_revealed if k == _VARIABLES else _with_variables)(v, complete[k])
            for k, v in shown.items()
        }
    if isinstance(shown, list | tuple):
        return [_with_variables(v, c) for v, c in zip(shown, complete, strict=True)]
    return shown


def _revealed(shown: Any, complete: Any, name: str = "") -> Any:
    if isinstance(shown, Mapping):
        return {k: _revealed(v, complete[k], str(k)) for k, v in shown.items()}
    if isinstance(shown, list | tuple):
        return [_revealed(v, c) for v, c in zip(shown, complete, strict=True)]
    if not is_masked(shown):
        return shown
    variable = str(shown).partition("=")[0] if shown != HIDDEN else name
    is_secret = speaks_of_secrets(variable) or _URL_WITH_PASSWORD.search(str(complete))
    return shown if is_secret else complete


def speaks_of_secrets(variable: str) -> bool:
    """Return whether the name of a variable says that its value is one."""
    return _SECRET_WORD.search(variable) is not None


def _joined(value: Any, path: Path, secrets: Mapping[Path, Secret]) -> Any:
    if isinstance(value, Mapping):
        return {k: _joined(v, (*path, k), secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_joined(v, (*path, i), secrets) for i, v in enumerate(value)]
    secret = secrets.get(path)
    return secret.reveal() if secret is not None and is_masked(value) else value


def _restored(given: Any, earlier: Any) -> Any:
    if isinstance(given, Mapping):
        members = earlier if isinstance(earlier, Mapping) else {}
        return {k: _restored(v, members.get(k)) for k, v in given.items()}
    if isinstance(given, list | tuple):
        entries = earlier if isinstance(earlier, list | tuple) else ()
        return [_restored_entry(v, i, entries) for i, v in enumerate(given)]
    return earlier if given == HIDDEN and earlier is not None else given


def _restored_entry(given: Any, index: int, earlier: Sequence[Any]) -> Any:
    """Find a variable by its name, and anything else by its place."""
    if not is_masked(given) or given == HIDDEN:
        return _restored(given, earlier[index] if index < len(earlier) else None)
    start = given.removesuffix(HIDDEN)
    found = [e for e in earlier if isinstance(e, str) and e.startswith(start)]
    return found[-1] if found else given
