"""The operator's Google Cloud project: the calls that `det deploy gcp` makes in addition to Terraform."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from det_cli.deployment import extras, restoring
from det_cli.deployment.terraform import Backend
from det_cli.errors import CommandError

# The provisioner labels machines. The stack labels all other resources.
MACHINE_LABEL, LABEL = "det-cluster", "determined-cluster"
SIGN_IN = (
    "give a service account key with --keypath FILE, or sign in with"
    " `gcloud auth application-default login`"
)
# Name suffixes that the stack uses.
_WORKERS = ("tick", "provision")
_ACCOUNTS = ("api", "tick", "prov", "sched", "relay", "build", "vm")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_TIMEOUT_S = 60.0
_OPERATION_S = 300.0
_ENABLED_S = 300.0  # time until all Google servers know that an API is enabled
_LOOK_S = 5.0
_DISABLED = {"SERVICE_DISABLED", "accessNotConfigured"}
_STATE = "/default.tfstate"
_OPTIONS, _LOCK = "/options.json", "/provider-lock.json"
_KEY = "secrets_key"


class Refused(CommandError):
    """Google Cloud answered a call with an error."""

    def __init__(self, cause: str, hint: str = "", *, status: int = 0) -> None:
        super().__init__(cause, hint)
        self.status = status


class Denied(Refused):
    """Google Cloud denied a call because a permission, an API or a billing account is missing."""


class Google:
    """A Google Cloud project in one of its regions."""

    def __init__(
        self,
        project: str,
        region: str,
        *,
        keypath: str = "",
        endpoint_url: str = "",
        states: str = "",
    ) -> None:
        self.project = project
        self.region = region
        self.keypath = keypath
        self.endpoint_url = endpoint_url
        self.state_bucket = states or f"{project}-determined-deploy"
        self._retry_until = 0.0

    def call(self, method: str, service: str, path: str, body: Any = None, **query: str) -> Any:
        """Return the response of an API, or None if the object does not exist. Raises CommandError."""
        return self._call(method, service, path, {"json": body} if body is not None else {}, query)

    def pages(self, service: str, path: str, field: str, **query: str) -> Iterator[Any]:
        """Yield the items of all pages of a list."""
        token = ""
        while True:
            params = {**query, "pageToken": token} if token else query
            page = self.call("GET", service, path, **params) or {}
            yield from page.get(field, ())
            token = page.get("nextPageToken", "")
            if not token:
                return

    def wait(self, service: str, operation: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        """Wait until an operation is `done`. Raises CommandError with its error."""
        limit = time.monotonic() + _OPERATION_S
        while not operation.get("done"):
            if time.monotonic() > limit:
                raise CommandError(f"Google Cloud does not finish {operation.get('name')}", _AGAIN)
            time.sleep(1)
            operation = self.call("GET", service, f"{path}/{operation['name']}") or {}
        if "error" in operation:
            raise CommandError(f"Google Cloud: {operation['error'].get('message')}", _AGAIN)
        return operation

    def retry_disabled(self) -> None:
        """Retry calls for a while if an API is reported as disabled, because enabling it takes effect late."""
        self._retry_until = time.monotonic() + _ENABLED_S

    def upload(self, bucket: str, name: str, content: bytes) -> str:
        """Store an object and return its generation."""
        response = self._call(
            "POST", "storage", f"/upload/storage/v1/b/{bucket}/o",
            {"data": content, "headers": {"Content-Type": "application/octet-stream"}},
            {"uploadType": "media", "name": name},
        )  # fmt: skip
        if response is None:
            raise CommandError(f"there is no bucket {bucket}", _AGAIN)
        return str(response["generation"])

    # Terraform's states

    def make_state_bucket(self) -> None:
        """Create the bucket for Terraform states if this is the project's first cluster."""
        if self.has_bucket(self.state_bucket):
            return
        body = {
            "name": self.state_bucket,
            "location": self.region,
            "versioning": {"enabled": True},
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": True},
                "publicAccessPrevention": "enforced",
            },
        }
        self.call("POST", "storage", "/storage/v1/b", body, project=self.project)

    def has_bucket(self, name: str) -> bool:
        try:
            return self.call("GET", "storage", f"/storage/v1/b/{name}") is not None
        except Denied as e:
            raise CommandError(
                f"the bucket {name} cannot be used: it belongs to another project, or {e.cause}",
                "choose another name: --tf-state-gcs-bucket-name for states, --var bucket=NAME for checkpoints",
            ) from e

    def clusters(self) -> list[str]:
        """Return the clusters of the project, as listed by their Terraform states."""
        if not self.has_bucket(self.state_bucket):
            return []
        objects = self.pages("storage", f"/storage/v1/b/{self.state_bucket}/o", "items")
        names = [str(item["name"]) for item in objects]
        return sorted(n.removesuffix(_STATE) for n in names if n.endswith(_STATE))

    def backend(self, cluster_id: str) -> Backend:
        return Backend("gcs", {"bucket": self.state_bucket, "prefix": cluster_id})

    def forget_state(self, cluster_id: str) -> None:
        for name in (_STATE, _OPTIONS, _LOCK):
            self.call("DELETE", "storage", self._object(f"{cluster_id}{name}"))

    def options(self, cluster_id: str) -> dict[str, Any]:
        return self._kept(f"{cluster_id}{_OPTIONS}")

    def keep_options(self, cluster_id: str, options: Mapping[str, Any]) -> None:
        self.upload(self.state_bucket, f"{cluster_id}{_OPTIONS}", json.dumps(options).encode())

    def provider_lock(self, cluster_id: str) -> str:
        return str(self._kept(f"{cluster_id}{_LOCK}").get("content") or "")

    def keep_provider_lock(self, cluster_id: str, content: str) -> None:
        name = f"{cluster_id}{_LOCK}"
        self.upload(self.state_bucket, name, json.dumps({"content": content}).encode())

    def secrets_key(self, database: str) -> str:
        """Return the encryption key of the secrets in a database, even if its cluster was removed.

        Returns '' if the key is unknown.
        """
        stored_key = self._kept(restoring.key_object(database)).get(_KEY)
        owner = database.removeprefix("det-")
        return str(stored_key or restoring.key_in(self._kept(f"{owner}{_STATE}")))

    def keep_secrets_key(self, database: str, key: str) -> None:
        """Store the key of a database next to the Terraform states, for later restores of its backups."""
        name = restoring.key_object(database)
        self.upload(self.state_bucket, name, json.dumps({_KEY: key}).encode())

    def _kept(self, name: str) -> dict[str, Any]:
        """Return a JSON object from the state bucket, or {} if it does not exist."""
        if not self.has_bucket(self.state_bucket):
            return {}
        return self.call("GET", "storage", self._object(name), alt="media") or {}

    def _object(self, name: str) -> str:
        return f"/storage/v1/b/{self.state_bucket}/o/{name.replace('/', '%2F')}"

    # Machines

    def has_cluster(self, cluster_id: str) -> bool:
        """Return True if the project has the cluster, even if its state is in another bucket."""
        return cluster_id in self.clusters() or self._account_of("api", cluster_id) in (
            account["email"] for account in self._accounts()
        )

    def machines(self, cluster_id: str) -> list[str]:
        """Return the rented machines of a cluster that are not terminated, as ZONE/NAME."""
        path = f"/compute/v1/projects/{self.project}/aggregated/instances"
        label_filter = f'labels.{MACHINE_LABEL}="{cluster_id}"'
        instances = self._aggregated(path, "instances", label_filter)
        return sorted(f"{i['zone'].rpartition('/')[2]}/{i['name']}" for i in instances)

    def terminate(self, machines: Sequence[str]) -> None:
        for machine in machines:
            zone, _, name = machine.partition("/")
            where = f"/compute/v1/projects/{self.project}/zones/{zone}/instances/{name}"
            self.call("DELETE", "compute", where)

    def forget_machines(self, cluster_id: str) -> None:
        """Do nothing, because a cluster creates no resources for renting machines."""

    def labelled(self, cluster_id: str) -> Iterator[str]:
        """Yield the kind and name of each resource with the cluster's label, except its bucket."""
        project = self.project
        label_filter, machines = (
            f'labels.{LABEL}="{cluster_id}"',
            f'labels.{MACHINE_LABEL}="{cluster_id}"',
        )
        for label in (label_filter, machines):
            for disk in self._aggregated(
                f"/compute/v1/projects/{project}/aggregated/disks", "disks", label
            ):
                yield f"disk {disk['name']}"
        databases = self.pages(
            "sqladmin", f"/v1/projects/{project}/instances", "items",
            filter=f"settings.userLabels.{LABEL}:{cluster_id}",
        )  # fmt: skip
        yield from (f"database {resource['name']}" for resource in databases)
        for name in self.services(cluster_id):
            yield f"service {name.rpartition('/')[2]}"
        secrets = self.pages(
            "secretmanager",
            f"/v1/projects/{project}/secrets",
            "secrets",
            filter=f"labels.{LABEL}={cluster_id}",
        )
        yield from (f"secret {resource['name'].rpartition('/')[2]}" for resource in secrets)

    def named(self, cluster_id: str) -> Iterator[str]:
        """Yield the existing resources without labels by name: network, registry, schedules and accounts."""
        name, here = f"det-{cluster_id}", f"projects/{self.project}/locations/{self.region}"
        single = {
            f"network {name}": (
                "compute", f"/compute/v1/projects/{self.project}/global/networks/{name}",
            ),
            f"registry {name}": ("artifactregistry", f"/v1/{here}/repositories/{name}"),
            **{
                f"schedule {name}-{worker}": ("cloudscheduler", f"/v1/{here}/jobs/{name}-{worker}")
                for worker in _WORKERS
            },
        }  # fmt: skip
        for description, (service, path) in single.items():
            if self.call("GET", service, path) is not None:
                yield description
        emails = {self._account_of(suffix, cluster_id) for suffix in _ACCOUNTS}
        yield from (f"account {a['email']}" for a in self._accounts() if a["email"] in emails)

    def _account_of(self, part: str, cluster_id: str) -> str:
        return f"det-{cluster_id}-{part}@{self.project}.iam.gserviceaccount.com"

    def _accounts(self) -> Iterator[Any]:
        return self.pages("iam", f"/v1/projects/{self.project}/serviceAccounts", "accounts")

    def services(self, cluster_id: str) -> dict[str, Mapping[str, Any]]:
        """Return the Cloud Run services of a cluster by full name."""
        path = f"/v2/projects/{self.project}/locations/{self.region}/services"
        return {
            str(service["name"]): service
            for service in self.pages("run", path, "services")
            if service.get("labels", {}).get(LABEL) == cluster_id
        }

    def revisions(self, cluster_id: str) -> dict[str, str]:
        """Return the serving revision of each service."""
        serving = {}
        for name, service in self.services(cluster_id).items():
            parts = [t for t in service.get("trafficStatuses", ()) if t.get("percent") == 100]
            pinned = str(parts[0].get("revision") or "") if parts else ""
            newest = str(service.get("latestReadyRevision") or "").rpartition("/")[2]
            if pinned or newest:
                serving[name] = pinned or newest
        return serving

    def switch(self, service: str, revision: str) -> None:
        """Send all requests of a service to a revision until the next deployment."""
        kind = "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION"
        body = {"traffic": [{"type": kind, "revision": revision, "percent": 100}]}
        operation = self.call("PATCH", "run", f"/v2/{service}", body, updateMask="traffic")
        self.wait("run", operation or {"done": True}, "/v2")

    def remove_peering(self, network: str) -> None:
        """Remove the peering with Cloud SQL, which would block the deletion of the network for days."""
        path = f"/compute/v1/projects/{self.project}/global/networks/{network}"
        network_info = self.call("GET", "compute", path) or {}
        for peering in network_info.get("peerings", ()):
            self.call("POST", "compute", f"{path}/removePeering", {"name": peering["name"]})
        limit = time.monotonic() + _OPERATION_S
        while (self.call("GET", "compute", path) or {}).get("peerings"):
            if time.monotonic() > limit:
                raise CommandError(f"the network {network} keeps its peering", _AGAIN)
            time.sleep(2)

    def _aggregated(self, path: str, kind: str, label_filter: str) -> Iterator[Any]:
        for _, resource in self.aggregated(path, kind, filter=label_filter):
            yield resource

    def aggregated(self, path: str, kind: str, **query: str) -> Iterator[tuple[str, Any]]:
        """Yield the zone and each resource of a list of all zones. Its first pages can be empty."""
        token = ""
        while True:
            params = {**query, "pageToken": token} if token else query
            page = self.call("GET", "compute", path, **params) or {}
            for place, scope in page.get("items", {}).items():
                for resource in scope.get(kind, ()):
                    yield place.rpartition("/")[2], resource
            token = page.get("nextPageToken", "")
            if not token:
                return

    # Calls

    def _call(
        self,
        method: str,
        service: str,
        path: str,
        content: Mapping[str, Any],
        query: Mapping[str, str],
    ) -> Any:
        with extras.needed("gcp"):
            import requests
            from google.auth.exceptions import GoogleAuthError, TransportError

        base = (
            f"{self.endpoint_url}/{service}"
            if self.endpoint_url
            else f"https://{service}.googleapis.com"
        )
        send = partial(
            self._session.request, method, base + path, params=query, timeout=_TIMEOUT_S, **content
        )
        try:
            response = send()
            while _is_disabled(response) and time.monotonic() < self._retry_until:
                time.sleep(_LOOK_S)
                response = send()
        except TransportError as e:
            raise CommandError(f"Google's sign-in cannot be reached: {_first(e)}", _REACH) from e
        except GoogleAuthError as e:
            raise CommandError(
                f"Google does not accept the credentials: {_first(e)}", SIGN_IN
            ) from e
        except requests.RequestException as e:
            raise CommandError(f"{service}.googleapis.com does not answer: {e}", _AGAIN) from e
        if response.status_code == 404:
            return None
        if response.status_code >= 400:
            raise self._refusal(service, response)
        return response.json() if response.content else {}

    def _refusal(self, service: str, response: Any) -> CommandError:
        """Return the error for an API's error response, with the next step."""
        message, _ = _error_details(response)
        status = int(response.status_code)
        if status == 401:
            return CommandError(f"Google does not accept the credentials: {message}", SIGN_IN)
        if _is_disabled(response):
            page = f"https://console.cloud.google.com/apis/library/{service}.googleapis.com"
            return Denied(
                f"the API {service} is disabled in project {self.project}",
                f"enable it at {page}?project={self.project}",
            )
        if "billing" in message.lower():
            link = f"https://console.cloud.google.com/billing/linkedaccount?project={self.project}"
            return Denied(
                f"project {self.project} has no billing account: {message}", f"link one at {link}"
            )
        if status == 403:
            return Denied(
                f"Google Cloud denies a call to {service}: {message}",
                f"check that {self.project} is the project's id; its owner can grant roles/owner or the permission",
                status=status,
            )
        return Refused(
            f"Google Cloud rejected a call to {service}: {message}", _AGAIN, status=status
        )

    @cached_property
    def _session(self) -> Any:
        from google.auth.transport.requests import AuthorizedSession

        # Bill calls and quota to this project.
        credentials = self.credentials
        if hasattr(credentials, "with_quota_project"):
            credentials = credentials.with_quota_project(self.project)
        return AuthorizedSession(credentials)

    @cached_property
    def credentials(self) -> Any:
        """Return the operator's credentials. Raises CommandError without credentials."""
        with extras.needed("gcp"):
            import google.auth
            from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

        if self.keypath:
            return _key_credentials(self.keypath)
        try:
            return google.auth.default(scopes=[_SCOPE])[0]
        except DefaultCredentialsError:
            raise CommandError("there are no Google Cloud credentials", SIGN_IN) from None
        except GoogleAuthError as e:
            raise CommandError(
                f"Google does not accept the credentials: {_first(e)}", SIGN_IN
            ) from e


