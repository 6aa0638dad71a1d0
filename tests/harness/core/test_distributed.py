import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from determined.core import _distributed, _star, _wire

from tests.support.fake_master import FakeMaster
from tests.support.ports import free_port

TrialEnv = Callable[..., dict[str, str]]


def run_workers(
    env: dict[str, str], code: str, shape: list[tuple[int, int]], size: int, options: str = ""
) -> list[subprocess.CompletedProcess[str]]:
    """Run one process for each (cross_rank, local_rank). Each has a context named `d`."""
    ports = f"pub_port={free_port()}, pull_port={free_port()}"
    crosses = len({cross for cross, _ in shape})
    processes = []
    for rank, (cross, local) in enumerate(shape):
        local_size = sum(c == cross for c, _ in shape)
        head = (
            "import json\nfrom determined import core\n"
            f"d = core.DistributedContext(rank={rank}, size={size}, local_rank={local}, "
            f"local_size={local_size}, cross_rank={cross}, cross_size={crosses}, "
            f"chief_ip='127.0.0.1', {ports}{options})\n"
        )
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", head + code],
                env={**os.environ, **env},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    outputs = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        outputs.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    return outputs


TWO_NODES = [(0, 0), (0, 1), (1, 0), (1, 1)]


def results(processes: list[subprocess.CompletedProcess[str]]) -> list[Any]:
    assert [p.returncode for p in processes] == [0] * len(processes), [p.stderr for p in processes]
    return [json.loads(p.stdout) for p in processes]


def test_gather_and_broadcast_globally_and_per_container(
    trial_env: TrialEnv,
) -> None:
    code = (
        "print(json.dumps([d.gather(d.rank), d.allgather(d.rank), d.broadcast(d.rank), "
        "d.gather_local(d.rank), d.allgather_local(d.rank), d.broadcast_local(d.rank)]))"
    )
    values = results(run_workers(trial_env(), code, TWO_NODES, 4))
    everyone = [0, 1, 2, 3]
    assert values == [
        [everyone, everyone, 0, [0, 1], [0, 1], 0],
        [None, everyone, 0, None, [0, 1], 0],
        [None, everyone, 0, [2, 3], [2, 3], 2],
        [None, everyone, 0, None, [2, 3], 2],
    ]


def test_containers_on_one_host_can_use_tcp(trial_env: TrialEnv) -> None:
    code = "print(json.dumps([d.allgather(d.rank), d.allgather_local(d.rank)]))"
    values = results(run_workers(trial_env(), code, TWO_NODES, 4, ", force_tcp=True"))
    everyone = [0, 1, 2, 3]
    assert values == [[everyone, here] for here in ([0, 1], [0, 1], [2, 3], [2, 3])]


def test_gathered_values_keep_their_types(trial_env: TrialEnv) -> None:
    code = (
        "v = [(1, 'a'), {2: {3}}, b'x', 1.5, None]\n"
        "print(json.dumps([repr(g) for g in d.allgather(v)]))"
    )
    values = results(run_workers(trial_env(), code, [(0, 0), (0, 1)], 2))
    assert values[0] == values[1] == [repr([(1, "a"), {2: {3}}, b"x", 1.5, None])] * 2


def test_workers_detect_death_of_another_worker(trial_env: TrialEnv) -> None:
    code = "import os\nif d.rank == 1: os._exit(1)\nd.allgather(1)"
    processes = run_workers(trial_env(), code, [(0, 0), (0, 1), (0, 2)], 3)
    assert all(p.returncode != 0 for p in processes)
    assert "PeerLost" in processes[0].stderr
    assert "PeerLost" in processes[2].stderr


SHARDED = """
import os, pathlib, determined, logging
with core.init(distributed=d) as context:
    meta = {"steps_completed": 3, f"rank{d.rank}": d.rank}
    with context.checkpoint.store_path(meta, shard=True) as (path, storage_id):
        (path / f"shard-{d.rank}").write_text("x" * (d.rank + 1))
        (path / "common").mkdir()
    with context.checkpoint.restore_path(storage_id) as path:
        print(json.dumps([storage_id, sorted(p.name for p in path.iterdir())]))
"""


