"""The tools of `det mcp` use the words and the version of the command line."""

import asyncio
import os
from pathlib import Path

import pytest
from det_cli import product_version
from mcp.client.client import Client
from sqlalchemy import text

from tests.support.api import Api, create, trial_of
from tests.support.assistant import Assistant, ToolFailed


@pytest.fixture
def reader(api: Api, tmp_path: Path) -> Assistant:
    return Assistant(os.environ["DET_MASTER"], tmp_path, allow_writes=False)


def test_server_has_the_version_of_the_product(reader: Assistant) -> None:
    async def version() -> str:
        async with Client(reader.server) as client:
            return getattr(client.server_info, "version", "")

    assert asyncio.run(version()) == product_version() != ""


def test_unknown_state_is_answered_with_the_words_of_the_tools(reader: Assistant) -> None:
    with pytest.raises(ToolFailed, match=r"states must be among .*ACTIVE, PAUSED") as e:
        reader.call("list_experiments", state="finished")
    assert "STATE_" not in str(e.value)


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ("parked = true, state = 'ACTIVE'", "WAITING"),
        ("stopped_early = true, state = 'COMPLETED', ended_at = now()", "STOPPED EARLY"),
        ("state = 'PAUSED'", "PAUSED"),
    ],
)
def test_states_of_trials_are_the_words_of_the_command_line(
    api: Api, reader: Assistant, columns: str, word: str
) -> None:
    user = api.signed_in("determined")
    experiment_id = create(user)
    trial_id = trial_of(user, experiment_id)["id"]
    with api.ctx.db.begin() as tx:
        tx.execute(text(f"UPDATE trials SET {columns} WHERE id = {trial_id}"))
    (listed,) = reader.call("list_trials", experiment_id=experiment_id)["trials"]
    described = reader.call("describe_trial", trial_id=trial_id)
    assert listed["state"] == described["state"] == word
    assert "started" not in described
