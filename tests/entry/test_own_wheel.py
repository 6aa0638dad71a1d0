"""The wheel of itself that a cluster serves, and its installation."""

import email
import importlib.metadata
import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from det_controlplane.adapters import own_wheel
from det_controlplane.adapters.own_wheel import InstalledWheel, PackedWheel
from packaging.requirements import Requirement

from tests.support.lambda_events import answered, function_url_event
from tests.support.lambda_front import function_url
from tests.support.lambda_runtime import MAX_PAYLOAD, LambdaRuntime

MIB = 2**20


@pytest.fixture(scope="module")
def wheel() -> InstalledWheel:
    own = own_wheel.find()
    assert isinstance(own, InstalledWheel)
    return own


@pytest.fixture
def front(task_root: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A control plane on Lambda behind its Function URL."""
    with (
        LambdaRuntime(task_root, "app.app", environment) as api,
        function_url(lambda http: answered(api.invoke(function_url_event(http)))) as url,
    ):
        yield url


def test_wheel_is_reproducible(wheel: InstalledWheel) -> None:
    assert own_wheel.find().content() == wheel.content()  # type: ignore[union-attr]


def test_wheel_has_requirements_and_commands_of_the_distribution(
    wheel: InstalledWheel,
) -> None:
    with zipfile.ZipFile(io.BytesIO(wheel.content())) as archive:
        info = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(info))
        commands = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
    assert metadata.get_all("Requires-Dist") == importlib.metadata.requires(own_wheel.DISTRIBUTION)
    assert "det-agent = det_agent.main:main" in commands


def test_wheel_states_library_versions(wheel: InstalledWheel, tmp_path: Path) -> None:
    """The wheel states a version of each needed library, and so does a copy that a deployment packed."""
    versions = wheel.constraints().decode()
    for required in map(Requirement, importlib.metadata.requires(own_wheel.DISTRIBUTION) or ()):
        if required.marker is None:
            assert re.search(rf"^{required.name}==", versions, re.MULTILINE), required.name
    path = tmp_path / wheel.name()
    path.write_bytes(wheel.content())
    assert PackedWheel(path).constraints() == wheel.constraints()


def test_lambda_can_return_the_wheel(wheel: InstalledWheel) -> None:
    """Lambda sends it in base64, a third larger."""
    assert len(wheel.content()) * 4 / 3 < MAX_PAYLOAD - MIB


def test_wheel_of_the_deployment_is_used_unchanged(tmp_path: Path) -> None:
    (tmp_path / "determined_serverless-9.9-py3-none-any.whl").write_bytes(b"brought")
    wheel_path = own_wheel.find(beside=tmp_path)
    assert isinstance(wheel_path, PackedWheel)
    assert (wheel_path.name(), wheel_path.content()) == (
        "determined_serverless-9.9-py3-none-any.whl",
        b"brought",
    )


@pytest.mark.slow
def test_empty_environment_installs_the_agent_from_the_cluster(
    front: str, wheel: InstalledWheel, tmp_path: Path
) -> None:
    """Tests do not use the index that has the libraries, so this environment provides them."""
    bare = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", bare], check=True)
    address = f"{front}/agents/v1/wheel/{wheel.name()}"
    result = run(bare / "bin/pip", "install", "-q", "--no-deps", address)
    assert result.returncode == 0, result.stderr
    agent = run(bare / "bin/det-agent", "--version", libraries=True)
    version = importlib.metadata.version(own_wheel.DISTRIBUTION)
    assert (agent.returncode, agent.stdout) == (0, f"det-agent {version}\n"), agent.stderr
    unit = run(bare / "bin/det-agent", "systemd-unit", libraries=True)
    assert "ExecStart=/opt/determined/venv/bin/det-agent run" in unit.stdout


def run(*command: "Path | str", libraries: bool = False) -> "subprocess.CompletedProcess[str]":
    """Run a program without this environment except, on request, its libraries. Their folder also has editable
    packages, which only the environment's own start finds."""
    inherited = {
        n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "PIP_", "VIRTUAL_"))
    }
    library_path = {"PYTHONPATH": str(Path(yaml.__file__).parents[1])} if libraries else {}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**inherited, **library_path},
    )
