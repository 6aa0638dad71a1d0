"""Scripted tasks of an assistant: an ordinary MCP client uses `det mcp` over the real API."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from determined.common import http
from httpx2 import AsyncClient
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.cli.conftest import Det
from tests.support.api import Api, Caller, create, report_metrics, trial_of
from tests.support.assistant import CONFIG, Assistant, ToolFailed, ask
from tests.support.lossy_proxy import lossy_proxy
from tests.support.played_agent import PlayedAgent, task_of
from tests.support.ports import free_port
from tests.support.processes import eventually


@pytest.fixture
def user(api: Api) -> Caller:
    return api.signed_in("determined")


@pytest.fixture
def assistant(api: Api, tmp_path: Path) -> Assistant:
    return Assistant(os.environ["DET_MASTER"], tmp_path)


@pytest.fixture
def reader(api: Api, tmp_path: Path) -> Assistant:
    return Assistant(os.environ["DET_MASTER"], tmp_path, allow_writes=False)


def state_of(user: Caller, id: int) -> str:
    return str(user.get(f"/api/v1/experiments/{id}")["experiment"]["state"])


def running_trial(api: Api, user: Caller) -> tuple[int, Caller]:
    """Return a trial that runs, and its container."""
    experiment = create(user, activate=True, resources={"slots_per_trial": 2})
    agent = PlayedAgent(api, "gpu-1")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    return int(trial_of(user, experiment)["id"]), api.with_token(order["spec"]["session_token"])


def log(api: Api, user: Caller, trial_id: int, count: int) -> None:
    task_id = trial_of(user, int(user.get(f"/api/v1/trials/{trial_id}")["trial"]["experimentId"]))[
        "taskId"
    ]
    logs = [
        {"taskId": task_id, "log": f"line {n} of the log", "timestamp": f"2099-01-01T00:{n // 60:02}:{n % 60:02}Z",
         "level": "LOG_LEVEL_ERROR" if n % 50 == 7 else "LOG_LEVEL_INFO"}
        for n in range(count)
    ]  # fmt: skip
    user.post("/api/v1/task/logs", {"logs": logs})


def pages(assistant: Assistant, key: str, tool: str, **arguments: Any) -> list[Any]:
    """Return all rows of a list, page by page, and check that no row is repeated."""
    rows: list[Any] = []
    cursor = ""
    while True:
        answer = assistant.call(tool, **arguments, cursor=cursor)
        rows += answer[key]
        cursor = answer.get("next_cursor", "")
        if not cursor:
            return rows


# Tasks that read.


def test_find_the_newest_experiment(reader: Assistant, user: Caller) -> None:
    create(user, name="old")
    newest = create(user, name="new")
    first = reader.call("list_experiments")["experiments"][0]
    assert (first["id"], first["name"], first["state"]) == (newest, "new", "PAUSED")


def test_find_the_experiments_of_a_state(reader: Assistant, user: Caller) -> None:
    killed = create(user)
    user.post(f"/api/v1/experiments/{killed}/kill")
    create(user)
    rows = reader.call("list_experiments", state="canceled")["experiments"]
    assert [row["id"] for row in rows] == [killed]


def test_read_a_long_list_page_by_page(reader: Assistant, user: Caller) -> None:
    ids = [create(user, name=f"experiment with a rather long name {n} " * 4) for n in range(40)]
    assert [row["id"] for row in pages(reader, "experiments", "list_experiments")] == ids[::-1]


def test_tell_how_an_experiment_is_configured(reader: Assistant, user: Caller) -> None:
    data = {"url": "https://example.com/digits.npz"}
    answer = reader.call("describe_experiment", experiment_id=create(user, data=data))
    assert answer["config"]["searcher"]["metric"] == "loss"
    assert answer["config"]["data"] == data
    assert answer["cost_usd"] == 0.0


def test_wrong_arguments_are_answered_with_the_arguments_of_the_tool(reader: Assistant) -> None:
    with pytest.raises(ToolFailed) as e:
        reader.call("list_trials")
    assert str(e.value) == (
        "argument experiment_id: Field required. Next step: call list_trials with its arguments:"
        " experiment_id (required), cursor."
    )


def test_find_the_trials_of_an_experiment(reader: Assistant, user: Caller) -> None:
    id = create(user)
    (trial,) = reader.call("list_trials", experiment_id=id)["trials"]
    described = reader.call("describe_trial", trial_id=trial["id"])
    assert described["experiment_id"] == id


def test_follow_a_metric(api: Api, reader: Assistant, user: Caller) -> None:
    trial, container = running_trial(api, user)
    for steps in range(1, 4):
        report_metrics(container, trial, "validation", steps, {"loss": 1 / steps}, run=1)
    rows = reader.call("get_metrics", trial_id=trial)["metrics"]
    assert {row["kind"] for row in rows} == {"validation"}
    assert [(row["batches"], round(row["metrics"]["loss"], 2)) for row in rows] == [
        (3, 0.33), (2, 0.5), (1, 1.0),
    ]  # fmt: skip
    assert reader.call("describe_trial", trial_id=trial)["batches"] == 3


def test_read_the_end_of_a_log_and_the_lines_before_it(
    api: Api, reader: Assistant, user: Caller
) -> None:
    trial, _ = running_trial(api, user)
    log(api, user, trial, 200)
    last = reader.call("get_logs", trial_id=trial)
    assert last["lines"][-1].endswith("line 199 of the log")
    before = reader.call("get_logs", trial_id=trial, cursor=last["next_cursor"])
    number = int(last["lines"][0].split()[2])
    assert before["lines"][-1].endswith(f"line {number - 1} of the log")


def test_find_the_errors_in_a_log(api: Api, reader: Assistant, user: Caller) -> None:
    trial, _ = running_trial(api, user)
    log(api, user, trial, 100)
    lines = reader.call("get_logs", trial_id=trial, level="error")["lines"]
    assert [line.split()[-4] for line in lines] == ["7", "57"]


def test_tell_why_an_experiment_waits(api: Api, reader: Assistant, user: Caller) -> None:
    id = create(user, activate=True)
    api.tick()
    (reason,) = reader.call("why", experiment_id=id)["reasons"]
    assert reason["state"] == "QUEUED"
    assert reason["sentence"]


def test_show_the_queue(api: Api, reader: Assistant, user: Caller) -> None:
    create(user, activate=True, name="first in the queue")
    api.tick()
    answer = reader.call("list_queue")
    (job,) = answer["jobs"]
    assert (answer["pool"], job["name"], job["state"], job["ahead"]) == (
        "default", "first in the queue", "QUEUED", 0,
    )  # fmt: skip
    assert "agent" in job["why"]


def test_jobs_of_the_queue_have_the_ids_that_other_tools_take(
    api: Api, reader: Assistant, user: Caller
) -> None:
    id = create(user, activate=True)
    api.tick()
    (job,) = reader.call("list_queue", pool="default")["jobs"]
    assert reader.call("describe_experiment", experiment_id=job["experiment_id"])["id"] == id
    assert reader.call("why", job_id=job["job_id"])["reasons"]
    assert "task_id" not in job


def test_the_queue_of_a_command_names_its_task(api: Api, reader: Assistant, user: Caller) -> None:
    user.post("/api/v1/commands", {"config": {"entrypoint": ["sleep", "9"]}})
    api.tick()
    jobs = [j for p in ("default", "reserved") for j in reader.call("list_queue", pool=p)["jobs"]]
    (job,) = jobs
    assert (job["type"], "experiment_id" in job) == ("command", False)
    assert reader.call("why", task_id=job["task_id"])["reasons"]


def test_show_pools_and_costs(api: Api, reader: Assistant, user: Caller) -> None:
    (pool, *_) = reader.call("list_pools")["pools"]
    assert pool["name"] == "default"
    id = create(user)
    (cost,) = reader.call("get_costs", experiment_ids=[id])["experiments"]
    assert (cost["id"], cost["costUsd"]) == (id, 0.0)


def test_estimate_an_experiment_without_creating_it(reader: Assistant, user: Caller) -> None:
    answer = reader.call("plan_experiment", config=CONFIG.format(name="mnist"))
    assert any(line.startswith("slots   1 per trial") for line in answer["estimate"])
    assert user.get("/api/v1/experiments")["experiments"] == []


# Tasks that change something.


def test_train_with_a_limit_of_the_cost(assistant: Assistant, user: Caller) -> None:
    id = assistant.start(limit=3.5)
    assert state_of(user, id) in ("STATE_ACTIVE", "STATE_QUEUED")
    (budget,) = assistant.call("get_costs")["budgets"]
    assert (budget["limitUsd"], budget["scope"]) == (3.5, "experiment")


def test_train_code_of_a_folder(assistant: Assistant, user: Caller) -> None:
    folder = assistant.folder / "mnist"
    folder.mkdir()
    (folder / "train.py").write_text("print('trains')\n")
    token = assistant.plan(code_folder="mnist")
    id = assistant.call("create_experiment", plan_token=token, max_cost_usd=1)["experiment_id"]
    names = [f["path"] for f in user.get(f"/api/v1/experiments/{id}/file_tree")["files"]]
    assert names == ["train.py"]


def test_pause_and_resume(assistant: Assistant, user: Caller) -> None:
    id = assistant.start()
    assistant.call("pause_experiment", experiment_id=id)
    assert state_of(user, id) == "STATE_PAUSED"
    assistant.call("activate_experiment", experiment_id=id)
    assert state_of(user, id) != "STATE_PAUSED"


def test_end_an_experiment_twice(assistant: Assistant, user: Caller) -> None:
    id = assistant.start()
    assistant.call("kill_experiment", experiment_id=id)
    assert assistant.call("kill_experiment", experiment_id=id)["note"].startswith(
        f"experiment {id} has ended"
    )
    assert state_of(user, id) == "STATE_CANCELED"


def test_a_plan_creates_one_experiment(assistant: Assistant, user: Caller) -> None:
    token = assistant.plan()
    ids = {
        assistant.call("create_experiment", plan_token=token, max_cost_usd=2)["experiment_id"]
        for _ in range(3)
    }
    assert [row["id"] for row in user.get("/api/v1/experiments")["experiments"]] == list(ids)


# Tasks that fail with the cause and the next step.


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("create_experiment", {"plan_token": "plan-00", "max_cost_usd": 1}, "call plan_experiment"),
        (
            "create_experiment",
            {"plan_token": "../../etc", "max_cost_usd": 1},
            "call plan_experiment",
        ),
        ("plan_experiment", {"config": "searcher: {name: nothing}"}, "searcher"),
        ("plan_experiment", {"config": "", "code_folder": "../.."}, "--root"),
        ("describe_experiment", {"experiment_id": 999}, "999"),
        ("list_experiments", {"cursor": "next"}, "next_cursor"),
        ("get_logs", {}, "give either trial_id or task_id"),
        ("why", {}, "give one of experiment_id, trial_id, job_id and task_id"),
        ("why", {"experiment_id": 1, "trial_id": 1}, "give one of experiment_id"),
        ("list_queue", {"pool": "gpus"}, "there is no pool 'gpus'.*use one of default, reserved"),
        ("get_logs", {"trial_id": 1, "level": "LOUD"}, "there is no level 'LOUD'.*DEBUG"),
        ("get_logs", {"trial_id": 1, "text": "x"}, "unknown argument text.*level, search"),
    ],
)
def test_errors_name_the_cause_and_the_next_step(
    assistant: Assistant, tool: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ToolFailed, match=message):
        assistant.call(tool, **arguments)


def test_a_plan_without_a_maximum_cost_creates_nothing(assistant: Assistant, user: Caller) -> None:
    token = assistant.plan()
    for limit in (0, -1):
        with pytest.raises(ToolFailed, match="above 0"):
            assistant.call("create_experiment", plan_token=token, max_cost_usd=limit)
    with pytest.raises(ToolFailed, match=r"below 10\^12"):
        assistant.call("create_experiment", plan_token=token, max_cost_usd=1e15)
    with pytest.raises(ToolFailed, match="max_cost_usd"):
        assistant.call("create_experiment", plan_token=token)
    assert user.get("/api/v1/experiments")["experiments"] == []


def test_an_old_plan_is_rejected(assistant: Assistant, monkeypatch: pytest.MonkeyPatch) -> None:
    token = assistant.plan()
    monkeypatch.setattr("det_cli.assistants.plans.LIFE_S", -1.0)
    with pytest.raises(ToolFailed, match=r"older than an hour.*call plan_experiment again"):
        assistant.call("create_experiment", plan_token=token, max_cost_usd=1)


def test_code_that_changed_after_the_plan_is_not_sent(assistant: Assistant) -> None:
    (assistant.folder / "code").mkdir()
    token = assistant.plan(code_folder="code")
    (assistant.folder / "code" / "train.py").write_text("")
    with pytest.raises(ToolFailed, match="changed after"):
        assistant.call("create_experiment", plan_token=token, max_cost_usd=1)


def test_no_tool_changes_anything_by_default(reader: Assistant, assistant: Assistant) -> None:
    read_only = {name for name, t in assistant.tools().items() if t.annotations.read_only_hint}
    assert set(reader.tools()) == read_only
    writing = {"create_experiment", "pause_experiment", "activate_experiment", "kill_experiment"}
    assert set(assistant.tools()) - read_only == writing


def test_tools_have_the_rights_of_the_user(
    api: Api, user: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token of a running task is valid for its own task only, if its configuration says so."""
    task, _ = task_of(api, user, environment={"det_token": "task"})
    other = create(user)
    monkeypatch.delenv("DET_USER")
    monkeypatch.delenv("DET_PASS")
    monkeypatch.setenv("DET_SESSION_TOKEN", task.token)
    guest = Assistant(os.environ["DET_MASTER"], tmp_path)
    with pytest.raises(ToolFailed, match="only good for the task itself"):
        guest.call("kill_experiment", experiment_id=other)
    assert state_of(user, other) == "STATE_PAUSED"


