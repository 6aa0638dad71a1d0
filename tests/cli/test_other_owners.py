"""`det` beside another distribution with the import package `determined`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wheels import write_installed

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder of packages that contains ours."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    for package in ("harness/determined", "cli/det_cli"):
        (folder / Path(package).name).symlink_to(ROOT / package)
    add(folder, "determined_serverless", "0.1.0", "determined/__init__.py")
    return folder


def add(site: Path, name: str, version: str, owned: str) -> None:
    write_installed(
        site, name, version, {f"{name}-{version}.dist-info/RECORD": f"{owned},sha256=0,0\n"}
    )


def det(site: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", "import sys; from det_cli.main import main; sys.exit(main(['--version']))"],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=site.parent,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


def test_other_owner_of_determined_is_explained_in_one_line(site: Path) -> None:
    add(site, "determined", "0.38.1", "determined/__init__.py")
    result = det(site)
    assert result.returncode == 0
    assert result.stdout.startswith("det 0.38.1 (Determined Serverless")
    (line,) = result.stderr.splitlines()
    assert line.startswith("det: warning: the package determined 0.38.1 in this environment also")
    assert "`pip uninstall determined`" in line


def test_alone_and_beside_unrelated_packages_there_is_no_warning(site: Path) -> None:
    add(site, "determined_plots", "1.0", "determined_plots/__init__.py")
    assert det(site).stderr == ""


def test_stock_client_in_another_folder_is_no_conflict(site: Path, tmp_path: Path) -> None:
    add(tmp_path / "other", "determined", "0.38.1", "determined/__init__.py")
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{tmp_path / 'other'}"}
    script = "from det_cli.other_owners import warning; print(repr(warning()))"
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout == "''\n"


def test_files_replaced_by_the_stock_client_are_explained(tmp_path: Path) -> None:
    """Its `det` starts, because it was installed last, and finds our folder `client` before its own `client.py`."""
    package = tmp_path / "determined"
    package.mkdir()
    (package / "__init__.py").write_text('__version__ = "0.38.1"\n')
    (package / "experimental").symlink_to(ROOT / "harness/determined/experimental")
    result = subprocess.run(
        [sys.executable, "-c", "from determined.experimental import client"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert (
        "are in one environment and own the same files: run `pip uninstall determined`"
        in (result.stderr.splitlines()[-1])
    )
