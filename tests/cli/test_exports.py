"""`det export` against the real API: files, interruptions, refusals and comparisons."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from det_cli.exporting import source
from det_cli.exporting.parquet import ParquetWriter
from det_cli.exporting.rows import TABLES
from det_controlplane.core.config.cluster import Authz

from tests.cli.conftest import Det
from tests.support.api import Api, Caller, create, report_metrics, trial_of
from tests.support.house import House

UUID = "11111111-1111-1111-1111-11111111111{}"


@pytest.fixture
def user(api: Api) -> Caller:
    return api.signed_in("determined")


@pytest.fixture
def filled(user: Caller) -> Caller:
    """Three experiments: the first in project lab/digits, each with reports of two steps and a checkpoint."""
    workspace = user.post("/api/v1/workspaces", {"name": "lab"})["workspace"]["id"]
    path = f"/api/v1/workspaces/{workspace}/projects"
    user.post(path, {"name": "digits", "workspaceId": workspace})
    for n in (1, 2, 3):
        place = {"workspace": "lab", "project": "digits"} if n == 1 else {}
        add(user, n, **place)
    user.post("/api/v1/models", {"name": "net", "labels": ["x"], "metadata": {"k": 1}})
    user.post("/api/v1/models", {"name": "empty"})
    user.post("/api/v1/models/net/versions", {"modelName": "net", "checkpointUuid": UUID.format(1)})
    return user


def add(user: Caller, n: int, **config: Any) -> int:
    id = create(user, name=f"e{n}", hyperparameters={"lr": 0.1, "net": {"width": n}}, **config)
    trial = trial_of(user, id)
    report_metrics(user, trial["id"], "validation", 2, {"loss": 0.5 / n, "label": "cat"})
    report_batches(user, trial["id"])
    checkpoint = {
        "uuid": UUID.format(n), "taskId": trial["taskId"], "reportTime": "2026-01-01T00:00:00Z",
        "resources": {"a.pt": 10, "b.pt": 5}, "metadata": {"steps_completed": 2}, "state": "STATE_COMPLETED",
    }  # fmt: skip
    user.post("/api/v1/checkpoints", checkpoint)
    return id


def report_batches(user: Caller, trial_id: int) -> None:
    metrics = {"avgMetrics": {"loss": "NaN"}, "batchMetrics": [{"loss": 0.25}, {"loss": 0.75}]}
    report = {"trialId": trial_id, "trialRunId": 0, "stepsCompleted": 2, "metrics": metrics}
    body = {"group": "training", "metrics": report}
    assert user.ask("POST", f"/api/v1/trials/{trial_id}/metrics", body).status == 200


def read(folder: Path, table: str) -> list[dict[str, Any]]:
    files = sorted((folder / table).glob("part-*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def ids(folder: Path) -> list[int]:
    return [e["id"] for e in read(folder, "experiments")]


def test_parquet_files_have_all_tables(filled: Caller, det: Det, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = det("export", "parquet", "--all", out)
    assert (result.code, result.err) == (0, "")
    counts = "3 experiments, 3 trials, 15 metrics, 3 checkpoints, 2 models, 1 model versions"
    assert result.out == f"{out}: {counts}\n"
    assert [(e["id"], e["project"]) for e in read(out, "experiments")] == [
        (1, "digits"), (2, "Uncategorized"), (3, "Uncategorized"),
    ]  # fmt: skip
    assert json.loads(read(out, "trials")[2]["hparams"]) == {"lr": 0.1, "net": {"width": 3}}
    checkpoint = read(out, "checkpoints")[0]
    assert (checkpoint["uuid"], checkpoint["size_bytes"], checkpoint["step"]) == (
        UUID.format(1),
        15,
        2,
    )
    assert json.loads(checkpoint["storage"])["type"] == "directory"
    metrics = [
        (m["group"], m["batch"], m["name"], str(m["value"]), m["text"])
        for m in read(out, "metrics")
        if m["trial_id"] == 1
    ]
    assert sorted(metrics, key=str) == [
        ("training", 1, "loss", "0.25", None),
        ("training", 2, "loss", "0.75", None),
        ("training", None, "loss", "nan", None),
        ("validation", None, "label", "None", "cat"),
        ("validation", None, "loss", "0.5", None),
    ]
    assert {m["name"] for m in read(out, "models")} == {"net", "empty"}
    (version,) = read(out, "model_versions")
    assert (version["model"], version["experiment_id"]) == ("net", 1)
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["complete"], manifest["counts"]["metrics"]) == (True, 15)
    assert set(manifest["counts"]) == set(TABLES)


@pytest.mark.parametrize(
    ("words", "experiments", "models"),
    [
        (["--project", "lab/digits"], [1], ["net"]),
        (["--experiment", "3,2"], [2, 3], []),
        (["--experiment", "3", "--experiment", "1"], [1, 3], ["net"]),
    ],
)
def test_selected_experiments_are_exported_with_their_models(
    filled: Caller,
    det: Det,
    tmp_path: Path,
    words: list[str],
    experiments: list[int],
    models: list[str],
) -> None:
    out = tmp_path / "out"
    assert det("export", "parquet", *words, out).code == 0
    assert ids(out) == experiments
    assert [m["name"] for m in read(out, "models")] == models
    assert det("export", "verify", out).code == 0


def test_export_has_only_visible_experiments(
    api: Api, det: Det, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.ctx, "config", replace(api.ctx.config, authz=Authz.RBAC))
    house = House(api, api.signed_in("admin"))
    visible = house.experiment(house.admin, house.red_project)
    hidden = house.experiment(house.admin, house.blue_project)
    house.person("ada", "Viewer", house.red)
    monkeypatch.setenv("DET_USER", "ada")
    assert det("export", "parquet", "--all", tmp_path / "all").code == 0
    assert ids(tmp_path / "all") == [visible]
    result = det("export", "parquet", "--experiment", hidden, tmp_path / "one")
    assert (result.code, f"experiment {hidden} not found" in result.err) == (3, True)


@pytest.mark.parametrize(
    ("format", "limit"),
    [("parquet", ("_MOST_EXPERIMENTS", 1)), ("parquet", ("_MOST_S", 0.0)), ("mlflow", None)],
)
def test_interrupted_export_continues(
    filled: Caller,
    det: Det,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    limit: tuple[str, float] | None,
) -> None:
    if limit is not None:
        monkeypatch.setattr(f"det_cli.exporting.parquet.{limit[0]}", limit[1])
    rows_of, read_ids = source.rows_of, list[int]()

    def interrupted(session: Any, experiment: dict[str, Any]) -> Any:
        read_ids.append(experiment["id"])
        for number, row in enumerate(rows_of(session, experiment)):
            if experiment["id"] == 2 and number == 3 and read_ids.count(2) == 1:
                raise KeyboardInterrupt
            yield row

    monkeypatch.setattr(source, "rows_of", interrupted)
    out = tmp_path / "out"
    assert det("export", format, "--all", out).code == 130
    assert json.loads((out / "manifest.json").read_text())["complete"] is False
    assert "is not complete" in det("export", "verify", out).err
    with (out / "parts.jsonl").open("a") as journal:
        journal.write('{"experiments": [2')  # a line that the interruption cut
    again = det("export", format, "--all", out)
    assert (again.code, again.err) == (0, "continuing after 1 experiments\n")
    assert read_ids == [1, 2, 2, 3]
    assert det("export", "verify", out).code == 0
    assert list(out.rglob(".unfinished*")) == []


def test_files_without_a_line_in_the_journal_are_replaced(
    filled: Caller, det: Det, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert det("export", "parquet", "--all", out).code == 0
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps({**manifest, "complete": False, "counts": None}))
    (out / "parts.jsonl").write_text("")
    assert det("export", "parquet", "--all", out).code == 0
    assert ids(out) == [1, 2, 3]


def test_damaged_file_is_named(filled: Caller, det: Det, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert det("export", "parquet", "--all", out).code == 0
    file = out / "trials" / "part-00001.parquet"
    file.write_bytes(file.read_bytes()[:-1])
    verification = det("export", "verify", out)
    assert verification.code == 1
    assert f"'{file}' is damaged: it is not a whole Parquet file" in verification.err


def test_complete_export_is_not_repeated(filled: Caller, det: Det, tmp_path: Path) -> None:
    assert det("export", "parquet", "--all", tmp_path / "out").code == 0
    again = det("export", "parquet", "--all", tmp_path / "out")
    assert again.code == 0
    assert "has this export already" in again.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--all", "other"], "'other' has files that are not of an export"),
        (["--all", "file"], "'file' is not a directory"),
        (["--all", "done"], "'done' has another export (parquet --experiment 1"),
        (["new"], "the export has no experiments"),
        (["--experiment", "9", "new"], "experiment 9 not found"),
        (["--experiment", "x", "new"], "'x' is not the id of an experiment"),
        (["--project", "lab", "new"], "'lab' is not a project: write WORKSPACE/PROJECT"),
        (["--project", "lab/none", "new"], "workspace 'lab' has no project 'none'"),
    ],
)
def test_refusals_change_no_files(
    filled: Caller,
    det: Det,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other").mkdir()
    Path("other", "thesis.txt").write_text("")
    Path("file").write_text("")
    assert det("export", "parquet", "--experiment", 1, "done").code == 0
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/**/*")}
    result = det("export", "parquet", *words)
    assert result.code != 0
    assert sentence in result.err
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/**/*")} == before
    assert not Path("new").exists()


def test_missing_pyarrow_names_the_extra(home: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; from det_cli.main import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "export", "parquet", "--all", str(tmp_path / "out")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    assert "run `pip install 'determined-serverless[export]'`" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("format", ["parquet", "mlflow"])
def test_verify_finds_later_reports_and_lost_files(
    filled: Caller, det: Det, tmp_path: Path, format: str
) -> None:
    out = tmp_path / "out"
    assert det("export", format, "--all", out).code == 0
    add(filled, 4)
    same = det("export", "verify", out)
    assert (same.code, same.err) == (0, "1 experiments are newer than the export\n")
    report_metrics(filled, 2, "validation", 3, {"loss": 1.0})
    later = det("export", "verify", out)
    assert later.code == 1
    assert "metrics" in later.err
    assert ("experiments 1 to 3: " if format == "parquet" else "experiment 2: ") in later.err
    pattern = (
        "metrics/part-00001.parquet"
        if format == "parquet"
        else "mlruns/2/*/metrics/validation/loss"
    )
    (lost,) = out.glob(pattern)
    lost.unlink()
    assert "metrics: files are missing or changed" in det("export", "verify", out).err


def test_rows_are_written_in_groups(
    filled: Caller, det: Det, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("det_cli.exporting.parquet._GROUP", 4)
    most = 0
    flush = ParquetWriter._flush

    def counted(writer: ParquetWriter, table: str) -> None:
        nonlocal most
        most = max(most, *(len(rows) for rows in writer._rows.values()), 0)
        flush(writer, table)

    monkeypatch.setattr(ParquetWriter, "_flush", counted)
    assert det("export", "parquet", "--all", tmp_path / "out").code == 0
    assert most == 4
    file = pq.ParquetFile(tmp_path / "out" / "metrics" / "part-00001.parquet")
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [4, 4, 4, 3]


def test_mlflow_store_has_the_model_registry(filled: Caller, det: Det, tmp_path: Path) -> None:
    filled.post("/api/v1/models", {"name": "net:v2"})
    out = tmp_path / "out"
    assert "3 models, 1 model versions" in det("export", "mlflow", "--all", out).out
    registry = out / "mlruns" / "models"
    assert sorted(p.name for p in registry.iterdir()) == ["empty", "net", "net_v2"]
    model = yaml.safe_load((registry / "net_v2" / "meta.yaml").read_text())
    assert model["name"] == "net_v2"
    assert (registry / "net_v2" / "tags" / "determined.name").read_text() == "net:v2"
    assert json.loads((registry / "net" / "tags" / "determined.labels").read_text()) == ["x"]
    version = yaml.safe_load((registry / "net" / "version-1" / "meta.yaml").read_text())
    (run,) = (p.parent.name for p in (out / "mlruns" / "1").glob("*/meta.yaml"))
    assert (version["run_id"], version["version"], version["status"]) == (run, 1, "READY")
    assert version["source"].endswith(UUID.format(1))
    assert version["source"].startswith("file://")
    assert det("export", "verify", out).code == 0
    (registry / "net" / "version-1" / "meta.yaml").unlink()
    result = det("export", "verify", out)
    assert result.code == 1
    assert "model_versions: files are missing or changed" in result.err


def test_mlflow_store_has_runs_with_params_metrics_and_tags(
    filled: Caller, det: Det, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = det("export", "mlflow", "--all", out)
    assert result.code == 0
    assert "3 other values" in result.out
    store = out / "mlruns"
    assert sorted(p.name for p in store.iterdir()) == ["1", "2", "3", "models"]
    experiment = yaml.safe_load((store / "2" / "meta.yaml").read_text())
    assert experiment["experiment_id"] == "2"
    assert experiment["name"] == "e2 (2)"
    assert experiment["artifact_location"] == (store / "2").as_uri()
    (run,) = (p.parent for p in (store / "2").glob("*/meta.yaml"))
    meta = yaml.safe_load((run / "meta.yaml").read_text())
    assert (meta["run_id"], meta["experiment_id"], meta["status"]) == (run.name, "2", 2)
    assert len(run.name) == 32
    assert (run / "params" / "net.width").read_text() == "2"
    assert (run / "tags" / "determined.trial_id").read_text() == "2"
    time, value, step = (run / "metrics" / "validation" / "loss").read_text().split()
    assert (value, step) == ("0.25", "2")
    assert int(time) > 1_700_000_000_000
    batches = (run / "metrics" / "training_batches" / "loss").read_text().splitlines()
    assert [line.split()[1:] for line in batches] == [["0.25", "1"], ["0.75", "2"]]
    (checkpoint,) = json.loads((run / "artifacts" / "checkpoints.json").read_text())
    assert checkpoint["uuid"] == UUID.format(2)
    assert det("export", "verify", out).code == 0
