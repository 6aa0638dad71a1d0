"""A cluster with a clock that tests set: `clock[0]` is the present time."""

from datetime import datetime, timezone

import pytest
from det_controlplane.db.engine.database import Database
from det_controlplane.services.context import Context

from tests.support.searching import context


@pytest.fixture
def clock() -> list[datetime]:
    return [datetime(2026, 11, 20, 12, tzinfo=timezone.utc)]


@pytest.fixture
def ctx(database: Database, clock: list[datetime]) -> Context:
    new_context = context(database)
    new_context.now = lambda: clock[0]
    return new_context
