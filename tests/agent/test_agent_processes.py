"""A real agent with the process runtime against a control plane that can fail."""

import json
import os
import signal
import socket
import sys
import threading
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from det_agent.loop import ControlPlaneSilent, Loop
from det_controlplane.core.agent_protocol import JoinRequest
from det_controlplane.core.interface import PRODUCT_VERSION
from determined.common.http import MasterUnreachableError

from tests.agent.conftest import StartAgent
from tests.support.agents import make_spec
from tests.support.fake_controlplane import FakeControlPlane

WAITS_FOR_A_FILE = "while [ ! -e {path} ]; do sleep 0.05; done; exit {code}"


def test_exit_of_a_container_is_reported_until_it_is_acknowledged(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    plane.acknowledging = False
    start_agent()
    spec = make_spec("exit 3")
    plane.want(spec)
    report = plane.until_state(spec["container_id"], "terminated")
    assert (report["exit_code"], report["failure"]) == (3, "container_failed")
    polls = plane.polls
    plane.change(
        lambda: plane.desired.update(unrelated={"spec": make_spec("true"), "desired": "killed"})
    )
    plane.until(lambda: plane.polls > polls)
    assert plane.reported[spec["container_id"]]["state"] == "terminated"


def test_process_gateway_listens_only_on_loopback(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    agent = start_agent()
    plane.until(lambda: plane.polls > 0)
    port = int((agent.state_dir / "gateway_port").read_text())
    socket.create_connection(("127.0.0.1", port), 60).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), 60).close()


