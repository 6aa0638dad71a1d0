"""The Google Cloud project of a rehearsed cluster: its machines, schedules and objects."""

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
        jobs_by_name = {
            name: google.call("GET", "cloudscheduler", f"{jobs}/{name}") for name in names
        }
        return [name for name, job in jobs_by_name.items() if (job or {}).get("state") == "ENABLED"]

    def database(self) -> DatabaseState:
        return DatabaseState(None, "the database is a Cloud SQL instance, which always runs")

    def reclaim(self, machine: Machine) -> str:
        """Simulate a maintenance event. Google Cloud then preempts a spot machine with a notice."""
        name = machine.cloud_id.rpartition("/")[2]
        matches = [
            path_of_machine
            for path_of_machine in self.machines()
            if path_of_machine.rpartition("/")[2] == name
        ]
        if machine.provider != "gcp" or not matches:
            raise StepFailed(
                f"project {self._account.project} has no machine {name} of {machine.offer}",
                "give a pool that rents in this project with --pool",
            )
        zone = matches[0].partition("/")[0]
        path = f"/compute/v1/projects/{self._account.project}/zones/{zone}/instances/{name}"
        if self._account.call("POST", "compute", f"{path}/simulateMaintenanceEvent") is None:
            raise StepFailed(
                f"the machine {zone}/{name} ended before the event", "rehearse this step again"
            )
        return f"simulated a maintenance event of {zone}/{name}, which preempts a spot machine"

    def stored(self, bucket: str, checkpoint: str) -> Sequence[str]:
        path = f"/storage/v1/b/{bucket}/o"
        objects = self._account.pages("storage", path, "items", prefix=f"{checkpoint}/")
        return [str(item["name"]) for item in objects]
