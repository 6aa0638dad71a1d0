"""Models of the registry and their versions."""

from typing import Any, Dict, Iterator, List, Optional
from urllib.parse import quote

from determined.common.http import Session
from determined.common.pages import V1, pages
from determined.experimental.client._checkpoint import Checkpoint
from determined.experimental.client._enums import OrderBy
from determined.experimental.client._metrics import TrialMetrics
from determined.experimental.client._resource import Archivable, Resource


def model_path(identifier: str) -> str:
    return f"/models/{quote(identifier, safe='')}"


class ModelVersion(Resource):
    """A numbered version of a model, which refers to a checkpoint."""

    _key = "modelVersion"

    def __init__(self, session: Session, model_version: int, model_name: str) -> None:
        self._session = session
        self.model_version = model_version
        self.model_name = model_name
        self.model_id: Optional[int] = None
        self.checkpoint: Optional[Checkpoint] = None
        self.metadata: Optional[Dict[str, Any]] = None
        self.name: Optional[str] = None
        self.comment: Optional[str] = None
        self.notes: Optional[str] = None

    def __repr__(self) -> str:
        return f"ModelVersion(model_name={self.model_name!r}, model_version={self.model_version})"

    @classmethod
    def _from_json(cls, session: Session, raw: Dict[str, Any]) -> "ModelVersion":
        version = cls(session, raw["version"], raw["model"]["name"])
        version._fill(raw)
        return version

    def _fill(self, raw: Dict[str, Any]) -> None:
        self.model_id = raw["model"]["id"]
        self.checkpoint = Checkpoint._from_json(self._session, raw["checkpoint"])
        self.metadata = raw.get("metadata") or {}
        self.name = raw.get("name")
        self.comment = raw.get("comment")
        self.notes = raw.get("notes")

    @property
    def _path(self) -> str:
        return f"{V1}{model_path(self.model_name)}/versions/{self.model_version}"

    def set_name(self, name: str) -> None:
        self._session.patch(self._path, {"name": name})
        self.name = name

    def set_notes(self, notes: str) -> None:
        self._session.patch(self._path, {"notes": notes})
        self.notes = notes

    def delete(self) -> None:
        """Delete the version. Its checkpoint is kept."""
        self._session.delete(self._path)

    def iter_metrics(self, group: Optional[str] = None) -> Iterator[TrialMetrics]:
        """Yield the metrics of trials that used this version."""
        for report in self._session.get(f"{self._path}/metrics", {"metricGroup": group})["metrics"]:
            yield TrialMetrics.from_report(report)

    get_metrics = iter_metrics


class Model(Archivable):
    """A name for a series of checkpoints."""

    _key = "model"

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self.name = name
        self.model_id: Optional[int] = None
        self.description: Optional[str] = None
        self.creation_time: Optional[str] = None
        self.last_updated_time: Optional[str] = None
        self.metadata: Optional[Dict[str, Any]] = None
        self.labels: Optional[List[str]] = None
        self.username: Optional[str] = None
        self.workspace_id: Optional[int] = None
        self.archived: Optional[bool] = None

    def __repr__(self) -> str:
        return f"Model(name={self.name!r}, metadata={self.metadata})"

    @classmethod
    def _from_json(cls, session: Session, raw: Dict[str, Any]) -> "Model":
        model = cls(session, raw["name"])
        model._fill(raw)
        return model

    def _fill(self, raw: Dict[str, Any]) -> None:
        self.name = raw["name"]
        self.model_id = raw["id"]
        self.description = raw.get("description")
        self.creation_time = raw["creationTime"]
        self.last_updated_time = raw["lastUpdatedTime"]
        self.metadata = raw.get("metadata") or {}
        self.labels = list(raw.get("labels") or [])
        self.username = raw["username"]
        self.workspace_id = raw.get("workspaceId")
        self.archived = raw["archived"]

    @property
    def _path(self) -> str:
        return V1 + model_path(self.name)

    def get_version(self, version: int = -1) -> Optional[ModelVersion]:
        """Return a version, by default the newest. Return None if the model has no version."""
        if version != -1:
            raw = self._session.get(f"{self._path}/versions/{version}")["modelVersion"]
            return ModelVersion._from_json(self._session, raw)
        return next(iter(self.list_versions()), None)

    def list_versions(self, order_by: OrderBy = OrderBy.DESCENDING) -> List[ModelVersion]:
        """Return all versions, by default newest first."""
        params = {"orderBy": OrderBy(order_by).value, "sortBy": "SORT_BY_VERSION"}
        path = f"{model_path(self.name)}/versions"
        rows = pages(self._session, path, "modelVersions", params)
        return [ModelVersion._from_json(self._session, row) for row in rows]

    get_versions = list_versions

    def register_version(self, checkpoint_uuid: str) -> ModelVersion:
        """Register a checkpoint as the newest version."""
        body = {"modelName": self.name, "checkpointUuid": checkpoint_uuid}
        raw = self._session.post(f"{self._path}/versions", body)["modelVersion"]
        return ModelVersion._from_json(self._session, raw)

    def add_metadata(self, metadata: Dict[str, Any]) -> None:
        """Set these keys, replacing existing values."""
        self._patch(metadata={**(self.metadata or {}), **metadata})

    def remove_metadata(self, keys: List[str]) -> None:
        """Remove these keys. Missing keys are ignored."""
        self._patch(metadata={k: v for k, v in (self.metadata or {}).items() if k not in keys})

    def set_labels(self, labels: List[str]) -> None:
        """Replace all labels."""
        self._patch(labels=list(labels))

    def set_description(self, description: str) -> None:
        self._patch(description=description)

    def move_to_workspace(self, workspace_name: str) -> None:
        self._patch(workspaceName=workspace_name)

    def delete(self) -> None:
        """Delete the model and its versions. The checkpoints are kept."""
        self._session.delete(self._path)
