"""Experiments and their trials. The classes refer to each other and therefore share a module."""

import logging
import os
import time
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Set, Union
from urllib.parse import quote

from determined.common import context_download, log_stream
from determined.common.http import NotFoundError, Session
from determined.common.pages import V1, pages
from determined.experimental.client import _checkpoint_query as query
from determined.experimental.client import _metrics as metrics
from determined.experimental.client import _trial_logs as trial_logs
from determined.experimental.client._checkpoint import Checkpoint
from determined.experimental.client._enums import (
    ExperimentState,
    LogLevel,
    OrderBy,
    TrialSortBy,
    TrialState,
)
from determined.experimental.client._lookup import project_by_name, workspace_by_name
from determined.experimental.client._resource import Archivable

logger = logging.getLogger("determined.client")

_TERMINAL = (
    ExperimentState.COMPLETED,
    ExperimentState.CANCELED,
    ExperimentState.ERROR,
    ExperimentState.DELETED,
    ExperimentState.DELETE_FAILED,
)
_REMARK_AFTER_S = 60.0


class Trial(query.HasCheckpoints):
    """A training run with one set of hyperparameters."""

    _key = "trial"

    def __init__(self, trial_id: int, session: Session) -> None:
        self.id = trial_id
        self._session = session
        self.experiment_id: Optional[int] = None
        self.hparams: Optional[Dict[str, Any]] = None
        self.summary_metrics: Optional[Dict[str, Any]] = None
        self.state: Optional[TrialState] = None

    def __repr__(self) -> str:
        return f"Trial(id={self.id})"

    @classmethod
    def _from_json(cls, session: Session, raw: Dict[str, Any]) -> "Trial":
        trial = cls(raw["id"], session)
        trial._fill(raw)
        return trial

    def _fill(self, raw: Dict[str, Any]) -> None:
        self.experiment_id = raw["experimentId"]
        self.hparams = raw["hparams"]
        self.summary_metrics = raw.get("summaryMetrics")
        self.state = TrialState(raw["state"])

    @property
    def _path(self) -> str:
        return f"{V1}/trials/{self.id}"

    def get_experiment(self) -> "Experiment":
        """Return the experiment of this trial."""
        if self.experiment_id is None:
            self.reload()
        experiment = Experiment(int(self.experiment_id or 0), self._session)
        experiment.reload()
        return experiment

    def kill(self) -> None:
        """Stop the trial at once."""
        self._session.post(f"{self._path}/kill")

    def iter_logs(
        self,
        follow: bool = False,
        *,
        head: Optional[int] = None,
        tail: Optional[int] = None,
        container_ids: Optional[List[str]] = None,
        rank_ids: Optional[List[int]] = None,
        stdtypes: Optional[List[str]] = None,
        min_level: Union[LogLevel, str, None] = None,
        timestamp_before: trial_logs.Timestamp = None,
        timestamp_after: trial_logs.Timestamp = None,
        sources: Optional[List[str]] = None,
        search_text: Optional[str] = None,
    ) -> Iterator[str]:
        """Yield log lines as text. With `follow`, continue until the trial ends."""
        if head is not None and tail is not None:
            raise ValueError("head and tail exclude each other")
        filters: Dict[str, Any] = {
            "containerIds": container_ids,
            "rankIds": rank_ids,
            "stdtypes": stdtypes,
            "levels": log_stream.from_level(LogLevel(min_level).name) if min_level else None,
            "timestampBefore": trial_logs.timestamp(timestamp_before),
            "timestampAfter": trial_logs.timestamp(timestamp_after),
            "sources": sources,
            "searchText": search_text,
        }
        for line in trial_logs.lines(self._session, self.id, filters, follow, head, tail):
            yield str(line["message"])

    logs = iter_logs

    get_checkpoints = query.HasCheckpoints.list_checkpoints

    @property
    def _checkpoints(self) -> str:
        return f"/trials/{self.id}/checkpoints"

    def top_checkpoint(
        self, sort_by: Optional[str] = None, smaller_is_better: Optional[bool] = None
    ) -> Checkpoint:
        """Return the best checkpoint by a metric, by default by the searcher's metric."""
        config = {} if sort_by else self.get_experiment().config or {}
        checkpoints = query.best(
            self._session, self._checkpoints, 1, sort_by, smaller_is_better, config
        )
        return self._only(checkpoints)

    def select_checkpoint(
        self,
        latest: bool = False,
        best: bool = False,
        uuid: Optional[str] = None,
        sort_by: Optional[str] = None,
        smaller_is_better: Optional[bool] = None,
    ) -> Checkpoint:
        """Return the newest checkpoint, the best checkpoint, or the checkpoint with this id."""
        if sum((latest, best, uuid is not None)) != 1:
            raise ValueError("choose one of latest, best and uuid")
        if best:
            return self.top_checkpoint(sort_by, smaller_is_better)
        if sort_by is not None or smaller_is_better is not None:
            raise ValueError("sort_by and smaller_is_better belong to best=True")
        if latest:
            return self._only(query.newest(self._session, self._checkpoints))
        matching = [c for c in self.list_checkpoints() if c.uuid == uuid]
        return self._only(matching)

    def _only(self, checkpoints: List[Checkpoint]) -> Checkpoint:
        if not checkpoints:
            raise NotFoundError(404, f"trial {self.id} has no such checkpoint")
        return checkpoints[0]

    def iter_metrics(self, group: str) -> Iterator[metrics.TrialMetrics]:
        """Yield the trial's metrics of a group, oldest first."""
        return metrics.stream(self._session, [self.id], group, metrics.TrialMetrics)

    stream_metrics = iter_metrics

    def stream_training_metrics(self) -> Iterator[metrics.TrainingMetrics]:
        return metrics.stream(self._session, [self.id], "training", metrics.TrainingMetrics)

    def stream_validation_metrics(self) -> Iterator[metrics.ValidationMetrics]:
        return metrics.stream(self._session, [self.id], "validation", metrics.ValidationMetrics)


