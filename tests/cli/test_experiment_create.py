"""`det experiment create`, `continue` and `--test-mode`."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from det_cli import local_test
from determined.common import context_upload

from tests.cli.conftest import Det
from tests.support.fake_api import Raw, RecordedRequest, Refusal
from tests.support.fake_cluster import FakeCluster, log_line, trial

CONFIG = """\
# A comment that stays.
name: digits
hyperparameters: {lr: 1e-3}
searcher: {name: single, metric: loss, max_length: {batches: 10}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    return folder


def created(cluster: FakeCluster) -> dict[str, Any]:
    (request,) = cluster.sent("POST", "/api/v1/experiments")
    body: dict[str, Any] = request.body
    return body


def test_create_sends_configuration_and_code_and_prints_id(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    result = det("experiment", "create", config, code)
    assert (result.code, result.out) == (0, "Created experiment 1\n")
    body = created(cluster)
    assert body["config"] == CONFIG
    assert body["activate"] is True
    assert [f["path"] for f in body["modelDefinition"]] == ["train.py"]


def test_broken_symlink_is_reported_and_skipped(
    cluster: FakeCluster, config: Path, code: Path
) -> None:
    (code / "dead").symlink_to("gone")
    words = [sys.executable, "-m", "det_cli.main", "e", "create", str(config), str(code)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (0, "Created experiment 1\n")
    assert result.stderr == f"'{code}/dead' is a link to nothing: it is not sent\n"
    assert [f["path"] for f in created(cluster)["modelDefinition"]] == ["train.py"]


def test_create_prints_experiment_as_json(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    result = det("experiment", "create", config, code, "--json")
    assert result.code == 0
    assert json.loads(result.out)["id"] == 1


def test_create_paused_does_not_activate(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    det("e", "create", config, code, "--paused", "--template", "base", "--project_id", 7)
    body = created(cluster)
    assert (body["activate"], body["template"], body["projectId"]) == (False, "base", 7)


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["created", "only checked"])
@pytest.mark.parametrize(
    ("entrypoint", "name"),
    [
        ("python3 train.py --lr 1", "train.py"), (["bash", "run.sh"], "run.sh"), ("model:Trial", "model:Trial"),
        ("python3 /opt/train.py", None), ("python3 -m training", None), (None, None),
    ],
)  # fmt: skip
def test_create_without_files_says_that_the_image_must_contain_the_code(
    cluster: FakeCluster, det: Det, config: Path, code: Path, more: list[str],
    entrypoint: object, name: "str | None",
) -> None:  # fmt: skip
    cluster.on("GET", "/api/v1/resource-pools", {"resourcePools": []})
    answer = {"experiment": {"id": 1}, "config": {"entrypoint": entrypoint}, "warnings": []}
    cluster.on("POST", "/api/v1/experiments", answer)
    notice = (
        f"No model directory is given: {name} must be part of the image."
        " To send files: det experiment create CONFIG DIRECTORY\n"
    )
    result = det("e", "create", config, *more)
    assert (notice in result.err) == (name is not None)
    assert ("No model directory" in result.err) == (name is not None)
    assert "No model directory" not in det("e", "create", config, code, *more).err


def test_each_create_sends_its_own_idempotency_key(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    det("e", "create", config)
    det("e", "create", config)
    keys = [a.headers["idempotency-key"] for a in cluster.sent("POST", "/api/v1/experiments")]
    assert len(set(keys)) == 2


def test_config_options_override_the_file(cluster: FakeCluster, det: Det, config: Path) -> None:
    changes = ["searcher.max_length.batches=20", "labels=a,b", "resources={slots_per_trial: 2}"]
    det("e", "create", config, *(w for c in changes for w in ("--config", c)))
    text = created(cluster)["config"]
    assert yaml.safe_load(text)["searcher"]["max_length"] == {"batches": 20}
    assert yaml.safe_load(text)["labels"] == ["a", "b"]
    assert yaml.safe_load(text)["resources"] == {"slots_per_trial": 2}
    assert "lr: 1e-3" in text


def test_dry_run_prints_the_resolved_configuration_on_request(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    cluster.on("GET", "/api/v1/resource-pools", {"resourcePools": []})
    result = det("e", "create", config, code, "--dry-run")
    assert result.code == 0
    assert "mnist-1" not in result.out
    result = det("e", "create", config, code, "--dry-run", "--show-config")
    estimate, _, document = result.out.partition("\n\n")
    assert estimate.startswith("trials  ")
    assert yaml.safe_load(document) == {"name": "mnist-1", "resources": {}}
    as_json = det("e", "create", config, code, "--dry-run", "--show-config", "--json").out
    assert json.loads(as_json) == {"name": "mnist-1", "resources": {}}
    cluster.asked.clear()
    det("e", "create", config, code, "--dry-run")
    assert created(cluster)["validateOnly"] is True
    assert cluster.experiments == {}


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["created", "only checked"])
def test_configuration_warnings_are_printed(
    cluster: FakeCluster, det: Det, config: Path, code: Path, more: list[str]
) -> None:
    warnings = ["batches_per_step is now called scheduling_unit"]
    answer = {"experiment": {"id": 1}, "config": {}, "warnings": [], "configWarnings": warnings}
    cluster.on("POST", "/api/v1/experiments", answer)
    result = det("e", "create", config, code, *more)
    assert result.code == 0
    assert f"warning: {warnings[0]}\n" in result.err
    assert warnings[0] not in result.out


def test_invalid_configuration_prints_server_errors(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    config.write_text("explode: 1\n")
    result = det("e", "create", config)
    assert (result.code, result.out) == (1, "")
    assert "explode: unknown field" in result.err


def test_invalid_yaml_error_has_line_number(cluster: FakeCluster, det: Det, config: Path) -> None:
    config.write_text("name: x\nsearcher: {name: single\n")
    result = det("e", "create", config)
    assert result.code == 1
    assert f"{config}, line 3" in result.err
    assert cluster.asked == []


def test_missing_file_is_named(cluster: FakeCluster, det: Det, tmp_path: Path) -> None:
    result = det("e", "create", tmp_path / "none.yaml")
    assert result.code == 3
    assert f"'{tmp_path}/none.yaml' does not exist" in result.err


def test_oversized_context_is_rejected_before_any_request(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    with open(code / "data.bin", "wb") as f:
        f.truncate(96 * 2**20)
    result = det("e", "create", config, code)
    assert result.code == 1
    assert "data.bin" in result.err
    assert "95 MiB" in result.err
    assert ".detignore" in result.err
    assert cluster.asked == []


def big(code: Path) -> None:
    (code / "weights.bin").write_bytes(bytes(range(256)) * 32 * 1024)


def test_large_context_is_uploaded_to_object_store(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    big(code)
    place = {"contextId": "ctx-1", "uploadUrl": f"{cluster.url}/put?sig=1", "headers": {"X-A": "b"}}
    cluster.on("POST", "/api/v1/contexts", place)
    cluster.on("PUT", "/put", Raw(b""))
    assert det("e", "create", config, code).code == 0
    body = created(cluster)
    assert body["contextId"] == "ctx-1"
    assert "modelDefinition" not in body
    (request,) = cluster.sent("POST", "/api/v1/contexts")
    (put,) = cluster.sent("PUT", "/put")
    assert put.headers["x-a"] == "b"
    assert put.query == {"sig": ["1"]}
    assert request.body["size"] == len(put.raw)
    assert request.body["sha256"] == hashlib.sha256(put.raw).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(put.raw)) as tar:
        assert tar.getnames() == ["train.py", "weights.bin"]


@pytest.mark.parametrize("status", [404, 501])
def test_cluster_without_uploads_receives_large_context_inline(
    cluster: FakeCluster, det: Det, config: Path, code: Path, status: int
) -> None:
    def refuse(_: RecordedRequest) -> None:
        raise Refusal(status, "no such route")

    big(code)
    cluster.on("POST", "/api/v1/contexts", refuse)
    assert det("e", "create", config, code).code == 0
    assert len(created(cluster)["modelDefinition"]) == 2


def test_failed_upload_creates_no_experiment(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    big(code)
    place = {"contextId": "ctx-1", "uploadUrl": f"{cluster.url}/put", "headers": {}}
    cluster.on("POST", "/api/v1/contexts", place)
    cluster.on("PUT", "/put", Raw(b"expired", status=403))
    result = det("e", "create", config, code)
    assert result.code == 1
    assert "status 403: expired" in result.err
    assert cluster.experiments == {}


def test_small_context_is_sent_inline(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    det("e", "create", config, code)
    assert context_upload.INLINE_BYTES == 5 * 2**20
    assert cluster.sent("POST", "/api/v1/contexts") == []


def test_context_size_includes_file_names(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    code.joinpath("data").write_bytes(b"x" * (3 * 2**20))  # small enough to be sent inline
    det("e", "create", config, code)
    assert cluster.sent("POST", "/api/v1/contexts") == []
    for number in range(5000):
        code.joinpath(f"{number:0>60}").touch()
    cluster.on("POST", "/api/v1/contexts", Raw(b"asked", status=400))
    assert "asked" in det("e", "create", config, code).err


def end_with(cluster: FakeCluster, state: str) -> None:
    """End the experiment in this state when its log is read."""

    def read(request: RecordedRequest) -> Any:
        cluster.experiments[1]["state"] = cluster.trials[10]["state"] = state
        return cluster._logs(request)

    cluster.on("GET", r"/api/v1/trials/(\d+)/logs", read)


@pytest.mark.parametrize(("state", "code_"), [("STATE_COMPLETED", 0), ("STATE_ERROR", 1)])
def test_follow_prints_log_and_exits_by_final_state(
    cluster: FakeCluster, det: Det, config: Path, state: str, code_: int
) -> None:
    cluster.logs = [log_line(1, "one"), log_line(2, "two")]
    end_with(cluster, state)
    result = det("e", "create", config, "-f")
    assert result.code == code_
    assert [line[-3:] for line in result.out.splitlines()] == ["t 1", "one", "two"]


def test_interrupted_follow_leaves_experiment_running(
    cluster: FakeCluster, det: Det, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("determined.common.log_stream.fetch", interrupt)
    result = det("e", "create", config, "-f")
    assert result.code == 130
    assert "Experiment 1 continues" in result.err
    assert cluster.experiments[1]["state"] == "STATE_RUNNING"


def test_follow_ends_for_experiment_without_trials(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    def no_trials(_: RecordedRequest) -> Any:
        cluster.experiments[1]["state"] = "STATE_CANCELED"
        return {"trials": [], "pagination": {}}

    cluster.on("GET", r"/api/v1/experiments/1/trials", no_trials)
    assert det("e", "create", config, "-f").code == 1


def test_test_mode_trains_one_batch_and_archives_experiment(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    def done(_: RecordedRequest) -> Any:
        cluster.experiments[1]["state"] = "STATE_COMPLETED"
        return {"trials": [trial(10, 1, runnerState="training")], "pagination": {}}

    cluster.on("GET", r"/api/v1/experiments/1/trials", done)
    result = det("e", "create", config, "--test-mode")
    assert result.code == 0
    assert "cannot shorten a script" in result.err
    check_request, create_request = cluster.sent("POST", "/api/v1/experiments")
    assert check_request.body["validateOnly"] is True
    tiny = yaml.safe_load(create_request.body["config"])
    assert tiny["searcher"]["name"] == "single"
    assert tiny["searcher"]["max_length"] == {"batches": 1}
    assert (tiny["scheduling_unit"], tiny["max_restarts"]) == (1, 0)
    assert tiny["name"] == "digits"
    assert cluster.experiments[1]["archived"] is True
    assert "Training one batch" in result.err


def test_test_mode_fails_if_trial_reports_no_metrics(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    def done(_: RecordedRequest) -> Any:
        cluster.experiments[1]["state"] = "STATE_COMPLETED"
        return {"trials": [trial(10, 1)], "pagination": {}}

    cluster.on("GET", r"/api/v1/experiments/1/trials", done)
    cluster.on("GET", "/api/v1/trials/10", {"trial": trial(10, 1, summaryMetrics={})})
    cluster.on("GET", "/api/v1/trials/10/checkpoints", {"checkpoints": [], "pagination": {}})
    result = det("e", "create", config, "--test-mode")
    assert (result.code, cluster.experiments[1]["archived"]) == (1, False)
    assert "reported no metrics and saved no checkpoint" in result.err


def test_test_mode_replaces_the_search(cluster: FakeCluster, det: Det, config: Path) -> None:
    cluster.on("GET", r"/api/v1/experiments/1/trials", {"trials": [], "pagination": {}})
    config.write_text(
        "name: x\nmin_validation_period: {epochs: 1}\n"
        "searcher: {name: adaptive_asha, metric: error, max_trials: 16, mode: standard}\n"
    )
    response = {"experiment": {"id": 1, "state": "STATE_COMPLETED"}}
    cluster.on("GET", "/api/v1/experiments/1", response)
    det("e", "create", config, "--test-mode")
    tiny = yaml.safe_load(cluster.sent("POST", "/api/v1/experiments")[1].body["config"])
    assert set(tiny["searcher"]) == {"name", "metric", "smaller_is_better", "max_length"}
    assert tiny["min_validation_period"] == {"batches": 1}


def test_local_needs_test_mode(cluster: FakeCluster, det: Det, config: Path) -> None:
    result = det("e", "create", config, "--local")
    assert result.code == 2
    assert "--test-mode" in result.err


def test_local_test_runs_script_without_cluster(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    (code / "train.py").write_text("open('ran', 'w').write('yes')\n")
    config.write_text("name: x\nentrypoint: python3 train.py\n")
    det("e", "create", config, code, "--local", "--test-mode")
    assert (code / "ran").read_text() == "yes"
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("calls", "code_", "message"),
    [
        ("", 1, "The test failed: the code exited with 0, but reported no metrics and saved no"),
        ("training", 0, "but the code reported no validation and saved no checkpoint. Is this"),
        ("training validation checkpoint", 0, "The test passed: the model trains, validates and"),
    ],
)
def test_local_test_reports_calls_of_the_script(
    cluster: FakeCluster, det: Det, config: Path, code: Path, calls: str, code_: int, message: str
) -> None:
    lines_of = {
        "training": "c.train.report_training_metrics(1, {'loss': 1.0})",
        "validation": "c.train.report_validation_metrics(1, {'loss': 1.0})",
        "checkpoint": "c.checkpoint.upload('.', {'steps_completed': 1})",
    }
    lines = ["from determined import core", "with core.init() as c:", "    pass"]
    lines += [f"    {lines_of[name]}" for name in calls.split()]
    (code / "train.py").write_text("\n".join(lines))
    config.write_text(f"name: x\nentrypoint: {sys.executable} train.py\n")
    result = det("e", "create", config, code, "--local", "--test-mode")
    assert (result.code, message in result.err) == (code_, True)


INFO_SCRIPT = """
import determined as det
info = det.get_cluster_info()
with open("seen", "w") as f:
    f.write(f"{info.trial.hparams} {info.trial.trial_seed} {info.latest_checkpoint}")
with det.core.init() as core:
    core.train.report_training_metrics(1, {"loss": 1.0})
"""


def test_local_test_runs_a_script_with_the_hyperparameters_of_the_configuration(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    (code / "train.py").write_text(INFO_SCRIPT)
    config.write_text(
        "name: x\nentrypoint: python3 train.py\nreproducibility: {experiment_seed: 7}\n"
        "hyperparameters: {rate: 0.5, width: {type: int, minval: 4, maxval: 8}}\n"
    )
    result = det("e", "create", config, code, "--local", "--test-mode")
    assert result.code == 0
    assert (code / "seen").read_text() == "{'rate': 0.5, 'width': 4} 7 None"
    assert "Hyperparameters: rate=0.5, width=4" in result.err
    assert "cannot shorten a script" in result.err


@pytest.mark.parametrize("place", ["variable", "configuration"])
def test_local_test_runs_in_the_chosen_python(
    cluster: FakeCluster, det: Det, config: Path, code: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, place: str,
) -> None:  # fmt: skip
    python = tmp_path / "chosen" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\ntouch {tmp_path}/used\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (code / "train.py").write_text(INFO_SCRIPT)
    text = "name: x\nentrypoint: python3 train.py\n"
    if place == "variable":
        monkeypatch.setenv("DET_TASK_PYTHON", str(python))
    else:
        text += f"environment: {{environment_variables: [DET_PYTHON_EXECUTABLE={python}]}}\n"
    config.write_text(text)
    result = det("e", "create", config, code, "--local", "--test-mode")
    assert result.code == 0
    assert (tmp_path / "used").exists()
    assert f"Python: {python}\n" in result.err


def test_local_test_rejects_a_missing_python(
    cluster: FakeCluster, det: Det, config: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DET_TASK_PYTHON", "/nowhere/python")
    result = det("e", "create", config, code, "--local", "--test-mode")
    assert result.code == 1
    assert "there is no Python '/nowhere/python'" in result.err


@pytest.mark.parametrize(
    ("entrypoint", "is_shortened"),
    [
        ("model_def:Trial", True),
        ("python3 -m determined.launch.torch_distributed --trial a:B", True),
        ("python3 train.py", False),
        (["python3", "train.py"], False),
    ],
)
def test_only_trial_classes_are_shortened(entrypoint: object, is_shortened: bool) -> None:
    assert local_test.is_trial_class(entrypoint) == is_shortened


def test_local_test_fails_if_script_fails(
    cluster: FakeCluster, det: Det, config: Path, code: Path
) -> None:
    config.write_text("name: x\nentrypoint: [python3, -c, 'raise SystemExit(3)']\n")
    result = det("e", "create", config, code, "--local", "--test-mode")
    assert result.code == 1
    assert "exited with 3" in result.err


def test_continue_sends_configuration_overrides(cluster: FakeCluster, det: Det) -> None:
    cluster.on("POST", "/api/v1/experiments/continue", {"experiment": {}})
    change = "searcher.max_length.batches=30"
    assert det("e", "continue", 4, "--config", change).out == "Continued experiment 4\n"
    (request,) = cluster.sent("POST", "/api/v1/experiments/continue")
    assert request.body["id"] == 4
    assert yaml.safe_load(request.body["overrideConfig"]) == {
        "searcher": {"max_length": {"batches": 30}}
    }


def test_create_wait_prints_the_ended_experiment(
    cluster: FakeCluster, det: Det, config: Path
) -> None:
    """Standard output holds only one JSON document."""
    experiment = {"id": 1, "state": "STATE_COMPLETED", "bestTrialSearcherMetric": 0.25}
    cluster.on("GET", r"/api/v1/experiments/\d+", {"experiment": experiment, "config": {}})
    result = det("e", "create", config, "--wait", "--json")
    assert (result.code, json.loads(result.out)) == (0, experiment)
    assert "Created experiment 1" in result.err


def test_create_wait_exits_by_final_state(cluster: FakeCluster, det: Det, config: Path) -> None:
    experiment = {"id": 1, "state": "STATE_ERROR", "config": {}}
    cluster.on("GET", r"/api/v1/experiments/\d+", {"experiment": experiment, "config": {}})
    cluster.on("GET", r"/api/v1/why/experiment/\d+", {"reasons": []})
    assert det("e", "create", config, "--wait").code == 1
    cluster.on(
        "GET",
        r"/api/v1/experiments/\d+",
        {"experiment": {**experiment, "state": "STATE_COMPLETED"}},
    )
    assert det("e", "create", config, "--wait").code == 0
