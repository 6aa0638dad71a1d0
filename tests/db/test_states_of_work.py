"""The states of work in `jobs`: triggers keep them, and a revision fills those of earlier releases."""

import importlib
from typing import Any

import pytest
from det_controlplane.db.engine.database import Database
from sqlalchemy import text

from tests.support.api import Api, Caller, api_over, create, create_ended
from tests.support.interactive import V, launch, start
from tests.support.played_agent import PlayedAgent

REVISION = importlib.import_module("det_controlplane.db.migrations.versions.0021_list_of_work")
UNKNOWN = text("""
    UPDATE jobs SET work_state = NULL, work_ended_at = NULL, work_archived = false
""")
FIELDS = "name, work_state, work_ended_at, work_archived"


@pytest.fixture
def api(database: Database, tmp_path: Any) -> Any:
    with api_over(database, tmp_path) as new_api:
        yield new_api


@pytest.fixture
def user(api: Api) -> Caller:
    return api.signed_in("determined")


def kept(api: Api) -> list[Any]:
    with api.ctx.db.begin() as tx:
        return list(tx.execute(text(f"SELECT id, {FIELDS} FROM jobs ORDER BY id")).all())


def test_revision_fills_the_states_that_triggers_would_have_kept(api: Api, user: Caller) -> None:
    create(user, name="paused")
    archived = create_ended(user, name="archived")
    user.post(f"{V}/experiments/{archived}/archive")
    agent = PlayedAgent(api, "a1")
    agent.join()
    for code in (0, 1):
        launch(user, "command", config={"entrypoint": ["true"], "description": f"exit {code}"})
        start(api, agent)
        agent.poll("terminated", exit_code=code)
    launch(user, "notebook")
    killed = launch(user, "shell")["shell"]["id"]
    user.post(f"{V}/shells/{killed}/kill")
    before = kept(api)
    assert sorted(row.work_state for row in before) == [
        "ACTIVE", "CANCELED", "CANCELED", "COMPLETED", "ERROR", "PAUSED",
    ]  # fmt: skip
    with api.ctx.db.begin() as tx:
        tx.execute(
            text("UPDATE jobs SET work_state = NULL, work_ended_at = NULL, work_archived = false")
        )
        for statement in (REVISION._EXPERIMENTS, REVISION._TASKS):
            assert tx.execute(text(statement)).rowcount > 0
            assert tx.execute(text(statement)).rowcount == 0
    assert kept(api) == before


def test_deletions_of_checkpoints_have_no_state(api: Api, user: Caller) -> None:
    id = create_ended(user)
    user.done("DELETE", f"{V}/experiments/{id}")
    api.tick()
    with api.ctx.db.begin() as tx:
        kinds = tx.execute(text("SELECT kind::text FROM jobs WHERE work_state IS NULL")).scalars()
        assert list(kinds) == ["CHECKPOINT_GC"]
