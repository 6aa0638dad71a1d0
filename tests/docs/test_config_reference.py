"""The pages of the configurations describe the keys that the code reads."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "config_reference.py"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("config_reference", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["experiment", "cluster"])
def test_page_is_up_to_date(reference: ModuleType, name: str) -> None:
    page = reference.PAGES[name].read_text("utf-8")
    assert page == reference.pages()[name], "run: python scripts/config_reference.py --write"


def test_rejects_a_field_without_a_description(
    reference: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorter = tmp_path / "config_meanings.yaml"
    lines = reference.MEANINGS.read_text("utf-8").splitlines(keepends=True)
    shorter.write_text("".join(line for line in lines if "    max_restarts:" not in line))
    monkeypatch.setattr(reference, "MEANINGS", shorter)
    with pytest.raises(reference.Unexplained, match="max_restarts: say what it means"):
        reference.pages()
