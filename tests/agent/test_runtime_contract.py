"""The duties of every runtime, on real processes and on a real Docker engine."""

import base64
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from det_agent.docker_runtime import DockerRuntime
from det_agent.harness_mount import find_payload, link_payload
from det_agent.process_runtime import ProcessRuntime
from det_agent.runtime import Runtime, Started, StartFailed
from det_controlplane.core.agent_protocol import ContainerSpec, Slot

from tests.support import skips
from tests.support.agents import make_spec

SLOTS = (Slot(0, "cpu", "artificial-0", "Artificial"),)
CLUSTER = "cluster-of-the-contract"


@dataclass
class Bench:
    """A runtime under test; `again` is the same one after a restart of its agent."""

    make: Callable[[], Runtime]
    shared: Path

    def __post_init__(self) -> None:
        self.runtime = self.make()
        self.earlier: list[Runtime] = []
        self.begun: list[Started] = []

    def again(self) -> Runtime:
        self.earlier.append(self.runtime)
        self.runtime = self.make()
        return self.runtime

    def spec(self, command: list[str] | str, **changes: Any) -> ContainerSpec:
        shared = {"host_path": str(self.shared), "container_path": "/shared", "read_only": False}
        mounts = [shared, *changes.pop("mounts", [])]
        return ContainerSpec.from_json(make_spec(command, mounts=mounts, **changes))

    def path(self, name: str) -> str:
        """Return the path of a file that test and container both see, as the container names it."""
        return str(self.shared / name) if self.runtime.kind == "process" else f"/shared/{name}"

    def start(
        self, command: list[str] | str, env: dict[str, str] | None = None, **changes: Any
    ) -> Started:
        spec = self.spec(command, **changes)
        complete = {**spec.env, "DET_SESSION_TOKEN": spec.session_token}
        self.runtime.prepare(spec, lambda text: None, lambda: False)
        self.begun.append(self.runtime.start(spec, complete | (env or {})))
        return self.begun[-1]

    def output(self, container: Started, cursor: str = "") -> list[str]:
        return [line.text for line in self.runtime.output(container, "stdout", cursor)]

    def close(self) -> None:
        for container in self.begun:
            self.runtime.kill(container.key)
            for runtime in (*self.earlier, self.runtime):
                runtime.wait(container)
            self.runtime.remove(container.key)


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o777)
    if request.param == "docker":
        client, agent_id = request.getfixturevalue("docker_client"), f"agent-{uuid.uuid4().hex}"
        payload = find_payload()
        new_bench = Bench(
            lambda: DockerRuntime(client, agent_id, lambda: CLUSTER, SLOTS, payload), shared
        )
    else:
        containers = tmp_path / "containers"
        containers.mkdir()
        links = link_payload(find_payload(), tmp_path / "payload")
        new_bench = Bench(
            lambda: ProcessRuntime(containers, lambda: CLUSTER, SLOTS, *links), shared
        )
    yield new_bench
    new_bench.close()


@pytest.mark.parametrize("code", [0, 1, 80, 255])
def test_exit_code_is_the_exit_code_of_the_command(bench: Bench, code: int) -> None:
    container = bench.start(f"exit {code}")
    assert bench.runtime.wait(container).exit_code == code


def test_exit_code_of_a_signal_is_above_128(bench: Bench) -> None:
    container = bench.start("kill -SEGV $$")
    assert bench.runtime.wait(container).exit_code == 139


def test_kill_ends_a_container_that_ignores_other_signals(bench: Bench) -> None:
    container = bench.start("trap '' TERM INT HUP; sleep 600 & wait; sleep 600")
    bench.runtime.kill(container.key)
    assert bench.runtime.wait(container).exit_code == 137


def test_kill_is_idempotent(bench: Bench) -> None:
    container = bench.start("exit 5")
    assert bench.runtime.wait(container).exit_code == 5
    bench.runtime.kill(container.key)
    bench.runtime.kill(container.key)
    assert bench.runtime.wait(container).exit_code == 5


def test_exit_code_survives_an_agent_restart(bench: Bench) -> None:
    container = bench.start("exit 6")
    bench.runtime.wait(container)
    (adopted,) = bench.again().adoptable(CLUSTER)
    assert adopted.key == container.key
    assert bench.runtime.wait(adopted).exit_code == 6


