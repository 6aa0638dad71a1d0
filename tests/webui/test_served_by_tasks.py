"""A browser uses servers in tasks through the cluster: a real JupyterLab and a real TensorBoard."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import browser as browsers
from tests.support import jupyter, ml
from tests.support.cluster import ROOT, Cluster, local_cluster

pytestmark = pytest.mark.heavy("JupyterLab takes minutes to install and to start")
EXAMPLE = ROOT / "examples/numpy_digits"
NO_SLOTS = ("--config", "resources.slots=0")
# The context lies beside the notebook; the kernel answers through a websocket.
CELL = "from factor import FACTOR; print('product', FACTOR * 7)"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    python = {"DET_TASK_PYTHON": ml.require("serving")}
    folder = tmp_path_factory.mktemp("served")
    with local_cluster(folder, runtime="process", environ=python) as running_cluster:
        yield running_cluster


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsers.chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def trained(cluster: Cluster) -> int:
    small = ("--config", "searcher.max_trials=1", "--config", "searcher.max_time=40")
    return cluster.train(EXAMPLE / "adaptive.yaml", EXAMPLE, *small)


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of a browser without a sign-in."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(2 * browsers.PATIENCE_MS)
    yield context.new_page()
    context.close()


def started(cluster: Cluster, kind: str, *words: str) -> str:
    """Return the address of a task's server from the command line."""
    output = cluster.det(kind, "start", "--no-browser", *words, timeout_s=400).out
    match = re.search(r"^http\S+$", output, re.M)
    assert match, output
    return match[0]


def test_notebook_cell_runs_and_shows_its_output(
    cluster: Cluster, page: Any, tmp_path: Path
) -> None:
    (tmp_path / "factor.py").write_text("FACTOR = 6\n")
    jupyter.write_notebook(tmp_path / "work.ipynb", CELL)
    address = started(cluster, "notebook", *NO_SLOTS, "--context", str(tmp_path))
    page.goto(address)
    base = address.partition("?")[0]
    # This extension is installed with JupyterLab, although the task has its own environment.
    assert page.request.get(base + "api/terminals").status == 200
    jupyter.run_first_cell(page, base, "work.ipynb", "product 42")


def test_a_tensorboard_shows_the_scalars_of_a_trial(
    cluster: Cluster, page: Any, trained: int
) -> None:
    page.goto(started(cluster, "tensorboard", str(trained)))
    page.get_by_text("validation_error").first.wait_for()


def test_address_opened_by_determined_waits_for_the_task(
    cluster: Cluster, browser: Any, trained: int
) -> None:
    """Its client waits until the task runs, and leaves the rest to the page of this address."""
    output = cluster.det("tensorboard", "start", "--detach", str(trained), timeout_s=400).out
    task_id = re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", output)[-1]
    with browsers.opened(browser, f"http://127.0.0.1:{cluster.port}") as tab:
        tab.page.set_default_timeout(2 * browsers.PATIENCE_MS)
        tab.open(
            f"/interactive/{task_id}/tensorboard/scalars%20%28of%20a/b%29/default/%2Fdet%2Fwait"
        )
        tab.page.wait_for_url(f"**/proxy/{task_id}/**")
        tab.page.get_by_text("validation_error").first.wait_for()
