"""Hosts for worlds: one database a worker, emptied between worlds."""

from collections.abc import Iterator

import pytest
from det_controlplane.testing import Hosts

from tests.support.postgres import DatabaseServer


@pytest.fixture(scope="module")
def hosts(postgres_server: DatabaseServer) -> Iterator[Hosts]:
    with postgres_server.database() as url:
        made = Hosts(url)
        yield made
        made.close()
