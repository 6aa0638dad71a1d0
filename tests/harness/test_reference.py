"""The reference documents every public name of `determined`. The test reads the sources, so it needs no framework."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HARNESS = ROOT / "harness"
PAGES = ROOT / "docs" / "reference"
# Modules that only our own processes use.
INTERNAL = ("determined.common", "determined.exec", "determined.profiler", "determined.workloads")
# Modules that are commands, such as `python3 -m determined.launch.horovod`. Their functions are private.
COMMANDS = ("determined.launch.", "determined.cli.")
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef)


def modules() -> dict[str, Path]:
    paths = {}
    for path in sorted((HARNESS / "determined").rglob("*.py")):
        parts = path.relative_to(HARNESS).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        public = not any(part.startswith("_") for part in name.split("."))
        if public and (not name.startswith(INTERNAL) or name == "determined.common.api.errors"):
            paths[name] = path
    return paths


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def exported(path: Path) -> list[str]:
    """Return `__all__`, or the module's own definitions if it has no `__all__`."""
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    definitions = [node.name for node in tree(path).body if isinstance(node, _DEFINITIONS)]
    return [name for name in definitions if not name.startswith("_") and name != "main"]


def methods(path: Path, name: str) -> list[str]:
    """Return the public methods of a class that a module defines or re-exports."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            functions = [n.name for n in node.body if isinstance(n, ast.FunctionDef)]
            return [n for n in functions if not n.startswith("_")]
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            source = HARNESS.joinpath(*str(node.module).split(".")).with_suffix(".py")
            if source.exists():
                return methods(source, name)
    return []


def public_names(path: Path) -> Iterator[str]:
    for name in exported(path):
        yield name
        yield from methods(path, name)


@functools.cache
def documented() -> frozenset[str]:
    """Return the words of all code in the reference. `on_x_start/end` and `get/set_x` count as both names."""
    words: set[str] = set()
    for page in PAGES.glob("*.md"):
        for code in re.findall(r"```.*?```|`[^`]+`", page.read_text(), re.DOTALL):
            words.update(re.findall(r"\w+", code))
            for stem, ends in re.findall(r"(\w+_)(\w+(?:/\w+)+)", code):
                words.update(stem + end for end in ends.split("/"))
            for starts, rest in re.findall(r"((?:\w+/)+\w+?)(_\w+)", code):
                words.update(start + rest for start in starts.split("/"))
    return frozenset(words)


@pytest.mark.parametrize("module", [m for m in modules() if not m.startswith(COMMANDS)])
def test_every_public_name_is_in_the_reference(module: str) -> None:
    missing = sorted({*public_names(modules()[module])} - documented())
    assert not missing, f"docs/reference does not name these of {module}: {', '.join(missing)}"


def test_every_public_module_is_in_the_reference() -> None:
    text = "".join(page.read_text() for page in PAGES.glob("*.md"))
    missing = [name for name in modules() if name.rpartition(".")[2] not in text]
    assert not missing, f"docs/reference does not name {', '.join(missing)}"
