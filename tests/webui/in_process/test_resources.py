"""The resources of tasks and trials as charts, from samples of an agent that the test plays."""

import re
from datetime import timedelta
from typing import Any

import pytest

from tests.support.api import create
from tests.support.browser import Tab
from tests.support.house import House
from tests.support.interactive import V, launch, start
from tests.support.played_agent import PlayedAgent

GIB = 1 << 30


@pytest.fixture(scope="module")
def agent(house: House) -> PlayedAgent:
    played = PlayedAgent(house.api, "measuring")
    played.join()
    return played


def measure(house: House, agent: PlayedAgent, hours_ago: float = 0.0, **values: Any) -> None:
    """Report three samples of the agent's newest container."""
    *_, container_id = agent.containers
    begin = house.api.ctx.now() - timedelta(hours=hours_ago, minutes=4)
    samples = [
        {
            "container_id": container_id, "start": (begin + timedelta(minutes=m)).timestamp(), "seconds": 60,
            **{name: [v, v / 2, v][m] for name, v in values.items()}, "cpu_limit": 16,
            "gpus": [{"slot": 0, "util": 90, "memory": 30 * GIB, "memory_limit": 40 * GIB}],
        }
        for m in range(3)
    ]  # fmt: skip
    agent.caller.post("/agents/v1/poll", {**agent.sent, "resources": samples})


def notebook(house: House, agent: PlayedAgent) -> str:
    id = str(launch(house.admin, "notebook", config={"description": "digits"})["notebook"]["id"])
    start(house.api, agent)
    return id


def end(house: House, agent: PlayedAgent, path: str) -> None:
    house.admin.post(f"{V}/{path}/kill")
    agent.poll("terminated", exit_code=137)


def titles(tab: Tab) -> list[str]:
    tab.page.locator(".chart canvas").first.wait_for()
    texts: list[str] = tab.page.locator(".panel h2").all_inner_texts()
    return texts


def test_task_shows_its_resources(tab: Tab, house: House, agent: PlayedAgent) -> None:
    id = notebook(house, agent)
    measure(house, agent, cpu=2.0, memory=3 * GIB, net_sent=1 << 20)
    tab.open(f"/tasks/notebook/{id}")
    tab.page.get_by_role("link", name="Resources").click()
    tab.page.wait_for_url(re.compile("/resources$"))
    assert titles(tab) == [
        "CPU cores", "Memory, GiB", "GPU utilization, %", "GPU memory, GiB", "Network sent, MiB/s",
    ]  # fmt: skip
    chart = tab.page.get_by_role("img", name=re.compile("^CPU cores"))
    label = "CPU cores: 1 curve. measuring from 2 to 2, minimum 1, maximum 2"
    assert chart.get_attribute("aria-label") == label
    tab.page.get_by_role("img", name="measuring · GPU 0 from 30 to 30").wait_for()
    assert tab.page.get_by_text("of 16", exact=True).count() == 1
    assert tab.faults() == []
    end(house, agent, f"notebooks/{id}")


def test_time_span_limits_the_charts(tab: Tab, house: House, agent: PlayedAgent) -> None:
    id = notebook(house, agent)
    measure(house, agent, hours_ago=3, cpu=8.0)
    measure(house, agent, cpu=2.0)
    tab.open(f"/tasks/notebook/{id}/resources")
    tab.page.get_by_role("img", name="from 8 to 2").wait_for()
    tab.page.get_by_label("Time span").select_option("Last hour")
    tab.page.get_by_role("img", name="from 2 to 2").wait_for()
    assert "span=3600" in tab.page.url
    end(house, agent, f"notebooks/{id}")


def test_task_without_samples_explains_it(tab: Tab, house: House, agent: PlayedAgent) -> None:
    id = notebook(house, agent)
    tab.open(f"/tasks/notebook/{id}/resources")
    tab.page.get_by_text("Charts appear about 15 seconds after the start.").wait_for()
    measure(house, agent, cpu=2.0)
    tab.page.get_by_role("img", name="CPU cores").wait_for()
    end(house, agent, f"notebooks/{id}")


def test_trial_shows_its_resources(tab: Tab, house: House, agent: PlayedAgent) -> None:
    experiment_id = create(house.admin, activate=True)
    start(house.api, agent)
    measure(house, agent, cpu=2.0)
    (trial,) = house.admin.get(f"{V}/experiments/{experiment_id}/trials")["trials"]
    tab.open(f"/trials/{trial['id']}/resources")
    assert titles(tab) == ["CPU cores", "GPU utilization, %", "GPU memory, GiB"]
    end(house, agent, f"experiments/{experiment_id}")
