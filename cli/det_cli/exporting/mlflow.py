"""Write the rows of an export as a file store of MLflow: an experiment per experiment, a run per trial."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from det_cli.exporting import mlflow_models
from det_cli.exporting.folder import Folder
from det_cli.exporting.mlflow_files import FileNames, milliseconds, run_id, write_folder
from det_cli.exporting.mlflow_models import MlflowModels
from det_cli.exporting.rows import (
    TABLE_OF,
    Checkpoint,
    Experiment,
    Metric,
    Model,
    ModelVersion,
    Row,
    Trial,
)

OTHER_VALUES = (
    "other_values"  # counts texts, lists and objects, which MLflow does not store as metrics
)
_LINES = 50_000  # of metrics in memory
_LONGEST_PARAM = 6000  # characters
# MLflow's numbers of run states.
_RUNNING, _SCHEDULED, _FINISHED, _FAILED, _KILLED = 1, 2, 3, 4, 5
_STATUS = {
    "RUNNING": _RUNNING,
    "ACTIVE": _RUNNING,
    "COMPLETED": _FINISHED,
    "ERROR": _FAILED,
    "CANCELED": _KILLED,
}


class MlflowWriter:
    def __init__(self, folder: Folder) -> None:
        self._store = folder.path / "mlruns"
        self._cluster = UUID(folder.manifest.cluster_id)
        self._unfinished = folder.path / ".unfinished"
        self._counts: Counter[str] = Counter()
        self._experiment: Experiment | None = None
        self._checkpoints: dict[int, list[Checkpoint]] = {}
        self._metrics = _MetricFiles(self._unfinished)
        self._models = MlflowModels(self._unfinished, self._store, self._cluster)

    def table(self, row: Row) -> str:
        if isinstance(row, Metric) and row.value is None:
            return OTHER_VALUES
        return TABLE_OF[type(row)]

    def begin(self, finished_parts: int) -> None:
        self._store.mkdir(exist_ok=True)
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def write(self, row: Row) -> None:
        if isinstance(row, Checkpoint) and row.trial_id not in self._metrics.runs:
            return  # its trial began after the list of trials was read
        self._counts[self.table(row)] += 1
        if isinstance(row, Experiment):
            self._experiment = row
            _write_experiment(self._unfinished, row, self._address(row.id))
        elif isinstance(row, Trial):
            assert self._experiment is not None
            self._metrics.runs[row.id] = run = run_id(self._cluster, row.id)
            address = f"{self._address(row.experiment_id)}/{run}/artifacts"
            _write_run(self._unfinished / run, self._experiment, row, run, address)
        elif isinstance(row, Checkpoint):
            self._checkpoints.setdefault(row.trial_id, []).append(row)
        elif isinstance(row, Metric) and row.value is not None:
            self._metrics.add(row, row.value)
        elif isinstance(row, Model):
            self._models.add_model(row)
        elif isinstance(row, ModelVersion):
            self._models.add_version(row)

    def is_full(self) -> bool:
        return True

    def finish(self, number: int, *, models: bool = False) -> dict[str, int]:
        """Move the directory of a finished experiment, or of all models, into the store. Return its rows."""
        if models:
            self._unfinished.mkdir(exist_ok=True)
            self._move(mlflow_models.FOLDER)
            return dict(self._models.counts)
        assert self._experiment is not None
        self._metrics.flush()
        for trial_id, checkpoints in self._checkpoints.items():
            folder = self._unfinished / self._metrics.runs[trial_id] / "artifacts"
            text = json.dumps([_described(c) for c in checkpoints], indent=2)
            folder.joinpath("checkpoints.json").write_text(text, encoding="utf-8")
        self._move(str(self._experiment.id))
        counts = dict(self._counts)
        self._counts, self._checkpoints = Counter(), {}
        self._metrics = _MetricFiles(self._unfinished)
        return counts

    def _move(self, name: str) -> None:
        target = self._store / name
        if target.exists():  # from an interruption before the line in the journal
            shutil.rmtree(target)
        self._unfinished.rename(target)

    def stored(self) -> dict[str, int]:
        """Count the experiments, runs, lines of metrics and models in the store."""
        counts = Counter(experiments=0, trials=0, metrics=0, checkpoints=0)
        for experiment in self._store.iterdir():
            if not experiment.joinpath("tags", "determined.experiment_id").exists():
                continue
            counts["experiments"] += 1
            for run in experiment.glob("*/meta.yaml"):
                counts["trials"] += 1
                for file in run.parent.joinpath("metrics").rglob("*"):
                    counts["metrics"] += _lines(file) if file.is_file() else 0
                listed = run.parent / "artifacts" / "checkpoints.json"
                counts["checkpoints"] += (
                    len(json.loads(listed.read_text())) if listed.exists() else 0
                )
        return {**counts, **mlflow_models.count_stored(self._store)}

    def _address(self, experiment_id: int) -> str:
        return (self._store.resolve() / str(experiment_id)).as_uri()


class _MetricFiles:
    """The metric files of an experiment's runs. Lines wait in memory until there are many."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.runs: dict[int, str] = {}
        self._names: dict[int, FileNames] = {}
        self._waiting: dict[Path, list[str]] = {}
        self._count = 0

    def add(self, row: Metric, value: float) -> None:
        names = self._names.setdefault(row.trial_id, FileNames())
        group = row.group if row.batch is None else f"{row.group}_batches"
        path = self._folder / self.runs[row.trial_id] / "metrics" / names.of(f"{group}/{row.name}")
        self._waiting.setdefault(path, []).append(metric_line(row, value))
        self._count += 1
        if self._count >= _LINES:
            self.flush()

    def flush(self) -> None:
        for path, lines in self._waiting.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.writelines(lines)
        self._waiting, self._count = {}, 0


