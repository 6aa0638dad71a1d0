"""Machines from Google Compute Engine."""

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

SETTLE_S = 5.0  # stockouts usually show by then
_DELETIONS_AT_ONCE = 8
_CONSOLE_LINES = 200


class GceCompute:
    """Implements `ports.compute.Compute`. `projects` are those of the sections, `project` is that of others."""

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
        """Start the machine, or tell what earlier calls with this token came to.

        An accepted start may still fail for lack of capacity. `owned` then lists no machine, and the same request
        again is answered by why there is none. A token that started anything starts nothing more."""
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
        wanted = f'labels.{naming.CLUSTER_LABEL}="{naming.label_value(cluster_id)}"'
        try:
            found = [m for p in self._projects_of(place) for m in self._api.machines(p, wanted)]
        except (BadSettings, Refused) as e:
            raise Unreachable(f"the machines of Google Cloud cannot be listed: {e}") from e
        return [m for m in found if m.region == place.region]

    def _projects_of(self, place: Place) -> list[str]:
        """Return every project in which machines may be: one that was left out would seem to be empty."""
        known = {naming.split_cloud_id(id)[0] for id in place.cloud_ids}
        if place.settings or not (known | self._projects):
            known.add(project_of(place.settings, self._project))
        return sorted(known | self._projects)

    def console(self, machine: CloudMachine, place: Place) -> str:
        project, name = naming.split_cloud_id(machine.cloud_id)
        try:
            zone = self._zone(machine)
            text = self._api.serial_output(project, zone, name) if zone else ""
        except Refused as e:
            raise Unreachable(f"the console of {name} cannot be read: {e}") from e
        return "\n".join(text.splitlines()[-_CONSOLE_LINES:])

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
        """Return the zone of a machine, also of one that was started in any zone of a region."""
        if machine.zone:
            return machine.zone
        project, name = naming.split_cloud_id(machine.cloud_id)
        found = self._api.machines(project, f'name="{name}"')
        return found[0].zone if found else ""
