"""Code of trials as containers get it from the gateway, wherever it lies."""

import base64
import hashlib
import http.client
from typing import Any

import pytest

from tests.support.fake_controlplane import FakeControlPlane
from tests.support.gateway import TOKEN, Caller

CODE = "/api/v1/tasks/task-1/context_directory"
ARCHIVE = bytes(range(256)) * 1000 + b"x"


def return_address_of_code(
    plane: FakeControlPlane, statuses: list[int], upload: bytes = ARCHIVE
) -> list[str]:
    """Let the control plane return the address of an archive. Returns the list of requested paths."""
    sha256 = hashlib.sha256(upload).hexdigest()
    paths: list[str] = []

    def answer(method: str, path: str, body: bytes) -> tuple[int, Any]:
        paths.append(path)
        if path.startswith("/store/"):
            status = statuses.pop(0)
            return status, ARCHIVE if status == 200 else b"refused"
        return 200, {"b64Tgz": "", "url": f"{plane.url}/store/code.tgz", "sha256": sha256}

    plane.answer_to = answer
    return paths


def test_code_in_the_object_store_is_returned_as_json(
    caller: Caller, plane: FakeControlPlane
) -> None:
    paths = return_address_of_code(plane, [503, 200])
    status, answer, headers = caller.ask("GET", CODE, headers=TOKEN)
    assert (status, list(answer)) == (200, ["b64Tgz"])
    assert base64.b64decode(answer["b64Tgz"]) == ARCHIVE
    assert headers["content-type"] == "application/json"
    assert paths == [f"{CODE}?url=true", "/store/code.tgz", "/store/code.tgz"]


def test_code_with_another_checksum_does_not_reach_a_container(
    caller: Caller, plane: FakeControlPlane
) -> None:
    """A fork would run other code than was looked at before it."""
    return_address_of_code(plane, [200], upload=b"what was looked at")
    with pytest.raises(http.client.IncompleteRead):
        caller.ask("GET", CODE, headers=TOKEN)


def test_error_of_the_object_store_is_a_502(caller: Caller, plane: FakeControlPlane) -> None:
    return_address_of_code(plane, [403])
    status, answer, _ = caller.ask("GET", CODE, headers=TOKEN)
    assert status == 502
    assert "the object store does not give the code of the task" in answer["error"]["error"]


@pytest.mark.parametrize(("status", "body"), [(200, {"b64Tgz": "eA=="}), (404, {"error": "gone"})])
def test_inline_code_is_forwarded(
    caller: Caller, plane: FakeControlPlane, status: int, body: Any
) -> None:
    plane.answer_to = lambda method, path, _: (status, body)
    assert caller.ask("GET", CODE, headers=TOKEN)[:2] == (status, body)
