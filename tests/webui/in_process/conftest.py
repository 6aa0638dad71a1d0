"""Pages over an API in the test's own process: no agent is needed, and time goes as tests say."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api import PASSWORD
from tests.support.browser import Tab, opened
from tests.support.house import House, house_over
from tests.support.postgres import DatabaseServer
from tests.support.served_api import served


@pytest.fixture(scope="module")
def house(
    postgres_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A cluster with roles and two workspaces, red and blue."""
    with house_over(postgres_server, tmp_path_factory.mktemp("house")) as new_organization:
        yield new_organization


@pytest.fixture(scope="module")
def base(house: House) -> Iterator[str]:
    with served(house.api) as url:
        yield url


@pytest.fixture
def tab(browser: Any, base: str) -> Iterator[Tab]:
    """A tab of the administrator. The console must have no errors at the end."""
    with opened(browser, base, user=("admin", PASSWORD)) as new_tab:
        yield new_tab
        assert new_tab.complaints == []
