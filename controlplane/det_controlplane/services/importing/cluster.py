"""Import people, workspaces and templates before the experiments, and models and usage after them."""

from dataclasses import dataclass
from datetime import datetime

from det_controlplane.core.importing import experiments as convert
from det_controlplane.core.importing import people
from det_controlplane.core.importing.ids import KINDS, Ids, choose_offsets, offset_problem
from det_controlplane.core.importing.options import Options
from det_controlplane.core.importing.remarks import Remarks
from det_controlplane.core.schedule.wording import counted
from det_controlplane.db.engine.database import Tx
from det_controlplane.db.importing import reading, target
from det_controlplane.db.importing.source import Source
from det_controlplane.services.errors import Invalid

_BUILT_IN_USERS = ("admin", "determined")
_UNCATEGORIZED = 1


def choose_ids(source: Source, tx: Tx, options: Options) -> Ids:
    """Choose the new ids of all rows, and reserve them. Raises Invalid if users or offsets do not fit."""
    ids = fit_ids(source, tx, options)
    for kind, last in reading.largest_ids(source).items():
        target.reserve_ids(tx, kind, ids.offsets[kind] + last)
    return ids


def fit_ids(source: Source, tx: Tx, options: Options) -> Ids:
    """Return the new ids of all rows. Raises Invalid if users or offsets do not fit."""
    largest = target.largest_ids(tx)
    is_empty = not any(largest[kind] for kind in KINDS if kind != "metrics")
    offsets = choose_offsets(largest, is_empty=is_empty, least=options.id_offset)
    if problem := offset_problem(offsets, largest):
        raise Invalid(problem)
    offsets["metrics"] = largest["metrics"]
    merged = {
        "users": _merged_users(source, tx, options),
        "workspaces": {_UNCATEGORIZED: _UNCATEGORIZED},
        "projects": {_UNCATEGORIZED: _UNCATEGORIZED},
    }
    return Ids(offsets, merged)


def _merged_users(source: Source, tx: Tx, options: Options) -> dict[int, int]:
    """Return the users that are users of this cluster already, by their old ids."""
    present = target.names_in_use(tx, "users", "username")
    merged, others = {}, []
    for row in source.rows("users", "true ORDER BY id"):
        if row["username"] in present:
            merged[row["id"]] = present[row["username"]]
            if row["username"] not in _BUILT_IN_USERS:
                others.append(row["username"])
    if others and not options.merge_users:
        names = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
        raise Invalid(
            f"{counted(len(others), 'user name')} in both clusters ({names}): give --merge-users for the same people,"
            " or rename them first (det user edit NAME --username NEW)"
        )
    return merged


