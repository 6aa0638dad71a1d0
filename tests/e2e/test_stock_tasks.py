"""Commands, notebooks, shells, TensorBoards and generic tasks by the stock command line of Determined 0.38.1."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import in_docker_on_demand
from tests.support.cluster import ROOT, Cluster
from tests.support.ssh import require_ssh
from tests.support.stock import StockClient, stock_client

pytestmark = [pytest.mark.slow, in_docker_on_demand]


@pytest.fixture(scope="module")
def stock(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockClient]:
    folder = tmp_path_factory.mktemp("client")
    with stock_client(cluster.env["DET_MASTER"], folder) as client:
        client.det("user", "login", "determined", stdin="\n")
        yield client


def id_in(output: str) -> str:
    """Return the only task id in the output of the client."""
    ids = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", output)
    assert ids, output
    return str(ids[0])


@pytest.fixture
def all_slots(cluster: Cluster, stock: StockClient) -> Iterator[None]:
    """A command that takes all slots, so that other tasks wait."""
    result = stock.det("cmd", "run", "--detach", "--config", "resources.slots=4", "sleep 600")
    id = id_in(result)
    cluster.until(lambda: "RUNNING" in stock.det("cmd", "describe", id), "it has the slots")
    yield
    stock.det("cmd", "kill", id)


def test_command_runs_with_its_context_and_is_followed(stock: StockClient, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("print('hello', 'stock')")
    result = stock.det("cmd", "run", "--context", tmp_path, "python3", "hello.py")
    assert "hello stock" in result
    assert "zero exit code" in stock.det("cmd", "list", "--all")


def test_command_is_listed_reprioritized_and_killed(cluster: Cluster, stock: StockClient) -> None:
    result = stock.det("cmd", "run", "--detach", "--config", "description=sleeper", "sleep 600")
    id = id_in(result)
    cluster.until(lambda: "RUNNING" in stock.det("cmd", "describe", id), "the command runs")
    assert "sleeper" in stock.det("cmd", "list")
    assert "sleep 600" in stock.det("cmd", "config", id)
    stock.det("cmd", "set", "priority", id, 60)
    assert id in stock.det("task", "list")
    stock.det("cmd", "kill", id)
    cluster.until(lambda: "TERMINATED" in stock.det("cmd", "describe", id), "the command has ended")
    assert "killed" in stock.det("cmd", "logs", id)
    assert "colour" in stock.refused("cmd", "run", "--config", "colour=1", "--detach", "true")


def test_shell_is_started_and_opened(cluster: Cluster, stock: StockClient) -> None:
    require_ssh()
    result = stock.det("shell", "start", "--detach", "--config", "resources.slots=0")
    id = id_in(result)

    def ready() -> bool:
        return bool(cluster.get(f"/api/v1/tasks/{id}")["task"]["allocations"][0]["isReady"])

    cluster.until(ready, "the shell is ready")
    assert "RUNNING" in stock.det("shell", "list")
    assert "hello from 3" in stock.det("shell", "open", id, "echo hello from $((1+2))")
    assert f"{id}" in stock.det("shell", "show_ssh_command", id)
    stock.det("shell", "kill", id)


def test_generic_task_is_created_listed_paused_and_killed(
    cluster: Cluster, stock: StockClient, tmp_path: Path
) -> None:
    config = tmp_path / "task.yaml"
    config.write_text("entrypoint: [sleep, '600']\nresources: {slots: 1}\n")
    result = stock.det("task", "create", config)
    id = id_in(result)
    cluster.until(lambda: id in stock.det("task", "list"), "the task is listed")
    assert "sleep" in stock.det("task", "config", id)
    stock.det("task", "pause", id)
    cluster.until(lambda: id not in stock.det("task", "list"), "the task is paused")
    stock.det("task", "unpause", id)
    cluster.until(lambda: id in stock.det("task", "list"), "the task runs again")
    stock.det("task", "kill", id)
    cluster.until(lambda: id not in stock.det("task", "list"), "the task has ended")


def test_queued_notebook_is_listed_reprioritized_and_killed(
    cluster: Cluster, stock: StockClient, all_slots: None, tmp_path: Path
) -> None:
    config = ROOT / "examples/interactive/notebook.yaml"
    options = ("--config-file", config, "--config", "resources.slots=1", "--context", tmp_path)
    assert "A notebook beside the digits" in stock.det("notebook", "start", *options, "--preview")
    id = id_in(stock.det("notebook", "start", *options, "--detach"))
    assert re.search(rf"{id} .*A notebook beside.* QUEUED", stock.det("notebook", "list"))
    assert id in stock.det("notebook", "list", "--quiet", "--sort-by", "state")
    assert "idle_timeout" in stock.det("notebook", "config", id)
    stock.det("notebook", "set", "priority", id, 60)
    stock.det("notebook", "kill", id)
    assert re.search(rf"{id} .* TERMINATED", stock.det("notebook", "list", "--all"))
    assert "on request of determined" in stock.det("notebook", "logs", id)
    assert "has ended" in stock.run("notebook", "open", id).err


def test_tensorboard_is_listed_and_killed(
    cluster: Cluster, stock: StockClient, tmp_path: Path
) -> None:
    config = tmp_path / "never.yaml"
    config.write_text(
        "name: never\nentrypoint: 'true'\nsearcher: {name: single, metric: x, max_length: 1}\n"
    )
    experiment = stock.det("e", "create", config, "--paused").split("experiment")[1].split()[0]
    board = ROOT / "examples/interactive/tensorboard.yaml"
    # Its program waits for metrics that never come.
    waits = ("--config", "entrypoint=[sleep, '600']")
    result = stock.det(
        "tensorboard", "start", experiment, "--config-file", board, *waits, "--detach"
    )
    id = id_in(result)
    cluster.until(lambda: "RUNNING" in stock.det("tensorboard", "list"), "it runs")
    assert "reload_interval" in stock.det("tensorboard", "config", id)
    stock.det("tensorboard", "kill", id)
    cluster.until(lambda: "TERMINATED" in stock.det("tensorboard", "list"), "it has ended")
    assert "killed" in stock.det("tensorboard", "logs", id)
    assert "has ended" in stock.run("tensorboard", "open", id).err
    assert "experiment 9999" in stock.refused("tensorboard", "start", 9999, "--detach")
    stock.det("e", "kill", experiment)
