"""The environment of programs that tests play against the API is created once, and again when its versions change."""

import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/peer-venv"
MAKES = """#!/bin/sh
mkdir -p "$1"
echo "$*" >>"${0%/*}/made"
"""


def test_environment_is_recreated_after_its_versions_changed(tmp_path: Path) -> None:
    """The old environment stayed for ever."""
    script, made = tmp_path / "scripts/peer-venv", tmp_path / "scripts/made"
    script.parent.mkdir()
    shutil.copy(SCRIPT, script)
    (script.parent / "uv-venv").write_text(MAKES)
    (script.parent / "uv-venv").chmod(0o755)
    venv = tmp_path / ".venvs/peer"
    env = {"PATH": "/usr/bin:/bin"}
    for _ in range(2):
        result = subprocess.run([script], env=env, check=True, capture_output=True, text=True)
        assert result.stdout == f"{venv}/bin/python\n"
    (first,) = made.read_text().splitlines()
    assert "flask==3.1.3" in first
    (venv / "old").touch()
    script.write_text(script.read_text().replace("flask==3.1.3", "flask==3.1.4"))
    subprocess.run([script], env=env, check=True, capture_output=True)
    _, second = made.read_text().splitlines()
    assert "flask==3.1.4" in second
    assert not (venv / "old").exists()
