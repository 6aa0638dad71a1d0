"""Errors of the client, compared with Determined's own package: programs catch them by these classes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.db.engine.database import Database

from tests.support.api import PASSWORD, Api, api_over, create_ended, report_checkpoint
from tests.support.served_api import served
from tests.support.stock import stock_python

SCRIPT = Path(__file__).with_name("client_errors_script.py")


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


def outcomes(python: Path | str, *args: str) -> dict[str, list[str]]:
    command = [str(python), str(SCRIPT), *args]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    classes: dict[str, list[str]] = json.loads(result.stdout.splitlines()[-1])
    return classes


def test_errors_have_the_classes_that_programs_catch(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_DEBUG_CONFIG_PATH", str(tmp_path / "config"))
    user = api.signed_in("determined")
    experiment_id = create_ended(user)
    deleted_checkpoint, absent = (report_checkpoint(user, experiment_id, steps) for steps in (2, 4))
    body = {"checkpoints": [{"uuid": deleted_checkpoint, "resources": {"resources": {}}}]}
    user.done("PATCH", "/api/v1/checkpoints", body)
    with served(api) as url:
        arguments = (url, PASSWORD, deleted_checkpoint, absent)
        expected = outcomes(stock_python(), *arguments)
        own_outcomes = outcomes(sys.executable, *arguments)
    assert len(expected["wrong password"]) > 1
    missing = {call: set(names) - set(own_outcomes[call]) for call, names in expected.items()}
    assert {call: names for call, names in missing.items() if names} == {}
