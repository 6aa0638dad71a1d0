"""Webhooks: the rights to create them, their triggers, and their messages."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from det_controlplane.core.config.cluster import Webhooks
from det_controlplane.core.webhooks import signature
from det_controlplane.db.cluster import webhooks
from det_controlplane.ports.courier import Unsent
from det_controlplane.services.webhooks import delivery

from tests.support.api import Api, Caller, config_of, create, trial_of
from tests.support.inbox import COMPLETED, Inbox, W, end, make_webhook, refused

ALERTS = {"triggerType": "TRIGGER_TYPE_CUSTOM"}


def of_log(regex: str) -> dict[str, Any]:
    return {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": regex}}


@dataclass
class Time:
    now: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def __call__(self) -> datetime:
        return self.now


def write(caller: Caller, task_id: str, *texts: str) -> None:
    caller.post("/api/v1/task/logs", {"logs": [{"taskId": task_id, "log": t} for t in texts]})


def choosing(**choice: Any) -> dict[str, Any]:
    return {"integrations": {"webhooks": choice}}


def test_webhook_is_shown_as_created(webhook: Any, user: Caller, admin: Caller) -> None:
    new_webhook = webhook(triggers=[COMPLETED, of_log("out of (.*)")])
    triggers = new_webhook.pop("triggers")
    assert new_webhook == {
        "id": new_webhook["id"], "name": "chat", "url": "https://example.com/hook",
        "webhookType": "WEBHOOK_TYPE_DEFAULT",
        "mode": "WEBHOOK_MODE_WORKSPACE", "enabled": True, "workspaceId": 1,
        "lastArrivedAt": None, "lastFailedAt": None, "lastFailure": None, "waitingMessages": 0,
    }  # fmt: skip
    assert [(t["triggerType"], t["condition"], t["webhookId"]) for t in triggers] == [
        (COMPLETED["triggerType"], {"state": "COMPLETED"}, new_webhook["id"]),
        ("TRIGGER_TYPE_TASK_LOG", {"regex": "out of (.*)"}, new_webhook["id"]),
    ]
    wide = make_webhook(admin, workspaceId=0, name="all")
    assert [w["name"] for w in user.get(W)["webhooks"]] == ["chat", "all"]
    assert user.get(f"{W}/{wide['id']}")["webhook"]["workspaceId"] == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"url": "example.com"}, "url: 'example.com' is not an address like https://"),
        ({"url": "ftp://example.com"}, "is not an address"),
        ({"url": "http://[::1"}, "is not an address"),
        ({"url": "https://example.com/\u00fc"}, "is not an address"),
        ({"url": "https://private.example.com"}, "private network"),
        ({"triggers": []}, "triggers: give at least one"),
        ({"triggers": [{**COMPLETED, "condition": {"state": "PAUSED"}}]}, "is none of COMPLETED, ERROR"),
        ({"triggers": [of_log("(")]}, "triggers[0].condition.regex: '(' is not a regular expression"),
        ({"triggers": [of_log("")]}, "give the regular expression"),
        ({"triggers": [{**ALERTS, "condition": {"subject": "tea"}}]}, "subject: 'tea' is none of budget, straggler,"),
        ({"triggers": [ALERTS]}, "alerts go to webhooks that experiments choose (mode SPECIFIC)"),
        ({"triggers": [{"triggerType": "TRIGGER_TYPE_METRIC_THRESHOLD_EXCEEDED"}]}, "triggerType must be one of"),
        ({"webhookType": "WEBHOOK_TYPE_PAGER"}, "webhookType must be one of WEBHOOK_TYPE_DEFAULT, WEBHOOK_TYPE_SLACK"),
        ({"mode": ""}, "mode must be one of"),
    ],
)  # fmt: skip
def test_rejects_invalid_webhooks(webhook: Any, user: Caller, wrong: Any, said: str) -> None:
    new = {
        "name": "chat", "url": "https://example.com", "webhookType": "WEBHOOK_TYPE_DEFAULT",
        "mode": "WEBHOOK_MODE_WORKSPACE", "workspaceId": 1, "triggers": [COMPLETED], **wrong,
    }  # fmt: skip
    assert said in refused(user, "POST", W, new, 400)
    assert user.get(W)["webhooks"] == []


def test_webhook_names_are_unique_in_a_workspace(webhook: Any, user: Caller, admin: Caller) -> None:
    first, second = webhook(name="pager"), webhook(name="other")
    message = f"webhook {first['id']} of workspace 1 is called 'pager' already"
    copy = {**first, "name": " pager "}
    assert message in refused(user, "POST", W, copy, 409)
    assert message in refused(user, "PATCH", f"{W}/{second['id']}", {"name": "pager"}, 409)
    user.done("PATCH", f"{W}/{first['id']}", {"name": "pager"})
    workspace_id = user.post("/api/v1/workspaces", {"name": "elsewhere"})["workspace"]["id"]
    make_webhook(user, name="pager", workspaceId=workspace_id)
    make_webhook(admin, name="pager", workspaceId=0)


def test_only_administrators_manage_cluster_webhooks(
    webhook: Any, user: Caller, admin: Caller
) -> None:
    wide = make_webhook(admin, workspaceId=0)
    new = {**wide, "workspaceId": 0}
    for method, path, body in (
        ("POST", W, new),
        ("PATCH", f"{W}/{wide['id']}", {"url": "https://elsewhere.org"}),
        ("DELETE", f"{W}/{wide['id']}", None),
        ("POST", f"{W}/{wide['id']}/test", {}),
    ):
        assert "only an administrator may" in refused(user, method, path, body, 403)
    assert "workspace 99 not found" in refused(user, "POST", W, {**new, "workspaceId": 99}, 404)
    assert "webhook 99 not found" in refused(user, "POST", f"{W}/99/test", {}, 404)


def test_only_administrators_see_the_path_of_a_cluster_webhook(
    webhook: Any, user: Caller, admin: Caller
) -> None:
    wide = make_webhook(admin, workspaceId=0, url="https://hooks.example.com/T1/secret")
    (listed_webhook,) = user.get(W)["webhooks"]
    assert listed_webhook["url"] == "https://hooks.example.com/********"
    assert user.get(f"{W}/{wide['id']}")["webhook"] == listed_webhook
    assert admin.get(W)["webhooks"] == [wide]


def test_editing_replaces_triggers_and_preserves_ids_of_unchanged_ones(
    webhook: Any, user: Caller, inbox: Inbox, api: Api
) -> None:
    """A matching line of a task is reported once; the trigger remembers sent messages."""
    new_webhook = webhook(triggers=[COMPLETED, of_log("oom"), of_log("nan")])
    task_id = trial_of(user, create(user))["taskId"]
    write(user, task_id, "oom")
    changes = {"triggers": [of_log("oom"), of_log("inf")]}
    edited_webhook = user.done("PATCH", f"{W}/{new_webhook['id']}", changes)["webhook"]
    write(user, task_id, "oom", "nan", "inf")
    delivery.run(api.ctx)
    assert edited_webhook["triggers"][0] == new_webhook["triggers"][1]
    assert edited_webhook["triggers"][1]["condition"] == {"regex": "inf"}
    assert user.get(f"{W}/{new_webhook['id']}")["webhook"]["triggers"] == edited_webhook["triggers"]
    assert sorted(event["condition"]["regex"] for event in inbox.events) == ["inf", "oom"]


@pytest.mark.parametrize(
    ("triggers", "said"),
    [
        ([], "triggers: give at least one"),
        ([of_log("(")], "triggers[0].condition.regex"),
        ([ALERTS], "alerts go to webhooks that experiments choose (mode SPECIFIC)"),
        ([COMPLETED] * 51, "there may be 50 at most"),
    ],
)
def test_invalid_triggers_change_no_webhook(
    webhook: Any, user: Caller, triggers: Any, said: str
) -> None:
    new_webhook = webhook(url="https://example.com")
    changes = {"triggers": triggers, "name": "other"}
    assert said in refused(user, "PATCH", f"{W}/{new_webhook['id']}", changes, 400)
    assert user.get(W)["webhooks"] == [new_webhook]


def test_end_of_an_experiment_is_sent_once(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    webhook()
    webhook(name="failures", triggers=[{**COMPLETED, "condition": {"state": "ERROR"}}])
    experiment_id = end(user, name="resnet")
    assert delivery.run(api.ctx) is None
    assert delivery.run(api.ctx) is None
    (event,) = inbox.events
    experiment = event["event_data"].pop("experiment")
    assert experiment.pop("duration") >= 0
    assert experiment == {
        "id": experiment_id, "name": "resnet", "state": "COMPLETED", "resource_pool": "default",
        "slots_per_trial": 1, "workspace": "Uncategorized", "project": "Uncategorized",
    }  # fmt: skip
    assert event.pop("event_id")
    assert abs(event.pop("timestamp") - datetime.now(timezone.utc).timestamp()) < 600
    assert event == {
        "event_type": "EXPERIMENT_STATE_CHANGE", "condition": {"state": "COMPLETED"}, "event_data": {},
    }  # fmt: skip


def test_disabled_webhook_sends_nothing_until_it_is_enabled(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    path = f"{W}/{webhook()['id']}"
    assert user.done("PATCH", path, {"enabled": False})["webhook"]["enabled"] is False
    end(user)
    delivery.run(api.ctx)
    assert inbox.events == []
    user.done("PATCH", path, {"enabled": True})
    end(user)
    delivery.run(api.ctx)
    assert len(inbox.events) == 1


def test_experiments_choose_their_webhooks(
    api: Api, webhook: Any, inbox: Inbox, user: Caller, admin: Caller
) -> None:
    webhook(url="https://workspace.org")
    number = webhook(url="https://number.org", mode="WEBHOOK_MODE_SPECIFIC", name="a")["id"]
    webhook(url="https://name.org", mode="WEBHOOK_MODE_SPECIFIC", name="b")
    other = admin.post("/api/v1/workspaces", {"name": "other"})["workspace"]["id"]
    make_webhook(admin, url="https://other.org", workspaceId=other)
    make_webhook(admin, url="https://cluster.org", workspaceId=0)

    def told(**config: Any) -> list[str]:
        inbox.posts.clear()
        end(user, **config)
        delivery.run(api.ctx)
        return sorted(post.url.removeprefix("https://") for post in inbox.posts)

    assert told() == ["cluster.org", "workspace.org"]
    assert told(**choosing(exclude=True)) == []
    assert told(**choosing(webhook_id=[number], exclude=True)) == ["number.org"]
    assert told(**choosing(webhook_name=["b"])) == ["cluster.org", "name.org", "workspace.org"]


def test_matching_line_is_sent_once_for_each_task(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    webhook(triggers=[of_log("out of memory"), of_log("^never$")])
    first, second = (str(trial_of(user, create(user))["taskId"]) for _ in range(2))
    write(user, first, "all is well\n", "CUDA out of memory: 1\n", "CUDA out of memory: 2\n")
    write(user, first, "CUDA out of memory: 3\n")
    write(user, second, "out of memory")
    delivery.run(api.ctx)
    by_task = {e["event_data"]["task_log"]["task_id"]: e for e in inbox.events}
    assert len(inbox.posts) == 2
    assert by_task[first]["event_data"] == {
        "task_log": {"task_id": first, "node_name": "", "triggering_log": "CUDA out of memory: 1"}
    }
    assert by_task[second]["condition"] == {"regex": "out of memory"}
    assert by_task[second]["event_type"] == "TASK_LOG"


def test_new_pattern_applies_to_running_tasks(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    task_id = str(trial_of(user, create(user))["taskId"])
    write(user, task_id, "tea is ready")
    new_webhook = webhook(triggers=[of_log("tea")])
    delivery.run(api.ctx)
    assert inbox.posts == []
    write(user, task_id, "more tea is ready")
    delivery.run(api.ctx)
    assert len(inbox.posts) == 1
    user.done("DELETE", f"{W}/{new_webhook['id']}")
    write(user, str(trial_of(user, create(user))["taskId"]), "tea")
    delivery.run(api.ctx)
    assert len(inbox.posts) == 1


def test_alerts_are_sent_to_webhooks_of_the_experiment(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    webhook(name="pager", mode="WEBHOOK_MODE_SPECIFIC", triggers=[ALERTS])
    experiment_id = create(user, **choosing(webhook_name=["pager"]))
    trial_id = trial_of(user, experiment_id)["id"]
    data = {"title": "Diverged", "description": "loss is nan", "level": "LOG_LEVEL_ERROR"}
    user.post(f"{W}/custom", {"data": data, "experimentId": create(user)})
    user.post(f"{W}/custom", {"data": data, "experimentId": experiment_id, "trialId": trial_id})
    delivery.run(api.ctx)
    (event,) = inbox.events
    assert event["event_type"] == "CUSTOM"
    assert event["event_data"]["custom_data"] == {**data, "level": "ERROR"}
    experiment = event["event_data"]["experiment"]
    assert (experiment["id"], experiment["trial_id"]) == (experiment_id, trial_id)
    loud = {**data, "level": "LOG_LEVEL_LOUD"}
    error = refused(user, "POST", f"{W}/custom", {"data": loud, "experimentId": experiment_id}, 400)
    assert "data.level must be one of" in error
    message = refused(user, "POST", f"{W}/custom", {"data": data, "experimentId": 999}, 404)
    assert "experiment 999 not found" in message


def test_failed_message_is_sent_again_later(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    api.ctx.now = clock = Time()
    new_webhook = webhook()
    inbox.refusals[new_webhook["url"]] = Unsent("example.com answered with status 503")
    end(user)
    waits = []
    for _ in range(delivery.MOST_ATTEMPTS - 1):
        due_s = delivery.run(api.ctx)
        assert due_s is not None
        waits.append(round(due_s))
        clock.now += timedelta(seconds=due_s)
    assert waits == sorted(waits)
    assert 1000 < sum(waits) < 3600
    (tried_webhook,) = user.get(W)["webhooks"]
    assert (tried_webhook["waitingMessages"], tried_webhook["lastArrivedAt"]) == (1, None)
    assert (
        tried_webhook["lastFailure"]
        == "attempt 7, will retry: example.com answered with status 503"
    )
    # A new address applies to waiting messages.
    user.done("PATCH", f"{W}/{new_webhook['id']}", {"url": "https://example.com/new"})
    assert delivery.run(api.ctx) is None
    assert [post.url for post in inbox.posts] == ["https://example.com/new"]
    (arrived,) = user.get(W)["webhooks"]
    assert arrived["waitingMessages"] == 0
    assert arrived["lastArrivedAt"] > arrived["lastFailedAt"]


def test_message_is_dropped_after_the_last_attempt(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    api.ctx.now = clock = Time()
    new_webhook = webhook()
    inbox.refusals[new_webhook["url"]] = Unsent("example.com does not answer")
    end(user)
    for _ in range(delivery.MOST_ATTEMPTS):
        due_s = delivery.run(api.ctx)
        clock.now += timedelta(seconds=due_s or 0)
    assert due_s is None
    inbox.refusals[new_webhook["url"]] = Unsent(
        "example.com answered with status 404", forever=True
    )
    end(user)
    assert delivery.run(api.ctx) is None
    inbox.refusals.clear()
    assert delivery.run(api.ctx) is None
    assert inbox.posts == []


def test_last_deliveries_of_each_webhook_are_stored(
    api: Api, webhook: Any, inbox: Inbox, user: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.ctx.now = clock = Time()
    new_webhook, other = webhook(), webhook(name="other", url="https://other.org")
    inbox.refusals[new_webhook["url"]] = Unsent("example.com answered with status 503")
    experiment = end(user)
    due_s = delivery.run(api.ctx)
    path = f"{W}/{new_webhook['id']}/deliveries"
    (failed_delivery,) = user.get(path)["deliveries"]
    fields = {
        name: failed_delivery[name] for name in ("eventType", "experimentId", "attempt", "arrived")
    }
    assert fields == {
        "eventType": "EXPERIMENT_STATE_CHANGE", "experimentId": experiment, "attempt": 1, "arrived": False,
    }  # fmt: skip
    assert failed_delivery["failure"] == "example.com answered with status 503"
    assert failed_delivery["nextAt"] > failed_delivery["at"]
    inbox.refusals[new_webhook["url"]] = Unsent(
        "example.com answered with status 404", forever=True
    )
    clock.now += timedelta(seconds=due_s or 0)
    delivery.run(api.ctx)
    given_up, _ = user.get(path)["deliveries"]
    assert (given_up["eventId"], given_up["attempt"]) == (failed_delivery["eventId"], 2)
    assert (given_up["arrived"], given_up["nextAt"]) == (False, None)
    inbox.refusals.clear()
    monkeypatch.setattr(webhooks, "MOST_DELIVERIES", 2)
    end(user)
    delivery.run(api.ctx)
    arrived, before = user.get(path)["deliveries"]
    assert (arrived["arrived"], arrived["failure"], arrived["nextAt"]) == (True, None, None)
    assert before["id"] == given_up["id"], "the oldest goes"
    assert len(user.get(f"{W}/{other['id']}/deliveries")["deliveries"]) == 2
    assert user.ask("GET", f"{W}/999/deliveries").status == 404
    user.done("DELETE", f"{W}/{new_webhook['id']}")
    assert user.ask("GET", path).status == 404


def test_only_administrators_see_deliveries_of_a_cluster_webhook(
    inbox: Inbox, user: Caller, admin: Caller
) -> None:
    """The reason of a failure may show the address, which is often a secret."""
    path = f"{W}/{make_webhook(admin, workspaceId=0)['id']}/deliveries"
    assert admin.get(path) == {"deliveries": []}
    assert user.ask("GET", path).status == 403


def test_unresponsive_webhook_does_not_delay_others(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    dead = webhook(name="dead", url="https://dead.org")["url"]
    inbox.refusals[dead] = Unsent("dead.org does not answer")
    webhook(url="https://alive.org")
    new_webhook = webhook(name="deleted", url="https://deleted.org")
    end(user)
    user.done("DELETE", f"{W}/{new_webhook['id']}")
    assert delivery.run(api.ctx) is not None
    assert [post.url for post in inbox.posts] == ["https://alive.org"]
    # Other promises are the tick's, and these are not.
    api.tick()
    assert len(inbox.posts) == 1


def test_messages_are_signed_if_the_cluster_has_a_key(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    new_webhook = webhook()
    assert user.post(f"{W}/{new_webhook['id']}/test", {}) == {"completed": True}
    assert "X-Determined-AI-Signature" not in inbox.posts[0].headers
    api.ctx.config = replace(api.ctx.config, webhooks=Webhooks(signing_key="s3cret"))
    user.post(f"{W}/{new_webhook['id']}/test", {})
    post = inbox.posts[1]
    timestamp = int(post.headers["X-Determined-AI-Signature-Timestamp"])
    assert post.headers["X-Determined-AI-Signature"] == signature("s3cret", timestamp, post.body)
    assert post.event["event_data"] == {"data": "test"}


def test_failed_test_message_has_the_reason(webhook: Any, inbox: Inbox, user: Caller) -> None:
    new_webhook = webhook()
    inbox.refusals[new_webhook["url"]] = Unsent("example.com answered with status 500")
    error = refused(user, "POST", f"{W}/{new_webhook['id']}/test", {}, 400)
    assert error.endswith(
        "(chat) did not accept the test message: example.com answered with status 500"
    )


def test_slack_gets_blocks(api: Api, webhook: Any, inbox: Inbox, user: Caller) -> None:
    api.ctx.config = replace(api.ctx.config, webhooks=Webhooks(base_url="https://det.example.com/"))
    webhook(webhookType="WEBHOOK_TYPE_SLACK")
    experiment_id = end(user, name="a <b> & c")
    delivery.run(api.ctx)
    (event,) = inbox.events
    headline = "Your experiment completed successfully 🎉"
    text = {"type": "plain_text", "text": headline}
    assert event["blocks"] == [{"type": "section", "text": text}]
    (attachment,) = event["attachments"]
    (block,) = attachment["blocks"]
    place = f"https://det.example.com/det/experiments/{experiment_id}/overview"
    assert block["text"]["text"] == f"✅ <{place} | a &lt;b&gt; &amp; c (#{experiment_id})>"
    fields = [field["text"] for field in block["fields"]]
    assert fields == [
        "*Status*: Completed", "*Duration*: 0h 0min", "*Workspace*: Uncategorized", "*Project*: Uncategorized",
    ]  # fmt: skip


def test_slack_gets_the_matched_line_in_a_sentence(
    api: Api, webhook: Any, inbox: Inbox, user: Caller
) -> None:
    api.ctx.config = replace(api.ctx.config, webhooks=Webhooks(base_url="https://det.example.com"))
    webhook(webhookType="WEBHOOK_TYPE_SLACK", triggers=[of_log("out of .*")])
    experiment_id = create(user)
    trial = trial_of(user, experiment_id)
    line = {"taskId": trial["taskId"], "log": "out of memory\n", "agentId": "node-7"}
    user.post("/api/v1/task/logs", {"logs": [line]})
    delivery.run(api.ctx)
    ((block,),) = [event["blocks"] for event in inbox.events]
    place = f"https://det.example.com/det/experiments/{experiment_id}/trials/{trial['id']}/logs"
    assert block["text"] == {"type": "mrkdwn", "text": (
        f"Experiment ID `{experiment_id}`, Trial ID `{trial['id']}`, running on node `node-7`, reported a log\n"
        f"```out of memory```\nThis log matched the regex\n```out of .*```\n<{place} | View full logs here>"
    )}  # fmt: skip


def test_webhooks_can_have_an_empty_name(webhook: Any, user: Caller) -> None:
    first, second = webhook(name=""), webhook(name="")
    assert [w["name"] for w in user.get(W)["webhooks"]] == ["", ""]
    user.done("PATCH", f"{W}/{first['id']}", {"name": "chat"})
    user.done("PATCH", f"{W}/{first['id']}", {"name": ""})
    assert first["id"] != second["id"]


def test_rejects_experiment_with_webhooks_of_another_workspace(
    webhook: Any, user: Caller, admin: Caller
) -> None:
    other = admin.post("/api/v1/workspaces", {"name": "other"})["workspace"]["id"]
    foreign = make_webhook(admin, workspaceId=other, name="theirs")["id"]
    for choice, message in (
        ({"webhook_id": [foreign]}, f"integrations.webhooks.webhook_id: {foreign}"),
        ({"webhook_name": ["theirs"]}, "integrations.webhooks.webhook_name: 'theirs'"),
    ):
        request = {"config": config_of(**choosing(**choice)), "activate": False}
        error = refused(user, "POST", "/api/v1/experiments", request, 400)
        assert message in error
        assert "det webhook list" in error
