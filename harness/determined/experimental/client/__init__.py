"""The Python SDK: create, find and manage experiments, trials, checkpoints and models.

    from determined.experimental import client

    experiment = client.create_experiment("config.yaml", "model_dir")
    experiment.wait()
    print(experiment.top_checkpoint().download())

The functions share one connection, which the first call opens with the settings of the environment or of
`det user login`. Call `login` first to use other settings. Each `Determined` object has its own connection.
"""

import pathlib
from typing import Any, Dict, Iterable, Iterator, List, Optional, Union

from determined.experimental.client import _only_owner  # noqa: F401
from determined.experimental.client._checkpoint import Checkpoint, CheckpointTrainingMetadata
from determined.experimental.client._determined import Determined
from determined.experimental.client._enums import (
    CheckpointSortBy,
    CheckpointState,
    DownloadMode,
    ExperimentSortBy,
    ExperimentState,
    LogLevel,
    ModelSortBy,
    OrderBy,
    TrialSortBy,
    TrialState,
)
from determined.experimental.client._experiment import Experiment, Trial
from determined.experimental.client._metrics import TrainingMetrics, TrialMetrics, ValidationMetrics
from determined.experimental.client._model import Model, ModelVersion
from determined.experimental.client._user import User
from determined.experimental.client._workspace import Project, ResourcePool, Workspace

CheckpointOrderBy = ExperimentOrderBy = ModelOrderBy = TrialOrderBy = OrderBy

__all__ = [
    "Checkpoint",
    "CheckpointOrderBy",
    "CheckpointSortBy",
    "CheckpointState",
    "CheckpointTrainingMetadata",
    "Determined",
    "DownloadMode",
    "Experiment",
    "ExperimentOrderBy",
    "ExperimentSortBy",
    "ExperimentState",
    "LogLevel",
    "Model",
    "ModelOrderBy",
    "ModelSortBy",
    "ModelVersion",
    "OrderBy",
    "Project",
    "ResourcePool",
    "TrainingMetrics",
    "Trial",
    "TrialMetrics",
    "TrialOrderBy",
    "TrialSortBy",
    "TrialState",
    "User",
    "ValidationMetrics",
    "Workspace",
    "create_experiment",
    "create_model",
    "create_user",
    "create_workspace",
    "delete_workspace",
    "get_checkpoint",
    "get_experiment",
    "get_model",
    "get_model_by_id",
    "get_model_labels",
    "get_models",
    "get_session_username",
    "get_trial",
    "get_user_by_id",
    "get_user_by_name",
    "get_workspace",
    "iter_trials_metrics",
    "list_experiments",
    "list_models",
    "list_users",
    "list_workspaces",
    "login",
    "logout",
    "stream_trials_metrics",
    "stream_trials_training_metrics",
    "stream_trials_validation_metrics",
    "whoami",
]

_connection: Optional[Determined] = None


def _get_connection() -> Determined:
    global _connection
    if _connection is None:
        _connection = Determined()
    return _connection


def login(
    master: Optional[str] = None,
    user: Optional[str] = None,
    password: Optional[str] = None,
    cert_path: Optional[str] = None,
    cert_name: Optional[str] = None,
    noverify: bool = False,
) -> None:
    """Open this module's connection. It can be called once, before any other function."""
    global _connection
    if _connection is not None:
        raise ValueError(
            "client is connected already: call login() once, before any other function,"
            " or use client.Determined() for a second connection"
        )
    _connection = Determined(master, user, password, cert_path, cert_name, noverify)


def logout() -> None:
    """End the session. The next call opens a new one."""
    global _connection
    _get_connection().logout()
    _connection = None


def create_experiment(
    config: Union[str, pathlib.Path, Dict[str, Any]],
    model_dir: Union[str, pathlib.Path, None] = None,
    includes: Optional[Iterable[Union[str, pathlib.Path]]] = None,
    project_id: Optional[int] = None,
    template: Optional[str] = None,
) -> Experiment:
    """Submit an experiment. `config` is a mapping or the path of a YAML file."""
    return _get_connection().create_experiment(config, model_dir, includes, project_id, template)


def get_experiment(experiment_id: int) -> Experiment:
    return _get_connection().get_experiment(experiment_id)


def list_experiments(
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
    return _get_connection().list_experiments(
        sort_by, order_by, experiment_ids, labels, users, states, name, project_id
    )


def get_trial(trial_id: int) -> Trial:
    return _get_connection().get_trial(trial_id)


def get_checkpoint(uuid: str) -> Checkpoint:
    return _get_connection().get_checkpoint(uuid)


def create_model(
    name: str,
    description: Optional[str] = "",
    metadata: Optional[Dict[str, Any]] = None,
    labels: Optional[List[str]] = None,
    workspace_name: Optional[str] = None,
) -> Model:
    return _get_connection().create_model(name, description, metadata, labels, workspace_name)


def get_model(identifier: Union[str, int]) -> Model:
    """Return the model with this name or id."""
    return _get_connection().get_model(identifier)


def get_model_by_id(model_id: int) -> Model:
    return _get_connection().get_model_by_id(model_id)


def list_models(
    sort_by: ModelSortBy = ModelSortBy.NAME,
    order_by: OrderBy = OrderBy.ASCENDING,
    name: Optional[str] = None,
    description: Optional[str] = None,
    model_id: Optional[int] = None,
    workspace_names: Optional[List[str]] = None,
    workspace_ids: Optional[List[int]] = None,
) -> List[Model]:
    """Return the models that match all filters."""
    return _get_connection().list_models(
        sort_by, order_by, name, description, model_id, workspace_names, workspace_ids
    )


get_models = list_models


def get_model_labels() -> List[str]:
    """Return all labels of models, starting with the most frequent."""
    return _get_connection().get_model_labels()


def create_user(
    username: str, admin: bool, password: Optional[str] = None, remote: bool = False
) -> User:
    return _get_connection().create_user(username, admin, password, remote)


def get_user_by_id(user_id: int) -> User:
    return _get_connection().get_user_by_id(user_id)


def get_user_by_name(user_name: str) -> User:
    return _get_connection().get_user_by_name(user_name)


def list_users(active: Optional[bool] = None) -> List[User]:
    return _get_connection().list_users(active)


def whoami() -> User:
    return _get_connection().whoami()


def get_session_username() -> str:
    return _get_connection().get_session_username()


def get_workspace(name: str) -> Workspace:
    return _get_connection().get_workspace(name)


def list_workspaces() -> List[Workspace]:
    return _get_connection().list_workspaces()


def create_workspace(name: str) -> Workspace:
    return _get_connection().create_workspace(name)


def delete_workspace(name: str) -> None:
    _get_connection().delete_workspace(name)


def iter_trials_metrics(trial_ids: List[int], group: str) -> Iterator[TrialMetrics]:
    """Yield the metrics of a group that these trials reported."""
    return _get_connection().iter_trials_metrics(trial_ids, group)


stream_trials_metrics = iter_trials_metrics


def stream_trials_training_metrics(trial_ids: List[int]) -> Iterator[TrainingMetrics]:
    return _get_connection().stream_trials_training_metrics(trial_ids)


def stream_trials_validation_metrics(trial_ids: List[int]) -> Iterator[ValidationMetrics]:
    return _get_connection().stream_trials_validation_metrics(trial_ids)
