"""Print the public names of the installed package `determined`; with a file of names, print the missing ones.

The names are `module`, `module.name` and `module.Class.method`."""

import importlib
import inspect
import json
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

warnings.simplefilter("ignore")
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

# Commands, the generated client, and the programs that the runtime starts.
SKIPPED = (
    "determined.cli",
    "determined.deploy",
    "determined.exec",
    "determined.common.api.bindings",
)


def modules(package: ModuleType) -> Iterator[str]:
    for matching_module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if matching_module.name.rpartition(".")[2].startswith(
            "_"
        ) or matching_module.name.startswith(SKIPPED):
            continue
        yield matching_module.name
        module = imported(matching_module.name) if matching_module.ispkg else None
        if module is not None:
            yield from modules(module)


def imported(name: str) -> Any:
    """Return a module, or None without the framework that it needs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def members(name: str) -> Iterator[str]:
    module = imported(name)
    for attribute, value in vars(module).items() if module else ():
        is_class = inspect.isclass(value)
        if attribute.startswith("_") or not (is_class or inspect.isfunction(value)):
            continue
        if not value.__module__.startswith("determined"):
            continue
        yield f"{name}.{attribute}"
        if is_class and not issubclass(value, BaseException):
            yield from (f"{name}.{attribute}.{method}" for method in methods(value))


def methods(kind: type) -> Iterator[str]:
    """Return the names of the methods that a class defines or has from a private base class."""
    for base in kind.__mro__:
        if base is not kind and not base.__name__.startswith("_"):
            continue
        for name, value in vars(base).items():
            value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if not name.startswith("_") and inspect.isfunction(value):
                yield name


def is_missing(name: str) -> bool:
    """Return whether a name is missing. A missing module or class stands for its names."""
    try:
        lookup(name.rpartition(".")[0] or name)
    except (LookupError, ModuleNotFoundError):
        return False
    try:
        lookup(name)
    except LookupError:
        return True
    except ModuleNotFoundError:  # it needs a framework
        pass
    return False


def lookup(name: str) -> Any:
    """Return a module or an attribute. Raise ModuleNotFoundError if a framework is missing."""
    parent, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if not (e.name or "").startswith("determined"):
            raise
    if not parent:
        raise LookupError(name)
    try:
        return getattr(lookup(parent), last)
    except AttributeError as e:
        raise LookupError(name) from e


if len(sys.argv) > 1:
    with open(sys.argv[1]) as file:
        print(json.dumps([name for name in json.load(file) if is_missing(name)]))
else:
    import determined

    every = ["determined", *modules(determined)]
    print(json.dumps(sorted({*every, *(m for name in every for m in members(name))})))
