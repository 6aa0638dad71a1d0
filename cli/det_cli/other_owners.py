"""Detects other distributions that own files of the import package `determined`, as Determined's own client does."""

import os
from importlib.util import find_spec

_OWN = "determined_serverless-"


def warning() -> str:
    """Return a sentence about another distribution in this environment, or '' if there is none.

    It lists one folder, because `importlib.metadata` takes as long as the rest of the start."""
    spec = find_spec("determined")
    if spec is None or spec.origin is None:
        return ""
    site = os.path.dirname(os.path.dirname(spec.origin))
    for entry in _listed(site):
        if entry.startswith("determined") and entry.endswith(".dist-info"):
            name, _, version = entry.removesuffix(".dist-info").partition("-")
            if not entry.startswith(_OWN) and _owns_files(os.path.join(site, entry)):
                return _sentence(name.replace("_", "-"), version)
    return ""


def _listed(folder: str) -> "list[str]":
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _owns_files(info: str) -> bool:
    try:
        with open(os.path.join(info, "RECORD"), encoding="utf-8") as record:
            return any(line.startswith("determined/") for line in record)
    except OSError:
        return False


def _sentence(name: str, version: str) -> str:
    return (
        f"the package {name} {version} in this environment also owns the import package `determined` and the command"
        f" `det`: run `pip uninstall {name}`, then `pip install --force-reinstall --no-deps determined-serverless`,"
        " or use separate environments"
    )
