"""A connection to one cluster, with methods to create and find its objects."""

import pathlib
import uuid
from typing import Any, Dict, Iterable, Iterator, List, Optional, Union

from determined._task_session import absence_of
from determined.common import master_address
from determined.common.http import UnauthenticatedError
from determined.common.pages import V1, pages
from determined.common.sign_in import SignedIn, open_session, salt_password, sign_in
from determined.common.token_store import TokenStore
from determined.experimental.client import _metrics as metrics
from determined.experimental.client import _submission as submission
from determined.experimental.client._checkpoint import Checkpoint
from determined.experimental.client._creation import create
from determined.experimental.client._enums import (
    ExperimentSortBy,
    ExperimentState,
    ModelSortBy,
    OrderBy,
)
from determined.experimental.client._experiment import Experiment, Trial
from determined.experimental.client._lookup import workspace_by_name
from determined.experimental.client._model import Model, model_path
from determined.experimental.client._user import User
from determined.experimental.client._workspace import ResourcePool, Workspace

PathLike = Union[str, pathlib.Path]


class Determined:
    """A connection to a cluster. Without `user`, it uses the environment or the session of `det user login`."""

    def __init__(
        self,
        master: Optional[str] = None,
        user: Optional[str] = None,
        password: Optional[str] = None,
        cert_path: Optional[str] = None,
        cert_name: Optional[str] = None,
        noverify: bool = False,
    ) -> None:
        address = master_address.chosen(master)
        anonymous = open_session(
            address,
            cert_file=cert_path,
            cert_name=cert_name,
            verify=not noverify,
            absence=absence_of(address),  # in a task, the address is the agent's
        )
        self._store = TokenStore(address)
        self._session: SignedIn = sign_in(anonymous, self._store, username=user, password=password)

    def create_experiment(
        self,
        config: Union[PathLike, Dict[str, Any]],
        model_dir: Optional[PathLike] = None,
        includes: Optional[Iterable[PathLike]] = None,
        project_id: Optional[int] = None,
        template: Optional[str] = None,
    ) -> Experiment:
        """Submit an experiment. `config` is a mapping or the path of a YAML file."""
        body = submission.body(self._session, config, model_dir, includes)
        if project_id is not None:
            body["projectId"] = project_id
        if template is not None:
            body["template"] = template
        with submission.naming(config):
            experiment = submission.submit(self._session, body, str(uuid.uuid4()))
        return Experiment._from_json(self._session, experiment)

    def get_experiment(self, experiment_id: int) -> Experiment:
        experiment = Experiment(experiment_id, self._session)
        experiment.reload()
        return experiment

    def list_experiments(
        self,
        sort_by: Optional[ExperimentSortBy] = None,
        order_by: Optional[OrderBy] = None,
        experiment_ids: Optional[List[int]] = None,
        labels: Optional[List[str]] = None,
        users: Optional[List[str]] = None,
        states: Optional[List[ExperimentState]] = None,
        name: Optional[str] = None,
        project_id: Optional[int] = None,
    ) -> List[Experiment]:
        """Return the experiments that match all filters."""
        params = {
            "sortBy": ExperimentSortBy(sort_by or ExperimentSortBy.ID).value,
            "orderBy": OrderBy(order_by or OrderBy.ASCENDING).value,
            "experimentIdFilter.incl": experiment_ids,
            "labels": labels,
            "users": users,
            "states": [ExperimentState(s).value for s in states] if states else None,
            "name": name,
            "projectId": project_id,
        }
        rows = pages(self._session, "/experiments", "experiments", params)
        return [Experiment._from_json(self._session, row) for row in rows]

    def get_trial(self, trial_id: int) -> Trial:
        trial = Trial(trial_id, self._session)
        trial.reload()
        return trial

    def get_checkpoint(self, uuid: str) -> Checkpoint:
        checkpoint = Checkpoint(self._session, uuid)
        checkpoint.reload()
        return checkpoint

    def create_model(
        self,
        name: str,
        description: Optional[str] = "",
        metadata: Optional[Dict[str, Any]] = None,
        labels: Optional[List[str]] = None,
        workspace_name: Optional[str] = None,
    ) -> Model:
        body = {
            "name": name,
            "description": description or "",
            "metadata": metadata or {},
            "labels": labels or [],
            "workspaceName": workspace_name,
        }
        raw = create(self._session, f"{V1}/models", body, "model", lambda: self._raw_model(name))
        return Model._from_json(self._session, raw)

    def get_model(self, identifier: Union[str, int]) -> Model:
        """Return the model with this name or id."""
        return Model._from_json(self._session, self._raw_model(str(identifier)))

    def _raw_model(self, identifier: str) -> Dict[str, Any]:
        return dict(self._session.get(V1 + model_path(identifier))["model"])

    def get_model_by_id(self, model_id: int) -> Model:
        return self.get_model(model_id)

    def list_models(
        self,
        sort_by: ModelSortBy = ModelSortBy.NAME,
        order_by: OrderBy = OrderBy.ASCENDING,
        name: Optional[str] = None,
        description: Optional[str] = None,
        model_id: Optional[int] = None,
        workspace_names: Optional[List[str]] = None,
        workspace_ids: Optional[List[int]] = None,
    ) -> List[Model]:
        """Return the models that match all filters."""
        params = {
            "sortBy": ModelSortBy(sort_by).value,
            "orderBy": OrderBy(order_by).value,
            "name": name or None,
            "description": description or None,
            "id": model_id,
            "workspaceNames": workspace_names,
            "workspaceIds": workspace_ids,
        }
        rows = pages(self._session, "/models", "models", params)
        return [Model._from_json(self._session, row) for row in rows]

    get_models = list_models

    def get_model_labels(self) -> List[str]:
        """Return all labels of models, starting with the most frequent."""
        return list(self._session.get(f"{V1}/model/labels")["labels"])

    def create_user(
        self, username: str, admin: bool, password: Optional[str] = None, remote: bool = False
    ) -> User:
        user = {"username": username, "admin": admin, "active": True, "remote": remote}
        body = {"user": user, "password": salt_password(password or ""), "isHashed": True}
        raw = create(self._session, f"{V1}/users", body, "user", lambda: self._raw_user(username))
        return User._from_json(self._session, raw)

    def get_user_by_id(self, user_id: int) -> User:
        user = User(user_id, self._session)
        user.reload()
        return user

    def get_user_by_name(self, user_name: str) -> User:
        return User._from_json(self._session, self._raw_user(user_name))

    def _raw_user(self, user_name: str) -> Dict[str, Any]:
        return dict(self._session.get(f"{V1}/users/{user_name}/by-username")["user"])

    def list_users(self, active: Optional[bool] = None) -> List[User]:
        rows = pages(self._session, "/users", "users", {"active": active})
        return [User._from_json(self._session, row) for row in rows]

    def whoami(self) -> User:
        return User._from_json(self._session, self._session.get(f"{V1}/me")["user"])

    def get_session_username(self) -> str:
        return self._session.username or str(self.whoami().username)

    def logout(self) -> None:
        """End the session on the cluster, and delete its local token."""
        try:
            self._session.post(f"{V1}/auth/logout")
        except UnauthenticatedError:
            # The session had ended before.
            pass
        self._store.drop(self._session.username)
        self._store.deactivate(self._session.username)

    def get_workspace(self, name: str) -> Workspace:
        return Workspace(self._session, workspace_name=name)

    def list_workspaces(self) -> List[Workspace]:
        rows = list(pages(self._session, "/workspaces", "workspaces"))
        return [Workspace._from_json(self._session, row) for row in rows]

    def create_workspace(self, name: str) -> Workspace:
        raw = create(
            self._session,
            f"{V1}/workspaces",
            {"name": name},
            "workspace",
            lambda: workspace_by_name(self._session, name),
        )
        return Workspace._from_json(self._session, raw)

    def delete_workspace(self, name: str) -> None:
        self._session.delete(f"{V1}/workspaces/{self.get_workspace(name).id}")

    def list_resource_pools(self) -> List[ResourcePool]:
        """Return the pools of the configuration and the database."""
        pools = self._session.get(f"{V1}/pools")["pools"]
        return [ResourcePool(self._session, pool["name"]) for pool in pools]

    def create_resource_pool(self, settings: Dict[str, Any]) -> ResourcePool:
        """Create a pool from settings such as `{"pool_name": "lab"}`, without a restart of the cluster."""
        path = f"{V1}/pools"
        pool = ResourcePool(self._session, str(settings.get("pool_name")))

        def existing() -> Dict[str, Any]:
            stored = pool.describe()
            return {**stored, "username": stored["createdBy"]}

        raw = create(self._session, path, {"settings": settings}, "pool", existing)
        return ResourcePool(self._session, raw["name"])

    def iter_trials_metrics(
        self, trial_ids: List[int], group: str
    ) -> Iterator[metrics.TrialMetrics]:
        """Yield the metrics of a group that these trials reported."""
        return metrics.stream(self._session, trial_ids, group, metrics.TrialMetrics)

    stream_trials_metrics = iter_trials_metrics

    def stream_trials_training_metrics(
        self, trial_ids: List[int]
    ) -> Iterator[metrics.TrainingMetrics]:
        return metrics.stream(self._session, trial_ids, "training", metrics.TrainingMetrics)

    def stream_trials_validation_metrics(
        self, trial_ids: List[int]
    ) -> Iterator[metrics.ValidationMetrics]:
        return metrics.stream(self._session, trial_ids, "validation", metrics.ValidationMetrics)
