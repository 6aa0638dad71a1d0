"""The page about lifecycles shows the tables as they are."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts/lifecycle_drawings.py"


def test_the_drawings_are_those_of_the_tables() -> None:
    spec = importlib.util.spec_from_file_location("lifecycle_drawings", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    drawings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawings)
    page = drawings.PAGE.read_text("utf-8")
    assert all(f"<!-- {name} -->\n" in page for name in drawings.DRAWINGS)
    assert drawings.drawn(page) == page, "run: python scripts/lifecycle_drawings.py --write"
