"""Half-public modules that public examples import, compared with Determined's own package."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from det_controlplane.db.engine.database import Database
from determined.common.api import authentication, bindings, errors

from tests.support.api import PASSWORD, Api, api_over
from tests.support.served_api import served
from tests.support.stock import stock_python

SCRIPT = Path(__file__).with_name("half_public_script.py")


def outcomes(python: Path | str) -> dict[str, str]:
    result = subprocess.run([str(python), str(SCRIPT)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    values: dict[str, str] = json.loads(result.stdout.splitlines()[-1])
    return values


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return outcomes(stock_python())


def test_functions_and_classes_return_the_same_results(expected: dict[str, str]) -> None:
    own_outcomes = outcomes(sys.executable)
    assert len(own_outcomes) > 30
    assert own_outcomes == expected


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


def test_error_of_a_missing_binding_names_its_replacement() -> None:
    with pytest.raises(
        AttributeError, match=r"get_GetExperiments: .* determined\.experimental\.client"
    ):
        bindings.get_GetExperiments  # noqa: B018


def test_a_session_signs_in_and_returns_responses(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_DEBUG_CONFIG_PATH", str(tmp_path))
    with served(api) as url:
        session = authentication.login(url, "determined", PASSWORD)
        me = session.get("api/v1/me")
        assert (me.status_code, me.json()["user"]["username"]) == (200, "determined")
        name = session.post("/api/v1/workspaces", json={"name": "w"}).json()["workspace"]["name"]
        assert name == "w"
        assert (
            session.get("api/v1/workspaces", params={"name": "w"}).json()["pagination"]["total"]
            == 1
        )
        with pytest.raises(errors.NotFoundException, match="workspace 999"):
            session.delete("api/v1/workspaces/999")
        login = authentication.login_with_cache(url, "determined", PASSWORD)
        assert authentication.TokenStore(url).get_token("determined") == login.token
        assert authentication.logout(url, "determined", None) == "determined"
        assert authentication.logout(url, "determined", None) is None
        with pytest.raises(errors.UnauthenticatedException):
            login.get("api/v1/me")
