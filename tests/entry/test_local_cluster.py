"""`det deploy local` starts a whole cluster with one command and restarts its failed parts."""

import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from det_controlplane.db.engine.database import Database
from det_controlplane.entry.local import certificate, client
from det_controlplane.entry.local.commands import main
from det_controlplane.entry.local.files import LocalFiles, default_folder
from sqlalchemy import text

from tests.support.ports import free_port
from tests.support.processes import alive, eventually

pytestmark = pytest.mark.slow


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.files = LocalFiles(folder)
        self.port = free_port()

    def do(self, action: str, **flags: Any) -> int:
        return main(action, Namespace(data_dir=str(self.files.folder), **flags))

    def up(self, **flags: Any) -> int:
        defaults: dict[str, Any] = {
            "agents": 1,
            "slots_per_agent": 2,
            "master_port": self.port,
            "initial_user_password": "",
            "container_runtime": "process",
        }
        return self.do("cluster-up", **{**defaults, **flags})

    def kill(self) -> None:
        """End the cluster as a crash of the machine does."""
        pids = [self.files.supervisor_pid(), *self.files.report()["processes"].values()]
        for pid in filter(None, pids):
            os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not any(alive(pid) for pid in pids if pid))

    def pid(self, name: str) -> int:
        return int(self.files.report().get("processes", {}).get(name) or 0)

    def get(self, path: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


def _signs_in(cluster: Cluster, name: str, password: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port, timeout=30)
    body = json.dumps({"username": name, "password": password, "isHashed": False})
    try:
        connection.request("POST", "/api/v1/auth/login", body)
        return connection.getresponse().status == 200
    finally:
        connection.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "data")
    yield cluster
    if cluster.files.has_cluster():
        cluster.do("cluster-down")


