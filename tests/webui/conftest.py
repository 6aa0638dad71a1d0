"""A cluster that has trained, and a browser to look at it with."""

from collections.abc import Iterator
from typing import Any

import pytest
from det_controlplane.core.config.cluster import Authz

from tests.support import browser as browsers
from tests.support.api import PASSWORD, Caller, create, report_metrics
from tests.support.browser import Tab
from tests.support.cluster import ROOT, Cluster, local_cluster
from tests.support.house import House, house_over
from tests.support.postgres import DatabaseServer
from tests.support.served_api import served

EXAMPLE = ROOT / "examples/numpy_digits"
SMALL = ("--config", "searcher.max_trials=4", "--config", "searcher.max_time=120")
# Users may try this in names.
MARKUP = '<img src=x onerror="document.title=1"><b>bold</b>'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with local_cluster(tmp_path_factory.mktemp("webui"), runtime="process") as running_cluster:
        yield running_cluster


@pytest.fixture(scope="module")
def trained(cluster: Cluster) -> int:
    """An experiment that has ended, with markup in its names."""
    return cluster.train(
        EXAMPLE / "adaptive.yaml", EXAMPLE, *SMALL, "--config", f"name={MARKUP}",
        "--config", f"labels=['{MARKUP}']", "--config", f"description={MARKUP}",
    )  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsers.chromium() as chromium:
        yield chromium


@pytest.fixture
def base(cluster: Cluster) -> str:
    return f"http://127.0.0.1:{cluster.port}"


@pytest.fixture
def tab(browser: Any, base: str) -> Iterator[Tab]:
    """A tab of a signed-in user. The console must have no errors at the end."""
    with browsers.opened(browser, base) as new_tab:
        yield new_tab
        assert new_tab.complaints == []


@pytest.fixture(scope="module")
def house(
    postgres_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """An API in this process, without roles and without a machine that trains."""
    with house_over(
        postgres_server, tmp_path_factory.mktemp("house"), Authz.BASIC
    ) as new_organization:
        yield new_organization


@pytest.fixture(scope="module")
def house_base(house: House) -> Iterator[str]:
    with served(house.api) as url:
        yield url


@pytest.fixture
def house_tab(browser: Any, house_base: str) -> Iterator[Tab]:
    """A tab of a user without administrator rights."""
    with browsers.opened(browser, house_base, user=("determined", PASSWORD)) as new_tab:
        yield new_tab
        assert new_tab.complaints == []


@pytest.fixture(scope="module")
def user(house: House) -> Caller:
    return house.api.signed_in("determined")


@pytest.fixture(scope="module")
def searched(user: Caller) -> int:
    """An experiment with markup in its names, of four trials that have reported: the first is the best."""
    experiment_id = create(
        user, name=MARKUP, labels=[MARKUP], description=MARKUP,
        hyperparameters={"rate": {"type": "double", "minval": 0, "maxval": 1}},
        searcher={"name": "random", "metric": "loss", "max_trials": 4, "max_length": {"batches": 4}},
    )  # fmt: skip
    for nth, trial in enumerate(user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"]):
        for batches in (2, 4):
            loss = {"loss": (nth + 1) / batches}
            report_metrics(user, trial["id"], "validation", batches, loss)
    user.post(f"/api/v1/experiments/{experiment_id}/kill")
    return experiment_id
