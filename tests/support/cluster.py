"""A whole local cluster, driven by our own command line as a user drives it."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import ports
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
DET = [sys.executable, "-m", "det_cli.main"]


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Cluster:
    folder: Path
    port: int
    runtime: str
    token: str = ""
    password: str = ""  # of the built-in accounts; '': accounts have no password

    @property
    def env(self) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("DET_")}
        return env | {
            "DET_MASTER": f"http://127.0.0.1:{self.port}",
            "DET_USER": "determined",
            "DET_PASS": self.password,
            "NO_COLOR": "1",
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "HOME": str(self.folder),
        }

    def run(
        self,
        *args: str | Path,
        timeout_s: float = 240,
        environ: Mapping[str, str | None] | None = None,
    ) -> Answer:
        """Run a command; variables of `environ` replace ours, and None takes one away."""
        env = {**self.env, **(environ or {})}
        result = subprocess.run(
            [*DET, *map(str, args)],
            env={name: value for name, value in env.items() if value is not None},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )
        return Answer(result.returncode, result.stdout, result.stderr)

    def det(self, *args: str | Path, timeout_s: float = 240) -> Answer:
        """Run a command that must succeed."""
        answer = self.run(*args, timeout_s=timeout_s)
        assert answer.code == 0, (
            f"det {' '.join(map(str, args))}: {answer.out}{answer.err}{self.why()}"
        )
        return answer

    def create(self, config: Path, context: Path, *more: str) -> int:
        answer = self.det("experiment", "create", config, context, *more)
        return int(answer.out.split("Created experiment")[1].split()[0])

    def train(self, config: Path, context: Path, *more: str) -> int:
        """Create an experiment, and wait until it has completed."""
        experiment_id = self.create(config, context, *more)
        assert self.until_state(experiment_id, "COMPLETED", "ERROR") == "COMPLETED"
        return experiment_id

    def experiment(self, experiment_id: int) -> dict[str, Any]:
        stored_experiment: dict[str, Any] = self.get(f"/api/v1/experiments/{experiment_id}")[
            "experiment"
        ]
        return stored_experiment

    def trials(self, experiment_id: int) -> list[dict[str, Any]]:
        stored_trials: list[dict[str, Any]] = self.get(
            f"/api/v1/experiments/{experiment_id}/trials"
        )["trials"]
        return stored_trials

    def get(self, path: str) -> Any:
        """Ask the API itself: tests look often, and a command costs a process."""
        return json.loads(self.text(path))

    def text(self, path: str) -> str:
        """Return the body of an answer: streams send one JSON object a line."""
        return self._answer(path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return json.loads(self._answer(path, body, self._token()))

    def task_logs(self, trial_id: int) -> list[dict[str, Any]]:
        """Return the trial's log lines so far, with all their fields."""
        lines = self.text(f"/api/v1/trials/{trial_id}/logs").splitlines()
        return [json.loads(line)["result"] for line in lines if line]

    def _answer(self, path: str, body: dict[str, Any] | None, token: str = "") -> str:
        token = self._token() if body is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
        )
        # Proxies of the machine are not for a cluster on it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as response:
            text: str = response.read().decode()
            return text

    def _token(self) -> str:
        if not self.token:
            login = {"username": "determined", "password": self.password, "isHashed": False}
            signed_in = self._answer("/api/v1/auth/login", login)
            self.token = str(json.loads(signed_in)["token"])
        return self.token

    def logs(self, trial_id: int) -> str:
        return self.det("trial", "logs", str(trial_id)).out

    def until(self, condition: Callable[[], Any], description: str, timeout_s: float = 180) -> Any:
        start_time = time.monotonic()
        while True:
            value = condition()
            if value:
                return value
            waited_s = time.monotonic() - start_time
            assert waited_s < timeout_s, f"never happened: {description}{self.why()}"
            # Each poll costs the API and PostgreSQL some milliseconds, so long waits poll less often.
            time.sleep(min(0.1 + waited_s / 10, 0.7))

    def until_state(self, experiment_id: int, *states: str, timeout_s: float = 240) -> str:
        def reached() -> str | None:
            state = str(self.experiment(experiment_id)["state"]).removeprefix("STATE_")
            return state if state in states else None

        matching_state: str = self.until(
            reached, f"experiment {experiment_id} in {states}", timeout_s
        )
        return matching_state

    def containers_of(self, trial_id: int) -> list[int]:
        """Return processes on this machine that belong to the trial's containers, oldest first."""
        return pids_with(f"DET_TRIAL_ID={trial_id}", f"DET_CLUSTER_ID={self.cluster_id()}")

    def kill_containers_of(self, trial_id: int) -> None:
        """Send SIGKILL to every process there; the death of a container's first takes the others along."""
        for pid in self.containers_of(trial_id):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def cluster_id(self) -> str:
        return str(self.get("/info")["cluster_id"])

    def kill(self, *words: str) -> int:
        """Send SIGKILL to the process of this cluster with all words in its command line. Return its pid."""
        pids = [pid for pid, line, about in _processes() if str(self.folder) in about
                 and all(w in line for w in words)]  # fmt: skip
        assert pids, f"no process of this cluster has {words}"
        os.kill(pids[0], signal.SIGKILL)
        return pids[0]

    def down(self) -> None:
        self.det("deploy", "local", "cluster-down", "--data-dir", self.folder / "data")

    def up_again(self) -> None:
        """Start again with the arguments of the first start."""
        self.det("deploy", "local", "cluster-up", "--data-dir", self.folder / "data")

    def why(self) -> str:
        """Return the end of the servers' own logs, for a failing test."""
        parts = []
        for log in sorted((self.folder / "data").rglob("*.log")):
            parts.append(f"\n--- {log.name}\n{log.read_text(errors='replace')[-2000:]}")
        return "".join(parts)


def pids_with(*variables: str) -> list[int]:
    """Return processes with all of these variables."""
    return [
        pid
        for pid, line, about in _processes()
        if all(f"\0{v}\0" in f"{about}\0" for v in variables)
    ]


def _processes() -> Iterator[tuple[int, str, str]]:
    """Yield pid, command line, and command line with environment, oldest first."""
    for pid in sorted(int(p.name) for p in Path("/proc").glob("[0-9]*")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        yield pid, line, f"{line}\0{environment}"


def ports_of_others() -> list[int]:
    """Return the ports of clusters beside this one on the machine: their trials must not meet at one."""
    first = ports.block() * 16
    return [base + i for base in (12350, 29400) for i in range(first)]


@contextmanager
def local_cluster(
    folder: Path,
    *,
    runtime: str,
    agents: int = 1,
    slots: int = 4,
    config: str = "",
    port: int = 0,
    environ: Mapping[str, str] | None = None,
    password: str = "",
) -> Iterator[Cluster]:
    """Start a cluster. `environ` extends the environment of its processes."""
    cluster = Cluster(folder, port or free_port(), runtime, password=password)
    path = folder / "cluster.yaml"
    path.write_text(f"{config}\nreserved_ports: {ports_of_others()}\n")
    data = str(folder / "data")
    try:
        up = cluster.run(
            "deploy", "local", "cluster-up", "--data-dir", data, "--master-port", str(cluster.port),
            "--agents", str(agents), "--slots-per-agent", str(slots), "--no-gpu",
            "--container-runtime", runtime, "--initial-user-password", password,
            "--config", str(path), environ=environ,
        )  # fmt: skip
        assert up.code == 0, f"the cluster did not start: {up.out}{up.err}{cluster.why()}"
        yield cluster
    finally:
        cluster.run("deploy", "local", "cluster-down", "--data-dir", data)