def test_container_with_exit_code_0_has_no_failure(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    start_agent()
    spec = make_spec("exit 0")
    plane.want(spec)
    report = plane.until_state(spec["container_id"], "terminated")
    assert report["exit_code"] == 0
    assert "failure" not in report
    assert plane.history[f"{spec['container_id']}@1"][-1] == "terminated"


def test_agent_sends_interface_and_product_version(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    start_agent()
    plane.until(lambda: bool(plane.joins))
    assert plane.joins[0]["version"] == "0.38.1"
    assert plane.joins[0]["product_version"] == PRODUCT_VERSION


def test_container_output_reaches_the_task_log(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    start_agent()
    spec = make_spec("echo out; echo err >&2; printf unfinished")
    plane.want(spec)
    plane.until_state(spec["container_id"], "terminated")
    plane.until(lambda: {"out", "err", "unfinished"} <= set(plane.texts("task")))
    by_text = {line["log"]: line for line in plane.logs()}
    assert by_text["err"]["stdtype"] == "stderr"
    assert by_text["out"]["task_id"] == spec["task_id"]
    assert by_text["out"]["container_id"] == spec["container_id"]


def test_kill_ends_every_process_of_the_container(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    start_agent()
    pid_file = tmp_path / "escaped.pid"
    spec = make_spec(
        f"setsid bash -c 'echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; sleep 600' & sleep 600"
    )
    plane.want(spec)
    plane.until(pid_file.exists)
    plane.until_state(spec["container_id"], "running")
    plane.kill(spec["container_id"])
    report = plane.until_state(spec["container_id"], "terminated")
    assert (report["exit_code"], report["failure"]) == (137, "aborted")
    assert not _runs(int(pid_file.read_text()))


def test_unlisted_container_is_killed(plane: FakeControlPlane, start_agent: StartAgent) -> None:
    start_agent()
    spec = make_spec("sleep 600")
    plane.run(spec)
    plane.unlist(spec["container_id"])
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 137


def test_new_epoch_replaces_the_running_container(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    start_agent()
    spec = make_spec("sleep 600")
    plane.run(spec)
    plane.want(spec | {"epoch": 2, "command": ["bash", "-c", "exit 7"]})
    container = spec["container_id"]
    plane.until(lambda: "terminated" in plane.history.get(f"{container}@2", []))
    assert plane.reported[container]["exit_code"] == 7
    assert "terminated" in plane.history[f"{container}@1"]


def test_container_killed_before_its_start_is_reported_as_aborted(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    spec = make_spec("sleep 600")
    plane.want(spec)
    plane.kill(spec["container_id"])
    start_agent()
    report = plane.until_state(spec["container_id"], "terminated")
    assert report["failure"] == "aborted"
    assert "exit_code" not in report


def test_restarted_agent_adopts_its_containers(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    agent = start_agent()
    marker = tmp_path / "done"
    spec = make_spec(WAITS_FOR_A_FILE.format(path=marker, code=4))
    running = plane.run(spec)
    agent.kill()
    polls = plane.polls
    agent.restart()
    plane.until(lambda: len(plane.joins) == 2 and plane.polls > polls)
    assert plane.reported[spec["container_id"]]["runtime_id"] == running["runtime_id"]
    marker.touch()
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 4
    assert plane.joins[0]["agent_key"] == plane.joins[1]["agent_key"]
    assert plane.joins[0]["incarnation"] != plane.joins[1]["incarnation"]


def test_incomplete_container_folders_are_removed_at_the_next_start(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    """An agent that is killed while it creates a container leaves a folder without a record."""
    agent = start_agent()
    spec = make_spec("sleep 600")
    plane.run(spec)
    agent.kill()
    containers = agent.state_dir / "containers"
    unfinished = containers / "unfinished.1"
    (unfinished / "run" / "workdir").mkdir(parents=True)
    (containers / ".check-x").mkdir()
    agent.restart()
    plane.until(lambda: len(plane.joins) == 2)
    assert [path.name for path in containers.iterdir()] == [f"{spec['container_id']}.1"]


def test_restarted_agent_reports_exit_code_and_output_of_an_ended_container(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    agent = start_agent()
    marker = tmp_path / "done"
    spec = make_spec(
        f"echo before; while [ ! -e {marker} ]; do sleep 0.05; done; echo after; exit 9"
    )
    running = plane.run(spec)
    plane.until(lambda: "before" in plane.texts("task"))
    plane.until(lambda: agent.has_noted_output_of(spec, "stdout"))
    agent.kill()
    marker.touch()
    plane.until(lambda: not _runs(int(running["runtime_id"])))
    agent.restart()
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 9
    plane.until(lambda: "after" in plane.texts("task"))
    assert plane.texts("task").count("before") == 1


def test_outage_of_the_control_plane_does_not_stop_containers(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    start_agent()
    marker = tmp_path / "done"
    spec = make_spec(f"while [ ! -e {marker} ]; do sleep 0.05; done; echo survived; exit 0")
    running = plane.run(spec)
    plane.change(lambda: setattr(plane, "outage", True))
    marker.touch()
    plane.until(lambda: not _runs(int(running["runtime_id"])))
    plane.change(lambda: setattr(plane, "outage", False))
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 0
    plane.until(lambda: "survived" in plane.texts("task"))


def test_lost_responses_do_not_start_a_container_twice(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    start_agent()
    plane.until(lambda: plane.polls)
    plane.lost_answers = 4
    marks = tmp_path / "marks"
    spec = make_spec(f"echo once >> {marks}; exit 0")
    plane.want(spec)
    plane.until_state(spec["container_id"], "terminated")
    plane.until(lambda: plane.lost_answers == 0)
    assert marks.read_text() == "once\n"


def test_agent_joins_again_if_its_token_is_unknown(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    start_agent()
    plane.until(lambda: plane.polls)
    plane.forget_agent()
    plane.change(
        lambda: plane.desired.update(wake={"spec": make_spec("true"), "desired": "killed"})
    )
    plane.until(lambda: len(plane.joins) == 2)


def test_replaced_agent_stops_but_its_containers_continue(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    agent = start_agent()
    spec = make_spec("sleep 600")
    running = plane.run(spec)
    plane.change(lambda: setattr(plane, "_incarnation", "somebody else"))
    plane.preempt(spec["container_id"])
    assert agent.process.wait(60) == 5
    assert _runs(int(running["runtime_id"]))


def test_missing_mount_source_fails_the_task(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    start_agent()
    mounts = [
        {"host_path": "/not/made/yet", "container_path": "/determined_shared_fs"},
        {"host_path": "/no/such/data", "container_path": "/data"},
    ]
    for used_mounts, message in (
        (mounts[:1], None),
        (mounts, "this machine has no /no/such/data, which"),
    ):
        spec = make_spec("true", mounts=used_mounts)
        plane.want(spec)
        report = plane.until_state(spec["container_id"], "terminated")
        assert report.get("failure") == (message and "container_failed")
        assert (message or "") in report.get("message", "")


def test_sigterm_does_not_stop_containers(plane: FakeControlPlane, start_agent: StartAgent) -> None:
    agent = start_agent()
    spec = make_spec("sleep 600")
    running = plane.run(spec)
    assert agent.stop() == 0
    assert _runs(int(running["runtime_id"]))
    assert plane.signals == []
    assert not plane.gone


def test_sigterm_with_on_stop_kill_stops_containers_and_reports_the_shutdown(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    agent = start_agent(**{"on-stop": "kill", "stop-grace": "0"})
    spec = make_spec("sleep 600")
    running = plane.run(spec)
    assert agent.stop() == 0
    assert not _runs(int(running["runtime_id"]))
    assert plane.reported[spec["container_id"]]["failure"] == "aborted"
    assert [s["kind"] for s in plane.signals] == ["shutdown"]
    assert plane.gone
    assert len(plane.joins) == 1, "the agent joined again"


def test_on_stop_kill_lets_trials_end_within_the_grace_period(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    agent = start_agent(**{"on-stop": "kill", "stop-grace": "3600"})
    may_end = tmp_path / "told"
    spec = make_spec(f"until test -e {may_end}; do sleep 0.02; done; exit 0")
    plane.run(spec)
    agent.process.terminate()
    plane.until(lambda: any(s["kind"] == "shutdown" for s in plane.signals))
    may_end.touch()
    assert agent.process.wait(60) == 0
    assert plane.reported[spec["container_id"]]["exit_code"] == 0
    assert "failure" not in plane.reported[spec["container_id"]]


def test_agent_reports_a_shutdown_of_its_machine(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    systemctl = tmp_path / "systemctl"
    systemctl.write_text("#!/bin/sh\necho stopping\nexit 1\n")
    systemctl.chmod(0o755)
    agent = start_agent({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    plane.until(lambda: plane.polls)
    assert agent.stop() == 0
    assert [s["kind"] for s in plane.signals] == ["shutdown"]


def test_two_agents_cannot_share_a_state_directory(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    first = start_agent()
    plane.until(lambda: plane.polls)
    second = start_agent(**{"state-dir": str(first.state_dir)})
    assert second.process.wait(60) == 1
    assert "belongs to a running agent" in second.log_path.read_text()
    assert first.process.poll() is None


def test_lost_connection_runs_the_hook_and_ends_the_agent(
    plane: FakeControlPlane, start_agent: StartAgent, tmp_path: Path
) -> None:
    hook = tmp_path / "hook"
    agent = start_agent(
        **{"shutdown-after-silence": "1", "hooks-on-connection-lost": f"touch {hook}"},
    )
    plane.until(lambda: plane.polls)
    plane.change(lambda: setattr(plane, "outage", True))
    assert agent.process.wait(60) == 1
    assert hook.exists()


def test_agent_with_containers_stays_despite_a_lost_connection() -> None:
    works = iter([True, True, False])

    def silent(_: object) -> None:
        raise MasterUnreachableError("nobody answers")

    containers = SimpleNamespace(
        live=lambda: next(works), reports=dict, has_unreported_ends=lambda: False
    )
    parts: Any = SimpleNamespace(
        control_plane=SimpleNamespace(join=silent), containers=containers,
        health=SimpleNamespace(out_of_service=""), proof=dict, join_request=JoinRequest("a", "k", "p"),
        silence_limit_s=1e-9,
    )  # fmt: skip
    with pytest.raises(ControlPlaneSilent):
        Loop(parts, threading.Event()).run()
    assert list(works) == [], "the loop ended before its containers"


@pytest.mark.parametrize(("silent_s", "ends"), [(86_500.0, False), (90_000.0, True)])
def test_agent_reports_an_exit_after_an_outage_of_a_day(silent_s: float, ends: bool) -> None:
    containers = SimpleNamespace(live=lambda: False, has_unreported_ends=lambda: True)
    parts: Any = SimpleNamespace(containers=containers, silence_limit_s=60.0)
    assert Loop(parts, threading.Event())._silence_is_over(silent_s) is ends


def test_container_environment_is_complete_without_the_agents_secrets(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    start_agent()
    spec = make_spec(
        [sys.executable, "-c", "import json, os; print('ENV=' + json.dumps(dict(os.environ)))"],
        env={"DET_TASK_ID": "7", "MINE": "yes", "PYTHONUSERBASE": "/run/determined/pythonuserbase"},
        slot_ids=[1],
        mounts=[
            {"host_path": "/data/a", "container_path": "/determined_shared_fs", "read_only": False}
        ],
    )
    plane.want(spec)
    line = plane.until(lambda: next((t for t in plane.texts("task") if t.startswith("ENV=")), ""))
    env: dict[str, Any] = json.loads(line.removeprefix("ENV="))
    paths = json.loads(env["DET_PATH_MAP"])
    assert env["DET_SLOT_IDS"] == "[1]"
    assert env["MINE"] == "yes"
    assert env["DET_AGENT_ID"] == "agent-1"
    assert env["DET_SESSION_TOKEN"] == spec["session_token"]
    assert env["DET_CLUSTER_ID"] == "cluster-1"
    assert env["DET_RUNTIME"] == "process"
    assert env["DET_MASTER"] == f"http://{env['DET_MASTER_HOST']}:{env['DET_MASTER_PORT']}"
    assert env["DET_RUN_DIR"] == paths["/run/determined"]
    assert env["PYTHONUSERBASE"] == f"{env['DET_RUN_DIR']}/pythonuserbase"
    assert paths["/determined_shared_fs"] == "/data/a"
    assert Path(env["PYTHONPATH"].split(":")[0], "determined").is_dir()
    assert "DET_TOKEN_FILE" not in env


def test_process_receives_preemption_from_the_gateway(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    start_agent()
    spec = make_spec([sys.executable, "-c", ASKS_FOR_PREEMPTION])
    plane.want(spec)
    plane.until(lambda: "asking" in plane.texts("task"))
    plane.preempt(spec["container_id"])
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 0
    plane.until(lambda: '{"preempt": true}' in plane.texts("task"))
    assert all("preemption" not in path for _, path, _, _ in plane.forwarded)


ASKS_FOR_PREEMPTION = """
import os, urllib.request
url = f"{os.environ['DET_MASTER']}/api/v1/allocations/{os.environ['DET_RESOURCES_ID']}.1/signals/preemption"
token = "Bearer " + os.environ["DET_SESSION_TOKEN"]
print("asking", flush=True)
request = urllib.request.Request(url + "?timeoutSeconds=60", headers={"Grpc-Metadata-x-allocation-token": token})
print(urllib.request.urlopen(request).read().decode(), flush=True)
"""


def test_gateway_keeps_its_address_after_an_agent_restart(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    agent = start_agent()
    spec = make_spec('echo "at $DET_MASTER"; sleep 600')
    plane.want(spec)
    line = plane.until(lambda: next((t for t in plane.texts("task") if t.startswith("at ")), ""))
    agent.kill()
    agent.restart()
    plane.until(lambda: len(plane.joins) == 2)
    with urllib.request.urlopen(line.removeprefix("at ") + "/api/v1/master") as answer:
        assert json.load(answer) == {"path": "/api/v1/master"}


def test_missing_command_is_reported_in_the_log(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    start_agent()
    spec = make_spec(["no-such-program"])
    plane.want(spec)
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 127
    plane.until(lambda: any("cannot run no-such-program" in text for text in plane.texts()))


def test_killed_watcher_is_an_agent_error_and_ends_the_container(
    plane: FakeControlPlane, start_agent: StartAgent
) -> None:
    agent = start_agent()
    spec = make_spec("sleep 600")
    running = plane.run(spec)
    pids = json.loads(
        (agent.state_dir / "containers" / f"{spec['container_id']}.1" / "pids.json").read_text()
    )
    os.kill(pids["shim"], signal.SIGKILL)
    assert plane.until_state(spec["container_id"], "terminated")["failure"] == "agent_error"
    plane.until(lambda: not _runs(int(running["runtime_id"])))


def test_agent_polls_a_host_that_cannot_hold_requests(
    start_agent: StartAgent, plane: FakeControlPlane
) -> None:
    plane.may_wait_s = 0.0
    start_agent()
    spec = make_spec("exit 0")
    plane.want(spec)
    assert plane.until_state(spec["container_id"], "terminated")["exit_code"] == 0


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
