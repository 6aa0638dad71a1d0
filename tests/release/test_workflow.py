"""The release workflow: its shell steps run here, with programs that record their arguments."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.release.notes import WrongTag, notes
from tests.support.release_checkout import ROOT, release_checkout

WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())
# `.ci/run` runs the checks, and a heavy test in test_dist.py starts a cluster with the wheel.
NOT_HERE = {"make check", "Install the wheel without this checkout"}
RECORDER = '#!/bin/sh\necho "$(basename "$0") $*" >> "$RECORD"\n'


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Run all shell steps of all jobs for the tag v0.1.0 and return the calls of docker and gh."""
    folder = tmp_path_factory.mktemp("runner")
    programs = folder / "programs"
    programs.mkdir()
    for name in ("docker", "gh"):
        (programs / name).write_text(RECORDER)
        (programs / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(folder), "RECORD": str(folder / "record"),
        "GITHUB_REF_NAME": "v0.1.0", "GITHUB_REPOSITORY": "Team/Determined", "GITHUB_ACTOR": "ada",
        "WITHOUT": "image lambda",
    }  # fmt: skip
    for name, job in WORKFLOW["jobs"].items():
        workspace = folder / name
        if name == "build":
            release_checkout(workspace)
        else:
            workspace.mkdir()
            shutil.copytree(folder / "build/dist", workspace / "dist")
        for step in job["steps"]:
            run_step(step, workspace, environment)
    return (folder / "record").read_text().splitlines()


def run_step(step: dict[str, Any], workspace: Path, environment: dict[str, str]) -> None:
    if "run" not in step or step.get("name", step["run"]) in NOT_HERE:
        return
    variables = {**environment, "GITHUB_WORKSPACE": str(workspace), **step.get("env", {})}
    result = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        cwd=workspace,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, (step, result.stdout, result.stderr)


@pytest.mark.slow
def test_release_page_has_all_files_and_the_notes(published: list[str]) -> None:
    (call,) = (line for line in published if line.startswith("gh "))
    assert call.startswith("gh release create v0.1.0 --repo Team/Determined --verify-tag")
    assert "--notes-file notes.md" in call
    for name in ("SHA256SUMS", "-py3-none-any.whl", "0.tar.gz", ".cdx.json", ".intoto.json"):
        assert name in call
    assert "dist/notes.md" not in call


@pytest.mark.slow
def test_image_is_pushed_by_its_version(published: list[str]) -> None:
    assert "docker push ghcr.io/team/determined:0.1.0" in published


def test_jobs_have_only_the_rights_that_they_need() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    rights = {name: set(job["permissions"]) for name, job in WORKFLOW["jobs"].items()}
    assert rights["package"] == {"id-token"}
    assert rights["page"] == {"contents"}


def test_notes_are_the_part_of_the_version() -> None:
    changelog = "# Changelog\n\n## 0.2.0\n\n- New\n\n## 0.1.0\n\n- First\n\n### More\n"
    assert notes("v0.2.0", 'version = "0.2.0"\n', changelog) == "- New"
    assert notes("v0.1.0", 'version = "0.1.0"\n', changelog) == "- First\n\n### More"


@pytest.mark.parametrize(
    ("tag", "changelog", "cause"),
    [
        ("v0.2.0", "## 0.1.0\n\n- First\n", r"the tag is v0\.2\.0, and pyproject\.toml has v0\.1\.0"),
        ("v0.1.0", "## 0.0.1\n\n- First\n", r"no text below a heading `## 0\.1\.0`"),
    ],
)  # fmt: skip
def test_tag_without_version_or_notes_is_refused(tag: str, changelog: str, cause: str) -> None:
    with pytest.raises(WrongTag, match=cause):
        notes(tag, 'version = "0.1.0"\n', changelog)


def test_changelog_has_notes_for_the_next_release() -> None:
    text = notes(
        "v0.1.0", (ROOT / "pyproject.toml").read_text(), (ROOT / "CHANGELOG.md").read_text()
    )
    assert text.startswith("The first version.")
