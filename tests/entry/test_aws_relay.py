"""The machine that carries traffic to tasks on AWS: its script, its program, when it runs and when it stops."""

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import boto3
import pytest
from det_controlplane.adapters import ec2_relay
from det_controlplane.db.engine.database import Database
from det_controlplane.entry import clouds
from det_controlplane.entry.container.relay_end import RENEWED, ending_when_idle
from det_controlplane.entry.scheduled_work import Clock, provisioning
from det_controlplane.services.context import Context
from det_controlplane.services.machines import calling
from det_controlplane.services.tasks import proxying

from tests.support.api import api_over
from tests.support.lambda_calls import call, sign_in
from tests.support.lambda_runtime import LambdaRuntime
from tests.support.moto import moto_server
from tests.support.ports import free_port
from tests.support.processes import eventually

USER_DATA = Path(__file__).parents[2] / "infra/terraform/modules/aws/relay/user-data.sh"
# Without the packages installed beside it.
PYTHON = os.path.realpath(sys.executable)


def script(task: Path) -> str:
    """Return the program that the machine starts, with another folder than Lambda's."""
    match = re.search(r"/determined-relay <<'END'\n(.*?)\nEND\n", USER_DATA.read_text(), re.DOTALL)
    assert match
    return match[1].replace("${function}", "det-lab-relay").replace("/var/task", str(task))


