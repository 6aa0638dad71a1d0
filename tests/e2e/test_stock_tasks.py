"""Commands, notebooks, shells, TensorBoards and generic tasks by the stock command line of Determined 0.38.1."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, local_cluster
from tests.support.ssh import require_ssh
from tests.support.stock import StockClient, stock_client

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with local_cluster(tmp_path_factory.mktemp("stock"), runtime="process") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def stock(running: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockClient]:
    folder = tmp_path_factory.mktemp("client")
    with stock_client(running.env["DET_MASTER"], folder) as client:
        client.det("user", "login", "determined", typed="\n")
        yield client


def test_a_command_is_run_with_its_context_and_followed(stock: StockClient, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("print('hello', 'stock')")
    shown = stock.det("cmd", "run", "--context", tmp_path, "python3", "hello.py")
    assert "hello stock" in shown
    assert "zero exit code" in stock.det("cmd", "list", "--all")


def test_a_command_is_listed_steered_and_killed(running: Cluster, stock: StockClient) -> None:
    shown = stock.det("cmd", "run", "--detach", "--config", "description=sleeper", "sleep 600")
    found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", shown)
    assert found, shown
    id = found[0]
    running.until(lambda: "RUNNING" in stock.det("cmd", "describe", id), "the command runs")
    assert "sleeper" in stock.det("cmd", "list")
    assert "sleep 600" in stock.det("cmd", "config", id)
    stock.det("cmd", "set", "priority", id, 60)
    assert id in stock.det("task", "list")
    stock.det("cmd", "kill", id)
    running.until(lambda: "TERMINATED" in stock.det("cmd", "list"), "the command has ended")
    assert "killed" in stock.det("cmd", "logs", id)
    assert "entrypoint" in stock.refused("cmd", "run", "--config", "entrypoint=", "--detach")


def test_a_shell_is_started_and_opened(running: Cluster, stock: StockClient) -> None:
    require_ssh()
    shown = stock.det("shell", "start", "--detach", "--config", "resources.slots=0")
    found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", shown)
    assert found, shown
    id = found[0]

    def ready() -> bool:
        return bool(running.get(f"/api/v1/tasks/{id}")["task"]["allocations"][0]["isReady"])

    running.until(ready, "the shell is ready")
    assert "RUNNING" in stock.det("shell", "list")
    assert "hello from 3" in stock.det("shell", "open", id, "echo hello from $((1+2))")
    assert f"{id}" in stock.det("shell", "show_ssh_command", id)
    stock.det("shell", "kill", id)


def test_a_generic_task_is_created_listed_paused_and_killed(
    running: Cluster, stock: StockClient, tmp_path: Path
) -> None:
    config = tmp_path / "task.yaml"
    config.write_text("entrypoint: [sleep, '600']\nresources: {slots: 1}\n")
    shown = stock.det("task", "create", config)
    found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", shown)
    assert found, shown
    id = found[0]
    running.until(lambda: id in stock.det("task", "list"), "the task is listed")
    assert "sleep" in stock.det("task", "config", id)
    stock.det("task", "pause", id)
    running.until(lambda: id not in stock.det("task", "list"), "the task is paused")
    stock.det("task", "unpause", id)
    running.until(lambda: id in stock.det("task", "list"), "the task runs again")
    stock.det("task", "kill", id)
    running.until(lambda: id not in stock.det("task", "list"), "the task has ended")
