"""Trials that start from a checkpoint of another trial."""

import uuid

import pytest
from determined import searcher

from tests.support.api import Caller, config_of, create, create_ended, report_checkpoint, trial_of

E = "/api/v1/experiments"
SINGLE = {"name": "single", "metric": "loss"}
CUSTOM = {"name": "custom", "metric": "loss", "unit": "batches"}
NOWHERE = str(uuid.UUID(int=9))


def test_source_trial_selects_its_newest_checkpoint(user: Caller) -> None:
    source = create(user)
    report_checkpoint(user, source, steps=2)
    newest = report_checkpoint(user, source, steps=5)
    made = create(user, searcher={**SINGLE, "source_trial_id": trial_of(user, source)["id"]})
    assert trial_of(user, made)["warmStartCheckpointUuid"] == newest


def test_trial_starts_from_the_source_checkpoint(user: Caller) -> None:
    source = create(user)
    older = report_checkpoint(user, source, steps=2)
    report_checkpoint(user, source, steps=5)
    made = create(user, searcher={**SINGLE, "source_checkpoint_uuid": older})
    assert trial_of(user, made)["warmStartCheckpointUuid"] == older


def test_rejects_source_trial_without_checkpoints(user: Caller) -> None:
    trial_id = trial_of(user, create_ended(user))["id"]
    config = config_of(searcher={**SINGLE, "source_trial_id": trial_id})
    response = user.ask("POST", E, {"config": config})
    assert response.status == 400
    assert (
        f"searcher.source_trial_id: there is no trial {trial_id} with a checkpoint"
        in response.error
    )


def test_rejects_missing_source_checkpoint(user: Caller) -> None:
    unknown = str(uuid.uuid4())
    config = config_of(searcher={**SINGLE, "source_checkpoint_uuid": unknown})
    response = user.ask("POST", E, {"config": config})
    assert response.status == 400
    assert f"checkpoint {unknown} does not exist" in response.error


def test_rejects_deletion_while_others_start_from_its_checkpoints(user: Caller) -> None:
    source = create_ended(user)
    checkpoint = report_checkpoint(user, source)
    made = create(user, searcher={**SINGLE, "source_checkpoint_uuid": checkpoint})
    response = user.ask("DELETE", f"{E}/{source}")
    assert (response.status, f"of experiment {made} starts from" in response.error) == (400, True)
    user.post(f"{E}/{made}/kill")
    assert user.ask("DELETE", f"{E}/{source}").status == 200


def test_trial_of_a_custom_search_starts_from_its_checkpoint(
    user: Caller,
) -> None:
    checkpoint = report_checkpoint(user, create(user))
    made = create(user, activate=True, searcher=CUSTOM)
    asked = searcher.Create(uuid.UUID(int=1), {"lr": 1}, checkpoint=checkpoint).to_json()
    user.post(f"/api/v1/experiments/{made}/searcher_operations", {"searcherOperations": [asked]})
    assert trial_of(user, made)["warmStartCheckpointUuid"] == checkpoint


@pytest.mark.parametrize(
    ("checkpoint", "told"), [(NOWHERE, "does not exist"), ("newest", "must be a UUID")]
)
def test_rejects_custom_search_trial_with_a_missing_checkpoint(
    user: Caller, checkpoint: str, told: str
) -> None:
    made = create(user, activate=True, searcher=CUSTOM)
    asked = searcher.Create(uuid.UUID(int=1), {"lr": 1}, checkpoint).to_json()
    path = f"/api/v1/experiments/{made}/searcher_operations"
    refused = user.ask("POST", path, {"searcherOperations": [asked]})
    assert refused.status == 400
    assert told in refused.error
    assert user.get(f"/api/v1/experiments/{made}/trials")["trials"] == []