class Experiment(Archivable, query.HasCheckpoints):
    """A hyperparameter search, or a single training run."""

    _key = "experiment"

    def __init__(self, experiment_id: int, session: Session) -> None:
        self._id = experiment_id
        self._session = session
        self.config: Optional[Dict[str, Any]] = None
        self.state: Optional[ExperimentState] = None
        self.name: Optional[str] = None
        self.labels: Optional[Set[str]] = None
        self.progress: Optional[float] = None
        self.archived: Optional[bool] = None
        self.description: Optional[str] = None
        self.notes: Optional[str] = None
        self.project_id: Optional[int] = None
        self.workspace_id: Optional[int] = None
        self.unmanaged: Optional[bool] = None

    @property
    def id(self) -> int:
        return self._id

    def __repr__(self) -> str:
        return f"Experiment(id={self.id})"

    @classmethod
    def _from_json(cls, session: Session, raw: Dict[str, Any]) -> "Experiment":
        experiment = cls(raw["id"], session)
        experiment._fill(raw)
        return experiment

    def _fill(self, raw: Dict[str, Any]) -> None:
        self.config = raw["config"]
        self.state = ExperimentState(raw["state"])
        self.name = raw["name"]
        self.labels = set(raw.get("labels") or [])
        self.progress = raw.get("progress")
        self.archived = raw["archived"]
        self.description = raw.get("description")
        self.notes = raw.get("notes")
        self.project_id = raw["projectId"]
        self.workspace_id = raw.get("workspaceId")
        self.unmanaged = raw.get("unmanaged")

    @property
    def _path(self) -> str:
        return f"{V1}/experiments/{self._id}"

    def _patch(self, **change: Any) -> None:
        self._session.patch(self._path, {"id": self._id, **change})

    def set_name(self, name: str) -> None:
        self._patch(name=name)
        self.name = name

    def set_description(self, description: str) -> None:
        self._patch(description=description)
        self.description = description

    def set_notes(self, notes: str) -> None:
        self._patch(notes=notes)
        self.notes = notes

    def set_labels(self, labels: Set[str]) -> None:
        """Replace all labels."""
        self._patch(labels=sorted(labels))
        self.labels = set(labels)

    def add_label(self, label: str) -> None:
        answer = self._session.put(f"{self._path}/labels/{quote(label, safe='')}")
        self.labels = set(answer["labels"])

    def remove_label(self, label: str) -> None:
        answer = self._session.delete(f"{self._path}/labels/{quote(label, safe='')}")
        self.labels = set(answer["labels"])

    def activate(self) -> None:
        """Resume the experiment after a pause."""
        self._session.post(f"{self._path}/activate")

    def pause(self) -> None:
        """Pause the experiment. Its trials save a checkpoint first."""
        self._session.post(f"{self._path}/pause")

    def cancel(self) -> None:
        """Stop the experiment permanently. Its trials save a checkpoint first."""
        self._session.post(f"{self._path}/cancel")

    def kill(self) -> None:
        """Stop the experiment at once."""
        self._session.post(f"{self._path}/kill")

    def delete(self) -> None:
        """Delete the experiment with its checkpoints and logs. The cluster does this in the background."""
        self._session.delete(self._path)

    def delete_tensorboard_files(self) -> None:
        self._session.delete(f"{self._path}/tensorboard-files")

    def move_to_project(self, workspace_name: str, project_name: str) -> None:
        """Move the experiment to a project of a workspace."""
        workspace = workspace_by_name(self._session, workspace_name)
        project = project_by_name(self._session, workspace["id"], workspace_name, project_name)
        body = {"destinationProjectId": project["id"], "experimentId": self._id}
        self._session.post(f"{self._path}/move", body)

    def wait(self, interval: float = 5.0) -> ExperimentState:
        """Block until the experiment ends, and return its final state."""
        logged_state, began = None, time.monotonic()
        while True:
            self.reload()
            assert self.state is not None
            if self.state in _TERMINAL:
                return self.state
            waiting = self.state in (ExperimentState.PAUSED, ExperimentState.QUEUED)
            if (
                waiting
                and logged_state != self.state
                and time.monotonic() - began > _REMARK_AFTER_S
            ):
                logged_state = self.state
                logger.warning(
                    f"experiment {self._id} is {self.state.name}; still waiting for it to end"
                )
            time.sleep(interval)

    def await_first_trial(self, interval: float = 0.1) -> Trial:
        """Block until the experiment has a trial."""
        while True:
            for trial in self.iter_trials(limit=1):
                return trial
            self.reload()
            if self.state in _TERMINAL:
                raise NotFoundError(404, f"experiment {self._id} ended without a trial")
            time.sleep(interval)

    def iter_trials(
        self,
        sort_by: TrialSortBy = TrialSortBy.ID,
        order_by: OrderBy = OrderBy.ASCENDING,
        limit: Optional[int] = None,
    ) -> Iterator[Trial]:
        """Yield the experiment's trials. They are fetched in pages of `limit` trials."""
        params = {
            "sortBy": TrialSortBy(sort_by).value,
            "orderBy": OrderBy(order_by).value,
        }
        path = f"/experiments/{self._id}/trials"
        for raw in pages(self._session, path, "trials", params, limit=limit or 200):
            yield Trial._from_json(self._session, raw)

    def list_trials(
        self, sort_by: TrialSortBy = TrialSortBy.ID, order_by: OrderBy = OrderBy.ASCENDING
    ) -> List[Trial]:
        return list(self.iter_trials(sort_by, order_by))

    get_trials = list_trials

    @property
    def _checkpoints(self) -> str:
        return f"/experiments/{self._id}/checkpoints"

    def top_checkpoint(
        self, sort_by: Optional[str] = None, smaller_is_better: Optional[bool] = None
    ) -> Checkpoint:
        """Return the best checkpoint by a metric, by default by the searcher's metric."""
        checkpoints = self.top_n_checkpoints(1, sort_by, smaller_is_better)
        if not checkpoints:
            of_metric = f" with metric {sort_by}" if sort_by else ""
            raise NotFoundError(404, f"experiment {self._id} has no checkpoints{of_metric}")
        return checkpoints[0]

    def top_n_checkpoints(
        self,
        limit: int,
        sort_by: Optional[str] = None,
        smaller_is_better: Optional[bool] = None,
    ) -> List[Checkpoint]:
        """Return the best checkpoints by a metric, best first."""
        if self.config is None:
            self.reload()
        return list(
            islice(
                query.best(
                    self._session,
                    self._checkpoints,
                    limit,
                    sort_by,
                    smaller_is_better,
                    self.config or {},
                ),
                limit,
            )
        )

    def download_code(self, output_dir: Optional[str] = None) -> str:
        """Write the experiment's code as a tar.gz into a directory, and return the path of the archive."""
        code = context_download.code_of(self._session, f"{self._path}/model_def")
        folder = output_dir or os.getcwd()
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"exp-{self._id}_model_def.tar.gz")
        with open(path, "wb") as f:
            f.write(code)
        return path

    def get_pachyderm_config(self) -> Dict[str, Any]:
        """Return the Pachyderm section of the configuration."""
        return dict((self.config or {})["integrations"]["pachyderm"])
