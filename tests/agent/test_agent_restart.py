"""The next process of an agent continues where the previous one ended, also after a crash of the machine."""

import errno
import http.client
import threading
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from det_agent import identity
from det_agent.agent import Agent
from det_agent.gateway import PING_PATH
from det_agent.identity import StateDirectory
from det_agent.loop import Loop, LoopDependencies
from det_agent.process_runtime import ProcessRuntime
from det_agent.runtime import Started
from det_agent.settings import load
from det_controlplane.core.agent_protocol import JoinAnswer, JoinRequest

from tests.support.fake_controlplane import JOIN_TOKEN, FakeControlPlane

NO_ROOM = OSError(errno.ENOSPC, "No space left on device")


def test_gateway_answers_after_containers_are_adopted(
    plane: FakeControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text(JOIN_TOKEN)
    state = StateDirectory(tmp_path / "state")
    state.write("cluster_id", "cluster-1")
    options = {"master_url": plane.url, "agent_id": "agent-1", "slots": "artificial:1"}
    options |= {"container_runtime": "process", "state_dir": str(state.root)}
    agent = Agent(load(options | {"token_file": str(tmp_path / "token")}, {}))
    outcomes: list[str] = []

    def adoptable(self: ProcessRuntime, cluster_id: str) -> list[Started]:
        port = int(state.read("gateway_port"))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=0.3)
        try:
            connection.request("GET", PING_PATH)
            outcomes.append(f"answered {connection.getresponse().status}")
        except TimeoutError:
            outcomes.append("waits")
        finally:
            connection.close()
            agent.stop()
        return []

    monkeypatch.setattr(ProcessRuntime, "adoptable", adoptable)
    limit = threading.Timer(60, agent.stop)
    limit.start()
    agent.run()
    limit.cancel()
    agent._spool.close()
    agent._state._lock.close()
    assert outcomes == ["waits"]


def test_unchanged_values_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateDirectory(tmp_path)
    state.write("cluster_id", "cluster-1")

    def no_room(path: Path, value: str | bytes) -> None:
        raise NO_ROOM

    monkeypatch.setattr(identity, "write_atomically", no_room)
    state.write("cluster_id", "cluster-1")
    with pytest.raises(OSError, match="No space"):
        state.write("cluster_id", "cluster-2")
    assert state.read("cluster_id") == "cluster-1"


def test_agent_retries_to_store_the_cluster_id_before_it_joins() -> None:
    cluster_ids: list[str] = []
    tries = iter([NO_ROOM, NO_ROOM, None])

    def note(answer: JoinAnswer) -> None:
        if (failure := next(tries)) is not None:
            raise failure
        cluster_ids.append(answer.cluster_id)
        loop.stop()

    plane = MagicMock()
    plane.join.return_value = JoinAnswer("token", "cluster-1", "master-1")
    dependencies = MagicMock(
        spec_set=[*LoopDependencies.__dataclass_fields__],
        control_plane=plane,
        join_request=JoinRequest("agent-1", "key", "i"),
        on_joined=note,
        silence_limit_s=0.0,
    )
    dependencies.health.out_of_service = ""
    dependencies.proof = dict
    loop = Loop(dependencies, threading.Event())
    loop.run()
    assert cluster_ids == ["cluster-1"]
