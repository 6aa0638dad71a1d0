"""Cloud Run jobs, their secrets and their logs, for FakeGoogle. A job runs the program of the image on this machine.

Left out: the time limit, retries and the quota of jobs. Logs arrive with the second request after the end."""

import base64
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.google_refusals import Refusal

Json = dict[str, Any]
_OPERATION = "projects/acme/locations/us-west1/operations"


@dataclass
class FakeJobs:
    jobs: dict[str, Json] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    readers: dict[str, list[str]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)  # values of the cluster's secrets
    grants_late: int = 0  # creations of jobs before the account may read a new secret
    entries: list[Json] = field(default_factory=list)
    _requests: int = 0

    def create_secret(self, name: str) -> Json:
        if name in self.secrets:
            raise Refusal(409, f"Secret [projects/1/secrets/{name}] already exists.")
        self.secrets[name] = ""
        return {}

    def add_version(self, name: str, body: Json) -> Json:
        self.secrets[name] = base64.b64decode(body["payload"]["data"]).decode()
        return {}

    def set_policy(self, name: str, body: Json) -> Json:
        (binding,) = body["policy"]["bindings"]
        self.readers[name] = binding["members"]
        return {}

    def create_job(self, name: str, body: Json) -> Json:
        if name in self.jobs:
            raise Refusal(409, f"Resource '{name}' already exists.")
        self.jobs[name] = body
        if self.grants_late:
            self.grants_late -= 1
            message = f"Permission denied on secret: projects/1/secrets/{name}/versions/latest"
            return {"name": f"{_OPERATION}/o2", "done": True, "error": {"message": message}}
        return {"name": f"{_OPERATION}/o2", "done": True}

    def run(self, name: str) -> Json:
        """Run the program of the control plane's image with the environment of the job."""
        task = self.jobs[name]["template"]["template"]
        account = f"serviceAccount:{task['serviceAccount']}"
        (container,) = task["containers"]
        result = subprocess.run(
            [sys.executable, "-m", "det_controlplane.entry.container.main"],
            env={"PATH": os.environ["PATH"], **self._environment(container["env"], account)},
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        self.entries = [
            {"insertId": str(number), "timestamp": "2026-11-29T12:00:00Z", "textPayload": line}
            for number, line in enumerate((result.stderr + result.stdout).splitlines())
        ]
        execution = f"{_OPERATION.removesuffix('/operations')}/jobs/{name}/executions/{name}-x1"
        return {"name": f"{_OPERATION}/o3", "done": False, "metadata": {"name": execution}}

    def _environment(self, variables: list[Json], account: str) -> dict[str, str]:
        environment = {}
        for each in variables:
            if "value" in each:
                environment[each["name"]] = each["value"]
                continue
            secret = each["valueSource"]["secretKeyRef"]["secret"]
            if secret in self.secrets:
                assert account in self.readers[secret]
                environment[each["name"]] = self.secrets[secret]
            else:
                environment[each["name"]] = self.environment[secret]
        return environment

    def cancel(self, name: str) -> Json:
        self.deleted.append(f"execution {name}")
        return {"name": f"{_OPERATION}/o1", "done": True}

    def delete(self, name: str) -> Json:
        self.jobs.pop(name)
        self.deleted.append(f"job {name}")
        return {"name": f"{_OPERATION}/o1", "done": True}

    def delete_secret(self, name: str) -> Json:
        self.secrets.pop(name)
        self.deleted.append(f"secret {name}")
        return {}

    def logs(self, body: Json) -> Json:
        assert 'labels."run.googleapis.com/execution_name"' in body["filter"]
        self._requests += 1
        return {"entries": self.entries if self._requests > 1 else self.entries[:1]}


_RUN, _SECRETS = (
    r"/run/v2/projects/[^/]+/locations/[^/]+/jobs",
    r"/secretmanager/v1/projects/[^/]+/secrets",
)
_NAME = r"(?P<name>[^/:]+)"
ROUTES = (
    ("POST", _SECRETS, lambda fake, query, body: fake.jobs.create_secret(query["secretId"])),
    ("POST", f"{_SECRETS}/{_NAME}:addVersion", lambda fake, query, body: fake.jobs.add_version(query["name"], body)),
    ("POST", f"{_SECRETS}/{_NAME}:setIamPolicy", lambda fake, query, body: fake.jobs.set_policy(query["name"], body)),
    ("DELETE", f"{_SECRETS}/{_NAME}", lambda fake, query, body: fake.jobs.delete_secret(query["name"])),
    ("POST", _RUN, lambda fake, query, body: fake.jobs.create_job(query["jobId"], body)),
    ("POST", f"{_RUN}/{_NAME}:run", lambda fake, query, body: fake.jobs.run(query["name"])),
    ("POST", f"{_RUN}/[^/]+/executions/{_NAME}:cancel", lambda fake, query, body: fake.jobs.cancel(query["name"])),
    ("DELETE", f"{_RUN}/{_NAME}", lambda fake, query, body: fake.jobs.delete(query["name"])),
    ("GET", "/run/v2/projects/.*/operations/o3", lambda fake, query, body: {"name": "o3", "done": True}),
    ("POST", "/logging/v2/entries:list", lambda fake, query, body: fake.jobs.logs(body)),
)  # fmt: skip
