import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from determined import core
from determined.errors import InvalidHP

from tests.support.fake_master import FakeMaster, Request

Enter = Callable[..., dict[str, str]]
METRICS = r"/api/v1/trials/7/metrics"
STEPS = {"steps_completed": 4}


def test_reports_arrive_in_order_with_trial_fields(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    with core.init() as context:
        for step in range(50):
            context.train.report_training_metrics(step, {"loss": step / 2})
        context.train.report_validation_metrics(50, {"loss": 1.5})
    bodies = [r.body for r in master.received("POST", METRICS)]
    assert [b["metrics"]["stepsCompleted"] for b in bodies] == list(range(51))
    assert bodies[-1]["group"] == "validation"
    assert bodies[-1]["metrics"]["trialRunId"] == 2
    assert bodies[-1]["metrics"]["metrics"] == {"avgMetrics": {"loss": 1.5}}
    token = master.received("POST", METRICS)[0].headers["Grpc-Metadata-x-allocation-token"]
    assert token == "Bearer token-1"


@pytest.mark.parametrize(
    ("state", "given_up"),
    [("STATE_STOPPING_COMPLETED", True), ("STATE_RUNNING", False), ("STATE_PAUSED", False)],
)
def test_trial_detects_searcher_stop(
    master: FakeMaster, on_cluster: Enter, state: str, given_up: bool
) -> None:
    on_cluster()
    master.on("GET", "/api/v1/trials/7", (200, {"trial": {"state": state}}))
    with core.init() as context:
        context.train.report_validation_metrics(1, {"loss": 1.0})
        assert context.train._is_stopped_by_searcher() is given_up
        assert len(master.received("POST", METRICS)) == 1


def test_reporting_does_not_wait_for_response(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    reported = threading.Event()
    came_late: list[bool] = []

    def answer(_: Request) -> tuple[int, dict[str, str]]:
        came_late.append(reported.wait(60))
        return 200, {}

    master.on("POST", METRICS, answer)
    with core.init() as context:
        for step in range(100):
            context.train.report_training_metrics(step, {"loss": 1.0})
            context.train.report_progress(step / 100)
        reported.set()
    assert came_late == [True] * 100


def test_non_finite_numbers_are_sent_as_strings(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    with core.init() as context:
        context.train.report_metrics("custom", 1, {"a": math.nan, "b": [math.inf, -math.inf]})
    metrics = master.received("POST", METRICS)[0].body["metrics"]["metrics"]["avgMetrics"]
    assert metrics == {"a": "NaN", "b": ["Infinity", "-Infinity"]}


def test_metric_keeps_value_at_report_time(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    metrics = {"loss": 1.0}
    with core.init() as context:
        context.train.report_training_metrics(1, metrics)
        metrics["loss"] = 2.0
    assert (
        master.received("POST", METRICS)[0].body["metrics"]["metrics"]["avgMetrics"]["loss"] == 1.0
    )


def test_rejected_report_is_raised_at_the_end(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    master.on("POST", METRICS, (400, {"message": "key 'loss' was reported before"}))
    with pytest.raises(core.ReportRefused, match="reported before"), core.init() as context:
        context.train.report_training_metrics(1, {"loss": 1.0})


def test_report_is_retried_when_server_is_busy(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    answers = iter([(503, {"message": "busy"})])
    master.on("POST", METRICS, lambda _: next(answers, (200, {})))
    with core.init() as context:
        context.train.report_training_metrics(1, {"loss": 1.0})
    assert len(master.received("POST", METRICS)) == 2


@pytest.mark.parametrize("group", ["a.b", ""])
def test_rejects_group_with_a_dot(master: FakeMaster, on_cluster: Enter, group: str) -> None:
    on_cluster()
    with core.init() as context, pytest.raises(ValueError, match="metric group"):
        context.train.report_metrics(group, 1, {"x": 1})


def test_checkpoint_is_reported_after_files_and_earlier_metrics(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path
) -> None:
    on_cluster()
    with core.init() as context:
        context.train.report_training_metrics(4, {"loss": 1.0})
        with context.checkpoint.store_path(dict(STEPS)) as (path, storage_id):
            (path / "weights").mkdir()
            (path / "weights" / "a.bin").write_bytes(b"12345")
            assert not master.saved()
    (metrics,) = master.received("POST", "/api/v1/trials/7/metrics")
    (checkpoint,) = master.saved()
    assert master.requests.index(metrics) < master.requests.index(checkpoint)
    report = checkpoint.body
    folder = tmp_path / "shared" / storage_id
    size = str((folder / "metadata.json").stat().st_size)
    assert report["resources"] == {"weights/": "0", "weights/a.bin": "5", "metadata.json": size}
    assert report["uuid"] == storage_id
    assert report["state"] == "STATE_COMPLETED"
    assert json.loads((folder / "metadata.json").read_text()) == STEPS


def test_failed_block_leaves_no_report_and_no_files(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path
) -> None:
    on_cluster()

    def save(context: core.Context) -> None:
        with context.checkpoint.store_path(dict(STEPS)) as (path, _):
            (path / "half").write_text("x")
            raise KeyError("no such layer")

    with core.init() as context, pytest.raises(KeyError):
        save(context)
    assert not master.saved()
    assert not list((tmp_path / "shared").iterdir())


def test_rejects_metadata_without_steps_completed(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path
) -> None:
    on_cluster()
    with core.init() as context, pytest.raises(ValueError, match="steps_completed"):
        context.checkpoint.upload(tmp_path, {"epoch": 1})


def test_closing_context_finishes_asynchronous_upload(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path
) -> None:
    on_cluster()
    source = tmp_path / "source"
    source.mkdir()
    (source / "w").write_text("weights")
    with core.init() as context:
        pending = context.checkpoint.upload_async(source, dict(STEPS), delete_after=True)
    assert pending.done
    assert not source.exists()
    assert (tmp_path / "shared" / pending.storage_id / "w").read_text() == "weights"


def test_checkpoint_can_be_restored_and_deleted(
    master: FakeMaster, on_cluster: Enter, tmp_path: Path
) -> None:
    on_cluster()
    with core.init() as context:
        with context.checkpoint.store_path(dict(STEPS)) as (path, storage_id):
            (path / "w").write_text("weights")
        with context.checkpoint.restore_path(storage_id) as path:
            assert (path / "w").read_text() == "weights"
        context.checkpoint.download(storage_id, tmp_path / "out", selector=lambda p: p == "w")
        context.checkpoint.delete(storage_id)
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["w"]
    patch = master.received("PATCH", "/api/v1/checkpoints")[0].body["checkpoints"]
    assert patch == [{"uuid": storage_id, "resources": {"resources": {}}}]
    assert not (tmp_path / "shared" / storage_id).exists()


def test_preemption_is_acknowledged_once(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    with core.init() as context:
        assert not context.preempt.should_preempt()
        master.preempt.set()
        while not context.preempt.should_preempt():
            pass
        assert context.preempt.should_preempt()
    assert len(master.received("POST", r".*/signals/ack_preemption")) == 1


def test_preemption_without_auto_ack_is_not_acknowledged(
    master: FakeMaster, on_cluster: Enter
) -> None:
    on_cluster()
    master.preempt.set()
    with core.init() as context:
        assert context.preempt.should_preempt(auto_ack=False)
        assert not master.received("POST", r".*/signals/ack_preemption")
        context.preempt.acknowledge_preemption_signal()
    assert master.received("POST", r".*/signals/ack_preemption")


def test_operations_use_max_length_without_server_operations(
    master: FakeMaster, on_cluster: Enter
) -> None:
    on_cluster()
    with core.init() as context:
        lengths = []
        for operation in context.searcher.operations():
            lengths.append(operation.length)
            operation.report_progress(4)
            operation.report_completed(0.5)
        assert context.searcher.get_configured_units() is core.Unit.BATCHES
    assert lengths == [8]


def test_server_operations_are_completed_on_server(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    ops = [{"op": {"validateAfter": {"length": str(n)}}, "completed": False} for n in (10, 30)]
    answers = iter([*ops, {"op": ops[1]["op"], "completed": True}])
    master.on("GET", r".*/searcher/operation", lambda _: (200, next(answers)))
    with core.init() as context:
        for operation in context.searcher.operations():
            operation.report_completed(operation.length / 10)
    completed = [
        r.body["completedOperation"] for r in master.received("POST", r".*completed_operation")
    ]
    assert completed == [
        {"op": {"length": "10"}, "searcherMetric": 1.0},
        {"op": {"length": "30"}, "searcherMetric": 3.0},
    ]


def test_invalid_hyperparameters_exit_with_status_zero(
    master: FakeMaster, on_cluster: Enter
) -> None:
    on_cluster()
    with pytest.raises(SystemExit) as exited, core.init():
        raise InvalidHP("lr is negative")
    assert exited.value.code == 0
    body = master.received("POST", "/api/v1/trials/7/early_exit")[0].body
    assert body == {"reason": "EXITED_REASON_INVALID_HP"}


def test_rejects_progress_outside_of_zero_to_one(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster()
    with core.init() as context:
        with pytest.raises(ValueError, match="between 0 and 1"):
            context.train.report_progress(1.5)
        context.train.report_progress(0.5)
    assert master.received("POST", r".*/progress")[-1].body["progress"] == 0.5


def test_best_validation_is_requested_after_earlier_reports(
    master: FakeMaster, on_cluster: Enter
) -> None:
    on_cluster()
    with core.init() as context:
        assert context.train.get_experiment_best_validation() is None
        master.on("GET", r".*/best_searcher_validation_metric", (200, {"metric": 0.25}))
        context.train.report_validation_metrics(1, {"loss": 0.25})
        assert context.train.get_experiment_best_validation() == 0.25
    paths = [r.path for r in master.requests]
    assert paths.index("/api/v1/trials/7/metrics") < len(paths) - paths[::-1].index(
        "/api/v1/experiments/3/searcher/best_searcher_validation_metric"
    )


@pytest.mark.parametrize(
    ("reports", "warned"), [([], False), ([{"acc": 1}, {"loss": 2}], False), ([{"acc": 1}], True)]
)
def test_warns_at_the_end_if_searcher_metric_was_not_reported(
    on_cluster: Enter, caplog: pytest.LogCaptureFixture, reports: list[Any], warned: bool
) -> None:
    on_cluster()
    with core.init() as context:
        for metrics in reports:
            context.train.report_validation_metrics(1, metrics)
        assert "searcher.metric" not in caplog.text
    warning = "no validation reported 'loss', which is searcher.metric; reported were: acc"
    assert (warning in caplog.text) == warned


def test_several_slots_require_a_distributed_context(master: FakeMaster, on_cluster: Enter) -> None:
    on_cluster(DET_SLOT_IDS="[0, 1]")
    with pytest.raises(ValueError, match="launcher"):
        core.init()


def test_cluster_info_describes_the_trial(master: FakeMaster, on_cluster: Enter) -> None:
    import determined

    on_cluster({"data": {"url": "x"}}, DET_LATEST_CHECKPOINT="ckpt-1")
    info = determined.get_cluster_info()
    assert info is not None
    trial: Any = info.trial
    assert (trial.trial_id, trial.experiment_id, trial.hparams) == (7, 3, {"lr": 0.1})
    assert info.latest_checkpoint == "ckpt-1"
    assert info.user_data == {"url": "x"}
    assert info.container_slot_counts == [1]
