"""The garage: a cloud of local processes. Each machine is a JSON file and, if it has an agent, a process.

A lock file makes each call atomic, so that all processes of a control plane see one garage.
"""

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Offer, Scope
from det_controlplane.ports.compute import (
    CloudMachine,
    LaunchOutcome,
    LaunchRequest,
    Place,
    Refusal,
    Unreachable,
)

from det_provider_garage import Settings
from det_provider_garage.identity import MACHINE_VARIABLE

_NOT_IN_REQUEST = {
    "ended_because": "",
    "taken_back": False,
    "console": "",
    "pid": 0,
}


@dataclass
class Garage:
    """Implement `Compute`. The fields after the folder let tests disturb the garage."""

    folder: Path
    provider: str = "garage"
    refusals: dict[Scope, RefusalKind] = field(default_factory=dict)
    is_open: bool = True
    loses_next_answer: bool = False

    def launch(self, request: LaunchRequest) -> LaunchOutcome:
        with self._locked() as machines:
            known = next((m for m in machines.values() if m["token"] == request.token), None)
            outcome = LaunchOutcome(_as_machine(known)) if known else self._first_free(request)
        if self.loses_next_answer:
            self.loses_next_answer = False
            raise Unreachable("the garage did not answer")
        return outcome

    def _first_free(self, request: LaunchRequest) -> LaunchOutcome:
        refused: list[Refusal] = []
        for offer in request.offers:
            refusal = self._refusal(offer)
            if refusal is None:
                return LaunchOutcome(self._start(request, offer), tuple(refused))
            refused.append(refusal)
        return LaunchOutcome(None, tuple(refused))

    def _refusal(self, offer: Offer) -> Refusal | None:
        for scope, kind in self.refusals.items():
            if scope.covers(offer):
                return Refusal(
                    kind, scope, f"the garage has no {offer.machine_type} now ({kind.value})"
                )
        return None

    def _start(self, request: LaunchRequest, offer: Offer) -> CloudMachine:
        machine = {
            "cloud_id": secrets.token_hex(8),
            "key": secrets.token_hex(16),
            "token": request.token,
            "cluster_id": request.cluster_id,
            "machine_id": str(request.machine_id),
            "pool": request.pool,
            "region": offer.region,
            "zone": offer.zone or f"{offer.region}-a",
            "machine_type": offer.machine_type,
            "capacity": offer.capacity.value,
            **_NOT_IN_REQUEST,
        }
        if request.agent_options:
            machine["pid"] = self._start_agent(machine, request, offer.slots)
        self._store(machine)
        return _as_machine(machine)

    def _start_agent(self, machine: Mapping[str, Any], request: LaunchRequest, slots: int) -> int:
        """Start the agent in a folder of its own, as a machine does when it boots. Return its process id."""
        home = self.folder / str(machine["cloud_id"])
        home.mkdir()
        (home / "machine.json").write_text(json.dumps(machine))
        config = {
            **request.agent_options,
            "agent_id": f"garage-{machine['cloud_id']}",
            "slots": f"artificial:{slots}",
            "container_runtime": "process",
            "state_dir": str(home / "state"),
            "on_stop": "kill",
            "hooks": {},  # a silent machine must not switch off its host
        }
        path = home / "agent.yaml"
        path.write_text(json.dumps(config))
        nice = ["nice", "-n", str(Settings.model_validate(request.settings).niceness)]
        # The settings of the control plane are not the machine's.
        inherited = {n: v for n, v in os.environ.items() if not n.startswith("DET_")}
        with (home / "console").open("wb") as console:
            process = subprocess.Popen(
                [*nice, sys.executable, "-m", "det_agent.main", "run", "--config-file", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env={**inherited, MACHINE_VARIABLE: str(home)},
                start_new_session=True,
            )
        return process.pid

    def terminate(self, machines: Sequence[CloudMachine]) -> Sequence[Refusal]:
        with self._locked() as known:
            for machine in machines:
                if machine.cloud_id in known:
                    self._end(known[machine.cloud_id], "terminated by the cluster")
        return ()

    def reclaim(self, cloud_id: str) -> None:
        """Take a machine back, as clouds do with spot machines."""
        with self._locked() as known:
            known[cloud_id]["taken_back"] = True
            self._end(known[cloud_id], "the garage needs its room")

    def _end(self, machine: dict[str, Any], reason: str) -> None:
        if machine["pid"]:
            try:
                os.kill(machine["pid"], signal.SIGTERM)
            except ProcessLookupError:
                pass
        machine["ended_because"] = machine["ended_because"] or reason
        self._store(machine)

    def owned(self, cluster_id: str, place: Place) -> Sequence[CloudMachine]:
        with self._locked() as machines:
            return [
                _as_machine(m)
                for m in machines.values()
                if (m["cluster_id"], m["region"]) == (cluster_id, place.region)
            ]

    def console(self, machine: CloudMachine, place: Place) -> str:
        with self._locked() as machines:
            printed = str(machines.get(machine.cloud_id, _NOT_IN_REQUEST)["console"])
        path = self.folder / machine.cloud_id / "console"
        return printed + (path.read_text(errors="replace")[-10_000:] if path.exists() else "")

    def print_on_console(self, cloud_id: str, text: str) -> None:
        with self._locked() as machines:
            machines[cloud_id]["console"] += text
            self._store(machines[cloud_id])

    def delete_groups(self, cluster_id: str, place: Place, in_use: Collection[str]) -> bool:
        return True  # the garage has no placement groups

    @contextmanager
    def _locked(self) -> Iterator[dict[str, dict[str, Any]]]:
        """Yield all machines by id, while no other call runs."""
        if not self.is_open:
            raise Unreachable("the garage is closed")
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stored = (json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json")))
            yield {machine["cloud_id"]: machine for machine in stored}

    def _store(self, machine: Mapping[str, Any]) -> None:
        path = self.folder / f"{machine['cloud_id']}.json"
        partial = path.with_suffix(".new")
        partial.write_text(json.dumps(machine))
        partial.replace(path)


def _as_machine(facts: Mapping[str, Any]) -> CloudMachine:
    return CloudMachine(
        "garage",
        facts["region"],
        facts["zone"],
        facts["cloud_id"],
        "gone" if facts["ended_because"] else "running",
        facts["machine_type"],
        facts["capacity"],
        UUID(facts["machine_id"]),
        facts["pool"],
        facts["ended_because"],
        facts["taken_back"],
    )
