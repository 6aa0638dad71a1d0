"""Rows of exports, and their form in a file store of MLflow."""

import math
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from det_cli.exporting import rows
from det_cli.exporting.mlflow import metric_line, params, run_meta
from det_cli.exporting.mlflow_files import FileNames, run_id
from det_cli.exporting.mlflow_models import uri_of
from det_cli.exporting.parquet import schema

TIME = "2026-01-02T03:04:05.678Z"
CLUSTER = UUID("11111111-1111-1111-1111-111111111111")
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "leaving.md"


def report(group: str, metrics: dict[str, Any], step: int = 4) -> dict[str, Any]:
    ids = {"trialId": 7, "trialRunId": 2, "group": group, "totalBatches": step, "endTime": TIME}
    return {**ids, "metrics": metrics}


def values(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(m.batch, m.name, m.value, m.text) for m in rows.metrics(3, found)]


@pytest.mark.parametrize(
    ("value", "number", "text"),
    [
        (1, 1.0, None),
        (0.5, 0.5, None),
        ("Infinity", math.inf, None),
        ("-Infinity", -math.inf, None),
        (10**400, None, f"1{'0' * 400}"),
        (True, None, "true"),
        ("cat", None, "cat"),
        ([1, 2], None, "[1, 2]"),
        ({"a": "é"}, None, '{"a": "é"}'),
        (None, None, None),
    ],
    ids=lambda value: str(value)[:9],
)
def test_numbers_and_other_values_have_columns(value: Any, number: float, text: str) -> None:
    found = report("validation", {"validation_metrics": {"m": value}})
    assert values(found) == [(None, "m", number, text)]


def test_not_a_number_is_a_number() -> None:
    ((_, _, value, text),) = values(report("x", {"avg_metrics": {"m": "NaN"}}))
    assert math.isnan(value)
    assert text is None


def test_the_last_batch_of_a_report_has_its_step() -> None:
    metrics = {"avg_metrics": {"l": 2.0}, "batch_metrics": [{"l": 1.0}, {"l": 3.0}]}
    assert values(report("training", metrics)) == [
        (None, "l", 2.0, None),
        (3, "l", 1.0, None),
        (4, "l", 3.0, None),
    ]


def test_rows_name_the_report() -> None:
    (row,) = rows.metrics(3, report("validation", {"validation_metrics": {"m": 1}}))
    time = datetime(2026, 1, 2, 3, 4, 5, 678_000, timezone.utc)
    assert row[:7] == (3, 7, 2, "validation", 4, None, time)
    assert metric_line(row, 1.0) == f"{int(time.timestamp() * 1000)} 1.0 4\n"


def test_checkpoint_without_files_and_steps() -> None:
    training = {"experimentId": 3, "trialId": 7}
    row = rows.checkpoint({"uuid": "u", "state": "STATE_DELETED", "training": training})
    assert (row.size_bytes, row.step, row.files, row.state) == (0, None, "{}", "DELETED")
    huge = {"steps_completed": 1 << 70}
    row = rows.checkpoint({"uuid": "u", "state": "X", "training": training, "metadata": huge})
    assert row.step is None


def test_optional_columns_may_be_empty() -> None:
    metrics = schema("metrics")
    assert metrics.field("batch").nullable
    assert not metrics.field("step").nullable
    assert metrics.field("time").type == pa.timestamp("us", tz="UTC")
    assert schema("experiments").field("labels").type == pa.list_(pa.string())


def test_guide_lists_every_column() -> None:
    lines = GUIDE.read_text().splitlines()
    for table, row in rows.TABLES.items():
        (line,) = (line for line in lines if line.startswith(f"| `{table}` |"))
        listed = line.split("|")[2].replace("`", "").split(",")
        assert [column.strip() for column in listed] == list(row._fields)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("loss", "loss"),
        ("eval/loss", "eval/loss"),
        ("top:5 %", "top_5 _"),
        ("../up", ".._up"),
        ("/root", "_root"),
        ("a//b", "a__b"),
        ("", "_"),
        ("é" * 200, "é" * 120),
    ],
)
def test_names_of_files_stay_in_their_folder(name: str, path: str) -> None:
    assert FileNames().of(name) == path


def test_different_names_have_different_files() -> None:
    names = FileNames()
    found = [names.of(name) for name in ("a", "a/b", "a_b", "a:b", "a/b")]
    assert found == ["a", "a_b", "a_b_2", "a_b_3", "a_b"]
    other = FileNames()
    assert [other.of(name) for name in ("a/b", "a")] == ["a/b", "a_2"]


def test_hyperparameters_are_single_lines() -> None:
    hparams = {"lr": 0.1, "net": {"width": 2, "act": None}, "text": "a\nb", "empty": {}, "on": True}
    assert dict(params(hparams)) == {
        "lr": "0.1",
        "net.width": "2",
        "net.act": "null",
        "text": '"a\\nb"',
        "empty": "{}",
        "on": "true",
    }


@pytest.mark.parametrize(
    ("state", "status"),
    [("COMPLETED", 3), ("ERROR", 4), ("CANCELED", 5), ("RUNNING", 1), ("PAUSED", 2), ("QUEUED", 2)],
)
def test_states_have_numbers_of_mlflow(state: str, status: int) -> None:
    base = {"state": state, "startTime": TIME, "name": "e", "config": {}, "username": "ada"}
    place = {"workspaceId": 1, "workspaceName": "w", "projectId": 1, "projectName": "p"}
    experiment = rows.experiment({**base, **place, "id": 3})
    trial = rows.trial({**base, "id": 7, "experimentId": 3})
    meta = run_meta(experiment, trial, run_id(CLUSTER, 7), "file:///x")
    assert (meta["status"], meta["user_id"], meta["end_time"]) == (status, "ada", None)
    assert meta["run_id"] == run_id(CLUSTER, 7) != run_id(CLUSTER, 8)


@pytest.mark.parametrize(
    ("storage", "uri"),
    [
        ({"type": "s3", "bucket": "b", "prefix": "a/b/"}, "s3://b/a/b/u1"),
        ({"type": "gcs", "bucket": "b", "prefix": None}, "gs://b/u1"),
        ({"type": "azure", "container": "c"}, "azure://c/u1"),
        ({"type": "shared_fs", "host_path": "/data", "storage_path": "x y"}, "file:///data/x%20y/u1"),
        ({"type": "directory", "container_path": "/c"}, "file:///c/u1"),
        ({}, "determined:u1"),
    ],
)  # fmt: skip
def test_locations_of_checkpoints(storage: dict[str, Any], uri: str) -> None:
    assert uri_of(storage, "u1") == uri