def test_running_container_is_adopted_with_token_and_ports(bench: Bench) -> None:
    go = bench.path("go")
    container = bench.start(
        f"while [ ! -e {go} ]; do sleep 0.05; done; exit 8",
        env={"DET_SESSION_TOKEN": "t"},
        session_token="t",
    )
    (adopted,) = bench.again().adoptable(CLUSTER)
    assert adopted == container
    assert adopted.key.session_token == "t"
    assert set(adopted.host_ports) == {1734}
    (bench.shared / "go").touch()
    assert bench.runtime.wait(adopted).exit_code == 8


def test_host_network_container_is_adopted_with_its_ports(bench: Bench) -> None:
    container = bench.start("exit 0", network="host", local_ports=[8123])
    bench.runtime.wait(container)
    (adopted,) = bench.again().adoptable(CLUSTER)
    assert adopted.host_ports == {1734: 1734, 8123: 8123}


def test_only_published_ports_have_addresses(bench: Bench) -> None:
    container = bench.start("exit 0", network="host", local_ports=[8123])
    assert bench.runtime.addresses(container, 8123)
    assert list(bench.runtime.addresses(container, 22)) == []
    bench.runtime.wait(container)


def test_usage_has_the_memory_and_cpu_time_of_all_processes(bench: Bench) -> None:
    """The command starts a process that computes and ends, and then one that holds 64 MiB."""
    end = bench.path("end")
    spin = "import time\nwhile time.process_time() < 0.5: pass"
    hold = (
        "import os,time; x = bytearray(1 << 26); print(1, flush=True)\n"
        f"while not os.path.exists('{end}'): time.sleep(.05)"
    )
    container = bench.start(f'python3 -c "{spin}"; python3 -c "{hold}"')
    next(bench.runtime.output(container, "stdout", ""))
    usage = bench.runtime.usage(container)
    assert usage is not None
    assert usage.memory is not None
    assert usage.cpu_s is not None
    assert usage.memory > 1 << 26
    assert usage.memory_limit is not None
    assert usage.memory < usage.memory_limit
    assert 0.5 <= usage.cpu_s < 60
    (bench.shared / "end").touch()
    bench.runtime.wait(container)
    assert bench.runtime.usage(container) is None


def test_adopted_container_keeps_its_slots(bench: Bench) -> None:
    container = bench.start("sleep 60", slot_ids=[0])
    assert container.slot_ids == (0,)
    (adopted,) = bench.again().adoptable(CLUSTER)
    assert adopted.slot_ids == (0,)


def test_containers_of_another_cluster_are_not_adopted(bench: Bench) -> None:
    bench.start("exit 0")
    assert bench.again().adoptable("another-cluster") == []


def test_removed_container_is_not_adopted(bench: Bench) -> None:
    container = bench.start("exit 0")
    bench.runtime.wait(container)
    bench.runtime.remove(container.key)
    assert bench.again().adoptable(CLUSTER) == []
    bench.begun.clear()


def test_all_lines_of_a_fast_container_are_read(bench: Bench) -> None:
    container = bench.start("for i in $(seq 1 2000); do echo line $i; done; printf end")
    assert bench.output(container) == [*(f"line {i}" for i in range(1, 2001)), "end"]


def test_output_continues_after_the_cursor_without_repeating(bench: Bench) -> None:
    container = bench.start("for i in $(seq 1 50); do echo line $i; done")
    bench.runtime.wait(container)
    lines = []
    for line in bench.runtime.output(container, "stdout", ""):
        lines.append(line)
        if len(lines) == 20:
            break
    assert bench.output(container, lines[-1].cursor) == [f"line {i}" for i in range(21, 51)]


def test_very_long_line_stays_one_line(bench: Bench) -> None:
    container = bench.start("head -c 100000 /dev/zero | tr '\\0' x; echo; echo short")
    assert bench.output(container) == ["x" * 100000, "short"]


def test_stdout_and_stderr_are_separate(bench: Bench) -> None:
    container = bench.start("echo out; echo err >&2")
    assert bench.output(container) == ["out"]
    assert [line.text for line in bench.runtime.output(container, "stderr", "")] == ["err"]


