"""The files, commands and names that the recipes of CONTRIBUTING.md refer to exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("\n## Recipes\n")[1]
CODE = re.findall(r"`([^`\n]+)`", RECIPES)
# Recipes name files of the control plane by where they stand in it.
PLACES = (ROOT, ROOT / "controlplane/det_controlplane")
# Files that a recipe creates.
NEW = {"core/search/mine.py"}
FILES = sorted({code for code in CODE if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)+/?", code)} - NEW)
MODULES = sorted(
    {matching_module for code in CODE for matching_module in re.findall(r"-m (det_[\w.]+)", code)}
)
# A name, and the file that the same step has before it.
NAMED = re.findall(r"^\d\. `([\w/]+\.py)`(.*(?:\n   .*)*)", RECIPES, re.MULTILINE)
NAMES = sorted(
    {(file, name) for file, text in NAMED for name in re.findall(r"`(_?[A-Z]{2,}|_[a-z_]+)`", text)}
)


def place_of(path: str) -> Path | None:
    return next((root / path for root in PLACES if (root / path).exists()), None)


@pytest.mark.parametrize("path", FILES)
def test_files_of_recipes_exist(path: str) -> None:
    assert place_of(path) is not None


@pytest.mark.parametrize("module", MODULES)
def test_modules_of_recipes_exist(module: str) -> None:
    path = f"{module.replace('.', '/')}.py"
    packages = [folder for folder in ROOT.iterdir() if (folder / path).is_file()]
    assert len(packages) == 1


@pytest.mark.parametrize(("file", "name"), NAMES)
def test_names_of_recipes_are_defined_in_their_files(file: str, name: str) -> None:
    path = place_of(file)
    assert path is not None
    assert re.search(rf"^(?:def |class )?{name}\b", path.read_text("utf-8"), re.MULTILINE)