def environment_with_function(
    folder: Path,
    deployment_zip: Path,
    settings: Mapping[str, str],
    later: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Add a command `aws` that describes the function with program and settings. Return an environment with it.

    From the second call on, it describes the later ones."""
    location = deployment_zip.with_name("relay.zip").as_uri()
    for name, variables in (("function.json", settings), ("later.json", later or settings)):
        relay_variables = {
            "Code": {"Location": location},
            "Configuration": {"Environment": {"Variables": dict(variables)}},
        }
        (folder / name).write_text(json.dumps(relay_variables))
    command = folder / "aws"
    expected = "lambda get-function --function-name det-lab-relay --output json"
    command.write_text(
        f'#!/bin/sh\n[ "$*" = {shlex.quote(expected)} ] || exit 1\n'
        f"cat {folder}/function.json; cp {folder}/later.json {folder}/function.json\n"
    )
    command.chmod(0o755)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DET_", "PYTHON"))}
    return {**inherited, "PATH": f"{folder}:{os.environ['PATH']}"}


def settings(environment: Mapping[str, str], task: Path, port: int) -> dict[str, str]:
    return {
        **environment, "DET_ROLE": "relay", "DET_PUBLIC_URL": "https://d123.cloudfront.net",
        "DET_CLUSTER_CONFIG": str(task / "cluster.yaml"), "HOST": "127.0.0.1", "PORT": str(port),
        "DET_RELAY_FUNCTION": "det-lab-relay",
    }  # fmt: skip


@pytest.mark.slow
def test_machine_starts_the_relay_and_stops_when_no_task_needs_it(
    deployment_zip: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    task, port, log = tmp_path / "task", free_port(), tmp_path / "log"
    (tmp_path / "determined-relay").write_text(script(task))
    variables = {**settings(environment, task, port), "DET_RELAY_IDLE_S": "20"}
    process_environment = environment_with_function(tmp_path, deployment_zip, variables)

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/info", timeout=5) as answer:
                return bool(json.loads(answer.read())["cluster_name"] == "of the tests")
        except OSError:
            return False

    with log.open("wb") as output:
        process = subprocess.Popen(
            [PYTHON, tmp_path / "determined-relay"],
            env=process_environment,
            stdout=output,
            stderr=output,
        )
    try:
        assert eventually(lambda: answers() or process.poll() is not None, 300), log.read_text()
        assert process.wait(300) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
    assert "no task needed the relay" in log.read_text()
    assert "newer version" not in log.read_text(), "the deployed version is the relay's own version"
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_relay_exits_if_its_program_is_replaced_during_start(
    deployment_zip: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    task = tmp_path / "task"
    (tmp_path / "determined-relay").write_text(script(task))
    variables = settings(environment, task, free_port())
    renewed = {**variables, "DET_CLUSTER_ID": "new"}
    process_environment = environment_with_function(tmp_path, deployment_zip, variables, renewed)
    result = subprocess.run(
        [PYTHON, tmp_path / "determined-relay"], env=process_environment, capture_output=True, text=True, timeout=300
    )  # fmt: skip
    assert result.returncode == RENEWED, result.stderr
    assert "this relay ends for a newer version" in result.stderr


def test_user_data_is_valid_and_restarts_or_stops_the_machine() -> None:
    text = USER_DATA.read_text()
    assert set(re.findall(r"\$\{(\w+)\}", text)) == {"region", "function", "dual_stack"}
    template = re.sub(r"\$\{\w+\}", "lab", text)
    result = subprocess.run(
        ["bash", "-n"], input=template, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    # Installing packages needs more than half a gigabyte of memory.
    assert text.index("swapon /swap") < text.index("dnf install")
    # Its end stops the machine. After an interruption it is started again.
    assert "SuccessAction=poweroff" in text
    assert "Restart=on-failure" in text
    # A program that never runs is not started forever: an hour of it would be an hour of the machine.
    assert "StartLimitAction=poweroff" in text


def test_machine_installs_the_python_version_of_the_relay(tmp_path: Path) -> None:
    match = re.search(
        r"/determined-relay-python <<'END'\n(.*?)\nEND\n", USER_DATA.read_text(), re.DOTALL
    )
    assert match
    text = match[1].replace("${function}", "det-lab-relay")
    text = text.replace("/usr/local/bin/relay-python", str(tmp_path / "relay-python"))
    (tmp_path / "aws").write_text("#!/bin/sh\necho python3.14\n")
    # Installed programs appear on the path.
    installed = f'printf "#!/bin/sh\\n" > {tmp_path}/"$3"; chmod 755 {tmp_path}/"$3"'
    (tmp_path / "dnf").write_text(f"#!/bin/sh\necho dnf $3\n{installed}\n")
    for name in ("aws", "dnf"):
        (tmp_path / name).chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    runs = [
        subprocess.run(["sh", "-c", text], env=path, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [t.stdout for t in runs] == ["dnf python3.14\n", ""]
    assert (tmp_path / "relay-python").resolve() == tmp_path / "python3.14"


@pytest.mark.slow
def test_shells_require_a_relay_url(task_root: Path, environment: Mapping[str, str]) -> None:
    without = LambdaRuntime(task_root, "app.app", environment)
    with without as api, pytest.raises(AssertionError, match="carries no traffic to tasks"):
        call(api, "POST", "/api/v1/shells", sign_in(api), {})
    with LambdaRuntime(task_root, "app.app", {**environment, "DET_RELAY_URL": "/"}) as api:
        assert call(api, "POST", "/api/v1/shells", sign_in(api), {})["shell"]["id"]


def test_function_zip_contains_no_server(deployment_zip: Path) -> None:
    names = {}
    for name in ("deployment", "relay"):
        with zipfile.ZipFile(deployment_zip.with_name(f"{name}.zip")) as archive:
            names[name] = {path.partition("/")[0] for path in archive.namelist()}
    assert {"uvicorn", "websockets", "h11", "httptools"} <= names["relay"]
    assert not {"uvicorn", "websockets", "h11", "httptools"} & names["deployment"]


def test_relay_is_started_while_a_task_needs_it(database: Database, tmp_path: Path) -> None:
    pids: list[int] = []
    with api_over(database, tmp_path) as api:
        turn = provisioning(api.ctx, lambda: pids.append(1))
        user = api.signed_in("determined")
        user.post("/api/v1/commands", {"config": {"entrypoint": ["true"]}})
        turn(Clock(lambda: 0.0))
        assert pids == []
        shell = user.post("/api/v1/shells", {})["shell"]["id"]
        turn(Clock(lambda: 0.0))
        assert pids == [1]
        user.post(f"/api/v1/shells/{shell}/kill")
        turn(Clock(lambda: 0.0))
        assert pids == [1]


def test_relay_is_started_for_a_task_created_during_a_turn(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []
    with api_over(database, tmp_path) as api:
        user = api.signed_in("determined")
        passes = iter([5.0, 5.0, None])

        def one_pass(*_: object) -> float | None:
            pids.append(0)
            return next(passes)

        def wait(_: float) -> None:
            if pids == [0]:
                user.post("/api/v1/shells", {})

        monkeypatch.setattr(clouds, "clouds_of", lambda *_: {"aws": object()})
        monkeypatch.setattr(calling, "run", one_pass)
        provisioning(api.ctx, lambda: pids.append(1))(Clock(lambda: 100.0, wait))
    assert pids == [0, 1, 0, 1, 0]


def test_idle_check_continues_after_a_database_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    ended = threading.Event()

    def is_relay_needed(_: object) -> bool:
        looks.append(1)
        if len(looks) == 1:
            raise RuntimeError("a row that nobody expects")
        return False

    monkeypatch.setattr(proxying, "is_relay_needed", is_relay_needed)
    with ending_when_idle(cast(Context, None), 0.02, ended.set):
        assert ended.wait(60)
    assert len(looks) > 1


def test_start_ignores_a_terminated_machine() -> None:
    with moto_server() as url:
        ec2 = boto3.client("ec2", endpoint_url=url)
        instances = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)
        id = instances["Instances"][0]["InstanceId"]
        ec2.stop_instances(InstanceIds=[id])
        for _ in range(2):
            ec2_relay.start(ec2, id)
        machine = ec2.describe_instances(InstanceIds=[id])["Reservations"][0]["Instances"][0]
        assert machine["State"]["Name"] == "running"
        ec2_relay.start(ec2, "i-0123456789abcdef0")
    assert ec2_relay.starter_of({}) is None
