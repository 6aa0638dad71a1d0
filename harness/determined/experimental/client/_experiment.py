"""Experiments."""

import base64
import logging
import os
import time
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Set
from urllib.parse import quote

from determined.common.http import NotFoundError, Session
from determined.common.pages import V1, pages
from determined.experimental.client import _checkpoint_query as query
from determined.experimental.client._checkpoint import Checkpoint
from determined.experimental.client._enums import ExperimentState, OrderBy, TrialSortBy
from determined.experimental.client._trial import Trial

logger = logging.getLogger("determined.client")

_TERMINAL = (
    ExperimentState.COMPLETED,
    ExperimentState.CANCELED,
    ExperimentState.ERROR,
    ExperimentState.DELETED,
    ExperimentState.DELETE_FAILED,
)
_REMARK_AFTER_S = 60.0


class Experiment:
    """A search over hyperparameters, or a single training."""

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

    def reload(self) -> None:
        """Read the description again."""
        self._fill(self._session.get(self._path)["experiment"])

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
        """Let it go on after a pause."""
        self._session.post(f"{self._path}/activate")

    def pause(self) -> None:
        """Stop it for now; its trials save a checkpoint first."""
        self._session.post(f"{self._path}/pause")

    def cancel(self) -> None:
        """Stop it for good; its trials save a checkpoint first."""
        self._session.post(f"{self._path}/cancel")

    def kill(self) -> None:
        """Stop it at once."""
        self._session.post(f"{self._path}/kill")

    def archive(self) -> None:
        self._session.post(f"{self._path}/archive")
        self.archived = True

    def unarchive(self) -> None:
        self._session.post(f"{self._path}/unarchive")
        self.archived = False

    def delete(self) -> None:
        """Delete it with its checkpoints and logs; the cluster does so in the background."""
        self._session.delete(self._path)

    def delete_tensorboard_files(self) -> None:
        self._session.delete(f"{self._path}/tensorboard-files")

    def move_to_project(self, workspace_name: str, project_name: str) -> None:
        from determined.experimental.client._workspace import Workspace

        project = Workspace(self._session, workspace_name=workspace_name).get_project(project_name)
        body = {"destinationProjectId": project.id, "experimentId": self._id}
        self._session.post(f"{self._path}/move", body)

    def wait(self, interval: float = 5.0) -> ExperimentState:
        """Block until it ends, and return how."""
        told, began = None, time.monotonic()
        while True:
            self.reload()
            assert self.state is not None
            if self.state in _TERMINAL:
                return self.state
            waiting = self.state in (ExperimentState.PAUSED, ExperimentState.QUEUED)
            if waiting and told != self.state and time.monotonic() - began > _REMARK_AFTER_S:
                told = self.state
                logger.warning(
                    f"experiment {self._id} is {self.state.name}; still waiting for it to end"
                )
            time.sleep(interval)

    def await_first_trial(self, interval: float = 0.1) -> Trial:
        """Block until it has a trial."""
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
        """Its trials, fetched page by page (`limit` is the size of a page)."""
        params = {"sortBy": sort_by.value, "orderBy": order_by.value}
        path = f"/experiments/{self._id}/trials"
        for raw in pages(self._session, path, "trials", params, limit=limit or 200):
            yield Trial._from_json(self._session, raw)

    def list_trials(
        self, sort_by: TrialSortBy = TrialSortBy.ID, order_by: OrderBy = OrderBy.ASCENDING
    ) -> List[Trial]:
        return list(self.iter_trials(sort_by, order_by))

    get_trials = list_trials

    def list_checkpoints(
        self,
        sort_by: query.SortBy = None,
        order_by: Optional[OrderBy] = None,
        max_results: Optional[int] = None,
    ) -> List[Checkpoint]:
        """Its checkpoints; a string sorts by that validation metric."""
        return query.listed(self._session, self._checkpoints, sort_by, order_by, max_results)

    @property
    def _checkpoints(self) -> str:
        return f"/experiments/{self._id}/checkpoints"

    def top_checkpoint(
        self, sort_by: Optional[str] = None, smaller_is_better: Optional[bool] = None
    ) -> Checkpoint:
        """The best by a metric; by default the searcher's."""
        found = self.top_n_checkpoints(1, sort_by, smaller_is_better)
        if not found:
            raise NotFoundError(404, f"experiment {self._id} has no checkpoint with such a metric")
        return found[0]

    def top_n_checkpoints(
        self,
        limit: int,
        sort_by: Optional[str] = None,
        smaller_is_better: Optional[bool] = None,
    ) -> List[Checkpoint]:
        """The best few, best first."""
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
        """Write its code as a tar.gz into a directory, and return the path of the archive."""
        content = self._session.get(f"{self._path}/model_def")["b64Tgz"]
        folder = output_dir or os.getcwd()
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"exp-{self._id}_model_def.tar.gz")
        with open(path, "wb") as f:
            f.write(base64.b64decode(content))
        return path

    def get_pachyderm_config(self) -> Dict[str, Any]:
        """What the configuration says about Pachyderm."""
        return dict((self.config or {})["integrations"]["pachyderm"])
