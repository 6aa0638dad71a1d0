"""A small stateful cluster behind FakeApi: enough of /api/v1 for the command line and the SDK to be used for real."""

import base64
import io
import tarfile
from collections.abc import Iterator
from typing import Any

from determined.common.sign_in import salt_password

from tests.support.fake_api import FakeApi, Raw, RecordedRequest, Refusal

START = "2026-11-20T10:00:00.123456Z"
END = "2026-11-20T11:30:00Z"
CKPT = "11111111-2222-3333-4444-555555555555"
# The reason of a trial that failed because of its code.
NO_MODULE = {
    "state": "ERROR", "code": "ERROR", "sentence": "has failed: No module named 'numppy'",
    "cause": "No module named 'numppy'", "details": "trial 42: exit code: 1", "failedTrialId": 42,
    "needsNewCode": True, "nextStep": "fix the code and create it again",
}  # fmt: skip
TERMINAL = ("STATE_COMPLETED", "STATE_CANCELED", "STATE_ERROR")


def page(key: str, items: list[Any], request: RecordedRequest) -> dict[str, Any]:
    """Slice as the servers do: limit 0 means 100, negative means all."""
    offset, limit = int(request.first("offset", "0")), int(request.first("limit", "0")) or 100
    end = len(items) if limit < 0 else min(offset + limit, len(items))
    meta = {"offset": offset, "limit": limit, "startIndex": offset, "endIndex": end}
    return {key: items[offset:end], "pagination": {**meta, "total": len(items)}}


def user(id: int, username: str, **more: Any) -> dict[str, Any]:
    base = {"id": id, "username": username, "admin": False, "active": True, "displayName": ""}
    return {**base, "agentUserGroup": None, "remote": False, "modifiedAt": START, **more}


def experiment(id: int, **more: Any) -> dict[str, Any]:
    base = {
        "id": id, "name": f"mnist-{id}", "description": "digits", "labels": ["nightly", "a"],
        "state": "STATE_COMPLETED", "archived": False, "username": "ada", "userId": 3,
        "displayName": "", "startTime": START, "endTime": END, "resourcePool": "default",
        "numTrials": 1, "trialIds": [id * 10], "progress": 1.0, "projectId": 1, "projectOwnerId": 1,
        "projectName": "Uncategorized", "workspaceId": 1, "workspaceName": "Uncategorized",
        "searcherType": "single", "jobId": f"job-{id}", "config": {"name": f"mnist-{id}"},
        "originalConfig": f"name: mnist-{id}\n", "notes": "", "parentArchived": False,
        "hyperparameters": {}, "checkpointCount": 1, "checkpointSize": "3000", "unmanaged": False,
    }  # fmt: skip
    return {**base, **more}


def trial(id: int, experiment_id: int, **more: Any) -> dict[str, Any]:
    base = {
        "id": id, "experimentId": experiment_id, "state": "STATE_COMPLETED", "restarts": 0,
        "hparams": {"lr": 0.1}, "startTime": START, "endTime": END, "totalBatchesProcessed": 200,
        "taskId": f"{experiment_id}.t{id}", "taskIds": [f"{experiment_id}.t{id}"],
        "summaryMetrics": {"avg_metrics": {"loss": {"last": 0.5, "type": "number"}}},
        "checkpointCount": 1, "totalCheckpointSize": "3000", "wallClockTime": 5400.0,
        "searcherMetricValue": 0.25, "runnerState": "",
    }  # fmt: skip
    return {**base, **more}


