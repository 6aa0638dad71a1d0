"""Turns of processes that are started on demand, and the schedules that they switch."""

from pathlib import Path

import pytest
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.scheduled_work import Clock, ticking
from sqlalchemy import text

from tests.support.api import api_over
from tests.support.inbox import Inbox, end, make_webhook
from tests.support.searching import Agent

SESSIONS = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND application_name = 'determined-serverless'"
)


@pytest.fixture
def database(fresh_database: Database) -> Database:
    return fresh_database


def test_agent_that_joins_while_schedules_stop_starts_them_again(
    database: Database, tmp_path: Path
) -> None:
    switched: list[bool] = []
    with api_over(database, tmp_path) as api:

        def switch(*, on: bool) -> None:
            switched.append(on)
            if not on:  # its own turn still sees the schedules on
                Agent.joined(api.ctx)

        due_s = ticking(api.ctx, switch)(Clock(lambda: 0.0))
    assert switched == [False, True]
    assert due_s is not None


def test_idle_turn_closes_its_database_connection(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    other = Database(database_url, pool_size=1)
    with api_over(database, tmp_path) as api:
        assert ticking(api.ctx, None)(Clock(lambda: 0.0)) is None
        assert other.read(SESSIONS)[0][0] == 0
        Agent.joined(api.ctx)
        assert ticking(api.ctx, None)(Clock(lambda: 0.0)) is not None
        assert other.read(SESSIONS)[0][0] == 1
    other.dispose()


def test_turn_sends_webhook_messages(database: Database, tmp_path: Path) -> None:
    with api_over(database, tmp_path) as api:
        api.ctx.courier = inbox = Inbox()
        user = api.signed_in("determined")
        make_webhook(user)
        end(user)
        assert ticking(api.ctx, None)(Clock(lambda: 0.0)) is None
    assert len(inbox.posts) == 1