def test_sharded_checkpoint_has_files_of_all_ranks(master: FakeMaster, trial_env: TrialEnv) -> None:
    env = trial_env(DET_SLOT_IDS="[0,1]")
    ids = results(run_workers(env, SHARDED, TWO_NODES, 4))
    names = ["common", "metadata.json", *(f"shard-{n}" for n in range(4))]
    assert [f[1] for f in ids] == [names] * 4
    reports = master.saved()
    assert len(reports) == 1
    body = reports[0].body
    assert body["uuid"] == ids[0][0]
    assert body["metadata"] == {"steps_completed": 3, **{f"rank{n}": n for n in range(4)}}
    sizes = {k: v for k, v in body["resources"].items() if k != "metadata.json"}
    assert sizes == {"common/": "0", **{f"shard-{n}": str(n + 1) for n in range(4)}}


ONE_DIRECTORY = """
import os, pathlib
folder = pathlib.Path(os.environ["FOLDER"])
with core.init(distributed=d) as context:
    storage_id = context.checkpoint.upload(folder, {"steps_completed": 1}, shard=True)
    with context.checkpoint.restore_path(storage_id) as path:
        print(json.dumps((path / "w").read_text()))
"""


def test_workers_can_save_one_directory_together(
    master: FakeMaster, trial_env: TrialEnv, tmp_path: Path
) -> None:
    (tmp_path / "w").write_text("weights")
    env = trial_env(DET_SLOT_IDS="[0,1]", FOLDER=str(tmp_path))
    assert results(run_workers(env, ONE_DIRECTORY, TWO_NODES, 4)) == ["weights"] * 4
    (report,) = master.saved()
    assert report.body["resources"]["w"] == "7"


EQUAL = """
import tempfile, pathlib
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "same").write_text("equal")
with core.init(distributed=d) as context:
    storage_id = context.checkpoint.upload(folder, {"steps_completed": 1}, shard=True)
    with context.checkpoint.restore_path(storage_id) as path:
        print(json.dumps((path / "same").read_text()))
"""


