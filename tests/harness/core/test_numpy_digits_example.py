"""The example of the quickstart."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fake_master import FakeMaster

EXAMPLE = Path(__file__).parents[3] / "examples" / "numpy_digits"
METRICS = r"/api/v1/trials/7/metrics"
HPARAMS = '{"learning_rate": 0.1, "momentum": 0.9, "hidden_units": 32, "batch_size": 64}'


@pytest.fixture
def run_trial(
    master: FakeMaster, trial_env: Callable[..., dict[str, str]]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(**extra: str) -> subprocess.CompletedProcess[str]:
        env = trial_env(DET_HPARAMS=HPARAMS, **extra)
        return subprocess.run(
            [sys.executable, "train.py"],
            cwd=EXAMPLE,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def validations(master: FakeMaster) -> dict[int, dict[str, float]]:
    bodies = [r.body for r in master.received("POST", METRICS)]
    reports = [b["metrics"] for b in bodies if b["group"] == "validation"]
    return {r["stepsCompleted"]: r["metrics"]["avgMetrics"] for r in reports}


def test_example_learns_and_reports_its_time_metric(
    master: FakeMaster, run_trial: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    result = run_trial()
    assert result.returncode == 0, result.stderr
    metrics = validations(master)
    assert metrics[480]["validation_error"] < metrics[30]["validation_error"] / 2
    assert all(values["batches"] == step for step, values in metrics.items())


def test_resumed_example_computes_the_same_results(
    master: FakeMaster, run_trial: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert run_trial().returncode == 0
    uninterrupted = validations(master)
    master.requests.clear()
    master.preempt.set()
    assert run_trial().returncode == 0
    uuid = master.saved()[-1].body["uuid"]
    assert max(validations(master), default=0) < 480
    master.preempt.clear()
    result = run_trial(DET_LATEST_CHECKPOINT=uuid)
    assert re.search(r"going on at batch \d+", result.stdout)
    assert validations(master) == uninterrupted
