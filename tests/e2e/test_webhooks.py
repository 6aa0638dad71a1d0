"""A whole cluster sends events of an experiment to a server."""

import json
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.webhooks import signature

from tests.e2e.conftest import Layout, in_processes
from tests.support.cluster import Cluster
from tests.support.receiver import ReceivedRequest, receiving

KEY = "the key of the messages"
CONFIG = """
name: loud
entrypoint: python3 train.py
max_restarts: 0
searcher: {name: single, metric: loss}
integrations: {webhooks: {webhook_name: [pager]}}
"""
TRAIN = """
import determined as det

with det.core.init() as context:
    print("the tea is ready", flush=True)
    context.alert(title="Halfway", description="all is well", level="info")
    context.train.report_validation_metrics(1, {"loss": 1.0})
"""


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(config={"webhooks": {"signing_key": KEY, "allow_private_targets": True}})


@in_processes
def test_webhooks_send_log_alert_and_state_events_of_an_experiment(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "config.yaml").write_text(CONFIG)
    with receiving() as receiver:
        on = ("--on", "completed", "--on", "error", "--on-log", "tea is r.*y")
        assert cluster.det("webhook", "create", "chat", receiver.url, *on).code == 0
        pager = ("webhook", "create", "pager", f"{receiver.url}/pager", "--on-alert", "--specific")
        assert cluster.det(*pager).code == 0
        experiment_id = cluster.create(tmp_path / "config.yaml", tmp_path)
        cluster.until_state(experiment_id, "COMPLETED")
        cluster.until(lambda: len(receiver.taken) >= 3, "three messages")
    assert len(receiver.taken) == 3
    events = {event["event_type"]: event for event in map(event_of, receiver.taken)}
    log = events["TASK_LOG"]["event_data"]["task_log"]
    assert log["triggering_log"] == "the tea is ready"
    assert log["node_name"]
    assert events["CUSTOM"]["event_data"]["custom_data"]["title"] == "Halfway"
    experiment = events["EXPERIMENT_STATE_CHANGE"]["event_data"]["experiment"]
    assert (experiment["id"], experiment["name"], experiment["state"]) == (
        experiment_id, "loud", "COMPLETED",
    )  # fmt: skip
    assert {t.path for t in receiver.taken} == {"/", "/pager"}


def event_of(taken_event: ReceivedRequest) -> dict[str, Any]:
    """Return the event of a message after checking its signature."""
    timestamp = int(taken_event.headers["X-Determined-AI-Signature-Timestamp"])
    assert taken_event.headers["X-Determined-AI-Signature"] == signature(
        KEY, timestamp, taken_event.body
    )
    event: dict[str, Any] = json.loads(taken_event.body)
    return event
