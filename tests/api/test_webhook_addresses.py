"""Addresses of webhooks are secrets: who can see and set them, and how they are stored."""

from typing import Any

import pytest
from det_controlplane.ports.courier import Unsent
from det_controlplane.services.maintenance import housekeeping
from det_controlplane.services.webhooks import delivery
from sqlalchemy import text

from tests.support.api import Api, Caller
from tests.support.inbox import Inbox, W, end, make_webhook, refused

SECRET = "https://hooks.example.com/T1/secret"
_STORED = text("SELECT url, sealed FROM webhooks")


def test_only_creator_and_owners_see_the_address(
    api: Api, inbox: Inbox, user: Caller, admin: Caller
) -> None:
    """Other users may replace the address. Sending back the masked address changes nothing."""
    new_webhook = make_webhook(user, url=SECRET)
    assert new_webhook["url"] == SECRET
    (listed_webhook,) = user.get(W)["webhooks"]
    assert listed_webhook["url"] == "https://hooks.example.com/********"
    assert user.get(f"{W}/{new_webhook['id']}")["webhook"] == listed_webhook
    assert [webhook["url"] for webhook in admin.get(W)["webhooks"]] == [SECRET]
    user.done(
        "PATCH", f"{W}/{new_webhook['id']}", {"url": listed_webhook["url"], "name": "renamed"}
    )
    user.done("POST", f"{W}/{new_webhook['id']}/test")
    assert [post.url for post in inbox.posts] == [SECRET]
    masked = {"url": "https://elsewhere.org/********"}
    assert "give the whole address" in refused(
        user, "PATCH", f"{W}/{new_webhook['id']}", masked, 400
    )
    own = user.post("/api/v1/workspaces", {"name": "own"})["workspace"]["id"]
    make_webhook(user, url=SECRET, workspaceId=own)
    assert [
        webhook["url"] for webhook in user.get(W)["webhooks"] if webhook["workspaceId"] == own
    ] == [SECRET]


def test_database_contains_no_plain_addresses(api: Api, inbox: Inbox, user: Caller) -> None:
    webhook = make_webhook(user, url=SECRET)
    assert "T1/secret" not in str(api.ctx.db.read(_STORED))
    user.done("POST", f"{W}/{webhook['id']}/test")
    assert [post.url for post in inbox.posts] == [SECRET]


def test_address_of_an_earlier_version_stays_until_it_is_changed(
    api: Api, inbox: Inbox, user: Caller
) -> None:
    webhook = make_webhook(user, url="https://hooks.example.com/T0")
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE webhooks SET url = :url, sealed = NULL"), {"url": SECRET})
    assert "secret" not in str(user.get(W))
    housekeeping.seal_earlier_secrets(api.ctx)
    assert api.ctx.db.read(_STORED)[0].url == SECRET
    user.done("POST", f"{W}/{webhook['id']}/test")
    assert [post.url for post in inbox.posts] == [SECRET]
    user.done("PATCH", f"{W}/{webhook['id']}", {"url": f"{SECRET}2"})
    assert "T1/secret" not in str(api.ctx.db.read(_STORED))


@pytest.mark.parametrize("repaired", [SECRET, "https://elsewhere.org"])
def test_address_set_by_an_earlier_version_is_used(
    api: Api, inbox: Inbox, user: Caller, admin: Caller, repaired: str
) -> None:
    """After a rollback it found an address that it could not read, and its user gave the whole one."""
    new_webhook = make_webhook(user, url="https://hooks.example.com/T0")
    with api.ctx.db.begin() as tx:
        tx.execute(text("UPDATE webhooks SET url = :url"), {"url": repaired})
    user.done("POST", f"{W}/{new_webhook['id']}/test")
    assert [post.url for post in inbox.posts] == [repaired]
    assert [webhook["url"] for webhook in admin.get(W)["webhooks"]] == [repaired]


def test_only_administrators_see_why_a_cluster_webhook_failed(
    api: Api, inbox: Inbox, user: Caller, admin: Caller
) -> None:
    wide = make_webhook(admin, workspaceId=0, url="https://hooks.example.com/T1/secret")
    inbox.refusals[wide["url"]] = Unsent("T1/secret answered with status 500")
    end(user)
    delivery.run(api.ctx)
    (webhook_of_user,), (webhook_of_admin,) = user.get(W)["webhooks"], admin.get(W)["webhooks"]
    assert (webhook_of_user["lastFailure"], webhook_of_user["lastFailedAt"]) == (
        None,
        webhook_of_admin["lastFailedAt"],
    )
    assert "T1/secret" in webhook_of_admin["lastFailure"]


def test_addresses_are_checked_only_for_permitted_users(
    webhook: Any, user: Caller, admin: Caller
) -> None:
    wide = make_webhook(admin, workspaceId=0)
    body = {"url": "https://private.example.com"}
    assert "administrator" in refused(user, "PATCH", f"{W}/{wide['id']}", body, 403)
    assert "private network" in refused(admin, "PATCH", f"{W}/{wide['id']}", body, 400)
