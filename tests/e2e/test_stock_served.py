"""Determined's own client starts and opens a real JupyterLab and a real TensorBoard, in processes and in Docker."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Layout
from tests.support import browser as browsers
from tests.support import jupyter, ml
from tests.support.cluster import ROOT, Cluster
from tests.support.stock import StockClient, stock_client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.heavy("JupyterLab takes minutes to install and to start"),
]
DIGITS = ROOT / "examples/numpy_digits"
GALLERY = ROOT / "examples/interactive"


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout(task_defaults=ml.task_defaults("serving"))


@pytest.fixture(scope="module")
def stock(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockClient]:
    """Return a client with a browser that records the opened addresses."""
    folder = tmp_path_factory.mktemp("client")
    browser = folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >>{folder}/opened\n')
    browser.chmod(0o755)
    environ = {"BROWSER": f"{browser} %s"}
    with stock_client(cluster.env["DET_MASTER"], folder, environ) as client:
        client.det("user", "login", "determined", stdin="\n")
        yield client


@pytest.fixture(scope="module")
def trained(cluster: Cluster) -> int:
    small = ("--config", "searcher.max_trials=1", "--config", "searcher.max_time=40")
    return cluster.train(DIGITS / "adaptive.yaml", DIGITS, *small)


@pytest.fixture
def page(cluster: Cluster) -> Iterator[Any]:
    """A browser page of a signed-in user."""
    with (
        browsers.chromium() as browser,
        browsers.opened(browser, f"http://127.0.0.1:{cluster.port}") as tab,
    ):
        tab.page.set_default_timeout(2 * browsers.PATIENCE_MS)
        yield tab.page


def started(stock: StockClient, kind: str, *words: object) -> str:
    """Start a task with a server, and wait for it as the client does. Return its id."""
    result = stock.det(kind, "start", *words)
    return str(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", result)[0])


def opened(stock: StockClient) -> str:
    """Return the last address that the client opened in its browser."""
    return (stock.folder / "opened").read_text().splitlines()[-1]


def test_gallery_notebook_is_started_opened_used_and_killed(
    cluster: Cluster, stock: StockClient, page: Any, tmp_path: Path
) -> None:
    context = shutil.copytree(DIGITS, tmp_path / "digits")
    jupyter.write_notebook(context / "work.ipynb", "import digits; print('product', 6 * 7)")
    config = ("--config-file", GALLERY / "notebook.yaml", "--context", context)
    id = started(stock, "notebook", *config)
    page.goto(opened(stock))
    page.wait_for_url(f"**/proxy/{id}/**")
    page.locator(".jp-DirListing-item", has_text="digits.py").first.wait_for()
    stock.det("notebook", "open", id)
    page.goto(opened(stock))
    page.wait_for_url(f"**/proxy/{id}/**")
    base = f"{cluster.env['DET_MASTER']}/proxy/{id}/"
    jupyter.run_first_cell(page, base, "work.ipynb", "product 42")
    assert re.search(rf"{id} .*beside the digits.* RUNNING", stock.det("notebook", "list"))
    assert "ServerApp" in stock.det("notebook", "logs", id)
    stock.det("notebook", "kill", id)
    cluster.until(lambda: "TERMINATED" in stock.det("notebook", "list"), "it has ended")


def test_gallery_tensorboard_shows_scalars_of_a_trial(
    cluster: Cluster, stock: StockClient, page: Any, trained: int
) -> None:
    id = started(stock, "tensorboard", trained, "--config-file", GALLERY / "tensorboard.yaml")
    page.goto(opened(stock))
    page.wait_for_url(f"**/proxy/{id}/**")
    page.get_by_text("validation_error").first.wait_for()
    assert re.search(rf"{id} .* RUNNING", stock.det("tensorboard", "list"))
    stock.det("tensorboard", "open", id)
    page.goto(opened(stock))
    page.get_by_text("validation_error").first.wait_for()
    stock.det("tensorboard", "kill", id)
    cluster.until(lambda: "TERMINATED" in stock.det("tensorboard", "list"), "it has ended")


def test_idle_tensorboard_ends(cluster: Cluster, stock: StockClient, trained: int) -> None:
    id = started(stock, "tensorboard", trained, "--config", "idle_timeout=4s")

    def ended() -> str:
        return str(cluster.get(f"/api/v1/tensorboards/{id}")["tensorboard"]["exitStatus"])

    assert "nobody used it for 4s" in cluster.until(ended, "it has ended")
