"""A cluster that has trained, and a browser to look at it with."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import browser as browsers
from tests.support.browser import Tab
from tests.support.cluster import ROOT, Cluster, local_cluster

EXAMPLE = ROOT / "examples/numpy_digits"
SMALL = ("--config", "searcher.max_trials=4", "--config", "searcher.max_time=120")
# Whoever may name things may try this.
MARKUP = '<img src=x onerror="document.title=1"><b>bold</b>'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with local_cluster(tmp_path_factory.mktemp("webui"), runtime="process") as started:
        yield started


@pytest.fixture(scope="module")
def trained(cluster: Cluster) -> int:
    """An experiment that has ended, with markup in its names."""
    made = cluster.create(
        EXAMPLE / "adaptive.yaml", EXAMPLE, *SMALL, "--config", f"name={MARKUP}",
        "--config", f"labels=['{MARKUP}']", "--config", f"description={MARKUP}",
    )  # fmt: skip
    assert cluster.until_state(made, "COMPLETED", "ERROR") == "COMPLETED"
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsers.chromium() as started:
        yield started


@pytest.fixture
def base(cluster: Cluster) -> str:
    return f"http://127.0.0.1:{cluster.port}"


@pytest.fixture
def tab(browser: Any, base: str) -> Iterator[Tab]:
    """A tab of a user who has signed in; nothing may have complained in the end."""
    with browsers.opened(browser, base) as made:
        yield made
        assert made.complaints == []


@pytest.fixture
def waiting(cluster: Cluster) -> int:
    """An experiment that is paused before it began."""
    return cluster.create(EXAMPLE / "adaptive.yaml", EXAMPLE, "--paused")
