"""Real agents in processes of their own, for tests that kill them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.fake_controlplane import JOIN_TOKEN


class AgentProcess:
    """`det-agent run` against a control plane; `restart` gives it the same state directory."""

    def __init__(
        self, url: str, folder: Path, environ: Mapping[str, str] | None = None, **options: str
    ) -> None:
        self.folder = folder
        self._environ = environ or {}
        self.state_dir = folder / "state"
        token_file = folder / "token"
        token_file.write_text(JOIN_TOKEN + "\n")
        self._options = {
            "master-url": url,
            "agent-id": "agent-1",
            "slots": "artificial:2",
            "runtime": "process",
            "state-dir": str(self.state_dir),
            "token-file": str(token_file),
            **options,
        }
        self.log_path = folder / "agent.log"
        self.process = self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        flags = [part for name, value in self._options.items() for part in (f"--{name}", value)]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("DET_")}
        environ = {**inherited, **self._environ}
        with open(self.log_path, "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "det_agent.main", "run", *flags], stderr=log, env=environ
            )

    def restart(self) -> None:
        assert self.process.poll() is not None, "stop or kill the agent first"
        self.process = self._spawn()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def stop(self, timeout_s: float = 60.0) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def has_noted_output_of(self, spec: Mapping[str, Any], stream: str) -> bool:
        """Return whether a line is on record as read. A line that is not when the agent dies is read once more."""
        place = f"{spec['container_id']}.{spec['epoch']}"
        return (self.state_dir / "cursors" / f"{place}.{stream}").exists()

    def close(self) -> None:
        """Remove the agent and its processes."""
        if self.process.poll() is None:
            self.kill()
        for pids in self.state_dir.glob("containers/*/pids.json"):
            _kill_session(pids)


def _kill_session(pids: Path) -> None:
    document = json.loads(pids.read_text())
    for name in ("pid", "shim"):
        # A command that could not be run has no pid, and a signal to 0 would be for this test run itself.
        if document[name]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(document[name], signal.SIGKILL)


def make_spec(command: list[str] | str, **changes: Any) -> dict[str, Any]:
    """Make the specification of a container that runs a shell line or an argument list."""
    container_id = changes.pop("container_id", f"c-{uuid.uuid4().hex[:12]}")
    spec = {
        "container_id": container_id,
        "resources_id": container_id,
        "allocation_id": f"{container_id}.1",
        "task_id": f"task-{container_id}",
        "task_type": "COMMAND",
        "epoch": 1,
        "name": "a-test",
        "image": "det-test:latest",
        "force_pull": False,
        "registry_auth": None,
        "command": ["bash", "-c", command] if isinstance(command, str) else command,
        "work_dir": "/run/determined/workdir",
        "env": {},
        "files": [],
        "mounts": [],
        "devices": [],
        "shm_size_bytes": 64 * 1024 * 1024,
        "cap_add": [],
        "cap_drop": [],
        "network": "bridge",
        "ports": [1734],
        "slot_ids": [],
        "user": {"uid": 0, "gid": 0, "user": "root", "group": "root"},
        "session_token": f"token-of-{container_id}",
    }
    return spec | changes