# Lost answers.


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat lost requests without a pause."""
    monkeypatch.setattr(http, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(http, "LONGEST_PAUSE_S", 0.0)


@pytest.mark.parametrize("retries", [0, 5])
@pytest.mark.usefixtures("at_once")
def test_lost_answers_launch_nothing_twice(user: Caller, tmp_path: Path, retries: int) -> None:
    """With retries the client repeats requests. Without, the assistant repeats tools, and the server is restarted."""
    with lossy_proxy(os.environ["DET_MASTER"], loss=0.2, seed=retries) as (address, proxy):
        for number in range(15):
            token = _until_answered(
                address,
                tmp_path,
                retries,
                "plan_experiment",
                config=CONFIG.format(name=f"n{number}"),
            )["plan_token"]
            _until_answered(
                address,
                tmp_path,
                retries,
                "create_experiment",
                plan_token=token,
                max_cost_usd=number + 1,
            )
        assert proxy.lost > 10
    experiments = user.get("/api/v1/experiments")["experiments"]
    assert sorted(e["name"] for e in experiments) == sorted(f"n{n}" for n in range(15))
    assert "STATE_PAUSED" not in {e["state"] for e in experiments}
    budgets = user.get("/api/v1/budgets")["budgets"]
    assert sorted(b["limitUsd"] for b in budgets) == [float(n + 1) for n in range(15)]


def _until_answered(url: str, folder: Path, retries: int, tool: str, **arguments: Any) -> Any:
    for _ in range(30):
        try:
            return Assistant(url, folder, retries=retries).call(tool, **arguments)
        except (ToolFailed, http.MasterUnreachableError) as e:
            if "cannot reach" not in str(e):
                raise
    raise AssertionError(f"{tool} was not answered")


# Processes.


def test_the_base_installation_does_not_import_mcp() -> None:
    code = "import sys, det_cli.main, det_cli.actions.assistants, determined; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_extra_the_command_says_how_to_install_it(
    api: Api, det: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "det_cli.assistants.server", raising=False)
    monkeypatch.delattr("det_cli.assistants.server", raising=False)
    result = det("mcp")
    assert result.code != 0
    assert "determined-serverless[mcp]" in result.err


def test_an_assistant_starts_the_server_as_a_process(
    api: Api, user: Caller, tmp_path: Path
) -> None:
    id = create(user, name="over stdin and stdout")
    command = [sys.executable, "-m", "det_cli.main", "mcp", "--root", str(tmp_path)]
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    text = ask(parameters, "describe_experiment", experiment_id=id)
    assert json.loads(text)["name"] == "over stdin and stdout"


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("port", ["99999", "0"])
def test_http_on_no_port_is_refused(det: Det, port: str) -> None:
    result = det("mcp", "--http", port)
    assert (result.code, f"--http {port} is not a port" in result.err) == (2, True)


def test_http_on_a_busy_port_is_refused(det: Det) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = det("mcp", "--http", str(port))
    assert result.code == 1
    assert f"cannot listen on port {port} of 127.0.0.1: Address already in use" in result.err


def test_http_needs_the_secret(api: Api, user: Caller, tmp_path: Path) -> None:
    id = create(user, name="over HTTP")
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "det_cli.main",
        "mcp",
        "--root",
        str(tmp_path),
        "--http",
        str(port),
    ]
    environment = {**os.environ, "DET_MCP_SECRET": "s3cret"}
    url = f"http://127.0.0.1:{port}/mcp"
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as server:
        try:
            assert eventually(lambda: is_open(port))
            with pytest.raises(HTTPError, match="401"):
                urlopen(Request(url, data=b"{}", method="POST"))
            transport = streamable_http_client(
                url, http_client=AsyncClient(headers={"Authorization": "Bearer s3cret"})
            )
            assert json.loads(ask(transport, "describe_experiment", experiment_id=id))["id"] == id
        finally:
            server.terminate()
