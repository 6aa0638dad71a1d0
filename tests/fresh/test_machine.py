"""The promises of `scripts/fresh-machine`: an empty machine at the begin, and no leftovers at the end."""

import signal
from pathlib import Path

import pytest

from tests.support.fresh import fresh_machine, requires_root, start_on_fresh_machine

pytestmark = requires_root


def test_exit_code_is_the_exit_code_of_the_command(tmp_path: Path) -> None:
    assert fresh_machine("sh", "-c", "exit 7", folder=tmp_path).returncode == 7
    assert list(tmp_path.iterdir()) == []


def test_machine_has_no_files_variables_or_bridge_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_MASTER", "http://127.0.0.1:9")
    folder = tmp_path / "mine"
    folder.touch()
    script = f"""
        test ! -e {folder} && test -z "$DET_MASTER" && test ! -e ~/.cache && test -e Makefile
        test -z "$(find /home /var/lib/docker /run/docker* -mindepth 1 2>/dev/null)"
        test "$(ls /sys/class/net | sort | xargs)" = "lo tap0"
    """
    result = fresh_machine("sh", "-exc", script, folder=tmp_path)
    assert result.returncode == 0, result.stderr


def test_changes_of_system_files_stay_in_the_machine(tmp_path: Path) -> None:
    name = f"usr/local/bin/of-{tmp_path.name}"
    assert fresh_machine("touch", f"/{name}", folder=tmp_path).returncode == 0
    assert not Path("/", name).exists()


def test_machine_can_have_no_docker_and_an_unprivileged_user(tmp_path: Path) -> None:
    script = "command -v docker dockerd containerd; id -un; touch ~/mine /usr/bin/theirs"
    options = ("--without-docker", "--not-root")
    result = fresh_machine("sh", "-c", script, options=options, folder=tmp_path)
    assert result.stdout == "fresh\n"
    assert "/usr/bin/theirs" in result.stderr
    assert "mine" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopping_the_script_ends_the_machine_and_removes_its_folder(
    tmp_path: Path, number: signal.Signals
) -> None:
    fresh_machine("true", folder=tmp_path)  # skips this test if machines cannot be made here
    process = start_on_fresh_machine("sh", "-c", "echo up; exec sleep 1000", folder=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    (folder,) = tmp_path.iterdir()
    process.send_signal(number)
    # The output ends when no process of the machine, nor the one that cleans up, holds it any more.
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert not folder.exists()
    assert list(Path("/sys/fs/cgroup").glob(f"*/{folder.name}")) == []
