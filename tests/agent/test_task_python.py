"""Tasks that are processes have a Python of their own over one that they share."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from det_agent.harness_mount import find_payload, link_payload
from det_agent.process_paths import hand_over
from det_agent.process_runtime import ProcessRuntime
from det_agent.runtime import GatewayAddress, StartFailed, Stream
from det_agent.task_python import BasePython, NoPython, make_environment
from det_controlplane.core.agent_protocol import ContainerSpec, TaskUser

from tests.support import skips
from tests.support.agents import make_spec

STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
GREETING = "print('hello from', __name__)"
LOOK = "import json, sys; print(json.dumps([sys.executable, sys.prefix, sys.path]))"
INSTALL = "pip install --quiet --disable-pip-version-check --no-index --find-links {} greeting"


class Tasks:
    """A process runtime, and the output of its tasks."""

    def __init__(self, folder: Path, python: str = "") -> None:
        folder.mkdir()
        containers = folder / "containers"
        containers.mkdir()
        harness, deps = link_payload(find_payload(), folder / "payload")
        self.runtime = ProcessRuntime(containers, lambda: "cluster", (), harness, deps, python)
        self.containers = containers

    def run(self, command: str, **changes: Any) -> list[str]:
        spec = ContainerSpec.from_json(make_spec(command, **changes))
        process = self.runtime.start(spec, spec.env)
        ended_exit = self.runtime.wait(process)
        output = [line.text for s in STREAMS for line in self.runtime.output(process, s, "")]
        self.runtime.remove(process.key)
        assert ended_exit.exit_code == 0, output
        return output


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    return Tasks(tmp_path / "agent")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with one package that has a program."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "greeting-1.0.dist-info"
    with zipfile.ZipFile(folder / "greeting-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("greeting.py", f"{GREETING}\ndef main(): print('hello')\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\ngreet = greeting:main\n")
        wheel.writestr(f"{info}/RECORD", "")
    return folder


def is_installed_here() -> bool:
    result = subprocess.run([sys.executable, "-c", "import greeting"], capture_output=True)
    return result.returncode == 0


@pytest.mark.parametrize("pip", ["pip", "python3 -m pip"])
def test_packages_installed_by_a_task_are_private(tasks: Tasks, wheels: Path, pip: str) -> None:
    install = INSTALL.format(wheels).replace("pip", pip, 1)
    output = tasks.run(f"{install} && python3 -c 'import greeting' && greet")
    assert output[:3] == ["hello from greeting", "hello from greeting", "hello"]
    assert not is_installed_here()
    assert tasks.run("python3 -c 'import greeting' 2>/dev/null || echo unknown") == ["unknown"]


def test_task_sees_packages_and_programs_of_the_agents_python(tasks: Tasks) -> None:
    output = tasks.run(
        "python3 -c 'import yaml, determined; print(yaml.__file__)' && head -c 9 $(which pytest)"
    )
    import yaml

    assert output == [yaml.__file__, "#!/bin/sh"]
    (version,) = tasks.run("pytest --version")
    assert version == f"pytest {pytest.__version__}"


def test_programs_of_the_agents_python_see_packages_of_the_task(tasks: Tasks, wheels: Path) -> None:
    test = "def test_it():\n    import greeting\n"
    output = tasks.run(
        f"{INSTALL.format(wheels)} && printf {test!r} > test_it.py && pytest -q -p no:cacheprovider test_it.py"
    )
    assert any("1 passed" in line for line in output), output


def test_pip_settings_of_the_machine_have_no_effect(
    tasks: Tasks, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_USER", "0")
    assert tasks.run(f"{INSTALL.format(wheels)} && greet")[-2:] == ["hello from greeting", "hello"]
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("named_by", ["the agent", "the task"])
def test_tasks_can_use_another_python_than_the_agent(tmp_path: Path, named_by: str) -> None:
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    (site,) = other.glob("lib/python*/site-packages")
    (site / "only_there.py").write_text("")
    python = str(other / "bin" / "python")
    by_agent = named_by == "the agent"
    tasks = Tasks(tmp_path / "agent", python if by_agent else "")
    look = f"python3 -c 'import only_there; {LOOK}'"
    env = {} if by_agent else {"DET_PYTHON_EXECUTABLE": python}
    executable, prefix, path = json.loads(tasks.run(look, env=env)[0])
    assert prefix.startswith(str(tasks.containers))
    assert executable.startswith(prefix)
    assert str(site) in path


def test_broken_python_of_tasks_is_reported(tmp_path: Path) -> None:
    tasks = Tasks(tmp_path / "agent", "/nowhere/python3")
    with pytest.raises(StartFailed, match="the Python of tasks, /nowhere/python3, does not run"):
        tasks.runtime.check(GatewayAddress(1, "127.0.0.1"))
    task = ContainerSpec.from_json(make_spec("true", env={"DET_PYTHON_EXECUTABLE": "/bin/false"}))
    with pytest.raises(StartFailed, match="/bin/false, does not run") as error:
        tasks.runtime.start(task, task.env)
    assert error.value.failure == "container_failed"
    with pytest.raises(NoPython):
        BasePython.of("/bin/false")


def test_environment_consists_of_a_few_small_files(tmp_path: Path) -> None:
    """Only files of a few kilobytes are written: no package is copied, resolved or compiled."""
    base = BasePython.of(sys.executable)
    environment = make_environment(base, tmp_path / "python").parent
    files = [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < 200_000
    assert {path.parent.name for path in files} <= {"bin", "site-packages", "python"}


@pytest.mark.skipif(
    os.geteuid() != 0, reason=skips.because("only root gives files away", skips.AS_ROOT)
)
def test_only_the_environment_belongs_to_the_tasks_user(tmp_path: Path) -> None:
    make_environment(BasePython.of(sys.executable), tmp_path / "python")
    before = Path(os.path.realpath(sys.executable)).stat().st_uid
    hand_over(tmp_path, TaskUser(uid=1234, gid=1234))
    assert Path(os.path.realpath(sys.executable)).stat().st_uid == before
    assert (tmp_path / "python" / "lib").stat().st_uid == 1234
    assert (tmp_path / "python" / "bin" / "python").lstat().st_uid == 1234