def checkpoint(uuid: str, trial_id: int, experiment_id: int, **more: Any) -> dict[str, Any]:
    base = {
        "uuid": uuid, "taskId": f"{experiment_id}.t{trial_id}", "allocationId": "a.1",
        "reportTime": END, "state": "STATE_COMPLETED", "storageId": 1,
        "resources": {"model.pt": "2000", "code/": "0", "code/train.py": "1000"},
        "metadata": {"steps_completed": 200, "framework": "torch"},
        "training": {
            "trialId": trial_id, "experimentId": experiment_id, "hparams": {"lr": 0.1},
            "experimentConfig": {"checkpoint_storage": {"type": "s3", "bucket": "none"}},
            "searcherMetric": 0.25, "trainingMetrics": None,
            "validationMetrics": {"avgMetrics": {"val_loss": 0.25}, "batchMetrics": []},
        },
    }  # fmt: skip
    return {**base, **more}


def workloads() -> list[dict[str, Any]]:
    def metrics(total: int, **values: float) -> dict[str, Any]:
        avg = {"metrics": {"avgMetrics": values, "batchMetrics": []}}
        return {"totalBatches": total, "numInputs": 0, "endTime": END, **avg}

    saved_checkpoint = {
        "uuid": CKPT,
        "state": "STATE_COMPLETED",
        "totalBatches": 200,
        "endTime": END,
    }
    return [
        {"training": metrics(100, loss=0.75)},
        {"training": metrics(200, loss=0.5)},
        {"validation": metrics(200, val_loss=0.25)},
        {
            "checkpoint": {
                **saved_checkpoint,
                "resources": {"model.pt": "2000"},
                "metadata": {"f": "torch"},
            }
        },
    ]


def log_line(number: int, text: str, **more: Any) -> dict[str, Any]:
    head = {"id": str(number), "taskId": "1.t10", "trialId": 10, "timestamp": START}
    body = {"message": f"[{START}] {text}\n", "log": text + "\n", "level": "LOG_LEVEL_INFO"}
    return {**head, **body, "source": "task", "stdtype": "stdout", "rankId": 0, **more}


