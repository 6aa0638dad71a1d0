"""docs/concepts/scheduling.md shows what the scheduler does today."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from det_controlplane.core.schedule import WaitCode

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def drawings() -> ModuleType:
    path = ROOT / "scripts" / "scheduling_drawings.py"
    spec = importlib.util.spec_from_file_location("scheduling_drawings", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_drawings_are_up_to_date(drawings: ModuleType) -> None:
    page = drawings.PAGE.read_text(encoding="utf-8")
    assert page.count("<!-- drawn: ") == len(drawings.DRAWINGS)
    assert drawings.drawn(page) == page, "run: python scripts/scheduling_drawings.py --write"


def test_every_reason_is_explained(drawings: ModuleType) -> None:
    page = drawings.PAGE.read_text(encoding="utf-8")
    assert all(f"| `{code.value}` |" in page for code in WaitCode)