_REACH = (
    "check the internet connection or set a proxy (HTTPS_PROXY), then run the same command again"
)
_AGAIN = "run the same command again to continue"


def _key_credentials(path: str) -> Any:
    from google.auth.exceptions import GoogleAuthError
    from google.oauth2.service_account import Credentials

    try:
        return Credentials.from_service_account_file(path, scopes=[_SCOPE])
    except FileNotFoundError as e:
        raise CommandError(
            f"{path} does not exist", "--keypath needs the file of a service account key"
        ) from e
    except (GoogleAuthError, ValueError, OSError) as e:
        raise CommandError(f"{path} is not a service account key: {_first(e)}", SIGN_IN) from e


def default_project() -> str:
    """Return the project of the operator's credentials or gcloud's settings, or ''."""
    with extras.needed("gcp"):
        import google.auth
        from google.auth.exceptions import GoogleAuthError

    try:
        return str(google.auth.default()[1] or "")
    except (GoogleAuthError, OSError):
        return ""


def _error_details(response: Any) -> tuple[str, set[str]]:
    """Return the message and the reason codes of an error response."""
    try:
        error = response.json()["error"]
        if not isinstance(error, dict):
            return str(error), set()
    except (ValueError, KeyError, TypeError):
        return response.text[:200] or str(response.status_code), set()
    reasons = {str(d.get("reason", "")) for d in error.get("details", ()) if isinstance(d, dict)}
    reasons |= {str(e.get("reason", "")) for e in error.get("errors", ())}
    return str(error.get("message", response.status_code)), reasons


def _is_disabled(response: Any) -> bool:
    """Return True if the response reports that the API is disabled in the project."""
    return bool(response.status_code == 403 and _error_details(response)[1] & _DISABLED)


def _first(error: BaseException) -> str:
    """Return the readable part of a google-auth error. The second part is the raw response."""
    return str(error.args[0] if error.args else error)
