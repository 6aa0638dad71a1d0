"""Prometheus' own tool checks the alert rules, and evaluates them over series of time."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import debian, skips

FOLDER = Path(__file__).resolve().parents[2] / "infra" / "grafana" / "prometheus"
TESTS = Path(__file__).parent / "alert_rules.test.yaml"


@pytest.fixture(scope="module")
def promtool() -> str:
    """Return the path of promtool, which is installed where that is allowed."""
    if shutil.which("promtool") is None:
        debian.install("prometheus")
    path = shutil.which("promtool")
    if path is None:
        skips.skip(f"{skips.PACKAGES} (prometheus)", "a machine where apt-get reaches Debian")
    return path


def run(*command: str, cwd: Path) -> str:
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_prometheus_accepts_the_rules_and_its_configuration(promtool: str, tmp_path: Path) -> None:
    assert "SUCCESS: 12 rules found" in run(
        promtool, "check", "rules", str(FOLDER / "alerts.yaml"), cwd=tmp_path
    )
    shutil.copytree(FOLDER, tmp_path / "prometheus")
    text = (tmp_path / "prometheus" / "prometheus.yml").read_text()
    (tmp_path / "token").write_text("token")
    (tmp_path / "prometheus" / "prometheus.yml").write_text(
        text.replace("/etc/prometheus/determined-token", str(tmp_path / "token"))
    )
    run(promtool, "check", "config", "prometheus.yml", cwd=tmp_path / "prometheus")


def test_alerts_fire_when_they_should_and_only_then(promtool: str, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "alerts.yaml", tmp_path)
    shutil.copy(TESTS, tmp_path)
    assert "SUCCESS" in run(promtool, "test", "rules", TESTS.name, cwd=tmp_path)
