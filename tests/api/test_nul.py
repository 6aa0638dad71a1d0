"""A NUL character, which PostgreSQL's text cannot hold, is the caller's mistake."""

import pytest

from tests.support.api import Caller


@pytest.mark.parametrize(
    ("path", "query"),
    [("/api/v1/tasks/%00/logs", {}), ("/api/v1/experiments", {"name": ["a\0b"]})],
    ids=["path", "query"],
)
def test_a_nul_character_is_refused(user: Caller, path: str, query: dict[str, list[str]]) -> None:
    told = user.ask("GET", path, query=query)
    assert told.status == 400
    assert "must not contain a NUL character" in told.error