def test_equal_files_of_several_ranks_are_stored_once(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    ids = results(run_workers(trial_env(DET_SLOT_IDS="[0,1]"), EQUAL, [(0, 0), (0, 1)], 2))
    assert ids == ["equal"] * 2


CONFLICT = """
import tempfile, pathlib
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "same").write_text(str(d.rank))
with core.init(distributed=d) as context:
    try:
        context.checkpoint.upload(folder, {"steps_completed": 1}, shard=True)
    except Exception as e:
        print(json.dumps([type(e).__name__, "same" in str(e)]))
    selected = lambda path: d.rank == 0
    context.checkpoint.upload(folder, {"steps_completed": 1}, shard=True, selector=selected)
"""


def test_selector_resolves_conflict_of_different_files_with_same_name(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    env = trial_env(DET_SLOT_IDS="[0,1]")
    outcomes = results(run_workers(env, CONFLICT, [(0, 0), (0, 1)], 2))
    assert outcomes == [["CheckpointConflict", True]] * 2
    assert len(master.saved()) == 1


def test_workers_follow_the_chiefs_preemption(master: FakeMaster, trial_env: TrialEnv) -> None:
    master.preempt.set()
    code = (
        "with core.init(distributed=d) as context:\n"
        "    print(json.dumps(context.preempt.should_preempt()))"
    )
    outcomes = results(run_workers(trial_env(DET_SLOT_IDS="[0,1]"), code, [(0, 0), (0, 1)], 2))
    assert outcomes == [True, True]
    assert len(master.received("POST", r".*ack_preemption")) == 1
    assert len(master.received("GET", r".*signals/preemption")) == 1


def test_every_rank_reports_metrics_but_only_chief_reports_progress(
    master: FakeMaster, trial_env: TrialEnv
) -> None:
    code = (
        "with core.init(distributed=d) as context:\n"
        "    context.train.report_metrics(f'rank{d.rank}', 1, {'x': 1})\n"
        "    try:\n"
        "        context.train.report_progress(0.5)\n"
        "        print('true')\n"
        "    except RuntimeError as e:\n"
        "        print(json.dumps('only the chief' in str(e) and 'refused'))\n"
    )
    outcomes = results(run_workers(trial_env(DET_SLOT_IDS="[0,1]"), code, [(0, 0), (0, 1)], 2))
    assert outcomes == [True, "refused"]
    reports = master.received("POST", "/api/v1/trials/7/metrics")
    assert sorted(report.body["group"] for report in reports) == ["rank0", "rank1"]


def test_context_connects_workers_of_the_launcher(
    master: FakeMaster, trial_env: TrialEnv, tmp_path: Path
) -> None:
    env = trial_env(
        DET_SLOT_IDS="[0,1]",
        C10D_PORT=str(free_port()),
        INTER_TRAIN_PROCESS_COMM_PORT_1=str(free_port()),
    )
    info = Path(env["DET_RUN_DIR"]) / "info"
    info.mkdir(parents=True)
    peers = {
        "container_addrs": ["127.0.0.1"],
        "container_rank": 0,
        "container_slot_counts": [2],
    }
    (info / "rendezvous.json").write_text(json.dumps(peers))
    code = (
        "from determined import core\n"
        "with core.init(distributed=core.DistributedContext.from_torch_distributed()) as c:\n"
        "    print(c.distributed.allgather(c.distributed.rank))\n"
    )
    (tmp_path / "train.py").write_text(code)
    result = subprocess.run(
        [sys.executable, "-m", "determined.launch.torch_distributed", str(tmp_path / "train.py")],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["[rank=0] [0, 1]", "[rank=1] [0, 1]"]


def pair(server_key: bytes, client_key: bytes) -> tuple[_wire.Channel, _wire.Channel]:
    own_end, other_end = socket.socketpair()
    server: list[_wire.Channel] = []
    thread = threading.Thread(
        target=lambda: server.append(_wire.Channel(own_end, server_key, is_server=True))
    )
    thread.start()
    client = _wire.Channel(other_end, client_key, is_server=False)
    thread.join()
    return server[0], client


def test_message_with_wrong_key_is_not_unpickled() -> None:
    server, client = pair(b"right", b"wrong")
    client.send(("would be pickled",))
    with pytest.raises(_wire.PeerLost, match="not signed"):
        server.receive()
    server.close()
    client.close()


def test_rejects_replayed_message() -> None:
    own_end, other_end = socket.socketpair()
    threading.Thread(target=lambda: other_end.sendall(b"n" * 16)).start()
    client = _wire.Channel(own_end, b"key", is_server=False)
    payload = b"1"
    mac = hmac.new(b"key", b"n" * 16 + b"S" + b"J" + bytes(8) + payload, hashlib.sha256).digest()
    frame = _wire._HEAD.pack(len(payload), mac, b"J") + payload
    other_end.sendall(frame + frame)
    assert client.receive() == 1
    with pytest.raises(_wire.PeerLost):
        client.receive()
    client.close()
    other_end.close()


def test_unauthenticated_connections_do_not_take_a_workers_place() -> None:
    port = free_port()
    centre = _star.Centre(2, b"key", ("127.0.0.1", port))
    stranger = socket.create_connection(("127.0.0.1", port))
    stranger.sendall(b"GET / HTTP/1.1\r\n" + b"x" * 200)
    stranger.close()
    spokes: list[_star.Spoke] = []
    thread = threading.Thread(
        target=lambda: spokes.append(_star.Spoke(1, b"key", ("127.0.0.1", port)))
    )
    thread.start()
    centre.accept_all(60)
    thread.join()
    spokes[0].gather("mine")
    assert centre.gather("centre") == ["centre", "mine"]
    centre.close()
    spokes[0].close()


def test_worker_reports_foreign_server_at_the_chiefs_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = silent.getsockname()
        with pytest.raises(TimeoutError, match="something else listens there"):
            _star.Spoke(1, b"key", address, timeout_s=0.2)


def test_timeout_names_missing_workers() -> None:
    centre = _star.Centre(3, b"key", ("127.0.0.1", free_port()))
    with pytest.raises(TimeoutError, match=r"\[1, 2\]"):
        centre.accept_all(0.05)
    centre.close()


def test_containers_authenticate_with_peer_key_instead_of_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = []
    for token in ("one", "another"):
        env = {"DET_SESSION_TOKEN": token, "DET_PEER_KEY": "common"}
        monkeypatch.setattr(_distributed, "task_environment", lambda env=env: env)
        keys.append(_distributed.peer_key())
    assert keys == [b"common", b"common"]


@pytest.mark.parametrize(
    ("task", "rank"), [({"type": "chief", "index": 0}, 0), ({"type": "worker", "index": 1}, 2)]
)
def test_tf_config_chief_has_lower_rank_than_workers(
    monkeypatch: pytest.MonkeyPatch, task: dict[str, Any], rank: int
) -> None:
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    workers = _distributed.tf_workers_of_environment()
    assert (workers.rank, workers.addresses) == (rank, ["a:1", "b:1", "c:1"])
