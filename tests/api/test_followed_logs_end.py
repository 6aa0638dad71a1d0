"""A followed log ends when its reader loses the right to read it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from det_controlplane.api.http import Batch, Request, Stream
from det_controlplane.core.config.cluster import Authz
from det_controlplane.entry.server.answers import next_batch

from tests.support.api import Api, Caller, create, trial_of

FOLLOW = {"follow": ["true"]}


class Follower:
    """Reads a stream as a host does; between two looks a minute passes."""

    def __init__(self, api: Api, caller: Caller, path: str) -> None:
        self.headers = {"authorization": f"Bearer {caller.token}"}
        self.request = Request("GET", path, query=FOLLOW, headers=self.headers)
        stream = api.app.handle(self.request)
        assert isinstance(stream, Stream)
        self.api, self.stream, self.cursor = api, stream, stream.cursor

    def look(self) -> Batch:
        now = self.api.ctx.now() + timedelta(minutes=1)
        self.api.ctx.now = lambda: now
        batch = next_batch(self.api.app, self.request, self.stream, self.cursor)
        self.cursor = batch.cursor
        return batch


@pytest.fixture
def path(user: Caller) -> str:
    return f"/api/v1/tasks/{trial_of(user, create(user))['taskId']}/logs"


def write(admin: Caller, path: str, text: str) -> None:
    admin.post("/api/v1/task/logs", {"logs": [{"taskId": path.split("/")[4], "log": text}]})


def test_followed_log_continues_while_the_reader_is_signed_in(
    api: Api, user: Caller, admin: Caller, path: str
) -> None:
    follower = Follower(api, user, path)
    for text in ("one", "two"):
        write(admin, path, text)
        batch = follower.look()
        assert (len(batch.lines), batch.done) == (1, False)


def test_followed_log_ends_when_the_reader_signs_out(
    api: Api, user: Caller, admin: Caller, path: str
) -> None:
    follower = Follower(api, user, path)
    user.post("/api/v1/auth/logout")
    assert_ends(follower, admin, path, b'"httpCode":401')


def test_followed_log_ends_when_the_reader_is_deactivated(
    api: Api, user: Caller, admin: Caller, path: str
) -> None:
    follower = Follower(api, user, path)
    own = user.get("/api/v1/me")["user"]["id"]
    admin.done("PATCH", f"/api/v1/users/{own}", {"active": False})
    assert_ends(follower, admin, path, b'"httpCode":401')


def test_followed_log_ends_when_the_reader_loses_the_role(
    api: Api, user: Caller, admin: Caller, path: str
) -> None:
    follower = Follower(api, user, path)
    api.ctx.config = replace(api.ctx.config, authz=Authz.RBAC)
    assert_ends(follower, admin, path, b'"httpCode":404')


def test_followed_cluster_log_ends_when_the_reader_signs_out(api: Api, admin: Caller) -> None:
    follower = Follower(api, admin, "/api/v1/master/logs")
    admin.post("/api/v1/auth/logout")
    assert b'"httpCode":401' in follower.look().lines[-1]


def assert_ends(follower: Follower, admin: Caller, path: str, status: bytes) -> None:
    write(admin, path, "a secret")
    batch = follower.look()
    assert batch.done
    assert status in b"".join(batch.lines)
    assert b"a secret" not in b"".join(batch.lines)
