"""Settings of `core_v2.init`: the experiment and trial to report to."""

from typing import Any, Dict, List, Mapping, Optional, Union

from determined import _paths
from determined.core._context import StorageChoice, storage_config


class DefaultConfig:
    """Settings of the experiment. The configuration on the cluster takes precedence."""

    def __init__(
        self,
        name: Optional[str] = None,
        hparams: Optional[Dict[str, Any]] = None,
        data: Optional[Dict[str, Any]] = None,
        description: Optional[str] = None,
        labels: Optional[List[str]] = None,
        checkpoint_storage: StorageChoice = None,
        searcher: Optional[Dict[str, Any]] = None,
        workspace: Optional[str] = None,
        project: Optional[str] = None,
    ) -> None:
        self.name = name
        self.hparams = hparams
        self.data = data
        self.description = description
        self.labels = labels
        self.checkpoint_storage = checkpoint_storage
        self.searcher = searcher
        self.workspace = workspace
        self.project = project


class UnmanagedConfig:
    """Settings of unmanaged trials: their project, and external ids for finding them again."""

    def __init__(
        self,
        workspace: Optional[str] = None,
        project: Optional[str] = None,
        external_experiment_id: Optional[Union[str, int]] = None,
        external_trial_id: Optional[Union[str, int]] = None,
    ) -> None:
        if external_trial_id is not None and external_experiment_id is None:
            raise ValueError("external_trial_id needs external_experiment_id too")
        self.workspace = workspace
        self.project = project
        self.external_experiment_id = external_experiment_id
        self.external_trial_id = external_trial_id


class Config(DefaultConfig, UnmanagedConfig):
    """A `DefaultConfig` and an `UnmanagedConfig` in one. It takes precedence over `defaults` and `unmanaged`."""

    def __init__(
        self,
        name: Optional[str] = None,
        hparams: Optional[Dict[str, Any]] = None,
        data: Optional[Dict[str, Any]] = None,
        description: Optional[str] = None,
        labels: Optional[List[str]] = None,
        workspace: Optional[str] = None,
        project: Optional[str] = None,
        checkpoint_storage: StorageChoice = None,
        searcher: Optional[Dict[str, Any]] = None,
        external_experiment_id: Optional[Union[str, int]] = None,
        external_trial_id: Optional[Union[str, int]] = None,
    ) -> None:
        UnmanagedConfig.__init__(
            self, workspace, project, external_experiment_id, external_trial_id
        )
        DefaultConfig.__init__(
            self,
            name,
            hparams,
            data,
            description,
            labels,
            checkpoint_storage,
            searcher,
            workspace,
            project,
        )


def merged(
    config: Optional[Config],
    defaults: Optional[DefaultConfig],
    unmanaged: Optional[UnmanagedConfig],
) -> Config:
    values: Dict[str, Any] = {}
    for part in (defaults, unmanaged, config):
        settings = vars(part) if part is not None else {}
        values.update({name: value for name, value in settings.items() if value is not None})
    return Config(**values)


def experiment_config(config: Config, storage: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the experiment configuration of an unmanaged experiment."""
    fields = {
        "name": config.name,
        "description": config.description,
        "labels": config.labels,
        "data": config.data,
        "workspace": config.workspace,
        "project": config.project,
        "hyperparameters": config.hparams,
        "checkpoint_storage": dict(storage),
        "searcher": config.searcher or {"name": "single", "metric": "unmanaged"},
    }
    return {name: value for name, value in fields.items() if value is not None}


def storage_of(config: Config) -> Dict[str, Any]:
    chosen = config.checkpoint_storage
    if isinstance(chosen, str):
        return storage_config(chosen)
    if chosen:
        return dict(chosen)
    return {"type": "directory", "container_path": str(_paths.offline_dir() / "checkpoints")}
