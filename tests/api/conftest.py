"""The API in this process over a database of the test's own; agents and containers are played by the test."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.config.cluster import Authz
from det_controlplane.db.engine.database import Database

from tests.support.api import Api, Caller, api_over
from tests.support.house import House
from tests.support.inbox import Inbox, make_webhook
from tests.support.played_agent import PlayedAgent
from tests.support.postgres import DatabaseServer
from tests.support.rented import RentedCluster, rented_cluster


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    with api_over(database, tmp_path) as new_api:
        yield new_api


@pytest.fixture
def cluster(database: Database, tmp_path: Path) -> Iterator[RentedCluster]:
    """A cluster that rents machines; files that ask its API have it as their `api`."""
    with rented_cluster(database, tmp_path) as rented_machines:
        yield rented_machines


@pytest.fixture
def user(api: Api) -> Caller:
    """The built-in `determined`, signed in: no administrator."""
    return api.signed_in("determined")


@pytest.fixture
def admin(api: Api) -> Caller:
    return api.signed_in("admin")


@pytest.fixture
def house(api: Api, admin: Caller) -> House:
    """Two workspaces of a cluster with roles."""
    api.ctx.config = replace(api.ctx.config, authz=Authz.RBAC)
    return House(api, admin)


@pytest.fixture
def agent(api: Api) -> PlayedAgent:
    played = PlayedAgent(api, "a1")
    played.join()
    return played


@pytest.fixture(scope="module")
def shared_api(
    postgres_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    """An API for tests that change no data. A database for each of them would cost more than their requests."""
    with postgres_server.database() as url:
        database = Database(url)
        with api_over(database, tmp_path_factory.mktemp("shared")) as new_api:
            yield new_api
        database.dispose()


@pytest.fixture(scope="module")
def reader(shared_api: Api) -> Caller:
    return shared_api.signed_in("determined")


@pytest.fixture
def inbox(api: Api) -> Inbox:
    api.ctx.courier = inbox = Inbox()
    return inbox


@pytest.fixture
def webhook(inbox: Inbox, user: Caller) -> Callable[..., dict[str, Any]]:
    """Create a webhook for completed experiments of the built-in workspace."""

    def make(**more: Any) -> dict[str, Any]:
        return make_webhook(user, **more)

    return make