@dataclass(frozen=True, slots=True)
class ClusterImport:
    """Imports the rows of a cluster that belong to no experiment, in one transaction of the target."""

    source: Source
    tx: Tx
    ids: Ids
    remarks: Remarks
    now: datetime

    def import_people(self) -> None:
        """Import everything that experiments belong to."""
        self._users()
        self._groups()
        self._workspaces()
        self._roles()
        self._templates()

    def import_models(self) -> None:
        """Import everything that refers to experiments and checkpoints, and the usage of other tasks."""
        name = people.free_name(
            target.names_in_use(self.tx, "models", "name"), self.remarks, "model"
        )
        models = self.source.rows("models", "true ORDER BY id")
        target.add(self.tx, "models", [people.model(row, self.ids, name) for row in models])
        model_ids = {row["id"] for row in models}
        versions = [
            people.model_version(row, self.ids)
            for row in self.source.rows("model_versions", "true ORDER BY id")
            if row["model_id"] in model_ids
        ]
        present = target.checkpoints_present(self.tx, [row["checkpoint_uuid"] for row in versions])
        for row in versions:
            if row["checkpoint_uuid"] not in present:
                self.remarks.add(
                    f"model version {row['id']}", "does not move: its checkpoint is missing"
                )
        target.add(
            self.tx,
            "model_versions",
            [row for row in versions if row["checkpoint_uuid"] in present],
        )
        self._usage_of_other_tasks()

    def _users(self) -> None:
        agent_users = {row["user_id"]: row for row in self.source.rows("agent_user_groups")}
        merged = self.ids.merged.get("users", {})
        rows = [
            row for row in self.source.rows("users", "true ORDER BY id") if row["id"] not in merged
        ]
        target.add(
            self.tx,
            "users",
            [people.user(row, agent_users, self.ids, self.remarks) for row in rows],
        )

    def _groups(self) -> None:
        groups = self.source.rows("groups", "user_id IS NULL ORDER BY id")
        shared = {row["id"] for row in groups}
        name = people.free_name(
            target.names_in_use(self.tx, "groups", "name"), self.remarks, "group"
        )
        rows = [
            {"id": self.ids.new("groups", row["id"]), "name": name(row["group_name"])}
            for row in groups
        ]
        target.add(self.tx, "groups", rows)
        members = [
            {"group_id": self.ids.new("groups", row["group_id"]), "user_id": self.ids.new("users", row["user_id"])}
            for row in self.source.rows("user_group_membership") if row["group_id"] in shared
        ]  # fmt: skip
        target.add(self.tx, "group_members", members, skip_existing=True)

    def _workspaces(self) -> None:
        others = f"id <> {_UNCATEGORIZED} ORDER BY id"
        name = people.free_name(
            target.names_in_use(self.tx, "workspaces", "name"), self.remarks, "workspace"
        )
        workspaces = self.source.rows("workspaces", others)
        target.add(
            self.tx, "workspaces", [people.workspace(row, self.ids, name) for row in workspaces]
        )
        key = people.free_key(target.names_in_use(self.tx, "projects", "key"))
        projects = self.source.rows("projects", others)
        target.add(self.tx, "projects", [people.project(row, self.ids, key) for row in projects])
        pins = [
            {
                "workspace_id": self.ids.new("workspaces", row["workspace_id"]),
                "user_id": self.ids.new("users", row["user_id"]), "pinned_at": row["created_at"],
            }
            for row in self.source.rows("workspace_pins") if row.get("workspace_id") and row.get("user_id")
        ]  # fmt: skip
        target.add(self.tx, "workspace_pins", pins, skip_existing=True)

    def _roles(self) -> None:
        roles = {row["id"]: row["role_name"] for row in self.source.rows("roles")}
        scopes = {
            row["id"]: row.get("scope_workspace_id")
            for row in self.source.rows("role_assignment_scopes")
        }
        groups = {row["id"]: row["user_id"] for row in self.source.rows("groups")}
        assignments = [
            people.role_assignment(row, roles, groups, scopes, self.ids, self.remarks)
            for row in self.source.rows("role_assignments")
        ]
        target.add(
            self.tx, "role_assignments", [row for row in assignments if row], skip_existing=True
        )

    def _templates(self) -> None:
        name = people.free_name(target.template_names(self.tx), self.remarks, "template")
        templates = [people.template(row, self.ids, name) for row in self.source.rows("templates")]
        target.add(self.tx, "templates", templates)
        policies = [
            people.config_policy(row, self.ids) for row in self.source.rows("task_config_policies")
        ]
        target.add(self.tx, "config_policies", policies, skip_existing=True)
        self._webhooks()

    def _webhooks(self) -> None:
        webhooks = self.source.rows("webhooks", "true ORDER BY id")
        rows = [{**people.webhook(row, self.ids), "created_at": self.now} for row in webhooks]
        target.add(self.tx, "webhooks", rows)
        triggers = [
            people.webhook_trigger(row, self.ids)
            for row in self.source.rows("webhook_triggers", "true ORDER BY id")
            if row["webhook_id"] in {webhook["id"] for webhook in webhooks}
        ]
        target.add(self.tx, "webhook_triggers", [row for row in triggers if row is not None])
        for row in rows:
            self.remarks.add(
                f"webhook {row['id']}",
                "sends nothing until you enable it: det webhook edit ID --enabled true",
            )

    def _usage_of_other_tasks(self) -> None:
        """Import the runs of commands, notebooks and other tasks as their sums in reports need them."""
        tasks = {
            r["task_id"]: r
            for r in self.source.rows("tasks", "task_type NOT IN ('TRIAL', 'CHECKPOINT_GC')")
        }
        jobs = {
            row["job_id"]: row.get("owner_id")
            for row in self.source.rows("jobs", "job_type <> 'EXPERIMENT'")
        }
        names = {
            row["allocation_id"]: row.get("workspace_name")
            for row in self.source.rows("allocation_workspace_info")
        }
        rows = []
        for run in self.source.rows("allocations", "task_id = ANY(:ids)", ids=list(tasks)):
            task = tasks[run["task_id"]]
            owner = self.ids.new("users", jobs.get(task.get("job_id")) or 1)
            row = convert.other_allocation(
                run, task, owner, names.get(run["allocation_id"]) or "Uncategorized"
            )
            if row is not None:
                rows.append(row)
        target.add(self.tx, "deleted_allocations", rows, skip_existing=True)
        if tasks:
            self.remarks.add(
                "",
                f"tasks without an experiment (commands, notebooks, shells, TensorBoards): {len(tasks)} move as usage"
                " in reports only",
            )
