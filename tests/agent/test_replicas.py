"""The agent gives trials a directory in memory, keeps it between their runs, and deletes it when it is not needed."""

import os
import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from det_agent.loop import Loop, LoopDependencies
from det_agent.process_paths import lay_out
from det_agent.replicas import PLACE, Replicas
from det_controlplane.core.agent_protocol import ContainerSpec, PollAnswer, PollRequest

from tests.support.agents import make_spec


def spec(task_id: str = "1.abc", replica_bytes: int = 1 << 20, **changes: Any) -> ContainerSpec:
    return ContainerSpec.from_json(
        make_spec("true", task_id=task_id, replica_bytes=replica_bytes, **changes)
    )


@pytest.fixture
def replicas(tmp_path: Path) -> Replicas:
    return Replicas("agent-1", tmp_path)


def test_trial_finds_the_files_of_its_earlier_run(replicas: Replicas, tmp_path: Path) -> None:
    for run in ("1", "2"):
        provided = replicas.provide(spec())
        folder = tmp_path / f"container-{run}"
        folder.mkdir()
        place = Path(lay_out(provided, folder).host(provided.env["DET_REPLICA_DIR"]))
        if run == "1":
            (place / "state.0").write_text("state")
        assert (place / "state.0").read_text() == "state"


def test_directory_is_private_to_the_tasks_user(replicas: Replicas, tmp_path: Path) -> None:
    user = {"uid": 4321, "gid": 4321, "user": "u", "group": "g"}
    mount = replicas.provide(spec(user=user)).mounts[-1]
    status = os.stat(mount.host_path)
    assert status.st_mode & 0o777 == 0o700
    assert status.st_uid == (4321 if os.geteuid() == 0 else os.geteuid())
    assert mount.container_path == PLACE


def test_task_that_asks_for_no_memory_gets_none(replicas: Replicas, tmp_path: Path) -> None:
    asked = spec(replica_bytes=0)
    assert replicas.provide(asked) == asked
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("task_id", ["../other", "a/b", ".hidden", ""])
def test_task_id_cannot_name_another_directory(
    replicas: Replicas, tmp_path: Path, task_id: str
) -> None:
    assert replicas.provide(spec(task_id)).mounts == ()
    replicas.provide(spec("1.abc"))
    replicas.drop([task_id])
    assert replicas.tasks() == ("1.abc",)


def test_machine_without_memory_starts_the_task_without_a_directory(tmp_path: Path) -> None:
    assert Replicas("agent-1", tmp_path / "missing").provide(spec()).mounts == ()


def test_agents_on_one_machine_have_separate_directories(tmp_path: Path) -> None:
    first, second = (Replicas(name, tmp_path) for name in ("agent-1", "agent-2"))
    first.provide(spec())
    assert (first.tasks(), second.tasks()) == (("1.abc",), ())


def test_dropped_directories_are_deleted_except_of_running_tasks(
    replicas: Replicas, tmp_path: Path
) -> None:
    for task_id in ("1.abc", "2.def"):
        replicas.provide(spec(task_id))
    replicas.drop(["1.abc", "2.def", "3.unknown"], running={"2.def"})
    assert replicas.tasks() == ("2.def",)
    replicas.drop(["2.def"])
    assert list(tmp_path.iterdir()) == []


class ControlPlane:
    def __init__(self, *answers: PollAnswer) -> None:
        self.answers = list(answers)
        self.sent: list[PollRequest] = []

    def poll(self, request: PollRequest) -> PollAnswer:
        self.sent.append(request)
        return self.answers.pop(0)


def loop(control_plane: ControlPlane, replicas: Replicas) -> Loop:
    parts: Any = MagicMock(control_plane=control_plane)
    parts.health.out_of_service, parts.signals.current.return_value = "", ()
    parts.join_request.incarnation, parts.has_unsent.return_value = "1", False
    parts.containers.reports.return_value, parts.containers.running_tasks.return_value = {}, set()
    return Loop(
        LoopDependencies(
            control_plane=parts.control_plane, containers=parts.containers, sessions=parts.sessions,
            signals=parts.signals, health=parts.health, join_request=parts.join_request, proof=dict,
            on_joined=parts.on_joined, pace_logs=parts.pace_logs, want_relay=parts.want_relay,
            has_unsent=parts.has_unsent, replicas=replicas,
        ),
        threading.Event(),
    )  # fmt: skip


def test_restarted_agent_deletes_directories_that_the_control_plane_names(tmp_path: Path) -> None:
    before = Replicas("agent-1", tmp_path)
    for task_id in ("1.abc", "2.def"):
        before.provide(spec(task_id))
    control_plane = ControlPlane(PollAnswer(drop_replicas=("1.abc",)), PollAnswer())
    restarted = loop(control_plane, Replicas("agent-1", tmp_path))
    for _ in range(2):
        restarted.last_report(gone=False)
    assert [poll.replicas for poll in control_plane.sent] == [("1.abc", "2.def"), ("2.def",)]
