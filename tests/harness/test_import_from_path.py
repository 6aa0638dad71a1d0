"""Import the code of a checkpoint when the program has modules with the same names."""

import subprocess
import sys
from pathlib import Path

import determined as det
import pytest

PROGRAM = """
import pathlib, sys
import determined as det
import model_def as new, package.inner as new_inner
with det.import_from_path(pathlib.Path(sys.argv[1])):
    import model_def as old, package.inner as old_inner, only_old
    print(old.version, old_inner.version, only_old.version)
import model_def
print(model_def.version, model_def is new, sys.modules["package.inner"] is new_inner)
print("only_old" in sys.modules, sys.argv[1] in sys.path)
"""


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name in ("new", "old"):
        folder = tmp_path / name
        (folder / "package").mkdir(parents=True)
        (folder / "parts.py").write_text(f"version = {name!r}")
        (folder / "model_def.py").write_text("from parts import version")
        (folder / "package" / "__init__.py").write_text("")
        (folder / "package" / "inner.py").write_text("from parts import version")
    (tmp_path / "old" / "only_old.py").write_text("from parts import version")
    (tmp_path / "new" / "main.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize("cwd", ["new", "."])
def test_old_and_new_code_with_the_same_names_coexist(folders: Path, cwd: str) -> None:
    result = subprocess.run(
        [sys.executable, folders / "new" / "main.py", folders / "old"],
        cwd=folders / cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout.splitlines() == ["old old old", "new True True", "False False"], (
        result.stderr
    )


def test_blocks_can_be_consecutive_but_not_nested(folders: Path) -> None:
    with det.import_from_path(folders / "old"), pytest.raises(RuntimeError, match="nested"):  # noqa: SIM117
        with det.import_from_path(folders / "new"):
            pass
    with det.import_from_path(folders / "new"):
        pass


def test_modules_of_the_standard_library_stay_loaded(folders: Path) -> None:
    import json

    (folders / "old" / "json.py").write_text("")
    with det.import_from_path(folders / "old"):
        import json as inside
    assert inside is json
