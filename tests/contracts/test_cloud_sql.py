"""The Cloud SQL requests of `det deploy gcp`, and the fake's responses, match Google's API description.

cloud_sql.json has the required methods and fields of that description.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from det_cli.deployment import google_backups
from det_cli.deployment.google import Google

from tests.support.fake_google import FakeGoogle
from tests.support.google_server import google_cloud

DESCRIBED = json.loads((Path(__file__).parent / "cloud_sql.json").read_text())
IN_PATH = ("project", "instance", "operation", "name")


@pytest.fixture
def cloud() -> Iterator[FakeGoogle]:
    with google_cloud() as fake:
        yield fake


@pytest.fixture
def google(cloud: FakeGoogle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Google:
    monkeypatch.setattr(google_backups, "_LOOK_S", 0.0)
    return Google("acme", "us-west1", keypath=str(cloud.key(tmp_path)), endpoint_url=cloud.url)


def method_of(verb: str, path: str) -> Any:
    for name, method in DESCRIBED["methods"].items():
        method_verb, pattern = name.split(" ")
        if method_verb == verb and re.fullmatch(re.sub(r"{\w+}", "[^/]+", pattern), path):
            return method
    raise AssertionError(f"Cloud SQL has no {verb} {path}")


def differences(value: Any, kind: Any) -> Iterator[str]:
    """Yield the differences of a value from the description: unknown fields, wrong types, unknown enum values."""
    if isinstance(kind, list) and len(kind) == 1:
        for item in value:
            yield from differences(item, kind[0])
    elif isinstance(kind, list):
        if value not in kind:
            yield f"{value!r} is none of {kind}"
    elif kind in DESCRIBED["schemas"]:
        fields = DESCRIBED["schemas"][kind]
        for name, inner in value.items():
            if name not in fields:
                yield f"{kind} has no {name}"
            else:
                yield from differences(inner, fields[name])
    elif kind == "string" and not isinstance(value, str):
        yield f"{value!r} is no string"


def test_restore_matches_the_api_description(cloud: FakeGoogle, google: Google) -> None:
    cloud.leave_backup("b1", instanceSettings={"settings": {"dataDiskSizeGb": "25"}})
    cloud.leftovers["items"] = [{"name": "det-lab-0a1b2c"}]
    cloud.begin("BACKUP_VOLUME")
    cloud.operations["operation-0"]["status"] = "DONE"
    assert google_backups.has_database(google, "det-lab")
    backup = google_backups.find(google, "b1")
    google_backups.restore(google, "det-lab-0a1b2c", backup, print)
    google_backups.set_password(google, "det-lab-0a1b2c", "determined", "secret", print)
    exchanges = [e for e in cloud.exchanges if e[1].startswith("/sqladmin/")]
    assert {method_of(verb, path.removeprefix("/sqladmin"))["answer"] for verb, path, *_ in exchanges} == {
        "InstancesListResponse", "ListBackupsResponse", "OperationsListResponse", "Operation",
    }  # fmt: skip
    for verb, path, query, body, answer in exchanges:
        method = method_of(verb, path.removeprefix("/sqladmin"))
        assert set(query) <= {*method["query"], *IN_PATH}
        assert list(differences(answer, method["answer"])) == []
        if "body" in method:
            assert list(differences(body, method["body"])) == []


def test_operation_errors_match_the_api_description(cloud: FakeGoogle) -> None:
    cloud.begin("RESTORE_VOLUME", error={"errors": [{"code": "INTERNAL", "message": "why"}]})
    assert list(differences(cloud.operations["operation-0"], "Operation")) == []
    assert list(differences({"failure": "why"}, "Operation")) == ["Operation has no failure"]
