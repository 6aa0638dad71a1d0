"""Hosts for worlds: one database a worker, emptied between worlds."""

from collections.abc import Iterator

import pytest

from tests.support.postgres import DatabaseServer
from tests.world.hosts import Hosts


@pytest.fixture(scope="module")
def hosts(postgres_server: DatabaseServer) -> Iterator[Hosts]:
    with postgres_server.database() as url:
        new_hosts = Hosts(url)
        yield new_hosts
        new_hosts.close()
