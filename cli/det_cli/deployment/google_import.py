"""Import a Determined cluster with a Cloud Run job that has the image, network and account of the API.

The job and the secret with its request exist only during the import."""

import base64
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from det_cli.deployment.google import LABEL, Google, Refused
from det_cli.errors import CommandError, MissingError
from det_cli.render import Say

_EXIT_LINE = "import ended with status "  # the last line of the job's output
_LOOK_S = 5.0
_LATE_S = 120.0  # until Cloud Logging has the last line
_CONFLICT = 409
_GRANT_S = 120.0  # until the account of the job may read a new secret
_AGAIN = "finished experiments stay imported; run the same command again to continue"


class ImportJob:
    """The job of one import. Leaving the context deletes the job and its secret."""

    def __init__(self, google: Google, cluster_id: str, say: Say) -> None:
        self._google, self._cluster_id, self._say = google, cluster_id, say
        self._id = f"det-{cluster_id}-import"
        self._place = f"projects/{google.project}/locations/{google.region}"
        self._job = f"{self._place}/jobs/{self._id}"
        self._secret = f"projects/{google.project}/secrets/{self._id}"
        self._made: list[tuple[str, str]] = []
        self._execution = ""
        self._printed: set[str] = set()
        self._last_time = ""

    def __enter__(self) -> "ImportJob":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        if error is not None and self._execution:
            with suppress(Refused):  # it has ended
                self._google.call("POST", "run", f"/v2/{self._execution}:cancel", {})
        for service, path in reversed(self._made):
            self._google.call("DELETE", service, path)

    def run(self, request: Mapping[str, Any]) -> int:
        """Import, print the output of the job, and return its exit status."""
        api = self._api()
        self._make_secret(request, api["template"]["serviceAccount"])
        self._make_job(api["template"])
        self._say(f"running the job {self._id}; Ctrl-C stops it, and the same command continues")
        operation = self._google.call("POST", "run", f"/v2/{self._job}:run", {})
        self._execution = str(operation["metadata"]["name"])
        while not operation.get("done"):
            time.sleep(_LOOK_S)
            status = self._print_output()
            if status is not None:
                return status
            operation = self._google.call("GET", "run", f"/v2/{operation['name']}") or operation
        return self._wait_for_status(operation.get("error") or {})

    def _api(self) -> Mapping[str, Any]:
        name = f"{self._place}/services/det-{self._cluster_id}-api"
        service = self._google.services(self._cluster_id).get(name)
        if service is None:
            raise MissingError(
                f"there is no cluster {self._cluster_id} in {self._google.region} of project {self._google.project}",
                "`det deploy gcp list` lists the clusters; give --cluster-id and --region",
            )
        return service

    def _make_secret(self, request: Mapping[str, Any], account: str) -> None:
        """Store the request, which has the password of the source, in a secret that only the job's account reads."""
        replicas = {"userManaged": {"replicas": [{"location": self._google.region}]}}
        body = {"replication": replicas, "labels": {LABEL: self._cluster_id}}
        folder = f"/v1/projects/{self._google.project}/secrets"
        self._make("secretmanager", folder, f"/v1/{self._secret}", body, secretId=self._id)
        data = base64.b64encode(json.dumps(dict(request)).encode()).decode()
        version = {"payload": {"data": data}}
        self._google.call("POST", "secretmanager", f"/v1/{self._secret}:addVersion", version)
        members = [f"serviceAccount:{account}"]
        binding = {"role": "roles/secretmanager.secretAccessor", "members": members}
        policy = {"policy": {"bindings": [binding]}}
        self._google.call("POST", "secretmanager", f"/v1/{self._secret}:setIamPolicy", policy)

    def _make_job(self, template: Mapping[str, Any]) -> None:
        job = {**job_of(template, self._id), "labels": {LABEL: self._cluster_id}}
        folder, path = f"/v2/{self._place}/jobs", f"/v2/{self._job}"
        limit = time.monotonic() + _GRANT_S
        while True:
            operation = self._make("run", folder, path, job, jobId=self._id)
            try:
                self._google.wait("run", operation, "/v2")
            except CommandError as e:
                if "secret" not in str(e).lower() or time.monotonic() > limit:
                    raise
                self._made.remove(("run", path))
                self._google.wait("run", self._google.call("DELETE", "run", path), "/v2")
                time.sleep(_LOOK_S)
            else:
                return

    def _make(self, service: str, folder: str, path: str, body: Any, **query: str) -> Any:
        try:
            made = self._google.call("POST", service, folder, body, **query)
        except Refused as e:
            if e.status != _CONFLICT:
                raise
            kind = "secrets" if service == "secretmanager" else "run jobs"
            region = "" if service == "secretmanager" else f" --region {self._google.region}"
            raise CommandError(
                f"{self._id} exists: an import into this cluster is running, or its command was killed",
                f"if no import is running: gcloud {kind} delete {self._id}{region} --project {self._google.project}",
            ) from e
        self._made.append((service, path))
        return made

    def _wait_for_status(self, error: Mapping[str, Any]) -> int:
        """Return the exit status from the job's last line, which may arrive after its end."""
        limit = time.monotonic() + _LATE_S
        while time.monotonic() < limit:
            status = self._print_output()
            if status is not None:
                return status
            time.sleep(_LOOK_S)
        reason = error.get("message") or "it ended without a status"
        raise CommandError(f"the job {self._id} failed: {reason}", _AGAIN)

    def _print_output(self) -> int | None:
        """Print the new lines of the job. Return its exit status if it has ended."""
        for line in self._new_lines():
            if line.startswith(_EXIT_LINE):
                return int(line.removeprefix(_EXIT_LINE))
            print(line)
        return None

    def _new_lines(self) -> Iterator[str]:
        conditions = [
            'resource.type="cloud_run_job"', f'resource.labels.job_name="{self._id}"',
            'logName:"run.googleapis.com%2Fstd"',  # standard output and error
            f'labels."run.googleapis.com/execution_name"="{self._execution.rpartition("/")[2]}"',
        ]  # fmt: skip
        if self._last_time:
            conditions.append(f'timestamp>="{self._last_time}"')
        body = {
            "resourceNames": [f"projects/{self._google.project}"], "filter": " AND ".join(conditions),
            "orderBy": "timestamp asc", "pageSize": 1000,
        }  # fmt: skip
        answer = self._google.call("POST", "logging", "/v2/entries:list", body) or {}
        for entry in answer.get("entries", ()):
            if entry["insertId"] not in self._printed:
                self._printed.add(entry["insertId"])
                self._last_time = entry["timestamp"]
                yield str(entry.get("textPayload") or "").rstrip("\n")


def job_of(template: Mapping[str, Any], secret: str) -> dict[str, Any]:
    """Return a job with the container, the account and the network of a service."""
    (container,) = template["containers"]
    environment = [each for each in container["env"] if each["name"] != "DET_ROLE"]
    reference = {"secretKeyRef": {"secret": secret, "version": "latest"}}
    environment += [
        {"name": "DET_ROLE", "value": "import"},
        {"name": "DET_IMPORT", "valueSource": reference},
    ]
    kept = ("serviceAccount", "vpcAccess", "volumes")
    task = {
        **{name: template[name] for name in kept if name in template},
        "containers": [
            {
                "image": container["image"], "env": environment,
                "volumeMounts": container.get("volumeMounts", []),
                "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
            }
        ],
        "executionEnvironment": "EXECUTION_ENVIRONMENT_GEN2", "maxRetries": 0, "timeout": "86400s",
    }  # fmt: skip
    return {"template": {"taskCount": 1, "template": task}}
