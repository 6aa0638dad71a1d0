"""Asks a local cluster how it does, and reads its logs."""

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from det_controlplane.entry.local import certificate
from det_controlplane.entry.local.files import LocalFiles
from det_controlplane.services.maintenance.gauges import Rented

STATUS_PATH, RECORDS_PATH = "/local/status", "/local/records"
API, AGENT_PREFIX = "api", "agent-"
SAYS = "det api: "  # start of the log line of an API that gives up
_UP_S = 100.0
_JOIN_S = 60.0
_MANY_STARTS = 2
_PAUSE_S = 0.03
_TIMEOUT_S = 5.0


class NotUp(Exception):
    """A cluster or an agent did not start. The message ends with the last lines of its log."""


def wait_until_up(files: LocalFiles) -> None:
    limit = time.monotonic() + _UP_S
    starts: set[int] = set()

    def hopeless() -> bool:
        if files.supervisor_pid() is None:
            raise NotUp(f"the cluster ended at once:\n{tail(files.log('supervisor'))}")
        starts.add(files.report().get("processes", {}).get("api") or 0)
        return len(starts - {0}) > _MANY_STARTS or time.monotonic() > limit

    while not hopeless():
        status = _get(files, "/health", hopeless)
        if status is not None and status[0] == 200:
            return
        time.sleep(_PAUSE_S)
    raise NotUp(f"the API does not come up: {_reason(files)}")


def pools(files: LocalFiles) -> list[str]:
    """Return the pools of the running cluster; none if it does not answer."""
    answer = _get(files, STATUS_PATH)
    return list(answer[1].get("pools") or ()) if answer and answer[0] == 200 else []


def rented(files: LocalFiles) -> Rented:
    """Return the rented machines of the running cluster; none if it does not answer."""
    answer = _get(files, STATUS_PATH)
    found = answer[1].get("rented") if answer and answer[0] == 200 else None
    return Rented(**found) if found else Rented(0, 0.0, ())


def records(files: LocalFiles) -> dict[str, int]:
    """Return how many experiments, checkpoints and users the running cluster has; {} if it does not answer."""
    answer = _get(files, RECORDS_PATH)
    return dict(answer[1]) if answer and answer[0] == 200 else {}


def wait_until_joined(files: LocalFiles, names: set[str]) -> list[dict[str, Any]]:
    """Wait until all of these agents have joined. Return all agents that were seen since this start."""
    limit = time.monotonic() + _JOIN_S
    started_at = float(files.report().get("started_at", 0.0))
    missing = names
    while time.monotonic() < limit:
        answer = _get(files, STATUS_PATH)
        all_agents: list[dict[str, Any]] = (
            answer[1]["agents"] if answer and answer[0] == 200 else []
        )
        # The database remembers agents of a cluster that was killed, in the pools that they had.
        agents = [a for a in all_agents if a["seen_at"] >= started_at]
        missing = names - {a["id"] for a in agents}
        if answer is not None and not missing:
            return agents
        time.sleep(_PAUSE_S)
    name = sorted(missing)[0]
    log = files.log(AGENT_PREFIX + name)
    raise NotUp(f"agent {name} did not join; {log} ends with:\n{tail(log)}")


def end_leftovers(files: LocalFiles, number: signal.Signals) -> None:
    """Signal the agents of a supervisor that was killed, and kill its API, which may be frozen."""
    for name, pid in leftovers(files).items():
        with suppress(ProcessLookupError):
            os.kill(pid, number if name.startswith(AGENT_PREFIX) else signal.SIGKILL)


def leftovers(files: LocalFiles) -> dict[str, int]:
    """Return the API and the agents that a killed supervisor left, by name.

    A number may belong to another process by now, so the command must contain the data directory.
    """
    reported = files.report().get("processes", {})
    pids = {n: p for n, p in reported.items() if p and (n == API or n.startswith(AGENT_PREFIX))}
    return {n: p for n, p in pids.items() if str(files.folder) in _command_of(p)}


def health(files: LocalFiles, timeout_s: float) -> int | None:
    """Return the status of the API's answer about its health, or None without an answer in time."""
    answer = _get(files, "/health", timeout_s=timeout_s)
    return answer[0] if answer else None


def _command_of(pid: int) -> str:
    command = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def print_logs(files: LocalFiles, *, follow: bool) -> None:
    """Print all logs, each line with the name of its process; with `follow`, new lines as they come."""
    places: dict[Path, int] = {}
    try:
        while True:
            for path in sorted(files.logs.glob("*.log")):
                places[path] = _print_from(path, places.get(path, 0))
            if not follow:
                return
            time.sleep(0.5)
    except KeyboardInterrupt:
        return


def tail(path: Path, lines: int = 12) -> str:
    text = path.read_text("utf-8", "replace") if path.exists() else ""
    return "\n".join(text.splitlines()[-lines:])


def _reason(files: LocalFiles) -> str:
    """Return the API's last sentence before it gave up, or else the end of its log."""
    path = files.log("api")
    end = tail(path, 20)
    sentences = [line for line in end.splitlines() if line.startswith(SAYS)]
    return sentences[-1].removeprefix(SAYS) if sentences else f"{path} ends with:\n{end}"


def _print_from(path: Path, place: int) -> int:
    size = path.stat().st_size
    with path.open("rb") as log:
        log.seek(place if size >= place else 0)
        text = log.read()
    whole = text[: text.rfind(b"\n") + 1]
    for line in whole.decode("utf-8", "replace").splitlines():
        print(f"{path.stem:<14} {line}")
    sys.stdout.flush()
    return (place if size >= place else 0) + len(whole)


def _connection(files: LocalFiles, timeout_s: float) -> http.client.HTTPConnection:
    desired = files.desired()
    parts = urlsplit(desired.url)
    host = parts.hostname or "127.0.0.1"
    if not desired.tls_cert:
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    context = certificate.trusting(Path(desired.tls_cert))
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)


def _get(
    files: LocalFiles,
    path: str,
    give_up: Callable[[], bool] = lambda: False,
    timeout_s: float = _TIMEOUT_S,
) -> tuple[int, dict[str, Any]] | None:
    """Send a GET; return status and body, or None without an answer: the socket opens before the API serves."""
    limit = time.monotonic() + timeout_s
    connection = _connection(files, timeout_s)
    token = files.secrets().bootstrap_token
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        while not select.select([connection.sock], [], [], _PAUSE_S)[0]:
            if give_up() or time.monotonic() > limit:
                return None
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