def test_up_starts_agents_and_down_ends_all_processes(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.up(agents=2) == 0
    output = capsys.readouterr().err
    assert f"http://127.0.0.1:{cluster.port}" in output
    assert "determined-agent-1: 2 slots in pool default" in output
    assert cluster.get("/health")[0] == 200
    assert cluster.do("status") == 0
    pids = [p for p in cluster.files.report()["processes"].values() if p]
    assert len(pids) == 4
    assert cluster.do("cluster-down") == 0
    assert not any(alive(pid) for pid in pids)
    assert cluster.do("status") == 3


def test_status_warns_about_a_nearly_full_disk(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cluster.up(agents=0) == 0
    for free, sentence in ((3 << 30, "3.0 GiB free\n"), (1 << 30, "1.0 GiB free: nearly full")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        capsys.readouterr()
        assert cluster.do("status") == 0
        assert f"disk      {sentence}" in capsys.readouterr().out


def test_data_survives_a_restart_and_is_deleted_on_request(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.up(agents=0) == 0
    assert cluster.do("cluster-up", slots_per_agent=4, host=None) == 0
    output = "".join(capsys.readouterr())
    assert "--slots-per-agent changes nothing while it runs: `cluster-down` first" in output
    before = cluster.get("/info")[1]["cluster_id"]
    cluster.do("cluster-down")
    assert cluster.do("cluster-up") == 0
    assert cluster.get("/info")[1]["cluster_id"] == before
    capsys.readouterr()
    cluster.do("cluster-down", delete_db=True)
    warning = "warning: --delete-db deletes the database: 0 experiments, 0 records of checkpoints and 2 users"
    lines = capsys.readouterr().err.splitlines()
    assert warning in lines
    assert lines.index(warning) < len(lines) - 1, "the warning comes before the deletion"
    assert cluster.up(agents=0) == 0
    assert cluster.get("/info")[1]["cluster_id"] != before


def test_killed_api_server_is_restarted_and_requests_wait(cluster: Cluster) -> None:
    assert cluster.up(agents=0) == 0
    first = cluster.pid("api")
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: cluster.pid("api") not in (0, first))
    assert cluster.get("/info")[0] == 200


def test_killed_database_is_restarted_with_its_data(cluster: Cluster) -> None:
    assert cluster.up(agents=0) == 0
    before = cluster.get("/info")[1]["cluster_id"]
    os.kill(cluster.pid("postgres"), signal.SIGKILL)
    assert eventually(lambda: cluster.get("/health")[0] == 200)
    assert cluster.get("/info")[1]["cluster_id"] == before


def test_crashed_database_is_restarted_with_its_data(cluster: Cluster) -> None:
    assert cluster.up(agents=0) == 0
    server, before = cluster.pid("postgres"), cluster.get("/info")[1]["cluster_id"]
    result = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(server)], capture_output=True, text=True, check=True
    )
    os.kill(int(result.stdout.split()[0]), signal.SIGKILL)
    assert eventually(lambda: cluster.pid("postgres") not in (0, server)), (
        "a crashed server may not end"
    )
    assert eventually(lambda: cluster.get("/health")[0] == 200)
    assert cluster.get("/info")[1]["cluster_id"] == before


def test_status_reports_an_unresponsive_api(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.up(agents=0) == 0
    api = cluster.pid("api")
    capsys.readouterr()
    os.kill(api, signal.SIGSTOP)
    try:
        assert cluster.do("status") == 1
    finally:
        os.kill(api, signal.SIGCONT)
    output = capsys.readouterr().out
    assert (
        f"state     not available: the API (process {api}) does not answer within 2 s\n" in output
    )
    assert f"next      see {cluster.files.log('api')}\n" in output
    assert f"next      `kill -9 {api}` restarts the API" in output
    assert eventually(lambda: cluster.do("status") == 0)


def test_cluster_starts_again_after_its_supervisor_was_killed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.up() == 0
    api, agent = cluster.pid("api"), cluster.pid("agent-determined-agent-0")
    supervisor = cluster.files.supervisor_pid()
    assert supervisor is not None
    os.kill(api, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    assert eventually(lambda: cluster.files.supervisor_pid() is None)
    capsys.readouterr()
    assert cluster.do("status") == 3
    output = capsys.readouterr().out
    assert "state     down: its supervisor ended, 2 processes of it still run\n" in output
    assert f"process   api {api}\n" in output
    assert f"process   agent-determined-agent-0 {agent}\n" in output
    place = f"--data-dir {cluster.files.folder}"
    assert f"next      `det deploy local cluster-up {place}` starts the cluster again" in output
    assert cluster.do("cluster-up") == 0
    assert not alive(api)
    assert not alive(agent), "a new agent has the same identity"
    assert alive(cluster.pid("agent-determined-agent-0"))


def test_interrupted_start_stops_all_processes_and_the_next_prints_the_password(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(client, "wait_until_joined", interrupt)
        assert cluster.up(agents=0, initial_user_password=None) == 130
    assert cluster.files.supervisor_pid() is None
    assert "the same command starts it" in capsys.readouterr().err
    assert cluster.up(agents=0, initial_user_password=None) == 0
    output = capsys.readouterr().err
    password = output.split("users admin and determined have the password: ")[1].split()[0]
    assert _signs_in(cluster, "admin", password)
    assert cluster.do("cluster-up") == 0
    assert password not in capsys.readouterr().err, "the password is printed only once"


def test_next_start_prints_a_password_that_was_not_printed(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.up(agents=0, initial_user_password="given") == 0
    # The state after a command that was killed once the cluster was up.
    cluster.files.store_unprinted_password("untold")
    assert cluster.do("cluster-up") == 0
    assert "have the password: untold" in capsys.readouterr().err


def test_up_lists_only_current_agents(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "given.yaml"
    two = "local_agents: [{name: big, pool: old, slots: 2}, {name: left, pool: old, slots: 1}]"
    config.write_text(f"{_pool('old')}{two}")
    assert cluster.up(master_config_path=str(config)) == 0
    config.write_text(f"{_pool('new')}local_agents: [{{name: big, pool: new, slots: 2}}]")
    for stop in (cluster.kill, lambda: cluster.do("cluster-down")):
        stop()
        capsys.readouterr()
        assert cluster.up(master_config_path=str(config)) == 0
        output = capsys.readouterr().err
        assert "big: 2 slots in pool new" in output
        assert "left" not in output


def _pool(name: str) -> str:
    defaults = ("default_compute_resource_pool", "default_aux_resource_pool")
    chosen_text = ", ".join(f"{default}: {name}" for default in defaults)
    return f"resource_pools: [{{pool_name: {name}}}]\nresource_manager: {{{chosen_text}}}\n"


def test_agents_can_be_added_and_removed_while_the_cluster_runs(cluster: Cluster) -> None:
    assert cluster.up(agents=0) == 0
    flags = {"agent_name": "late", "slots_per_agent": 3, "container_runtime": "process"}
    assert cluster.do("agent-up", master_host="localhost", **flags) == 0
    late = cluster.pid("agent-late")
    assert alive(late)
    assert cluster.do("agent-down", agent_name="late") == 0
    assert eventually(lambda: not alive(late))
    assert cluster.do("agent-down", agent_name="late") == 3


def test_port_in_use_is_reported_with_a_hint(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", cluster.port)):
        assert cluster.up(agents=0) == 1
    assert "choose another --master-port" in capsys.readouterr().err
    assert cluster.files.supervisor_pid() is None


def test_failed_first_start_leaves_no_folder(cluster: Cluster) -> None:
    assert cluster.up(host="0.0.0.0") == 1  # which takes a password
    with socket.create_server(("127.0.0.1", cluster.port)):
        assert cluster.up(agents=0) == 1
    assert not cluster.files.folder.exists()


def test_failed_start_keeps_the_folder_of_an_earlier_cluster(cluster: Cluster) -> None:
    cluster.files.make()
    with socket.create_server(("127.0.0.1", cluster.port)):
        assert cluster.up(agents=0) == 1
    assert cluster.files.has_cluster()


def test_missing_cluster_error_lists_running_clusters(
    cluster: Cluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    cluster.files = LocalFiles(default_folder("fresh"))
    assert cluster.up(agents=0) == 0
    capsys.readouterr()
    assert main("status", Namespace()) == 3
    assert "; running are: fresh (--cluster-name fresh)" in capsys.readouterr().err
    assert cluster.do("cluster-down") == 0
    assert main("status", Namespace()) == 3
    assert "running are" not in capsys.readouterr().err


def test_agent_that_does_not_join_is_reported_with_its_log(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = cluster.files.log("agent-determined-agent-0")
    log_has_the_reason = TimeUntil(lambda: "nonsense" in client.tail(log))
    wait_until_joined = client.wait_until_joined

    def wait_until_reason_is_logged(*arguments: Any) -> Any:
        monkeypatch.setattr(client, "time", log_has_the_reason)
        return wait_until_joined(*arguments)

    monkeypatch.setattr(client, "wait_until_joined", wait_until_reason_is_logged)
    assert cluster.up(container_runtime="nonsense") == 1
    output = capsys.readouterr().err
    assert "agent determined-agent-0 did not join" in output
    assert "nonsense" in output
    assert cluster.files.supervisor_pid() is None


class TimeUntil:
    """Begins at 0 and stands still until something has happened; then all time is over."""

    def __init__(self, happened: Callable[[], bool]) -> None:
        self._happened = happened
        self._now = 0.0

    def monotonic(self) -> float:
        now, self._now = self._now, 1e9 if self._happened() else 0.0
        return now

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (
            "UPDATE alembic_version SET version_num = '9999'",
            "the database is at revision 9999",
        ),
        (
            "UPDATE alembic_version SET version_num = '0113'",
            "the database was made by a draft of 0.1.0",
        ),
    ],
    ids=["newer", "draft"],
)
def test_unusable_database_is_reported_immediately(
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    spoil: str,
    reason: str,
) -> None:
    database = Database(database_url)
    with database.begin() as tx:
        tx.execute(text(spoil))
    database.dispose()
    patience_s = 300.0
    monkeypatch.setattr(client, "_UP_S", patience_s)
    start_time = time.monotonic()
    assert cluster.up(agents=0, db=database_url) == 1
    assert time.monotonic() - start_time < patience_s, "the command waited until its time limit"
    assert f"cannot be used: {reason}" in capsys.readouterr().err
    assert cluster.files.supervisor_pid() is None


def test_public_cluster_uses_https_and_its_agents_trust_it(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.up(host="0.0.0.0", initial_user_password="Long-enough-1") == 0
    output = capsys.readouterr().err
    assert f"DET_MASTER=https://127.0.0.1:{cluster.port}" in output
    assert "determined-agent-0: 2 slots" in output
    shown_certificate = ssl.get_server_certificate(("127.0.0.1", cluster.port))
    assert shown_certificate.split() == cluster.files.tls_cert.read_text().split()
    assert certificate.fingerprint(cluster.files.tls_cert) in output
    with pytest.raises((OSError, http.client.HTTPException)):
        cluster.get("/health")


def test_remote_agent_joins_with_the_certificate_fingerprint(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cluster.up(host="0.0.0.0", initial_user_password="Long-enough-1", agents=0) == 0
    monkeypatch.setenv("DET_BOOTSTRAP_TOKEN", cluster.files.token.read_text().strip())
    other_folder = str(tmp_path / "elsewhere")
    agent = Namespace(
        data_dir=other_folder,
        master_host="127.0.0.2",  # no name in the certificate, which is known by its fingerprint
        master_port=cluster.port,
        master_cert_sha256=certificate.fingerprint(cluster.files.tls_cert),
        agent_name="far",
        slots_per_agent=1,
        container_runtime="process",
    )
    try:
        assert main("agent-up", agent) == 0
        (joined_agent,) = client.wait_until_joined(cluster.files, {"far"})
        assert joined_agent["slots"] == 1
    finally:
        main("cluster-down", Namespace(data_dir=other_folder))