def metric_line(row: Metric, value: float) -> str:
    """Return a line of a metric file: the time in ms, the value and the step."""
    return f"{milliseconds(row.time)} {value!r} {row.step if row.batch is None else row.batch}\n"


def params(hparams: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield hyperparameters with dots in the names of nested ones."""
    for name, value in hparams.items():
        if isinstance(value, dict) and value:
            yield from params(value, f"{prefix}{name}.")
        else:
            is_line = isinstance(value, str) and len(value.splitlines()) < 2
            text = value if is_line else json.dumps(value)  # MLflow refuses values with more lines
            yield prefix + name, text[:_LONGEST_PARAM]


def experiment_meta(e: Experiment, address: str) -> dict[str, Any]:
    end = e.end_time or e.start_time
    return {
        "artifact_location": address,
        "creation_time": milliseconds(e.start_time),
        "experiment_id": str(e.id),
        "last_update_time": milliseconds(end),
        "lifecycle_stage": "active",
        "name": f"{e.name} ({e.id})",  # names are unique in MLflow
    }


def run_meta(e: Experiment, t: Trial, run: str, address: str) -> dict[str, Any]:
    return {
        "artifact_uri": address,
        "end_time": milliseconds(t.end_time) if t.end_time else None,
        "entry_point_name": "",
        "experiment_id": str(e.id),
        "lifecycle_stage": "active",
        "run_id": run,
        "run_name": f"trial {t.id}",
        "run_uuid": run,
        "source_name": "",
        "source_type": 4,
        "source_version": "",
        "start_time": milliseconds(t.start_time),
        "status": _STATUS.get(t.state, _SCHEDULED),
        "tags": [],
        "user_id": e.username,
    }


def _write_experiment(folder: Path, e: Experiment, address: str) -> None:
    tags = {
        "mlflow.note.content": "\n\n".join(text for text in (e.description, e.notes) if text),
        "determined.experiment_id": str(e.id),
        "determined.project": f"{e.workspace}/{e.project}",
        "determined.state": e.state,
        "determined.archived": str(e.archived).lower(),
        "determined.labels": json.dumps(e.labels),
        "determined.searcher_metric": e.searcher_metric or "",
        "determined.config": e.config,
    }
    write_folder(folder, experiment_meta(e, address), {"tags": tags})


def _write_run(folder: Path, e: Experiment, t: Trial, run: str, address: str) -> None:
    tags = {
        "mlflow.runName": f"trial {t.id}",
        "mlflow.user": e.username,
        "determined.trial_id": str(t.id),
        "determined.state": t.state,
        "determined.best_checkpoint": t.best_checkpoint or "",
        "determined.metadata": t.metadata,
    }
    names = FileNames()
    named = {names.of(name): text for name, text in params(json.loads(t.hparams))}
    write_folder(folder, run_meta(e, t, run, address), {"tags": tags, "params": named})
    for part in ("artifacts", "metrics"):
        (folder / part).mkdir()


def _described(c: Checkpoint) -> dict[str, Any]:
    return {
        "uuid": c.uuid,
        "state": c.state,
        "step": c.step,
        "storage": json.loads(c.storage),
        "files": json.loads(c.files),
        "metadata": json.loads(c.metadata),
    }


def _lines(file: Path) -> int:
    with file.open("rb") as content:
        return sum(1 for _ in content)
