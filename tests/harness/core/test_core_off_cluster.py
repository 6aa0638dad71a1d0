import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import determined as det
import pytest
from determined import core, get_cluster_info
from determined.common import storage

pytestmark = pytest.mark.usefixtures("off_cluster")
HEAVY = ("torch", "boto3", "pydantic", "requests", "http", "ssl", "asyncio")


def test_script_logs_in_determined_format() -> None:
    script = (
        "import logging, determined as det\n"
        "logging.basicConfig(level=logging.INFO, format=det.LOG_FORMAT)\n"
        "logging.getLogger('mine').info('hello')"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, check=True
    )
    assert re.fullmatch(r"INFO: \[\d+\] mine: hello\n", result.stderr)


def test_cluster_info_is_none() -> None:
    assert get_cluster_info() is None


def test_script_gets_one_operation_of_length_one(tmp_path: Path) -> None:
    with core.init() as context:
        for operation in context.searcher.operations():
            assert operation.length == 1
            context.train.report_training_metrics(1, {"loss": 0.5})
            operation.report_completed(0.5)
        assert not context.preempt.should_preempt()
        assert context.train.get_experiment_best_validation() is None


def test_programs_can_construct_context_parts(tmp_path: Path) -> None:
    alone = core.DummyDistributedContext()
    storage_manager = storage.SharedFSStorageManager(str(tmp_path))
    checkpoints = core.DummyCheckpointContext(alone, storage_manager)
    with checkpoints.store_path({"steps_completed": 1}) as (path, storage_id):
        (path / "w").write_text("1")
    assert (tmp_path / storage_id / "w").exists()
    searcher = core.DummySearcherContext(alone, length=5)
    assert [operation.length for operation in _completed(searcher.operations())] == [5]
    core.DummySearcherOperation(5, is_chief=True).report_completed(1.0)
    train = core.DummyTrainContext()
    train.report_training_metrics(1, {"loss": 1.0})
    context = core.Context(checkpoints, searcher=searcher, train=train)
    with context:
        assert not context.preempt.should_preempt()


def _completed(operations: Any) -> Any:
    for operation in operations:
        operation.report_completed(1.0)
        yield operation


def test_programs_can_construct_cluster_info() -> None:
    rendezvous = det.RendezvousInfo(["a", "b"], 1, [2, 2])
    trial = det.TrialInfo(1, 2, 3, {"lr": 0.1}, {}, 0, 1, False, None)
    info = det.ClusterInfo(
        "http://m",
        "c",
        "a",
        [0],
        "t",
        "t.1",
        "",
        "TRIAL",
        trial_info=trial,
        rendezvous_info=rendezvous,
    )
    assert info._trial_info is info.trial is trial
    assert (info.container_rank, info.container_addrs) == (1, ["a", "b"])


def test_should_preempt_raises_before_start() -> None:
    context = core.init()
    with pytest.raises(RuntimeError, match="start"):
        context.preempt.should_preempt()
    with context:
        assert not context.preempt.should_preempt()


def test_trial_context_from_configuration() -> None:
    config = {
        "data": {"rows": 3},
        "hyperparameters": {
            "global_batch_size": 8,
            "lr": {"type": "log", "minval": -3, "maxval": -1},
        },
        "reproducibility": {"experiment_seed": 5},
        "resources": {"slots_per_trial": 4},
    }
    context = det.TrialContext.from_config(config)
    assert (context.get_hparam("lr"), context.get_per_slot_batch_size()) == (0.01, 8)
    assert context.env.experiment_config.get_data() == {"rows": 3}
    assert (context.env.trial_seed, context.env.on_cluster) == (5, False)
    assert context.get_initial_batch() == 0
    context.env = dataclasses.replace(context.env, test_mode=True)
    assert context.env.test_mode


def test_reports_are_validated_as_on_a_cluster() -> None:
    with core.init() as context, pytest.raises(ValueError, match="between 0 and 1"):
        context.train.report_progress(1.5)


def test_checkpoints_are_stored_in_user_data_directory(tmp_path: Path) -> None:
    with core.init() as context:
        with context.checkpoint.store_path({"note": "x"}) as (path, storage_id):
            (path / "w").write_text("weights")
        assert context.checkpoint.get_metadata(storage_id) == {"note": "x"}
    assert list((tmp_path / "data" / "determined").rglob("w"))


def test_checkpoint_storage_can_be_a_path(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with (
        core.init(checkpoint_storage=str(tmp_path / "store")) as context,
        context.checkpoint.store_path() as (path, storage_id),
    ):
        (path / "w").write_text("1")
    assert (tmp_path / "store" / storage_id / "w").exists()


def test_rejects_shared_fs_outside_of_a_cluster() -> None:
    with pytest.raises(ValueError, match="shared_fs"):
        core.init(checkpoint_storage={"type": "shared_fs", "host_path": "/x"})


def test_importing_determined_loads_no_heavy_modules() -> None:
    code = (
        "import sys; import determined; "
        f"print([m for m in {HEAVY!r} if m in sys.modules]); "
        "print(determined.core.init.__name__)"
    )
    out = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout == "[]\ninit\n"


class Worker(core.DummyDistributedContext):
    """A rank other than the chief, which receives the length 5 from the chief."""

    def __init__(self) -> None:
        super().__init__()
        self.rank = 1

    def broadcast(self, stuff: Any) -> Any:
        return 5


def _ask_before_start() -> None:
    core.DummyPreemptContext(core.DummyDistributedContext()).should_preempt()


def _ask_on_a_worker() -> None:
    core.DummyPreemptContext(Worker(), core.PreemptMode.ChiefOnly).start().should_preempt()


def _iterate_on_a_worker() -> None:
    list(core.DummySearcherContext(Worker()).operations(core.SearcherMode.ChiefOnly))


def _report_progress_on_a_worker() -> None:
    next(core.DummySearcherContext(Worker()).operations()).report_progress(1)


def _leave_an_operation_incomplete() -> None:
    list(core.DummySearcherContext(core.DummyDistributedContext()).operations())


def _complete_twice() -> None:
    operation = core.DummySearcherOperation(5, is_chief=True)
    operation.report_completed(1.0)
    operation.report_completed(1.0)


def _report_progress_too_late() -> None:
    operation = core.DummySearcherOperation(5, is_chief=True)
    operation.report_completed(1.0)
    operation.report_progress(3)


@pytest.mark.parametrize(
    ("misuse", "phrase"),
    [
        (_ask_before_start,
         "cannot call PreemptContext.should_preempt() before PreemptContext.start()"),
        (_ask_on_a_worker, ".should_preempt() was called from non-chief worker of rank=1"),
        (_iterate_on_a_worker,
         "you cannot call searcher.operations(searcher_mode=ChiefOnly) from a non-chief worker"),
        (_report_progress_on_a_worker,
         "you must only call op.report_progress() from the chief worker"),
        (_leave_an_operation_incomplete,
         "you must call op.report_completed() on each operation"),
        (_complete_twice, "you may only call op.report_completed() once"),
        (_report_progress_too_late,
         "you must not call op.report_progress() after op.report_completed()"),
    ],
)  # fmt: skip
def test_misuse_raises_messages_that_scripts_match(misuse: Callable[[], None], phrase: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(phrase)):
        misuse()


def test_rejects_unknown_searcher_mode() -> None:
    operations: Any = core.DummySearcherContext(core.DummyDistributedContext()).operations
    with pytest.raises(ValueError, match="'x' is not a valid SearcherMode"):
        next(operations("x"))
