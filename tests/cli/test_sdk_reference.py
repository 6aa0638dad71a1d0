"""`docs/reference/sdk.md` names every public function, class and method of the SDK."""

import inspect
import re
from pathlib import Path

import pytest
from determined import experimental
from determined.common.api import errors
from determined.experimental import client

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "sdk.md").read_text()
WORDS = set(re.findall(r"\w+", PAGE))
CLASSES = [c for c in map(client.__dict__.get, client.__all__) if inspect.isclass(c)]


@pytest.mark.parametrize("name", [*client.__all__, *errors.__all__])
def test_page_has_every_public_name(name: str) -> None:
    assert name in WORDS or name == "BadRequestException"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda c: str(c.__name__))
def test_page_has_every_public_method(kind: type) -> None:
    methods = {n for n, _ in inspect.getmembers(kind, inspect.isfunction) if not n.startswith("_")}
    assert methods <= WORDS


@pytest.mark.parametrize("name", [n for n in experimental.__all__ if n != "client"])
def test_classes_are_exported_by_experimental(name: str) -> None:
    assert getattr(experimental, name) is getattr(client, name)


def test_old_names_are_aliases() -> None:
    assert experimental.ExperimentReference is client.Experiment
    assert experimental.TrialReference is client.Trial
