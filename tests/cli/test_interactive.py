"""`det command`, `notebook`, `shell`, `tensorboard` and `task` against the real API."""

import json
import os
import shlex
import subprocess
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from det_cli.actions import interactive_open, interactive_start, wait_report
from det_cli.errors import CommandError
from determined.common.http import Session

from tests.cli.conftest import Det
from tests.support.api import Api, create
from tests.support.played_agent import PlayedAgent


def let_run(api: Api, *, ready: bool, waits: bool = False, **body: str) -> None:
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    agent.poll()
    task = api.with_token(order["spec"]["session_token"])
    if ready or waits:
        word = "ready" if ready else "waiting"
        task.post(f"/api/v1/allocations/{order['allocation_id']}/{word}", body)


def test_command_is_run_listed_described_and_killed(api: Api, det: Det, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("description: mine\nresources: {slots: 2}\n")
    result = det(
        "cmd", "run", "--config-file", config, "--config", "resources.priority=50", "-v", "/data:data", "-d",
        "python3", "train.py", "--lr", "1",
    )  # fmt: skip
    id = result.out.strip()
    document = json.loads(det("cmd", "config", id, "--json").out)
    assert document["entrypoint"] == ["python3", "train.py", "--lr", "1"]
    assert (document["resources"]["slots"], document["resources"]["priority"]) == (2, 50)
    assert {"idle_timeout", "notebook_idle_type", "tensorboard_args"} & document.keys() == set()
    assert document["bind_mounts"][0]["container_path"] == "data"
    row = det("cmd", "list", "--csv").out.splitlines()[1]
    assert row.startswith(f"{id},determined,mine,QUEUED,,default,Uncategorized,")
    assert det("cmd", "list", "-q").out == f"{id}\n"
    assert json.loads(det("cmd", "describe", id, "--json").out)["state"] == "QUEUED"
    assert det("cmd", "set", "priority", id, "60").code == 0
    assert "mine" in det("job", "list").out
    assert f"mine ({id})" in det("job", "list").out
    assert det("cmd", "kill", id).out == f"Killed command {id}\n"
    assert "TERMINATED" in det("cmd", "list").out
    assert det("cmd", "kill", id).out.startswith(f"Command {id} has already ended: ")
    assert "on request of determined" in det("cmd", "logs", id).out


def test_kill_with_ambiguous_id_kills_no_command(api: Api, det: Det) -> None:
    ids = [det("cmd", "run", "-d", "work").out.strip() for _ in range(17)]
    firsts = [id[0] for id in ids]
    several = next(first for first in firsts if firsts.count(first) > 1)
    result = det("cmd", "kill", "--force", ids[0], several)
    assert (result.code, f"begin with '{several}'" in result.err) == (2, True)
    assert "TERMINATED" not in det("cmd", "list").out


def test_list_shows_own_commands_unless_all_is_set(api: Api, det: Det) -> None:
    other = api.signed_in("admin")
    other.post("/api/v1/commands", {"config": {"entrypoint": ["a"]}})
    assert det("cmd", "list", "-q").out == ""
    assert len(det("cmd", "list", "-q", "--all").out.split()) == 1
    assert det("cmd", "list", "-q", "--all", "-w", "Uncategorized").out != ""
    assert "no workspace 'x'" in det("cmd", "list", "-w", "x").err


def test_detached_run_prints_id_and_csv_has_determined_header(api: Api, det: Det) -> None:
    id = det("cmd", "run", "-d", "work").out.strip()
    header, row = det("cmd", "list", "--csv").out.splitlines()
    assert header.startswith("id,username,description,state,exitStatus,resourcePool,workspaceName")
    assert row.startswith(f"{id},")
    assert det("tensorboard", "list", "--csv").out.startswith(
        "id,username,description,state,experimentIds,trialIds,exitStatus,resourcePool,workspaceName"
    )


def test_unique_prefix_of_command_id_is_accepted(api: Api, det: Det) -> None:
    ids = [
        det("cmd", "run", "-d", "work").out.strip() for _ in range(17)
    ]  # more ids than the 16 possible first letters
    id = ids[0]
    part = next(id[:n] for n in range(1, 37) if sum(i.startswith(id[:n]) for i in ids) == 1)
    for words in (["describe"], ["config"], ["logs"], ["kill"]):
        assert det("cmd", *words, part).code == 0, words
    assert f"det task logs -f {id}\n" in det("cmd", "logs", part).err
    assert det("cmd", "set", "priority", next(i for i in ids if i != id), "60").code == 0
    document = json.loads(det("cmd", "describe", id, "--json").out)
    assert document["state"] == "TERMINATED"
    shared = next(i[0] for i in ids if sum(o[0] == i[0] for o in ids) > 1)
    unclear = det("cmd", "kill", shared)
    assert (unclear.code, f"ids that begin with '{shared}'" in unclear.err) == (2, True)


def test_context_and_include_files_are_sent(api: Api, det: Det, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("print(1)")
    extra = tmp_path / "extra.txt"
    extra.write_text("x")
    id = det("cmd", "run", "-c", folder, "-i", extra, "-d", "python3", "a.py").out.strip()
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    (order,) = agent.poll()
    archive = api.with_token(order["spec"]["session_token"]).get(
        f"/api/v1/tasks/{id}/context_directory"
    )
    assert archive["b64Tgz"] != ""


def test_following_ended_command_prints_exit_code(api: Api, det: Det) -> None:
    id = det("cmd", "run", "-d", "exit 3").out.strip()
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    agent.poll()
    agent.poll("terminated", exit_code=3, failure="container_failed")
    assert "exit code: 3" in det("cmd", "logs", "-f", id).out


@pytest.mark.parametrize("kind", ["cmd", "task"])
@pytest.mark.parametrize("killed", [False, True])
def test_killed_task_does_not_exit_with_0(
    api: Api, det: Det, tmp_path: Path, kind: str, killed: bool
) -> None:
    config = tmp_path / "task.yaml"
    config.write_text("entrypoint: [work]\n")
    create = ("task", "create", config) if kind == "task" else ("cmd", "run", "-d", "work")
    id = det(*create).out.split()[-1]
    agent = PlayedAgent(api, "a1")
    agent.join()
    api.tick()
    agent.poll()
    agent.poll()
    if killed:
        assert det(kind, "kill", id).code == 0
    agent.poll("terminated", exit_code=0)
    owner = {"Authorization": f"Bearer {api.signed_in('determined').token}"}
    session = Session(os.environ["DET_MASTER"], owner)
    assert (interactive_start.follow(session, id, kind) != 0) == killed
    session.close()


@pytest.mark.parametrize(("state", "status"), [("COMPLETED", 0), ("CANCELED", 1), ("ERROR", 1)])
def test_exit_status_of_generic_task_follows_its_state(state: str, status: int) -> None:
    task = {"taskState": f"GENERIC_TASK_STATE_{state}", "allocations": [{"statusCode": 0}]}
    assert interactive_start.status_of(task) == status


def test_task_list_shows_paused_tasks_and_describe_shows_tree(
    api: Api, det: Det, tmp_path: Path
) -> None:
    config = tmp_path / "task.yaml"
    config.write_text("entrypoint: [python3, work.py]\nresources: {slots: 0}\n")
    top = det("task", "create", config).out.removeprefix("Created task ").strip()
    let_run(api, ready=False)
    config.write_text("entrypoint: [python3, work.py]\nresources: {slots: 2}\n")
    child = det("task", "create", config, "--parent", top).out.removeprefix("Created task ").strip()
    det("task", "pause", child)
    rows = [row.split(",") for row in det("task", "list", "--csv").out.splitlines()]
    assert {row[0]: row[rows[0].index("Slots Needed")] for row in rows[1:]} == {
        top: "0",
        child: "2",
    }
    ends = {row[0]: row[-3:] for row in rows[1:]}
    assert ends == {top: ["generic", "RUNNING", ""], child: ["generic", "PAUSED", top]}
    output = det("task", "describe", top).out
    for line in (
        "State:     RUNNING",
        "Why:       runs on a1",
        "Slots:     0",
        f"  * {top}  RUNNING",
    ):
        assert line in output
    assert f"      {child}  PAUSED" in output
    assert json.loads(det("task", "describe", child, "--json").out)["parentId"] == top


def test_unique_prefix_of_task_id_is_accepted(api: Api, det: Det, tmp_path: Path) -> None:
    config = tmp_path / "task.yaml"
    config.write_text("entrypoint: [work]\n")
    top = det("task", "create", config).out.split()[-1]
    notebook = det("notebook", "start", "-d").out.strip()
    assert notebook[:9] != top[:9]
    det("notebook", "kill", notebook)
    assert f"Id:        {notebook}" in det("task", "describe", notebook[:9]).out
    assert f"det task logs -f {notebook}\n" in det("task", "logs", notebook[:9]).err
    for words in (["task"], []):
        assert "on request of determined" in det("why", *words, notebook[:9]).out
    child = det("task", "create", config, "--parent", top[:9]).out.split()[-1]
    assert "work" in det("task", "config", child[:9]).out
    for verb, sentence in (("pause", "Paused"), ("unpause", "Unpaused"), ("kill", "Sent kill to")):
        assert det("task", verb, child[:9]).out == f"{sentence} task {child}\n"
    assert det("task", "fork", top[:9]).code == 0


def test_notebook_preview_start_and_open(api: Api, det: Det) -> None:
    assert "notebook_idle_type" in det("notebook", "start", "--preview").out
    assert det("notebook", "list", "-q").out == ""
    id = det("notebook", "start", "-d").out.strip()
    let_run(api, ready=True)
    result = det("notebook", "open", id, "--no-browser")
    assert f"/proxy/{id}/?token=" in result.out
    det("notebook", "kill", id)


def test_tensorboard_list_shows_experiments(api: Api, det: Det) -> None:
    experiment = create(api.signed_in("determined"))
    id = det("tensorboard", "start", experiment, "-d").out.strip()
    (row,) = det("tensorboard", "list", "--csv").out.splitlines()[1:]
    assert row.startswith(f"{id},determined,TensorBoard (")
    assert f",QUEUED,{experiment},,," in row
    assert "name at least one" in det("tensorboard", "start").err


def test_shell_uses_ssh_with_its_own_key(api: Api, det: Det, home: Path) -> None:
    id = det("shell", "start", "-d").out.strip()
    result = det("shell", "show_ssh_command", id, "--", "-v")
    assert "is not ready yet" in result.err
    words = shlex.split(result.out)
    assert words[-2:] == [f"root@{id}", "-v"]
    assert f"determined.cli.tunnel {api_address()} %h" in next(w for w in words if "Proxy" in w)
    key = Path(words[words.index("-i") + 1])
    assert "OPENSSH PRIVATE KEY" in key.read_text()
    assert key.stat().st_mode & 0o077 == 0
    assert "PRIVATE" not in det("shell", "list", "--json").out
    let_run(api, ready=True)
    assert det("shell", "show_ssh_command", id).err == ""


def test_ended_shell_has_no_ssh_command(api: Api, det: Det) -> None:
    id = det("shell", "start", "-d").out.strip()
    det("shell", "kill", id)
    result = det("shell", "show_ssh_command", id)
    assert (result.code, result.out) == (1, "")
    assert f"shell {id} has ended: " in result.err


def test_ssh_user_is_the_user_of_the_container(
    api: Api, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user is known only while the task runs, so the command must wait for the task first."""
    commands: list[list[str]] = []

    def ssh(command: list[str], **_: object) -> "subprocess.CompletedProcess[bytes]":
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    wait = interactive_open.wait

    def serving(session: Session, kind: str, task_id: str) -> None:
        if not commands:
            let_run(api, ready=True, user="ubuntu")
        wait(session, kind, task_id)

    monkeypatch.setattr(interactive_open, "wait", serving)
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", ssh)
        det("shell", "start")
        id = commands[0][-1].removeprefix("ubuntu@")
        det("shell", "open", id)
    assert [command[-1] for command in commands] == [f"ubuntu@{id}"] * 2


def test_open_of_ended_notebook_prints_reason(api: Api, det: Det) -> None:
    id = det("notebook", "start", "-d").out.strip()
    det("notebook", "kill", id)
    result = det("notebook", "open", id, "--no-browser")
    assert (result.code, "on request of determined" in result.err) == (1, True)


def test_start_fails_with_reason_if_image_lacks_jupyter(
    api: Api, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "JupyterLab is not installed in image team/a:1: choose an image that has it"

    def end(_: float) -> None:
        agent = PlayedAgent(api, "a1")
        agent.join()
        api.tick()
        agent.poll()
        agent.poll("terminated", exit_code=80, failure="container_failed", message=sentence)

    monkeypatch.setattr(interactive_open, "time", SimpleNamespace(sleep=end))
    result = det("notebook", "start", "--no-browser")
    assert result.code == 1
    assert f"det notebook start: {sentence}\n" in result.err
    id = result.out.split()[-1]
    assert sentence in det("why", "task", id).out
    (line,) = [line for line in det("task", "logs", id).out.splitlines() if sentence in line]
    assert f"resources failed with non-zero exit code: 80 ({sentence})" in line


def test_queued_notebook_prints_scheduler_reason(
    api: Api, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_report, "_PATIENCE_S", 0.0)
    id = det("notebook", "start", "-d").out.strip()
    api.tick()
    (reason,) = json.loads(det("why", "task", id, "-o", "json").out)
    ending = SimpleNamespace(sleep=lambda _: det("notebook", "kill", id))
    monkeypatch.setattr(interactive_open, "time", ending)
    owner = {"Authorization": f"Bearer {api.signed_in('determined').token}"}
    messages: list[str] = []
    monkeypatch.setattr(wait_report, "say", messages.append)
    session = Session(api_address(), owner)
    with closing(session), pytest.raises(CommandError, match="has ended"):
        interactive_open.wait(session, "notebook", id)
    assert messages == [f"It waits: {reason['sentence']}."]


def test_running_notebook_that_is_not_ready_names_its_log(
    api: Api, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container may still be installing JupyterLab. The log shows its progress."""
    id = det("notebook", "start", "-d").out.strip()
    let_run(api, ready=False)
    monkeypatch.setattr(interactive_open, "time", SimpleNamespace(sleep=interrupted))
    result = det("notebook", "open", id, "--no-browser")
    assert f"The notebook is RUNNING; `det notebook logs {id}` shows its progress …" in result.err


def test_waiting_tensorboard_prints_reason(
    api: Api, det: Det, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = det("tensorboard", "start", create(api.signed_in("determined")), "-d").out.strip()
    let_run(api, ready=False, waits=True)
    monkeypatch.setattr(interactive_open, "time", SimpleNamespace(sleep=interrupted))
    result = det("tensorboard", "open", id, "--no-browser")
    assert "It waits: runs on a1 and has no metrics to show yet" in result.err


def test_custom_entrypoint_is_reported(api: Api, det: Det) -> None:
    result = det("notebook", "start", "-d", "--config", "entrypoint=[sleep, '1']")
    assert "warning: entrypoint runs in place of JupyterLab" in result.err
    det("notebook", "kill", result.out.strip())
    outcome = det("notebook", "open", result.out.strip(), "--no-browser")
    assert "its configuration sets the entrypoint: sleep 1" in outcome.err


def interrupted(_seconds: float) -> None:
    raise KeyboardInterrupt


def api_address() -> str:
    return os.environ["DET_MASTER"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["run"], 2, "there is no command to run"),
        (["run", "-v", "/data", "ls"], 2, "is not HOST:CONTAINER"),
        (["run", "--config", "colour=1", "ls"], 1, "colour"),
        (["run", "--config", "colour=1", "ls"], 1, "entrypoint, environment, resources, work_dir"),
        (["describe", "none"], 3, "command 'none' not found"),
        (["describe", "none"], 3, "`det command list --all` lists the existing ones"),
        (["kill", "none"], 3, "command 'none' not found"),
        (["kill", "-f", "none"], 1, "was not killed"),
    ],
)
def test_usage_errors(api: Api, det: Det, words: list[str], code: int, message: str) -> None:
    result = det("cmd", *words)
    assert (result.code, message in result.err) == (code, True), result
