import re
import subprocess
import sys
from pathlib import Path

import pytest
from determined import core, get_cluster_info

pytestmark = pytest.mark.usefixtures("off_cluster")
HEAVY = ("torch", "boto3", "pydantic", "requests", "http", "ssl", "asyncio")


def test_a_script_can_log_in_the_common_format() -> None:
    script = (
        "import logging, determined as det\n"
        "logging.basicConfig(level=logging.INFO, format=det.LOG_FORMAT)\n"
        "logging.getLogger('mine').info('hello')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, check=True
    )
    assert re.fullmatch(r"INFO: \[\d+\] mine: hello\n", done.stderr)


def test_there_is_no_cluster_info() -> None:
    assert get_cluster_info() is None


def test_a_script_runs_through_with_one_operation_of_length_one(tmp_path: Path) -> None:
    with core.init() as context:
        for operation in context.searcher.operations():
            assert operation.length == 1
            context.train.report_training_metrics(1, {"loss": 0.5})
            operation.report_completed(0.5)
        assert not context.preempt.should_preempt()
        assert context.train.get_experiment_best_validation() is None


def test_checkpoints_go_to_the_users_data_directory(tmp_path: Path) -> None:
    with core.init() as context:
        with context.checkpoint.store_path({"note": "x"}) as (path, storage_id):
            (path / "w").write_text("weights")
        assert context.checkpoint.get_metadata(storage_id) == {"note": "x"}
    assert list((tmp_path / "data" / "determined").rglob("w"))


def test_a_path_can_be_the_checkpoint_storage(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with (
        core.init(checkpoint_storage=str(tmp_path / "store")) as context,
        context.checkpoint.store_path() as (path, storage_id),
    ):
        (path / "w").write_text("1")
    assert (tmp_path / "store" / storage_id / "w").exists()


def test_shared_fs_is_refused_off_cluster() -> None:
    with pytest.raises(ValueError, match="shared_fs"):
        core.init(checkpoint_storage={"type": "shared_fs", "host_path": "/x"})


def test_importing_determined_pulls_in_nothing_heavy() -> None:
    code = (
        "import sys; import determined; "
        f"print([m for m in {HEAVY!r} if m in sys.modules]); "
        "print(determined.core.init.__name__)"
    )
    out = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout == "[]\ninit\n"
