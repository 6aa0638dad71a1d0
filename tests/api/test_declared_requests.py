"""Schemathesis sends valid and invalid requests of the API's description to a cluster with objects of each kind. No
answer may be a failure of the server, and each must have a declared form.

Each route gets a few requests. With DECLARED_SECONDS, further rounds follow for so many seconds.
"""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from det_controlplane.api import routes
from det_controlplane.api.app import App
from det_controlplane.api.http import Answer, Request
from det_controlplane.api.openapi import description
from det_controlplane.db.engine.database import Database

from tests.support.api import Api, api_over
from tests.support.hostile import World
from tests.support.peers import peer_python
from tests.support.served_api import served

SECONDS = os.environ.get("DECLARED_SECONDS", "")
EACH_ROUND = "2"
_LAST_ROUND_S = 600  # time that a busy machine may take for a round
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
SELECTED, TESTED = re.compile(r"Selected: (\d+)/"), re.compile(r"Tested: (\d+)")
# The server of the tests carries no traffic to tasks. Requests that end the caller's session would end the run.
# Kubernetes routes answer 501.
LEFT_OUT = (
    r"^/(proxy|stream|objects)|/auth/logout$|/v1/users$|/users/\{userId\}|/users/assignments$"
    r"|namespace-bindings|resource-quota"
)


def described(places: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the description, which also knows the names of things that are there."""
    document = description(routes.every())
    for operation in (o for operations in document["paths"].values() for o in operations.values()):
        for parameter in operation["parameters"]:
            ids = places.get(parameter["name"], places["ids"])
            if parameter["in"] == "path":
                whole = parameter["type"] == "integer"
                parameter["enum"] = [
                    int(k) if whole else k for k in ids if k.isdigit() or not whole
                ]
    return document


class Counted:
    """Counts the answers of an API by their statuses."""

    def __init__(self, app: App) -> None:
        self._handle, self.statuses = app.handle, Counter[int]()

    def handle(self, request: Request) -> Answer:
        answer = self._handle(request)
        self.statuses[getattr(answer, "status", 200)] += 1
        return answer


def run(api: Api, url: str, token: str, schema: Path) -> subprocess.CompletedProcess[str]:
    command = [
        str(Path(peer_python()).parent / "schemathesis"), "run", str(schema), "--url", url,
        "--header", f"Authorization: Bearer {token}", "--checks", CHECKS, "--max-examples", EACH_ROUND,
        "--phases", "fuzzing", "--seed", "1", "--exclude-path-regex", LEFT_OUT, "--no-color",
        "--request-timeout", "30", "--suppress-health-check", "all", "--warnings", "off",
        "--continue-on-failure", *(["--max-time", SECONDS] if SECONDS else []),
    ]  # fmt: skip
    patience_s = int(SECONDS or 0) + _LAST_ROUND_S
    return subprocess.run(
        command, cwd=schema.parent, capture_output=True, text=True, timeout=patience_s, check=False
    )


# Forbidden requests are refused before their input is read: tests/api/test_route_rights.py.
@pytest.mark.heavy("sends as a user what it sends as an administrator", account="user")
@pytest.mark.parametrize("account", ["user", "admin"])
def test_responses_match_the_openapi_description(
    database: Database, tmp_path: Path, account: str
) -> None:
    schema, folder = tmp_path / "schema.json", tmp_path / "api"
    folder.mkdir()
    with api_over(database, folder) as api:
        world = World(api)
        schema.write_text(json.dumps(described(world.places)))
        counter = Counted(api.app)
        with patch.object(api.app, "handle", counter.handle), served(api) as url:
            result = run(api, url, world.callers[account].token, schema)
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2000:]
    # So that the requests are not all refused at the door.
    assert counter.statuses[200] > 150, counter.statuses
    routes_asked, selected = TESTED.findall(result.stdout)[-1], SELECTED.findall(result.stdout)[-1]
    assert routes_asked == selected
    assert counter.statuses[401] < 50, counter.statuses
