import pathlib
from typing import Any

import pytest
import torch
from determined import core as real_core
from determined.pytorch.experimental import (
    TorchBatchProcessor,
    get_default_device,
    torch_batch_process,
)

from tests.support.fake_core import FakeCore
from tests.support.torch_trials import Numbers, records_of


class Collecting(TorchBatchProcessor):
    """A processor that records its batches."""

    seen: list[int] = []  # noqa: RUF012 - emptied by the fixture
    events: list[str] = []  # noqa: RUF012

    def __init__(self, context: Any) -> None:
        self.context = context
        self.model = context.prepare_model_for_inference(torch.nn.Linear(2, 1))
        self.count = context.wrap_reducer(sum, name="records")

    def process_batch(self, batch: Any, batch_idx: int) -> None:
        self.seen.extend(records_of(self.context.to_device(batch)[0]))
        self.count.update(len(batch[0]))

    def on_checkpoint_start(self) -> None:
        self.events.append("checkpoint")

    def on_finish(self) -> None:
        self.events.append("finish")


@pytest.fixture
def opened(core: FakeCore, monkeypatch: pytest.MonkeyPatch) -> FakeCore:
    """Let `core.init()` return the fake context."""

    class Opened(FakeCore):
        info = None

        def __enter__(self) -> "Opened":
            return self

        def __exit__(self, *_: object) -> None:
            pass

    fake = Opened(core.storage.parent)
    monkeypatch.setattr(real_core, "init", lambda **_: fake)
    Collecting.seen.clear()
    Collecting.events.clear()
    return fake


def test_every_record_is_processed_once_and_reducers_are_reported(opened: FakeCore) -> None:
    torch_batch_process(Collecting, Numbers(), batch_size=4, checkpoint_interval=2)
    assert sorted(Collecting.seen) == list(range(22))
    assert Collecting.events == ["checkpoint"] * 3 + ["finish"]
    assert opened.train.groups == [("inference", 6, {"records": 22})]
    assert sorted(opened.saved()) == [2, 4, 6]


def test_max_batches_limits_the_work(opened: FakeCore) -> None:
    torch_batch_process(Collecting, Numbers(), batch_size=4, max_batches=2)
    assert sorted(Collecting.seen) == list(range(8))


def test_preempted_run_resumes_where_it_stopped(
    opened: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.preempt.wanted = True
    torch_batch_process(Collecting, Numbers(), batch_size=4, checkpoint_interval=2)
    assert len(Collecting.seen) == 8
    opened.preempt.wanted = False
    monkeypatch.setattr(
        "determined.pytorch.experimental._batch_process.task_info",
        lambda: type("Info", (), {"latest_checkpoint": opened.saved()[2].name, "task_type": "x"}),
    )
    torch_batch_process(Collecting, Numbers(), batch_size=4, checkpoint_interval=2)
    assert sorted(Collecting.seen) == list(range(22))


def test_files_of_the_upload_path_are_stored(opened: FakeCore) -> None:
    class Writing(Collecting):
        def on_finish(self) -> None:
            with self.context.upload_path() as path:
                (path / "result.txt").write_text("done")

    torch_batch_process(Writing, Numbers(), batch_size=22)
    assert [p.read_text() for p in pathlib.Path(opened.storage).glob("*/result.txt")] == ["done"]


def test_rejects_data_loader_options_that_sharding_sets(opened: FakeCore) -> None:
    with pytest.raises(ValueError, match="shuffle"):
        torch_batch_process(Collecting, Numbers(), dataloader_kwargs={"shuffle": True})


def test_rank_gets_its_default_device() -> None:
    with real_core.init() as context:
        assert get_default_device(context) == torch.device("cpu")
