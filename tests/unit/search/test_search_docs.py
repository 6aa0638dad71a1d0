"""The drawings of the search page are what the code does."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "search_tables", ROOT / "scripts" / "search_tables.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_what_the_code_decides(tables: ModuleType) -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.drawn(page) == page, "run: python scripts/search_tables.py --write"


def test_every_drawing_is_on_the_page(tables: ModuleType) -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- drawn: {name} -->" in page for name in tables.DRAWINGS)
