"""What a process keeps of experiments between listings."""

import json
from typing import Any

import pytest
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import experiment_pages
from det_controlplane.db.engine import Database
from det_controlplane.db.experiment_texts import ExperimentTexts
from det_controlplane.db.sql import text
from det_controlplane.services.experiments import creation

from tests.support.round_trips import round_trips
from tests.support.searching import OWNER, SINGLE, context

_RENAME = text("UPDATE experiments SET name = :name WHERE id = :id")
_DELETE = text("DELETE FROM experiments WHERE id = :id")


def made(database: Database) -> int:
    created = creation.create(context(database), OWNER, creation.Submission(config=SINGLE))
    assert created.experiment_id is not None
    return created.experiment_id


def listed(database: Database, texts: ExperimentTexts) -> str:
    return experiment_pages.find(database, texts, Page(), Sort(), {}).decode()


def shown(database: Database, texts: ExperimentTexts) -> dict[str, Any]:
    """The one that is listed, but for what changes by itself."""
    found: dict[str, Any] = json.loads(listed(database, texts))["experiments"][0]
    del found["duration"]
    return found


def test_a_change_by_another_process_is_seen_at_once(database: Database) -> None:
    id, texts = made(database), ExperimentTexts()
    assert shown(database, texts)["name"] == "one"
    with database.begin() as tx:
        tx.run(_RENAME, {"id": id, "name": "another"})
    assert shown(database, texts)["name"] == "another"


# What is shown of an experiment beside its own columns, and others' names in it.
CHANGES = {
    "progress": "UPDATE experiments SET progress = 0.5",
    "best trial": "UPDATE experiments SET best_trial_id = 1, best_metric = 0.25",
    "end": "UPDATE experiments SET state = 'COMPLETED', ended_at = now()",
    "trial": """INSERT INTO trials (experiment_id, request_id, state, hparams, seed, task_id, started_at)
        SELECT id, gen_random_uuid(), 'ACTIVE', '{}', 1, 'another', now() FROM experiments""",
    "checkpoint": """INSERT INTO checkpoints (uuid, experiment_id, state, size, reported_at)
        SELECT gen_random_uuid(), id, 'COMPLETED', 12345, now() FROM experiments""",
    "checkpoint's size": "UPDATE checkpoints SET size = 1",
    "checkpoint's state": "UPDATE checkpoints SET state = 'DELETED'",
    "pool": "UPDATE jobs SET pool = 'another'",
    "user": "UPDATE users SET display_name = 'Ada'",
    "project": "UPDATE projects SET name = 'another'",
    "project's archive": "UPDATE projects SET archived = NOT archived",
    "workspace": "UPDATE workspaces SET name = 'another'",
    "workspace's archive": "UPDATE workspaces SET archived = NOT archived",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_is_shown_is_seen_by_who_knows_the_text(database: Database, change: str) -> None:
    made(database)
    with database.begin() as tx:
        tx.run(text(CHANGES["checkpoint"]))
    texts = ExperimentTexts()
    before = shown(database, texts)
    with database.begin() as tx:
        tx.run(text(change))
    after = shown(database, texts)
    assert after == shown(database, ExperimentTexts())
    assert after != before


def test_what_follows_an_update_in_its_transaction_is_seen_with_it(database: Database) -> None:
    made(database)
    texts = ExperimentTexts()
    before = shown(database, texts)
    with database.begin() as tx:
        tx.run(text("UPDATE experiments SET error = 'none'"))
        tx.run(text(CHANGES["trial"]))
        assert shown(database, texts) == before
    assert shown(database, texts)["numTrials"] == before["numTrials"] + 1


def test_a_deleted_experiment_is_not_listed(database: Database) -> None:
    id, texts = made(database), ExperimentTexts()
    listed(database, texts)
    with database.begin() as tx:
        tx.run(_DELETE, {"id": id})
    assert listed(database, texts).startswith('{"experiments":[],')


def test_texts_that_are_known_are_not_read_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(database)
    texts = ExperimentTexts()
    first = listed(database, texts)
    with round_trips(monkeypatch) as sent:
        assert listed(database, texts)[:200] == first[:200]
    assert len(sent) == 1


def test_only_so_much_is_kept(database: Database) -> None:
    ids = [made(database) for _ in range(3)]
    texts = ExperimentTexts(most_bytes=1)
    found = json.loads(listed(database, texts))["experiments"]
    assert [experiment["id"] for experiment in found] == ids
    assert texts._size == 0
