"""Missing programs are installed when a task starts. The tests use the real pip, with a folder of wheels as index."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from determined.exec import _install, _serve, shell

from tests.support.ports import free_port
from tests.support.wheels import write_installed, write_wheel

ROOT = Path(__file__).resolve().parents[2]
# JupyterLab in the index depends on a package of the image. The index has a newer version of that package.
SERVER = "import helper, array_math; print('serves with', helper.NAME, array_math.VERSION)"
INSTALL = """
import sys
from determined.exec import _install, _serve
def main():
    python = _install.interpreter(_install.JUPYTERLAB)
    print(python, flush=True)
    return 0
sys.exit(_serve.run(main))
"""
SENTENCE = (
    "JupyterLab is not installed in image team/a:1{}: choose an image that has it (environment.image),"
    " install it in yours (pip install jupyterlab), or let a startup-hook.sh in the context do so"
)


class Image:
    """A Python without JupyterLab, with one package of its own, and the index for pip."""

    def __init__(self, folder: Path) -> None:
        self.site, self.index, self.run_dir = (folder / n for n in ("site-packages", "i", "run"))
        self.run_dir.mkdir()
        write_installed(self.site, "array_math", "1.0", {"array_math.py": "VERSION = '1.0'\n"})
        # pip leaves such a folder if it cannot remove a package.
        (self.site / "~rray_math-0.9.dist-info").mkdir()
        write_wheel(self.index, "array_math", "2.0", {"array_math.py": "VERSION = '2.0'\n"})
        write_wheel(self.index, "helper", "3.1", {"helper.py": "NAME = 'helper'\n"})

    def offer_jupyterlab(self, *requires: str) -> None:
        version = re.findall(r"==([\d.]+)", _install.JUPYTERLAB.requirements[0])[0]
        write_wheel(self.index, "jupyterlab", version, {"jupyterlab/__main__.py": SERVER}, requires)

    def start(self, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run the first step of a notebook task."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PIP_")
        }
        index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index)}
        task = {"DET_RUNTIME": "docker", "DET_IMAGE": "team/a:1", "DET_RUN_DIR": str(self.run_dir)}
        python = {"PYTHONPATH": f"{ROOT / 'harness'}:{self.site}", "PYTHONNOUSERSITE": "1"}
        every = {**environment, "PIP_CONFIG_FILE": os.devnull, **index, **task, **python, **env}
        return subprocess.run(
            [sys.executable, "-c", INSTALL], env=every, capture_output=True, text=True, check=False
        )

    def serve(self, python: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(self.site)}
        command = [python, "-m", "jupyterlab"]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    def files(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.site))
            for path in self.site.rglob("*")
            if "__pycache__" not in path.parts
        )


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


def test_missing_program_is_installed_without_changing_the_image(image: Image) -> None:
    image.offer_jupyterlab("helper", "array_math>=1.0")
    before = image.files()
    result = image.start()
    assert result.returncode == 0, result.stderr
    assert image.serve(result.stdout.strip()) == "serves with helper 1.0\n"
    assert image.files() == before
    announcement, completion = result.stderr.splitlines()
    assert announcement == ("JupyterLab is not installed in image team/a:1: installing it with pip")
    assert re.fullmatch(
        r"installed JupyterLab in \d+ s; an image that has it starts without this", completion
    )


def test_does_not_install_program_that_conflicts_with_the_image(
    image: Image,
) -> None:
    image.offer_jupyterlab("array_math>=2.0")
    before = image.files()
    result = image.start()
    assert result.returncode == 80
    sentence = (image.run_dir / "exit-reason").read_text()
    assert sentence == result.stderr.splitlines()[-1]
    assert "conflicting dependencies" in sentence
    assert re.search("installed here: array[-_]math==1.0", sentence)
    assert sentence.endswith(SENTENCE.format("").rpartition(": ")[2])
    assert image.files() == before


def test_reason_names_unreachable_package_index(image: Image) -> None:
    index_url = f"http://127.0.0.1:{free_port()}/simple"
    result = image.start(PIP_NO_INDEX="0", PIP_FIND_LINKS="", PIP_INDEX_URL=index_url)
    assert result.returncode == 80
    reason = ", and installing it failed (the package index cannot be reached)"
    assert (image.run_dir / "exit-reason").read_text() == SENTENCE.format(reason)


def test_reason_names_missing_package(image: Image) -> None:
    result = image.start()
    assert result.returncode == 80
    assert "Could not find a version that satisfies the requirement jupyterlab" in result.stderr


def test_pip_target_settings_have_no_effect(image: Image, tmp_path: Path) -> None:
    image.offer_jupyterlab("helper")
    environment = {"PIP_TARGET": str(tmp_path / "other"), "PIP_USER": "1"}
    result = image.start(**environment)
    assert result.returncode == 0, result.stderr
    assert image.serve(result.stdout.strip()).startswith("serves with helper")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("value", ["0", "false"])
def test_setting_disables_the_installation(image: Image, value: str) -> None:
    image.offer_jupyterlab("helper")
    result = image.start(DET_INSTALL_MISSING=value)
    assert (result.returncode, result.stderr) == (80, SENTENCE.format("") + "\n")
    assert not (image.run_dir / "programs").exists()


def test_installed_program_is_used_directly(image: Image) -> None:
    write_installed(image.site, "jupyterlab", "4.0", {"jupyterlab/__main__.py": SERVER})
    result = image.start()
    assert (result.stdout.strip(), result.stderr) == (sys.executable, "")
    assert not (image.run_dir / "programs").exists()


@pytest.mark.parametrize("runtime", ["docker", "process"])
def test_pip_cache_is_used_only_for_process_tasks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runtime: str
) -> None:
    """A container's cache would use disk space until the container ends."""
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], env: object) -> "subprocess.CompletedProcess[str]":
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(_install, "_run", run)
    monkeypatch.setenv("DET_RUNTIME", runtime)
    monkeypatch.setenv("DET_RUN_DIR", str(tmp_path))
    _install.interpreter(_install.Program("no_such_module", "Nothing", ("nothing==1",)))
    ((*words,),) = commands
    assert ("--no-cache-dir" in words) == (runtime == "docker")


