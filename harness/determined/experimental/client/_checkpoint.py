"""Checkpoints of the SDK: their properties, files and metadata."""

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from determined.common import checkpoint_files
from determined.common.http import Session
from determined.common.pages import V1
from determined.experimental.client._enums import CheckpointState, DownloadMode
from determined.experimental.client._metrics import TrialMetrics
from determined.experimental.client._resource import Resource


class CheckpointTrainingMetadata(NamedTuple):
    """The trial of a checkpoint, with its configuration and metrics."""

    experiment_config: Dict[str, Any]
    experiment_id: Optional[int]
    trial_id: Optional[int]
    hparams: Optional[Dict[str, Any]]
    validation_metrics: Dict[str, Any]
    searcher_metric: Optional[float]
    training_metrics: Dict[str, Any]


class Checkpoint(Resource):
    """The files that a trial saved at one point of its training."""

    _key = "checkpoint"

    def __init__(self, session: Session, uuid: str) -> None:
        self._session = session
        self.uuid = uuid
        self._raw: Dict[str, Any] = {}
        self.task_id: Optional[str] = None
        self.allocation_id: Optional[str] = None
        self.report_time: Optional[str] = None
        self.resources: Optional[Dict[str, Any]] = None
        self.metadata: Optional[Dict[str, Any]] = None
        self.state: Optional[CheckpointState] = None
        self.training: Optional[CheckpointTrainingMetadata] = None
        self.storage_id: Optional[int] = None

    def __repr__(self) -> str:
        trial = self.training.trial_id if self.training else None
        return f"Checkpoint(uuid={self.uuid}, task_id={self.task_id}, trial_id={trial})"

    @classmethod
    def _from_json(cls, session: Session, raw: Dict[str, Any]) -> "Checkpoint":
        checkpoint = cls(session, raw["uuid"])
        checkpoint._fill(raw)
        return checkpoint

    def _fill(self, raw: Dict[str, Any]) -> None:
        training = raw.get("training") or {}
        self._raw = raw
        self.task_id = raw.get("taskId")
        self.allocation_id = raw.get("allocationId")
        self.report_time = raw.get("reportTime")
        self.resources = raw["resources"]
        self.metadata = raw["metadata"]
        self.state = CheckpointState(raw["state"])
        self.storage_id = raw.get("storageId")
        self.training = CheckpointTrainingMetadata(
            training.get("experimentConfig") or {},
            training.get("experimentId"),
            training.get("trialId"),
            training.get("hparams"),
            training.get("validationMetrics") or {},
            training.get("searcherMetric"),
            training.get("trainingMetrics") or {},
        )

    @property
    def _path(self) -> str:
        return f"{V1}/checkpoints/{self.uuid}"

    def _loaded(self) -> Dict[str, Any]:
        if not self._raw:
            self.reload()
        return self._raw

    def download(self, path: Optional[str] = None, mode: DownloadMode = DownloadMode.AUTO) -> str:
        """Download the files to `path` (default: checkpoints/<uuid>) and return it."""
        target = path or checkpoint_files.default_directory(self.uuid)
        checkpoint_files.download(self._session, self._loaded(), target, DownloadMode(mode).value)
        return target

    def write_metadata_file(self, path: str) -> None:
        """Write the metadata as JSON."""
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        checkpoint_files.write_metadata(path, self._loaded().get("metadata") or {})

    def add_metadata(self, metadata: Dict[str, Any]) -> None:
        """Set these keys, replacing existing values."""
        self._post_metadata({**(self._loaded().get("metadata") or {}), **metadata})

    def remove_metadata(self, keys: List[str]) -> None:
        """Remove these keys. Missing keys are ignored."""
        old = self._loaded().get("metadata") or {}
        self._post_metadata({k: v for k, v in old.items() if k not in keys})

    def _post_metadata(self, metadata: Dict[str, Any]) -> None:
        body = {"checkpoint": {**self._raw, "metadata": metadata}}
        answer = self._session.post(f"{self._path}/metadata", body)
        self._fill({**self._raw, "metadata": metadata, **(answer.get("checkpoint") or {})})

    def delete(self) -> None:
        """Request the deletion of all files. The cluster deletes them in the background."""
        self._session.delete(f"{V1}/checkpoints", {"checkpointUuids": [self.uuid]})

    def remove_files(self, globs: List[str]) -> None:
        """Request the deletion of matching files. An empty list only updates the cluster's record from the storage."""
        body = {"checkpointUuids": [self.uuid], "checkpointGlobs": globs}
        self._session.post(f"{V1}/checkpoints/rm", body)

    def get_metrics(self, group: Optional[str] = None) -> Iterator[TrialMetrics]:
        """Yield the metrics of trials that used this checkpoint."""
        for report in self._session.get(f"{self._path}/metrics", {"metricGroup": group})["metrics"]:
            yield TrialMetrics.from_report(report)

    def get_pachyderm_commit(self) -> str:
        """Return the Pachyderm commit from the experiment's configuration."""
        config = (self.training.experiment_config if self.training else {}) or {}
        return str(config["integrations"]["pachyderm"]["dataset"]["commit"])