def archive(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


class FakeCluster(FakeApi):
    def __init__(self) -> None:
        super().__init__()
        self.passwords = {
            "determined": "",
            "admin": salt_password("Secret123"),
            "ada": salt_password("Lovelace1"),
        }
        self.users = {
            "admin": user(1, "admin", admin=True),
            "determined": user(2, "determined"),
            "ada": user(3, "ada", displayName="Ada L."),
        }
        self.tokens: dict[str, str] = {}
        self.experiments: dict[int, dict[str, Any]] = {}
        self.trials: dict[int, dict[str, Any]] = {}
        self.checkpoints: dict[str, dict[str, Any]] = {}
        self.logs: list[dict[str, Any]] = []
        self._routes()

    def _routes(self) -> None:
        v1, self_ = "/api/v1", self
        info = {"version": "0.38.1", "cluster_id": "c", "master_id": "m", "cluster_name": ""}
        self.on("GET", "/info", {**info, "telemetry": {"enabled": False}, "sso_providers": None})
        self.on("GET", "/health", {"database": "up", "status": "up"})
        self.on("POST", f"{v1}/auth/login", self._login)
        self.on("POST", f"{v1}/auth/logout", self._logout)
        self.on("GET", f"{v1}/me", lambda a: {"user": self_.users[self_.who(a)]})
        self.on("GET", f"{v1}/users", lambda a: page("users", list(self_.users.values()), a))
        self.on("GET", f"{v1}/users/([^/]+)/by-username", self._by_name)
        self.on("POST", f"{v1}/users", self._create_user)
        self.on("PATCH", f"{v1}/users/(\\d+)", self._patch_user)
        self.on("GET", f"{v1}/experiments", self._list)
        self.on("POST", f"{v1}/experiments", self._create)
        self.on("GET", f"{v1}/experiments/(\\d+)", self._get)
        self.on("DELETE", f"{v1}/experiments/(\\d+)", self._get)
        self.on("PATCH", f"{v1}/experiments/(\\d+)", self._patch)
        verbs = "(activate|pause|cancel|kill|archive|unarchive)"
        self.on("POST", f"{v1}/experiments/(\\d+)/{verbs}", self._move)
        self.on("GET", f"{v1}/experiments/(\\d+)/trials", self._trials)
        self.on("GET", f"{v1}/experiments/(\\d+)/checkpoints", self._checkpoints)
        self.on("GET", f"{v1}/experiments/(\\d+)/model_def", self._model_def)
        self.on("GET", f"{v1}/why/experiment/(\\d+)", self._why)
        self.on("GET", f"{v1}/trials/(\\d+)", lambda a: {"trial": self_.trial(a)})
        self.on("POST", f"{v1}/trials/(\\d+)/kill", lambda a: self_.trial(a) and {})
        self.on("GET", f"{v1}/trials/(\\d+)/workloads", lambda a: page("workloads", workloads(), a))
        self.on("GET", f"{v1}/trials/(\\d+)/checkpoints", self._checkpoints)
        self.on("GET", f"{v1}/(?:trials|tasks)/([^/]+)/logs", self._logs)
        self.on("GET", f"{v1}/checkpoints/([^/]+)", self._checkpoint)
        self.on("GET", "/checkpoints/([^/]+)", self._download)

    def add(self, id: int, **more: Any) -> dict[str, Any]:
        """Add an experiment with one trial and one checkpoint."""
        self.experiments[id] = experiment(id, **more)
        state = self.experiments[id]["state"]
        self.trials[id * 10] = trial(id * 10, id, state=state)
        self.checkpoints.setdefault(CKPT, checkpoint(CKPT, id * 10, id))
        return self.experiments[id]

    def who(self, request: RecordedRequest) -> str:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.tokens:
            raise Refusal(401, "unauthenticated")
        return self.tokens[token]

    def trial(self, request: RecordedRequest) -> dict[str, Any]:
        self.who(request)
        return self._find(self.trials, int(request.found[0]), "trial")

    def _why(self, request: RecordedRequest) -> Any:
        matching_experiment = self._find(self.experiments, int(request.found[0]), "experiment")
        state, id = matching_experiment["state"], matching_experiment["id"]
        if state != "STATE_ERROR":
            return {"reasons": [{"state": state, "code": "", "sentence": f"is {state}"}]}
        failure = {
            "sentence": "has failed: exited with code 3", "cause": "exited with code 3",
            "details": f"trial {id * 10}: container failed with non-zero exit code: 3",
            "failedTrialId": id * 10, "needsNewCode": False,
        }  # fmt: skip
        return {"reasons": [{"state": state, "code": "", **failure}]}

    def _find(self, store: dict[Any, dict[str, Any]], id: Any, kind: str) -> dict[str, Any]:
        if id not in store:
            raise Refusal(404, f"{kind} '{id}' not found")
        return store[id]

    def _login(self, request: RecordedRequest) -> Any:
        body = request.body
        if self.passwords.get(body["username"]) != body["password"] or not body.get("isHashed"):
            raise Refusal(401, "invalid credentials")
        token = f"token-{body['username']}-{len(self.tokens)}"
        self.tokens[token] = body["username"]
        return {"token": token, "user": self.users[body["username"]]}

    def _logout(self, request: RecordedRequest) -> Any:
        self.who(request)
        del self.tokens[request.headers["authorization"].removeprefix("Bearer ")]
        return {}

    def _by_name(self, request: RecordedRequest) -> Any:
        return {"user": self._find(self.users, request.found[0], "user")}

    def _create_user(self, request: RecordedRequest) -> Any:
        new = request.body["user"]
        if new["username"] in self.users:
            raise Refusal(409, f"user '{new['username']}' already exists")
        self.users[new["username"]] = user(len(self.users) + 1, **new)
        self.passwords[new["username"]] = request.body.get("password", "")
        return {"user": self.users[new["username"]]}

    def _patch_user(self, request: RecordedRequest) -> Any:
        matching_user = next(u for u in self.users.values() if u["id"] == int(request.found[0]))
        body = dict(request.body)
        if "password" in body:
            self.passwords[matching_user["username"]] = body.pop("password")
        matching_user.update(body)
        return {"user": matching_user}

    def _list(self, request: RecordedRequest) -> Any:
        self.who(request)
        names, archived = request.query.get("users"), request.first("archived")
        rows = [e for e in self.experiments.values() if not names or e["username"] in names]
        if archived:
            rows = [e for e in rows if str(e["archived"]).lower() == archived]
        descending = request.first("orderBy") == "ORDER_BY_DESC"
        ordered = sorted(rows, key=lambda row: int(row["id"]), reverse=descending)
        return page("experiments", ordered, request)

    def _create(self, request: RecordedRequest) -> Any:
        owner, id = self.who(request), len(self.experiments) + 1
        if "explode" in request.body["config"]:
            raise Refusal(400, "invalid experiment configuration: explode: unknown field")
        new = experiment(id, username=owner, state="STATE_PAUSED")
        if request.body.get("activate"):
            new["state"] = "STATE_RUNNING"
        if not request.body.get("validateOnly"):
            self.add(**new)
        return {"experiment": new, "config": {"name": new["name"], "resources": {}}, "warnings": []}

    def _get(self, request: RecordedRequest) -> Any:
        self.who(request)
        matching_experiment = self._find(self.experiments, int(request.found[0]), "experiment")
        return {
            "experiment": matching_experiment,
            "config": matching_experiment["config"],
            "jobSummary": None,
        }

    def _patch(self, request: RecordedRequest) -> Any:
        stored_experiment = self._get(request)["experiment"]
        stored_experiment.update({k: v for k, v in request.body.items() if k in stored_experiment})
        return {"experiment": stored_experiment}

    def _move(self, request: RecordedRequest) -> Any:
        matching_experiment, verb = self._get(request)["experiment"], request.found[1]
        if verb in ("activate", "pause") and matching_experiment["state"] in TERMINAL:
            raise Refusal(
                400,
                f"experiment {matching_experiment['id']} is {matching_experiment['state']}; it cannot {verb}",
            )
        states = {
            "activate": "RUNNING",
            "pause": "PAUSED",
            "cancel": "CANCELED",
            "kill": "CANCELED",
        }
        if verb in states:
            matching_experiment["state"] = f"STATE_{states[verb]}"
        else:
            matching_experiment["archived"] = verb == "archive"
        return {}

    def _trials(self, request: RecordedRequest) -> Any:
        id = int(request.found[0])
        self._find(self.experiments, id, "experiment")
        rows = [t for t in self.trials.values() if t["experimentId"] == id]
        return page("trials", rows, request)

    def _checkpoints(self, request: RecordedRequest) -> Any:
        return page("checkpoints", list(self.checkpoints.values()), request)

    def _checkpoint(self, request: RecordedRequest) -> Any:
        self.who(request)
        return {"checkpoint": self._find(self.checkpoints, request.found[0], "checkpoint")}

    def _download(self, request: RecordedRequest) -> Any:
        self.who(request)
        self._find(self.checkpoints, request.found[0], "checkpoint")
        data = archive({"model.pt": b"w" * 2000, "code/train.py": b"x" * 1000})
        return Raw(data, {"Content-Type": "application/gzip"})

    def _model_def(self, request: RecordedRequest) -> Any:
        self._get(request)
        return {"b64Tgz": base64.b64encode(archive({"train.py": b"print(1)\n"})).decode()}

    def _logs(self, request: RecordedRequest) -> Iterator[Any]:
        self.who(request)
        rows = [r for r in self.logs if int(r["id"]) > int(request.first("afterId", "0"))]
        if request.first("orderBy") == "ORDER_BY_DESC":
            rows.reverse()
        limit = int(request.first("limit", "0"))
        return iter([{"result": r} for r in (rows[:limit] if limit else rows)])
