"""Pools in the page: created, edited, restricted and deleted, and agents that move."""

from collections.abc import Iterator
from typing import Any

import pytest
from det_controlplane.db.engine.database import Database

from tests.support.api import Api, api_over
from tests.support.browser import Tab
from tests.support.forms import choose, fill, gone, press
from tests.support.played_agent import PlayedAgent
from tests.support.postgres import DatabaseServer
from tests.support.served_api import served


@pytest.fixture
def pools(
    postgres_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    with postgres_server.database() as url:
        database = Database(url)
        with api_over(database, tmp_path_factory.mktemp("pools")) as api:
            yield api
        database.dispose()


@pytest.fixture
def base(pools: Api) -> Iterator[str]:
    with served(pools) as url:
        yield url


def pool(api: Api, name: str) -> dict[str, Any]:
    shown: dict[str, Any] = api.signed_in("admin").get(f"/api/v1/pools/{name}")["pool"]
    return shown


def test_a_pool_is_created_edited_and_deleted(tab: Tab, pools: Api) -> None:
    tab.open("/cluster")
    press(tab, "New pool")
    fill(tab, Settings="pool_name: lab\ndescripton: x\n")
    tab.page.get_by_text("did you mean 'description'?").wait_for()
    fill(tab, Settings="pool_name: lab\ndescription: for the lab\n")
    tab.page.get_by_text("This is valid.").wait_for()
    press(tab, "Save")
    gone(tab)
    tab.page.get_by_text("for the lab").wait_for()
    press(tab, "Actions on pool lab", "Edit settings")
    fill(tab, Settings="pool_name: lab\ndescription: for everybody\n")
    press(tab, "Save")
    gone(tab)
    tab.page.get_by_text("for everybody", exact=True).wait_for()
    press(tab, "Actions on pool lab", "Delete", "Delete")
    gone(tab)
    tab.page.get_by_text("for everybody", exact=True).wait_for(state="detached")
    tab.complaints[:] = [c for c in tab.complaints if "400" not in c]  # the typed settings
    assert tab.faults() == []


def test_the_users_of_a_pool_are_chosen(tab: Tab, pools: Api) -> None:
    tab.open("/cluster")
    press(tab, "Actions on pool reserved", "Choose who may use it")
    choose(tab, Access="Only these users and groups")
    fill(tab, Users="determined, admin")
    press(tab, "Save")
    gone(tab)
    tab.page.get_by_text("restricted to admin, determined").wait_for()
    press(tab, "Actions on pool reserved", "Choose who may use it")
    fill(tab, Users="determined")
    press(tab, "Save")
    gone(tab)
    tab.page.get_by_text("restricted to determined").wait_for()
    assert pool(pools, "reserved")["access"]["users"] == ["determined"]
    press(tab, "Actions on pool reserved", "Choose who may use it")
    choose(tab, Access="Everybody")
    press(tab, "Save")
    gone(tab)
    assert pool(pools, "reserved")["access"]["restricted"] is False
    assert tab.faults() == []


def test_an_agent_moves_to_another_pool(tab: Tab, pools: Api) -> None:
    PlayedAgent(pools, "a1").join()
    tab.open("/cluster")
    press(tab, "Actions on a1", "Move to another pool")
    choose(tab, Pool="reserved")
    press(tab, "Move")
    gone(tab)
    assert pool(pools, "reserved")["agents"] == 1
    press(tab, "Actions on pool reserved", "Adopt: edit without a restart")
    tab.page.get_by_text("Settings in the database").wait_for()
    assert pool(pools, "reserved")["adopted"] is True
    assert tab.faults() == []
