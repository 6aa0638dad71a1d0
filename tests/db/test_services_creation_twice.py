"""The same submission sent twice at the same time, because the client received no answer."""

from typing import Any

import pytest
from det_controlplane.db.engine.database import Database
from det_controlplane.db.engine.errors import TryAgain
from det_controlplane.services.experiments import creation
from det_controlplane.services.experiments.creation import Submission

from tests.support.searching import OWNER, SINGLE, context


def test_second_concurrent_submission_is_retried_and_returns_the_experiment(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = context(database)
    submission = Submission(config=SINGLE, idempotency_key="once")
    experiment_ids: list[int | None] = []
    insert = creation._insert

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(creation, "_insert", insert)
        experiment_ids.append(creation.create(ctx, OWNER, submission).experiment_id)
        return insert(*args)

    monkeypatch.setattr(creation, "_insert", overtaken)
    with pytest.raises(TryAgain):
        creation.create(ctx, OWNER, submission)
    assert [creation.create(ctx, OWNER, submission).experiment_id] == experiment_ids
