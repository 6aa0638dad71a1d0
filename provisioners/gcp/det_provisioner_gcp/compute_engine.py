"""Rent machines from Google Compute Engine."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from det_controlplane.core.provision.offers import Scope
from det_controlplane.ports.compute import (
    CloudMachine,
    LaunchOutcome,
    LaunchRequest,
    Place,
    Refusal,
    Unreachable,
)

from det_provisioner_gcp import naming, refusals
from det_provisioner_gcp.api import GceApi, Refused
from det_provisioner_gcp.launching import Launching
from det_provisioner_gcp.settings import BadSettings, project_of, read_settings

log = logging.getLogger("det.machines")

SETTLE_S = 5.0  # most stockouts are reported within this time
_DELETIONS_AT_ONCE = 8
_CONSOLE_LINES = 200


class GceCompute:
    """Implements `ports.compute.Compute`. `projects` are the sections' projects; `project` is the default."""

    provider = "gcp"

    def __init__(
        self,
        api: GceApi,
        project: str = "",
        settle_s: float = SETTLE_S,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        projects: Collection[str] = (),
    ) -> None:
        self._projects = frozenset(projects)
        self._api = api
        self._project = project
        self._settle_s = settle_s
        self._now = now
        self._sleep = sleep

    def launch(self, request: LaunchRequest) -> LaunchOutcome:
        """Start the machine, or return the outcome of earlier calls with this token.

        An accepted start may still fail for lack of capacity. `owned` then does not list the machine, and repeating
        the request returns the reason. A token that started a machine never starts another one."""
        try:
            settings = read_settings(request.settings, self._project)
        except (BadSettings, TypeError, ValueError) as e:
            return LaunchOutcome(None, tuple(refusals.invalid(o, str(e)) for o in request.offers))
        launching = Launching(
            self._api, request, settings, self._settle_s, self._now, self._sleep
        )  # fmt: skip
        return launching.outcome()

    def terminate(self, machines: Sequence[CloudMachine]) -> Sequence[Refusal]:
        with ThreadPoolExecutor(_DELETIONS_AT_ONCE) as pool:
            return [r for r in pool.map(self._delete, machines) if r]

    def owned(self, cluster_id: str, place: Place) -> Sequence[CloudMachine]:
        condition = f'labels.{naming.CLUSTER_LABEL}="{naming.label_value(cluster_id)}"'
        try:
            machines = [
                m for p in self._projects_of(place) for m in self._api.machines(p, condition)
            ]
        except (BadSettings, Refused) as e:
            raise Unreachable(f"the machines of Google Cloud cannot be listed: {e}") from e
        return [m for m in machines if m.region == place.region]

    def _projects_of(self, place: Place) -> list[str]:
        """Return every project in which machines may exist. A missing project would look like one without machines."""
        projects = {naming.split_cloud_id(id)[0] for id in place.cloud_ids}
        if place.settings or not (projects | self._projects):
            projects.add(project_of(place.settings, self._project))
        return sorted(projects | self._projects)

    def console(self, machine: CloudMachine, place: Place) -> str:
        project, name = naming.split_cloud_id(machine.cloud_id)
        try:
            zone = self._zone(machine)
            text = self._api.serial_output(project, zone, name) if zone else ""
        except Refused as e:
            raise Unreachable(f"the console of {name} cannot be read: {e}") from e
        return "\n".join(text.splitlines()[-_CONSOLE_LINES:])

    def delete_groups(self, cluster_id: str, place: Place, in_use: Collection[str]) -> bool:
        try:
            results = [
                self._delete_policy(project, place.region, name)
                for project in self._projects_of(place)
                for name in self._api.policies(project, place.region, cluster_id)
                if name not in in_use
            ]
        except (BadSettings, Refused) as e:
            raise Unreachable(f"placement policies of Google Cloud cannot be listed: {e}") from e
        return all(results)

    def _delete_policy(self, project: str, region: str, name: str) -> bool:
        """Delete a policy. Return False if it still has a machine, for example one that is ending."""
        try:
            self._api.delete_policy(project, region, name)
        except Refused as e:
            log.info("Google Cloud keeps the placement policy %s: %s", name, e)
            return False
        return True

    def _delete(self, machine: CloudMachine) -> Refusal | None:
        project, name = naming.split_cloud_id(machine.cloud_id)
        try:
            zone = self._zone(machine)
            if zone:
                self._api.delete(project, zone, name)
        except Refused as e:
            scope = Scope(self.provider, machine.region, machine.zone, machine.machine_type)
            return Refusal(refusals.kind_of(e.faults[0]), scope, f"{name} was not deleted: {e}")
        return None

    def _zone(self, machine: CloudMachine) -> str:
        """Return the zone of a machine. Machines that were started in any zone of a region are looked up."""
        if machine.zone:
            return machine.zone
        project, name = naming.split_cloud_id(machine.cloud_id)
        machines = self._api.machines(project, f'name="{name}"')
        return machines[0].zone if machines else ""
