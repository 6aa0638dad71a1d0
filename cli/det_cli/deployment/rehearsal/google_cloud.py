"""The Google Cloud project beside a cluster under rehearsal: its machines, schedules and objects."""

from collections.abc import Sequence

from det_cli.deployment.google import Google
from det_cli.deployment.rehearsal.cluster_client import Machine
from det_cli.deployment.rehearsal.records import StepFailed
from det_cli.deployment.rehearsal.stage import DatabaseState


class GoogleCloud:
    """The project of a cluster on Google Cloud."""

    name = "Google Cloud"
    storage_type = "gcs"

    def __init__(self, account: Google, cluster_id: str) -> None:
        self._account = account
        self._cluster_id = cluster_id

    def machines(self) -> Sequence[str]:
        return self._account.machines(self._cluster_id)

    def schedules_on(self, names: Sequence[str]) -> Sequence[str]:
        google = self._account
        jobs = f"/v1/projects/{google.project}/locations/{google.region}/jobs"
        found = {name: google.call("GET", "cloudscheduler", f"{jobs}/{name}") for name in names}
        return [name for name, job in found.items() if (job or {}).get("state") == "ENABLED"]

    def database(self) -> DatabaseState:
        return DatabaseState(None, "the database is a Cloud SQL instance, which always runs")

    def reclaim(self, machine: Machine) -> str:
        """Simulate a maintenance event, by which Google Cloud preempts a spot machine with its notice."""
        name = machine.cloud_id.rpartition("/")[2]
        places = [listed for listed in self.machines() if listed.rpartition("/")[2] == name]
        if machine.provider != "gcp" or not places:
            raise StepFailed(
                f"project {self._account.project} has no machine {name} of {machine.offer}",
                "name a pool that rents in this project by --pool",
            )
        zone = places[0].partition("/")[0]
        path = f"/compute/v1/projects/{self._account.project}/zones/{zone}/instances/{name}"
        if self._account.call("POST", "compute", f"{path}/simulateMaintenanceEvent") is None:
            raise StepFailed(
                f"the machine {zone}/{name} was gone before the event", "rehearse this step again"
            )
        return f"simulated a maintenance event of {zone}/{name}, which preempts a spot machine"

    def stored(self, bucket: str, checkpoint: str) -> Sequence[str]:
        path = f"/storage/v1/b/{bucket}/o"
        objects = self._account.pages("storage", path, "items", prefix=f"{checkpoint}/")
        return [str(stored["name"]) for stored in objects]
