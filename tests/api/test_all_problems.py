"""An answer lists all problems of a configuration."""

from tests.support.api import Caller, config_of


def test_wrong_pool_is_reported_with_the_other_problems(user: Caller) -> None:
    config = config_of(serchar={}, max_restarts="many", resources={"resource_pool": "nope"})
    response = user.ask("POST", "/api/v1/experiments", {"config": config})
    assert response.status == 400
    for message in ("'nope' does not exist", "serchar", "max_restarts"):
        assert message in response.error