def test_versions_equal_those_of_the_task_image() -> None:
    """The versions are tested together, so both files must have the same ones."""
    pinned = (ROOT / "images/requirements.txt").read_text().splitlines()
    for program in (_install.JUPYTERLAB, _install.TENSORBOARD):
        assert program.requirements[0].partition(";")[0] in pinned


APT = """#!/bin/sh
# Arguments and answers of apt-get: it reports what it would replace with the installed version in brackets.
case "$*" in
*update*) [ -z "$NO_NETWORK" ] || { echo "E: Failed to fetch http://deb.example.org/InRelease  Could not resolve" \\
        "'deb.example.org'" >&2; exit 100; } ;;
*--simulate*install*openssh-server*)
    echo "Inst openssh-client [1:9.2] (1:9.3 Debian:12 [amd64])"
    [ -z "$REPLACES" ] || echo "Inst $REPLACES [3.0.1] (3.0.2 Debian:12 [amd64])"
    echo "Inst openssh-server (1:9.3 Debian:12 [amd64])" ;;
*install*--no-remove*openssh-server*)
    for name in sshd ssh-keygen; do printf '#!/bin/sh\\n' > "$PLACE/$name"; chmod +x "$PLACE/$name"; done ;;
*) echo "E: Invalid operation" >&2; exit 100 ;;
esac
"""


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up a Debian image without OpenSSH, in which the task is root."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "apt-get").write_text(APT)
    (place / "apt-get").chmod(0o755)
    for name in ("chmod", "sh"):
        (place / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setenv("PLACE", str(place))
    monkeypatch.setenv("DET_IMAGE", "team/a:1")
    monkeypatch.delenv("DET_RUNTIME", raising=False)
    monkeypatch.setattr(shell, "_PLACES", "")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return place


def test_shell_installs_ssh_server_with_apt(
    debian: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell._programs() == (str(debian / "sshd"), str(debian / "ssh-keygen"))
    log = capsys.readouterr().err
    assert "OpenSSH's server is not installed in image team/a:1: installing it with apt-get" in log
    (debian / "apt-get").unlink()
    assert shell._programs() == (str(debian / "sshd"), str(debian / "ssh-keygen"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"NO_NETWORK": "1"}, "Failed to fetch http://deb.example.org/InRelease"),
        ({"REPLACES": "libssl3"}, "it would replace packages of the image: libssl3)"),
    ],
)
def test_failed_installation_of_ssh_server_is_reported(
    debian: Path, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], reason: str
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(_serve.NotInstalled) as error:
        shell._programs()
    assert f"sshd is not installed in image team/a:1, and installing it failed ({reason}" in (
        error.value.cause
    )
    assert "apt-get install openssh-server" in error.value.hint
    assert not (debian / "sshd").exists()


def test_only_root_installs_an_ssh_server(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(_serve.NotInstalled, match="this task runs as user 1000"):
        shell._programs()


@pytest.mark.parametrize(
    ("name", "value"), [("DET_INSTALL_MISSING", "0"), ("DET_RUNTIME", "process")]
)
def test_ssh_server_is_not_installed_if_disabled_or_on_a_machine(
    debian: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(_serve.NotInstalled) as error:
        shell._programs()
    assert "installing it failed" not in error.value.cause
    assert not (debian / "sshd").exists()
