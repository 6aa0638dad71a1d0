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
    experiment_id = create(
        user, searcher={**SINGLE, "source_trial_id": trial_of(user, source)["id"]}
    )
    assert trial_of(user, experiment_id)["warmStartCheckpointUuid"] == newest


def test_trial_starts_from_the_source_checkpoint(user: Caller) -> None:
    source = create(user)
    older = report_checkpoint(user, source, steps=2)
    report_checkpoint(user, source, steps=5)
    experiment_id = create(user, searcher={**SINGLE, "source_checkpoint_uuid": older})
    assert trial_of(user, experiment_id)["warmStartCheckpointUuid"] == older


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
    experiment_id = create(user, searcher={**SINGLE, "source_checkpoint_uuid": checkpoint})
    response = user.ask("DELETE", f"{E}/{source}")
    assert (response.status, f"of experiment {experiment_id} starts from" in response.error) == (
        400,
        True,
    )
    user.post(f"{E}/{experiment_id}/kill")
    assert user.ask("DELETE", f"{E}/{source}").status == 200


def test_trial_of_a_custom_search_starts_from_its_checkpoint(
    user: Caller,
) -> None:
    checkpoint = report_checkpoint(user, create(user))
    experiment_id = create(user, activate=True, searcher=CUSTOM)
    operation = searcher.Create(uuid.UUID(int=1), {"lr": 1}, checkpoint=checkpoint).to_json()
    user.post(
        f"/api/v1/experiments/{experiment_id}/searcher_operations",
        {"searcherOperations": [operation]},
    )
    assert trial_of(user, experiment_id)["warmStartCheckpointUuid"] == checkpoint


@pytest.mark.parametrize(
    ("checkpoint", "told"), [(NOWHERE, "does not exist"), ("newest", "must be a UUID")]
)
def test_rejects_custom_search_trial_with_a_missing_checkpoint(
    user: Caller, checkpoint: str, told: str
) -> None:
    experiment_id = create(user, activate=True, searcher=CUSTOM)
    operation = searcher.Create(uuid.UUID(int=1), {"lr": 1}, checkpoint).to_json()
    path = f"/api/v1/experiments/{experiment_id}/searcher_operations"
    response = user.ask("POST", path, {"searcherOperations": [operation]})
    assert response.status == 400
    assert told in response.error
    assert user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"] == []
