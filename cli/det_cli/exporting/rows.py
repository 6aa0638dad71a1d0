"""Rows of the exported tables, made from the API's JSON. docs/guides/leaving.md lists the columns."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from determined.common.times import parsed

Json = Mapping[str, Any]
_INT64 = 1 << 63


class Experiment(NamedTuple):
    id: int
    name: str
    description: str
    notes: str
    labels: tuple[str, ...]
    state: str
    archived: bool
    workspace_id: int
    workspace: str
    project_id: int
    project: str
    username: str
    resource_pool: str
    unmanaged: bool
    external_id: str | None
    forked_from: int | None
    start_time: datetime
    end_time: datetime | None
    searcher: str | None
    searcher_metric: str | None
    best_trial_id: int | None
    best_metric: float | None
    config: str
    original_config: str | None


class Trial(NamedTuple):
    id: int
    experiment_id: int
    task_id: str | None
    state: str
    stopped_early: bool
    start_time: datetime
    end_time: datetime | None
    restarts: int
    steps: int
    searcher_metric: float | None
    best_checkpoint: str | None
    warm_start_checkpoint: str | None
    hparams: str
    metadata: str
    summary_metrics: str


class Metric(NamedTuple):
    """A value of a report. `value` has numbers, and `text` has all other values."""

    experiment_id: int
    trial_id: int
    run_id: int
    group: str
    step: int
    batch: int | None
    time: datetime
    name: str
    value: float | None
    text: str | None


class Checkpoint(NamedTuple):
    uuid: str
    experiment_id: int
    trial_id: int
    task_id: str | None
    state: str
    time: datetime | None
    step: int | None
    size_bytes: int
    storage: str
    files: str
    metadata: str


class Model(NamedTuple):
    id: int
    name: str
    description: str
    notes: str
    labels: tuple[str, ...]
    archived: bool
    workspace_id: int
    username: str
    creation_time: datetime
    update_time: datetime
    metadata: str


class ModelVersion(NamedTuple):
    model_id: int
    model: str
    version: int
    name: str
    comment: str
    notes: str
    labels: tuple[str, ...]
    username: str
    creation_time: datetime
    update_time: datetime
    checkpoint_uuid: str
    experiment_id: int | None
    trial_id: int | None
    metadata: str


Row = Experiment | Trial | Metric | Checkpoint | Model | ModelVersion
TABLES: dict[str, type[Row]] = {
    "experiments": Experiment,
    "trials": Trial,
    "metrics": Metric,
    "checkpoints": Checkpoint,
    "models": Model,
    "model_versions": ModelVersion,
}
TABLE_OF = {row_type: table for table, row_type in TABLES.items()}


def experiment(e: Json) -> Experiment:
    return Experiment(
        id=e["id"],
        name=e["name"],
        description=e.get("description") or "",
        notes=e.get("notes") or "",
        labels=tuple(e.get("labels") or ()),
        state=_state(e),
        archived=bool(e.get("archived")),
        workspace_id=e["workspaceId"],
        workspace=e["workspaceName"],
        project_id=e["projectId"],
        project=e["projectName"],
        username=e["username"],
        resource_pool=e.get("resourcePool") or "",
        unmanaged=bool(e.get("unmanaged")),
        external_id=e.get("externalExperimentId"),
        forked_from=e.get("forkedFrom"),
        start_time=parsed(e["startTime"]),
        end_time=_time(e.get("endTime")),
        searcher=e.get("searcherType"),
        searcher_metric=e.get("searcherMetric"),
        best_trial_id=e.get("bestTrialId"),
        best_metric=_number(e.get("bestTrialSearcherMetric")),
        config=_json(e["config"]),
        original_config=e.get("originalConfig"),
    )


def trial(t: Json) -> Trial:
    return Trial(
        id=t["id"],
        experiment_id=t["experimentId"],
        task_id=t.get("taskId"),
        state=_state(t),
        stopped_early=bool(t.get("stoppedEarly")),
        start_time=parsed(t["startTime"]),
        end_time=_time(t.get("endTime")),
        restarts=t.get("restarts") or 0,
        steps=t.get("totalBatchesProcessed") or 0,
        searcher_metric=_number(t.get("searcherMetricValue")),
        best_checkpoint=(t.get("bestCheckpoint") or {}).get("uuid"),
        warm_start_checkpoint=t.get("warmStartCheckpointUuid"),
        hparams=_json(t.get("hparams")),
        metadata=_json(t.get("metadata")),
        summary_metrics=_json(t.get("summaryMetrics")),
    )


def metrics(experiment_id: int, report: Json) -> Iterator[Metric]:
    """Yield the averages of a report with `batch` None, and then the values of its batches.

    `batch` is the number of a batch within the trial: the last batch of a report has its step."""
    values = report["metrics"] or {}
    averages = values.get("validation_metrics", values.get("avg_metrics", values))
    ids = (experiment_id, report["trialId"], report["trialRunId"])
    group, step, time = report["group"], report["totalBatches"], parsed(report["endTime"])
    of_batches = values.get("batch_metrics") or ()
    batches = enumerate(of_batches, step - len(of_batches) + 1)
    for batch, named in ((None, averages), *batches):
        for name, reported in (named or {}).items():
            number = _number(reported)
            text = None if number is not None or reported is None else _text(reported)
            yield Metric(*ids, group, step, batch, time, name, number, text)


def checkpoint(c: Json) -> Checkpoint:
    training = c.get("training") or {}
    files = {name: int(size) for name, size in (c.get("resources") or {}).items()}
    step = (c.get("metadata") or {}).get("steps_completed")
    return Checkpoint(
        uuid=c["uuid"],
        experiment_id=training["experimentId"],
        trial_id=training["trialId"],
        task_id=c.get("taskId"),
        state=_state(c),
        time=_time(c.get("reportTime")),
        step=step if isinstance(step, int) and abs(step) < _INT64 else None,
        size_bytes=sum(files.values()),
        storage=_json((training.get("experimentConfig") or {}).get("checkpoint_storage")),
        files=_json(files),
        metadata=_json(c.get("metadata")),
    )


def model(m: Json) -> Model:
    return Model(
        id=m["id"],
        name=m["name"],
        description=m.get("description") or "",
        notes=m.get("notes") or "",
        labels=tuple(m.get("labels") or ()),
        archived=bool(m.get("archived")),
        workspace_id=m["workspaceId"],
        username=m["username"],
        creation_time=parsed(m["creationTime"]),
        update_time=parsed(m["lastUpdatedTime"]),
        metadata=_json(m.get("metadata")),
    )


def model_version(v: Json) -> ModelVersion:
    training = v["checkpoint"].get("training") or {}
    return ModelVersion(
        model_id=v["model"]["id"],
        model=v["model"]["name"],
        version=v["version"],
        name=v.get("name") or "",
        comment=v.get("comment") or "",
        notes=v.get("notes") or "",
        labels=tuple(v.get("labels") or ()),
        username=v["username"],
        creation_time=parsed(v["creationTime"]),
        update_time=parsed(v["lastUpdatedTime"]),
        checkpoint_uuid=v["checkpoint"]["uuid"],
        experiment_id=training.get("experimentId"),
        trial_id=training.get("trialId"),
        metadata=_json(v.get("metadata")),
    )


def _state(thing: Json) -> str:
    return str(thing["state"]).removeprefix("STATE_")


def _time(text: str | None) -> datetime | None:
    return parsed(text) if text else None


def _number(value: Any) -> float | None:
    """Return a number of the API, which writes NaN and infinities as texts, or None for another value."""
    if isinstance(value, str):
        return float(value) if value in ("NaN", "Infinity", "-Infinity") else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None  # an integer that is larger than every float


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps({} if value is None else value, ensure_ascii=False)
