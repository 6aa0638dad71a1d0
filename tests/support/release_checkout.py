"""Copies of this checkout as Git repositories of one commit, in which tests build releases."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "node_modules", "__pycache__", "dist", "build", ".*_cache", ".hypothesis"
)
_WHEN = "2026-01-02T03:04:05Z"
_PERSON = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org"), ("DATE", _WHEN))
}


def release_checkout(folder: Path) -> Path:
    """Return a repository in a new folder. Equal files give equal commits. It uses the environment of the tests."""
    shutil.copytree(ROOT, folder, ignore=_LEFT_OUT)
    environment = {**os.environ, **_PERSON}
    for command in (
        ("init", "--quiet"),
        ("add", "--all"),
        ("commit", "--quiet", "--no-gpg-sign", "-m", "release: build"),
    ):
        subprocess.run(["git", *command], cwd=folder, env=environment, check=True)
    _lend_environment(folder / ".venv")
    return folder


def _lend_environment(venv: Path) -> None:
    """Link the parts of the environment of the tests. It counts as complete, so that make never changes it."""
    venv.mkdir()
    for path in Path(sys.prefix).iterdir():
        if not path.name.startswith(".installed"):
            (venv / path.name).symlink_to(path)
    for name in (".installed", ".installed-dev"):
        (venv / name).touch()
