"""Unmanaged experiments: scripts outside of a cluster report to one."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from determined.common.http import Session
from determined.experimental import core_v2

from tests.support.fake_master import FakeMaster

pytestmark = pytest.mark.usefixtures("off_cluster")


@pytest.fixture
def client(master: FakeMaster) -> Any:
    trial = {"trial": {"id": 9, "taskId": "task-9"}}
    master.on("POST", "/api/v1/experiments", (200, {"experiment": {"id": 5}, "config": {}}))
    master.on("PUT", r"/api/v1/experiments/by-external-id/.*", (200, {"experiment": {"id": 5}}))
    master.on("POST", "/api/v1/trials", (200, trial))
    master.on("PUT", "/api/v1/trials", (200, trial))
    run = {"trialRunId": 3, "latestCheckpoint": "ckpt", "stepsCompleted": 40}
    master.on("POST", "/api/v1/trials/9/start", (200, run))
    master.on("GET", "/info", (200, {"cluster_id": "c"}))
    return SimpleNamespace(_session=Session(master.url))


@pytest.fixture
def begin(client: Any, tmp_path: Path) -> Callable[..., None]:
    def call(**arguments: Any) -> None:
        core_v2.init(client=client, checkpoint_storage=str(tmp_path / "store"), **arguments)

    return call


def states(master: FakeMaster) -> list[str]:
    return [r.body["state"] for r in master.received("PATCH", "/api/v1/trials/9")]


def test_script_creates_experiment_reports_and_completes(
    master: FakeMaster, begin: Callable[..., None], tmp_path: Path
) -> None:
    begin(defaults=core_v2.DefaultConfig(name="laptop", hparams={"lr": 0.1}))
    print("a line of the script")
    core_v2.train.report_training_metrics(1, {"loss": 0.5})
    with core_v2.checkpoint.store_path({"steps_completed": 1}) as (path, storage_id):
        (path / "w").write_text("1")
    assert core_v2.url_reverse_webui_exp_view() == f"{master.url}/det/experiments/5"
    core_v2.close()
    request = master.received("POST", "/api/v1/experiments")[0].body
    assert request["unmanaged"] is True
    config = json.loads(request["config"])
    assert (config["name"], config["hyperparameters"]) == ("laptop", {"lr": 0.1})
    assert config["checkpoint_storage"]["container_path"] == str(tmp_path / "store")
    report = master.received("POST", "/api/v1/trials/9/metrics")[0].body
    assert report["metrics"]["trialRunId"] == 3
    assert master.saved()[0].body["uuid"] == storage_id
    assert "a line of the script" in master.log_lines()
    assert states(master) == ["STATE_COMPLETED"]


def test_external_ids_find_existing_trial(master: FakeMaster, begin: Callable[..., None]) -> None:
    names = core_v2.UnmanagedConfig(external_experiment_id="exp-a", external_trial_id="t-1")
    begin(unmanaged=names)
    assert core_v2.info.latest_checkpoint == "ckpt"
    core_v2.close()
    assert master.received("PUT", "/api/v1/experiments/by-external-id/exp-a")
    trial = master.received("PUT", "/api/v1/trials")[0].body
    assert trial["externalTrialId"] == "t-1"
    assert trial["createTrialRequest"]["experimentId"] == 5
    assert master.received("POST", "/api/v1/trials/9/start")[0].body["resume"] is True


def test_unmanaged_run_gets_no_searcher_warning(
    client: Any, begin: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    begin(config=core_v2.Config(searcher={"name": "custom", "metric": "loss"}))
    core_v2.train.report_validation_metrics(1, {"accuracy": 0.5})
    core_v2.close()
    assert "searcher.metric" not in caplog.text


def test_invalid_storage_creates_no_experiment(master: FakeMaster, client: Any) -> None:
    with pytest.raises(ValueError, match="shared_fs exists on a cluster only"):
        core_v2.init(client=client, checkpoint_storage={"type": "shared_fs", "host_path": "/s"})
    assert master.received("POST", "/api/v1/experiments") == []


def test_error_in_the_block_fails_the_trial(
    master: FakeMaster, client: Any, tmp_path: Path
) -> None:
    context = core_v2.init_context(client=client, checkpoint_storage=str(tmp_path / "store"))
    before = sys.stdout
    with pytest.raises(KeyError), context:
        raise KeyError("x")
    assert states(master) == ["STATE_ERROR"]
    assert sys.stdout is before


def test_parts_are_unavailable_before_init() -> None:
    with pytest.raises(RuntimeError, match=r"core_v2\.init"):
        _ = core_v2.train


def test_rejects_trial_id_without_experiment_id() -> None:
    with pytest.raises(ValueError, match="external_experiment_id"):
        core_v2.UnmanagedConfig(external_trial_id="t")


def test_config_takes_precedence_over_defaults() -> None:
    from determined.experimental.core_v2._config import merged

    config = merged(
        core_v2.Config(name="mine"), core_v2.DefaultConfig(name="theirs", labels=["a"]), None
    )
    assert (config.name, config.labels) == ("mine", ["a"])
