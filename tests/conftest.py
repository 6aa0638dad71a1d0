"""Fixtures that every area may use."""

import gc
import logging
import os
from collections.abc import Iterator

import pytest
from det_controlplane.db.engine.database import Database
from hypothesis import HealthCheck, settings

from tests.support.postgres import DatabaseServer, throwaway_server

pytest_plugins = (
    "pytester",
    "tests.support.files_in_memory",
    "tests.support.skips",
    "tests.support.leftovers",
    "tests.support.own_engine",
    "tests.support.order",
    "tests.support.second_tries",
    "tests.support.costs",
    "tests.support.environments",  # after the plugins that it imports
)

# The duration of an example depends on the load of the machine. Each run uses the same examples, so that failures are
# reproducible; DET_TEST_RANDOM=1 draws new ones.
settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=not os.environ.get("DET_TEST_RANDOM"),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")

# Terraform, a program of Go's, spends a third of its time in collecting garbage where memory is not scarce at all.
os.environ.setdefault("GOGC", "800")
os.environ.setdefault("GOMEMLIMIT", "2GiB")


@pytest.fixture(scope="session")
def machines_may_boot() -> None:
    """Machines of the box can boot here; otherwise the test is skipped. A new machine first gets the needed
    programs."""
    from tests.support.cloudbox.box import require_machines

    require_machines()


@pytest.fixture(autouse=True)
def _log_of_the_test() -> Iterator[None]:
    """Remove handlers that a test adds to the control plane's log. They would store the lines of later tests."""
    log = logging.getLogger("det")
    before = list(log.handlers)
    yield
    for added in set(log.handlers) - set(before):
        log.removeHandler(added)


# Collecting tests makes no garbage worth looking for.
gc.disable()


def pytest_collection_finish() -> None:
    """Keep the thousands of collected tests out of each later garbage collection, of which there are fewer, too."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[DatabaseServer]:
    with throwaway_server() as server:
        yield server


@pytest.fixture
def database_url(postgres_server: DatabaseServer) -> Iterator[str]:
    """A database with the whole schema, for this test only."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server: DatabaseServer) -> Iterator[str]:
    """A database of this test's own without any schema."""
    with postgres_server.empty_database() as url:
        yield url


@pytest.fixture
def database(postgres_server: DatabaseServer, database_url: str) -> Iterator[Database]:
    with postgres_server.opened(database_url) as opened:
        yield opened


@pytest.fixture
def fresh_database(database_url: str) -> Iterator[Database]:
    """A Database with connections of its own, for tests that count or break them."""
    opened = Database(database_url)
    yield opened
    opened.dispose()
