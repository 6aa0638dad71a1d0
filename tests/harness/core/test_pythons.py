"""The harness works with the Python versions of task images."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import pythons
from tests.support.fake_master import FakeMaster

HARNESS = Path(__file__).parents[3] / "harness"

IMPORTS = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
for path in sorted((root / "determined").rglob("*.py")):
    compile(path.read_text(), str(path), "exec")
    parts = path.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    try:
        importlib.import_module(name)
    except ImportError as e:
        assert e.name.partition(".")[0] != "determined", e  # a framework that is not here
"""

TRIAL = """
import json, pathlib
import determined as det

info = det.get_cluster_info()
with det.core.init() as core:
    assert not core.preempt.should_preempt()
    core.train.report_training_metrics(1, {"loss": 0.5})
    with core.checkpoint.store_path({"steps_completed": 1}) as (path, uuid):
        (pathlib.Path(path) / "weights").write_text("w")
    with core.checkpoint.restore_path(uuid) as path:
        assert (pathlib.Path(path) / "weights").read_text() == "w"
    core.train.report_validation_metrics(1, {"loss": info.trial.hparams["lr"]})
"""


@pytest.fixture(params=pythons.VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    return pythons.require(request.param)


def run(python: str, code: str, *arguments: str, **env: str) -> None:
    variables = {**os.environ, "PYTHONPATH": str(HARNESS), "PYTHONDONTWRITEBYTECODE": "1", **env}
    command = [python, "-W", "error", "-S", "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert result.returncode == 0, result.stderr


def test_every_module_compiles_and_needs_only_its_framework(python: str) -> None:
    run(python, IMPORTS, str(HARNESS))


def test_trial_reports_saves_and_restores(
    python: str, master: FakeMaster, trial_env: Callable[..., dict[str, str]]
) -> None:
    run(python, TRIAL, **trial_env())
    reports = master.received("POST", "/api/v1/trials/7/metrics")
    assert [r.body["group"] for r in reports] == ["training", "validation"]
    assert len(master.saved()) == 1
