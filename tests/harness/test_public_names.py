"""Public names of `determined` that are missing, compared with Determined's own package and with the documentation."""

import fnmatch
import json
import os
import pathlib
import re
import subprocess

import pytest

from tests.support import ml

pytestmark = pytest.mark.slow
SCRIPT = pathlib.Path(__file__).with_name("public_names_script.py")
PAGE = ml.ROOT / "docs/reference/compatibility.md"


def missing_names(folder: pathlib.Path) -> set[str]:
    names = folder / "names.json"
    names.write_text(run("stock", folder))
    missing: list[str] = json.loads(run("ml", folder, str(names)))
    return {short_name(name) for name in missing}


def run(environment: str, folder: pathlib.Path, *arguments: str) -> str:
    command = [ml.require(environment), str(SCRIPT), *arguments]
    own = {"PYTHONPATH": f"{ml.ROOT}/harness"} if environment == "ml" else {}
    result = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env={**os.environ, **own}, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1]


def short_name(name: str) -> str:
    """Return `Class.method` for methods, because several modules have the same class."""
    *_, parent, last = name.split(".")
    return f"{parent}.{last}" if parent[0].isupper() else name


def documented_names() -> set[str]:
    """Return the names in the first column. A module followed by a colon has the names after it."""
    section = PAGE.read_text("utf-8").split("### Missing Python helpers")[1]
    names = set()
    for row in section.split("|---|---|---|")[1].strip().splitlines():
        for group in row.strip("| ").split(" | ")[0].split(";"):
            before, _, members = group.rpartition(":")
            *alone, module = re.findall("`([^`]+)`", before) or [""]
            names.update(alone)
            for name in re.findall("`([^`]+)`", members):
                names.add(name if "." in name else f"{module}.{name}")
    return names - {"determined.exec"}


def test_every_missing_name_is_documented(tmp_path: pathlib.Path) -> None:
    missing, documented = missing_names(tmp_path), documented_names()
    assert len(missing) > 50
    unknown = {n for n in missing if not any(fnmatch.fnmatch(n, d) for d in documented)}
    assert unknown == set()
    present = {d for d in documented if not any(fnmatch.fnmatch(n, d) for n in missing)}
    assert present == set()