def test_files_exist_with_their_modes_before_the_command_runs(bench: Bench) -> None:
    content = base64.b64encode(b"secret\n").decode()
    file = {"path": "/run/determined/etc/deep/secret", "mode": 0o600, "content_b64": content}
    container = bench.start(
        'f="$DET_RUN_DIR/etc/deep/secret"; cat "$f"; stat -c %a "$f"; pwd',
        files=[file],
        env={"DET_RUN_DIR": ""},
    )
    secret, mode, work_dir = bench.output(container)
    assert (secret, mode) == ("secret", "600")
    assert work_dir.endswith("/workdir")


def test_file_outside_of_the_run_directory_has_its_path(bench: Bench) -> None:
    path = f"/etc/{uuid.uuid4().hex}.conf"
    file = {"path": path, "mode": 0o644, "content_b64": base64.b64encode(b"conf\n").decode()}
    container = bench.start(["cat", path], files=[file])
    assert bench.output(container) == ["conf"]
    assert not os.path.exists(path)


def test_mounted_directory_is_shared_with_the_host(bench: Bench) -> None:
    container = bench.start(f"echo hello > {bench.path('greeting')}")
    assert bench.runtime.wait(container).exit_code == 0
    assert (bench.shared / "greeting").read_text() == "hello\n"


def test_mount_below_the_work_directory_is_visible(bench: Bench) -> None:
    (bench.shared / "rows").write_text("seven\n")
    place = "/run/determined/workdir/sets/a"
    mount = {"host_path": str(bench.shared), "container_path": place, "read_only": True}
    assert bench.output(bench.start("cat sets/a/rows", mounts=[mount])) == ["seven"]


def test_harness_of_this_installation_is_imported_first(bench: Bench) -> None:
    container = bench.start(["python3", "-c", "import determined; print(determined.__file__)"])
    (path,) = bench.output(container)
    assert path.endswith("determined/__init__.py")
    assert path.startswith("/opt/determined/harness/" if bench.runtime.kind == "docker" else "/")


def test_appended_dependencies_can_be_imported(bench: Bench) -> None:
    code = "import os, sys; sys.path.append(os.environ['DET_DEPS_DIR']); import boto3, pathspec; print('ok')"
    assert bench.output(bench.start(["python3", "-c", code])) == ["ok"]


def test_programs_can_import_dependencies_of_determineds_package(bench: Bench) -> None:
    names = (
        "appdirs argcomplete certifi dateutil docker filelock git lomond packaging pathspec pytz requests "
        "ruamel.yaml tabulate termcolor tqdm yaml"
    )
    code = (
        "import determined, importlib; import ruamel.yaml\n"
        f"for name in {names.split()}: importlib.import_module(name)\n"
        "print(ruamel.yaml.YAML(typ='safe', pure=True).load('a: 1')['a'])"
    )
    env = {"GIT_PYTHON_REFRESH": "quiet"}
    assert bench.output(bench.start(["python3", "-c", code], env=env)) == ["1"]


def test_command_has_the_environment_of_the_specification(bench: Bench) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    container = bench.start(["python3", "-c", code], env={"A": "1"}, name="x")
    env = json.loads(bench.output(container)[0])
    assert env["A"] == "1"
    assert env["DET_WORKDIR"].endswith("/workdir")


def test_command_runs_as_the_specified_user(bench: Bench, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        skips.skip("only root may run commands as another user", skips.AS_ROOT)
    for folder in [tmp_path, *tmp_path.parents][:-1]:
        folder.chmod(folder.stat().st_mode | 0o011)
    user = {"uid": 4321, "gid": 4322, "user": "u", "group": "g"}
    container = bench.start("id -u; id -g; touch mine; stat -c %u mine", user=user)
    assert bench.output(container) == ["4321", "4322", "4321"]


def test_parallel_containers_have_their_own_exit_codes(bench: Bench) -> None:
    containers = [bench.start(f"sleep 0.1; exit {code}") for code in range(1, 7)]
    ends: dict[str, int | None] = {}

    def wait(container: Started) -> None:
        ends[container.key.id] = bench.runtime.wait(container).exit_code

    waiters = [threading.Thread(target=wait, args=(each,)) for each in containers]
    for waiter in waiters:
        waiter.start()
    for waiter in waiters:
        waiter.join(60)
    assert [ends[each.key.id] for each in containers] == [1, 2, 3, 4, 5, 6]


def test_existing_container_is_not_started_again(bench: Bench) -> None:
    container = bench.start("sleep 600")
    with pytest.raises(StartFailed):
        bench.runtime.start(bench.spec("exit 0", container_id=container.key.id), {})
