"""What a process keeps of experiments between listings."""

import pytest
from det_controlplane.core.paging import Page, Sort
from det_controlplane.db import experiment_pages
from det_controlplane.db.engine import Database
from det_controlplane.db.experiment_texts import ExperimentTexts
from det_controlplane.db.sql import text
from det_controlplane.services import creation

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


def test_a_change_by_another_process_is_seen_at_once(database: Database) -> None:
    id, texts = made(database), ExperimentTexts()
    assert '"name" : "one"' in listed(database, texts)
    with database.begin() as tx:
        tx.run(_RENAME, {"id": id, "name": "another"})
    assert '"name" : "another"' in listed(database, texts)


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
    assert all(f'"id" : {id},' in listed(database, texts) for id in ids)
    assert texts._size == 0
