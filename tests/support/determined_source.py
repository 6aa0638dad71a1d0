"""Databases of Determined 0.38.1 with small clusters, as sources of imports."""

import io
import json
import tarfile
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from det_controlplane.db.engine.connections import plain_engine
from sqlalchemy import Engine

SCHEMA = Path(__file__).parents[1] / "data" / "determined-0.38.1.sql"
CLUSTER = "0d0e7e12-1111-4222-8333-444455556666"
START = datetime(2024, 5, 1, 12)
ASHA = {
    "name": "adaptive_asha", "metric": "loss", "smaller_is_better": True, "max_trials": 4, "time_metric": "batches",
    "max_time": 16, "mode": "aggressive", "divisor": 4, "max_rungs": 2, "max_concurrent_trials": 4,
}  # fmt: skip
STORAGE = {"type": "s3", "bucket": "checkpoints", "prefix": "team"}


def _is_notes(name: str, value: Any) -> bool:
    return name == "notes" and isinstance(value, list)


def archive(**files: str) -> bytes:
    """Return a model definition, as clients send it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{name}.py")
            member.size = len(content.encode())
            tar.addfile(member, io.BytesIO(content.encode()))
    return buffer.getvalue()


def config_of(**more: Any) -> dict[str, Any]:
    base = {
        "name": "digits", "description": "Zahlen – 数字", "labels": ["vision"], "entrypoint": "python3 train.py",
        "hyperparameters": {"lr": {"type": "double", "minval": 0.1, "maxval": 1.0}},
        "searcher": {"name": "single", "metric": "loss", "smaller_is_better": True, "max_length": {"batches": 16}},
        "resources": {"resource_pool": "default", "slots_per_trial": 1, "weight": 1, "max_slots": None, "priority": 42},
        "reproducibility": {"experiment_seed": 7}, "max_restarts": 5, "checkpoint_storage": STORAGE,
    }  # fmt: skip
    return {**base, **more}


@dataclass
class SourceCluster:
    """Writes rows of a cluster. Numbers follow each other, as a master gives them."""

    url: str
    cluster_id: str = CLUSTER
    engine: Engine = field(init=False)
    _metric: int = 0

    def __post_init__(self) -> None:
        self.engine = plain_engine(self.url)
        with self.engine.begin() as tx:
            for statement in SCHEMA.read_text().split(";"):
                if statement.strip():
                    tx.exec_driver_sql(statement)
        self.add("cluster_id", cluster_id=self.cluster_id, cluster_heartbeat=START)
        self.add("gopg_migrations", id=1, version=20250101, created_at=START)
        for id, name, is_admin in ((1, "admin", True), (2, "determined", False)):
            self.user(id, name, admin=is_admin)
        self.workspace(1, "Uncategorized", user_id=1)
        self.project(1, 1, "Uncategorized", user_id=1)

    def add(self, table: str, **columns: Any) -> None:
        """Insert a row. Objects and notes become JSON."""
        names = ", ".join(columns)
        values = {
            name: json.dumps(value) if isinstance(value, dict) or _is_notes(name, value) else value
            for name, value in columns.items()
        }
        places = ", ".join("%s" for _ in columns)
        with self.engine.begin() as tx:
            tx.exec_driver_sql(
                f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(values.values())
            )

    def user(self, id: int, name: str, **columns: Any) -> None:
        base = {
            "admin": False,
            "active": True,
            "remote": False,
            "modified_at": START,
            "password_hash": "",
        }
        self.add("users", id=id, username=name, **{**base, **columns})

    def workspace(self, id: int, name: str, *, user_id: int, **columns: Any) -> None:
        base = {"archived": False, "created_at": START}
        self.add("workspaces", id=id, name=name, user_id=user_id, **{**base, **columns})

    def project(
        self, id: int, workspace_id: int, name: str, *, user_id: int, **columns: Any
    ) -> None:
        base = {"archived": False, "created_at": START, "max_local_id": 0, "notes": "[]"}
        self.add(
            "projects",
            id=id,
            workspace_id=workspace_id,
            name=name,
            user_id=user_id,
            **{**base, **columns},
        )

    def experiment(
        self, id: int, *, owner: int = 2, state: str = "COMPLETED", **columns: Any
    ) -> None:
        job = str(columns.setdefault("job_id", str(uuid.UUID(int=id))))
        self.add("jobs", job_id=job, job_type="EXPERIMENT", owner_id=owner, q_position="-1")
        base: dict[str, Any] = {
            "config": config_of(), "model_definition": archive(train="print('hello')"),
            "start_time": START + timedelta(minutes=id), "end_time": START + timedelta(minutes=id + 30),
            "archived": False, "notes": "", "project_id": 1, "checkpoint_size": 0, "checkpoint_count": 0,
            "unmanaged": False, "original_config": "name: digits\n",
        }  # fmt: skip
        self.add("experiments", id=id, state=state, owner_id=owner, **{**base, **columns})

    def trial(self, id: int, experiment: int, *, state: str = "COMPLETED", **columns: Any) -> None:
        request, task = str(uuid.UUID(int=1000 + id)), self.task_of(id, experiment)
        base: dict[str, Any] = {
            "start_time": START, "end_time": START + timedelta(minutes=20), "hparams": {"lr": 0.5},
            "runner_state": "", "restart_id": 1, "restarts": 0, "checkpoint_size": 0, "checkpoint_count": 0,
            "total_batches": 0, "summary_metrics": {}, "project_id": 1, "archived": False,
        }  # fmt: skip
        self.add("runs", id=id, experiment_id=experiment, state=state, **{**base, **columns})
        self.add("trials_v2", not_trial_id=id, run_id=id, request_id=request, seed=3)
        self.add(
            "tasks",
            task_id=task,
            task_type="TRIAL",
            start_time=START,
            job_id=str(uuid.UUID(int=experiment)),
        )
        self.add("run_id_task_id", run_id=id, task_id=task)
        self.add(
            "allocations", task_id=task, allocation_id=f"{task}.1", resource_pool="default", start_time=START,
            end_time=START + timedelta(minutes=20), slots=1, state="TERMINATED", ports={}, status_code=0,
        )  # fmt: skip

    @staticmethod
    def task_of(trial: int, experiment: int) -> str:
        return f"{experiment}.{uuid.UUID(int=1000 + trial)}"

    def validation(self, trial: int, batches: int, metrics: dict[str, Any], run: int = 1) -> int:
        return self._report(
            "VALIDATION", "validation", trial, batches, {"validation_metrics": metrics}, run
        )

    def training(self, trial: int, batches: int, metrics: dict[str, Any], run: int = 1) -> int:
        values = {"avg_metrics": metrics, "batch_metrics": None}
        return self._report("TRAINING", "training", trial, batches, values, run)

    def generic(self, trial: int, batches: int, group: str, metrics: dict[str, Any]) -> int:
        return self._report("GENERIC", group, trial, batches, {"avg_metrics": metrics}, 1)

    def _report(
        self,
        partition: str,
        group: str,
        trial: int,
        batches: int,
        metrics: dict[str, Any],
        run: int,
    ) -> int:
        self._metric += 1
        self.add(
            "metrics", id=self._metric, trial_id=trial, end_time=START + timedelta(seconds=self._metric),
            metrics=metrics, total_batches=batches, trial_run_id=run, archived=False, metric_group=group,
            partition_type=partition,
        )  # fmt: skip
        return self._metric

    def checkpoint(self, trial: int, experiment: int, batches: int, **columns: Any) -> str:
        number = str(uuid.UUID(int=5000 + trial * 100 + batches))
        base = {
            "report_time": START, "state": "COMPLETED", "resources": {"state": 3}, "size": 3,
            "metadata": {"steps_completed": batches},
        }  # fmt: skip
        task = self.task_of(trial, experiment)
        self.add(
            "checkpoints_v2", id=trial * 100 + batches, uuid=number, task_id=task, allocation_id=f"{task}.1",
            **{**base, **columns},
        )  # fmt: skip
        self.add("run_checkpoints", run_id=trial, checkpoint_id=number)
        return number

    def log(self, trial: int, experiment: int, content: bytes, id: int) -> None:
        self.add(
            "task_logs", id=id, task_id=self.task_of(trial, experiment), log=content, timestamp=START,
            level="INFO", source="stdout", stdtype="stdout", rank_id=0,
        )  # fmt: skip

    def close(self) -> None:
        self.engine.dispose()


def populate(old: SourceCluster) -> None:
    """Fill a cluster with rows of every kind: people, experiments of several eras and searchers, models, usage."""
    old.user(3, "ada", password_hash="$2a$10$not-a-real-hash", display_name="Ada Łovelace")
    old.user(4, "grace", remote=True, password_hash=None)
    old.user(5, "gone", active=False, password_hash="$2a$10$not-a-real-hash")
    old.add("agent_user_groups", id=1, user_id=3, user_="ada", uid=1003, group_="research", gid=500)
    old.add("groups", id=1, group_name="ada-personal", user_id=3)
    old.add("groups", id=2, group_name="research", user_id=None)
    old.add("user_group_membership", user_id=3, group_id=2)
    old.workspace(2, "Vision", user_id=3, checkpoint_storage_config=STORAGE)
    old.project(
        5, 2, "Zahlen", user_id=3, key="ZAH", notes=[{"name": "plan", "contents": "lr ≤ 0.1"}]
    )
    old.add("workspace_pins", id=1, workspace_id=2, user_id=3, created_at=START)
    old.add("roles", id=1, role_name="ClusterAdmin", created_at=START)
    old.add("roles", id=5, role_name="Editor", created_at=START)
    old.add("role_assignment_scopes", id=1, scope_workspace_id=None)
    old.add("role_assignment_scopes", id=2, scope_workspace_id=2)
    old.add("role_assignments", group_id=1, role_id=1, scope_id=1)
    old.add("role_assignments", group_id=2, role_id=5, scope_id=2)
    old.add("templates", name="gpu", config={"resources": {"slots_per_trial": 4}}, workspace_id=2)
    old.add(
        "task_config_policies", workspace_id=2, workload_type="EXPERIMENT", last_updated_by=1, last_updated_time=START,
        constraints={"resources": {"max_slots": 8}},
    )  # fmt: skip
    old.add(
        "webhooks",
        id=1,
        url="https://hooks.example.com",
        webhook_type="SLACK",
        name="slack",
        mode="WORKSPACE",
    )
    old.add(
        "webhook_triggers", id=1, trigger_type="EXPERIMENT_STATE_CHANGE", condition={"state": "COMPLETED"}, webhook_id=1
    )  # fmt: skip
    old.add("storage_backend_s3", id=1, bucket="checkpoints", prefix="team")
    old.add("storage_backend", id=1, s3_id=1)
    _populate_experiments(old)
    _populate_models(old)
    old.add("jobs", job_id="nb", job_type="NOTEBOOK", owner_id=3, q_position="-1")
    old.add(
        "tasks", task_id="nb.1", task_type="NOTEBOOK", start_time=START, end_time=START, job_id="nb"
    )
    old.add(
        "allocations", task_id="nb.1", allocation_id="nb.1.1", resource_pool="default", start_time=START,
        end_time=START + timedelta(hours=3), slots=2, state="TERMINATED", ports={},
    )  # fmt: skip
    old.add(
        "allocation_workspace_info", allocation_id="nb.1.1", workspace_id=2, workspace_name="Vision"
    )


def _populate_experiments(old: SourceCluster) -> None:
    loss_summary = {"type": "number", "count": 2, "sum": 1.5, "min": 0.5, "max": 1, "last": 0.5}
    summary = {"validation_metrics": {"loss": loss_summary}}
    old.experiment(10, owner=3, project_id=5, notes="good *one*", best_trial_id=20)
    for batches, loss in ((8, 1.0), (16, 0.5)):
        old.training(20, batches, {"loss": loss, "grad": "Infinity"})
        best = old.validation(20, batches, {"loss": loss, "accuracy": "NaN"})
    old.generic(20, 16, "test", {"ünïcode": 1})
    old.trial(20, 10, best_validation_id=best, latest_validation_id=best, searcher_metric_value=0.5, total_batches=16,
              summary_metrics=summary, log_policy_matched=None)  # fmt: skip
    old.add("runs_metadata", run_id=20, metadata={"commit": "abc", "nested": {"x": 1}})
    old.checkpoint(20, 10, 8, state="DELETED", resources={}, size=0)
    old.checkpoint(20, 10, 16, storage_id=1)
    old.log(20, 10, "erste Zeile: Grüße\tTab \\ und\nUmbruch".encode(), 1)
    old.log(20, 10, b"bytes \xff\x00 that are no text", 2)
    # An old configuration: labels are keys, and its searcher is gone.
    config = config_of(labels={"old": True}, searcher={"name": "adaptive_simple", "metric": "loss"})
    old.experiment(
        11, state="ERROR", config=config, parent_id=10, original_config=None, archived=True
    )
    old.trial(21, 11, state="ERROR", restarts=5, restart_id=6)
    old.log(21, 11, b"Traceback: it failed", 3)
    old.experiment(12, state="CANCELED", parent_id=9)
    old.experiment(
        13, state="COMPLETED", unmanaged=True, external_experiment_id="mlflow-1", job_id="x"
    )


def _populate_models(old: SourceCluster) -> None:
    uuid_of_best = str(uuid.UUID(int=5000 + 20 * 100 + 16))
    old.add(
        "models", id=3, name="digits", description="reads digits", creation_time=START, metadata={"k": "v"},
        labels=["prod"], user_id=3, archived=False, workspace_id=2,
    )  # fmt: skip
    old.add(
        "model_versions", id=7, version=1, model_id=3, checkpoint_uuid=uuid_of_best, creation_time=START,
        metadata={}, name="first", comment="", user_id=3, labels=["a"],
    )  # fmt: skip
