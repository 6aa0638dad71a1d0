"""Checkpoints that a writer process stores while training continues."""

import collections
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import numpy
import pytest
import torch
from determined.checkpointing import _memory
from determined.checkpointing._writer import WriterDied
from determined.core import CheckpointContext

from tests.support.held_storage import TOO_LONG_S, HeldStorage, RecordingRegistry

STEPS = {"steps_completed": 3}
ROOT = pathlib.Path(__file__).parents[3]


def load(checkpoints: CheckpointContext, storage_id: str) -> Any:
    with checkpoints.restore_path(storage_id) as path:
        return torch.load(path / "state_dict.pth", weights_only=True)


def states(checkpoints: CheckpointContext) -> dict[str, str]:
    registry = checkpoints._registry
    assert isinstance(registry, RecordingRegistry)
    return registry.states


def storage(checkpoints: CheckpointContext) -> HeldStorage:
    assert isinstance(checkpoints._storage, HeldStorage)
    return checkpoints._storage


def test_stored_state_equals_the_given_state(checkpoints: CheckpointContext) -> None:
    weight = torch.randn(3, 4)
    model = collections.OrderedDict(weight=weight, tied=weight, bias=torch.randn(4).bfloat16())
    model._metadata = {"": {"version": 1}}  # type: ignore[attr-defined]
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    state = {
        "model": model,
        "image": image,
        "views": [image[0, :2], torch.randn(6)[::2], torch.empty(0), torch.tensor(True)],
        "plain": {"lr": 0.1, 3: (None, "text", b"bytes")},
    }
    loaded = load(checkpoints, checkpoints.store_async(state, STEPS).wait())
    for name, tensor in model.items():
        assert loaded["model"][name].equal(tensor)
        assert loaded["model"][name].dtype == tensor.dtype
    assert loaded["model"]._metadata == {"": {"version": 1}}
    assert loaded["model"]["weight"].data_ptr() == loaded["model"]["tied"].data_ptr()
    assert loaded["image"].equal(image)
    assert loaded["image"].stride() == image.stride()
    assert all(a.equal(b) for a, b in zip(loaded["views"], state["views"], strict=True))
    assert loaded["plain"] == state["plain"]


def test_tensors_have_storages_of_their_own_size(checkpoints: CheckpointContext) -> None:
    """Otherwise loading one tensor would keep the whole buffer in memory."""
    state = {"small": torch.ones(2), "large": torch.ones(5000)}
    loaded = load(checkpoints, checkpoints.store_async(state, STEPS).wait())
    assert loaded["small"].untyped_storage().nbytes() == 8


def test_changes_after_the_call_are_not_stored(checkpoints: CheckpointContext) -> None:
    storage(checkpoints).hold()
    state = {"weight": torch.zeros(1000)}
    pending = checkpoints.store_async(state, STEPS)
    state["weight"].fill_(1)
    assert not pending.done
    storage(checkpoints).release()
    assert load(checkpoints, pending.wait())["weight"].equal(torch.zeros(1000))


def test_next_checkpoint_waits_for_the_unfinished_one_and_logs_it(
    checkpoints: CheckpointContext, caplog: pytest.LogCaptureFixture
) -> None:
    storage(checkpoints).hold()
    first = checkpoints.store_async({"weight": torch.zeros(10)}, STEPS)
    storage(checkpoints).wait_until_held()
    releasing = subprocess.Popen(
        ["sh", "-c", f"sleep 0.3; rm {storage(checkpoints)._flag('hold')}"]
    )
    with caplog.at_level(logging.INFO, "determined.checkpointing"):
        second = checkpoints.store_async({"weight": torch.ones(10)}, STEPS)
    assert first.done
    assert f"waiting for checkpoint {first.storage_id}" in caplog.text
    assert load(checkpoints, second.wait())["weight"].equal(torch.ones(10))
    assert load(checkpoints, first.storage_id)["weight"].equal(torch.zeros(10))
    releasing.wait()


def test_checkpoint_is_active_while_it_is_written(checkpoints: CheckpointContext) -> None:
    storage(checkpoints).hold()
    pending = checkpoints.store_async({"weight": torch.zeros(10)}, STEPS)
    storage(checkpoints).wait_until_held()
    assert states(checkpoints) == {pending.storage_id: "active"}
    storage(checkpoints).release()
    pending.wait()
    assert states(checkpoints) == {pending.storage_id: "completed"}


def test_further_files_are_stored(checkpoints: CheckpointContext, tmp_path: pathlib.Path) -> None:
    (tmp_path / "more" / "code").mkdir(parents=True)
    (tmp_path / "more" / "code" / "model.py").write_text("1")
    state = {"weight": torch.zeros(10)}
    uuid = checkpoints.store_async(state, STEPS, folders=[tmp_path / "more"]).wait()
    with checkpoints.restore_path(uuid) as path:
        assert (path / "code" / "model.py").read_text() == "1"
    registry = checkpoints._registry
    assert isinstance(registry, RecordingRegistry)
    assert {"state_dict.pth", "code/model.py", "metadata.json"} <= registry.resources[uuid].keys()


def test_close_stores_the_unfinished_checkpoint(checkpoints: CheckpointContext) -> None:
    pending = checkpoints.store_async({"weight": torch.zeros(10)}, STEPS)
    checkpoints.close()
    assert states(checkpoints) == {pending.storage_id: "completed"}


def test_failure_is_raised_by_the_next_call_and_only_once(checkpoints: CheckpointContext) -> None:
    storage(checkpoints).fail()
    failed = checkpoints.store_async({"weight": torch.zeros(10)}, STEPS)
    with pytest.raises(PermissionError, match="bucket"):
        checkpoints.store_async({"weight": torch.zeros(10)}, STEPS)
    storage(checkpoints).recover()
    pending = checkpoints.store_async({"weight": torch.zeros(10)}, STEPS)
    checkpoints.wait()
    assert states(checkpoints)[failed.storage_id] == "removed"
    assert states(checkpoints)[pending.storage_id] == "completed"


def test_failure_is_raised_at_the_end(checkpoints: CheckpointContext) -> None:
    storage(checkpoints).fail()
    checkpoints.store_async({"weight": torch.zeros(10)}, STEPS)
    with pytest.raises(PermissionError, match="bucket"):
        checkpoints.close()


def test_killed_writer_is_reported_and_replaced(checkpoints: CheckpointContext) -> None:
    complete = checkpoints.store_async({"weight": torch.zeros(10)}, STEPS).wait()
    storage(checkpoints).hold()
    cut_off = checkpoints.store_async({"weight": torch.ones(10)}, STEPS)
    os.kill(storage(checkpoints).wait_until_held(), signal.SIGKILL)
    with pytest.raises(
        WriterDied, match=rf"status -9 while it stored checkpoint {cut_off.storage_id}"
    ):
        checkpoints.store_async({"weight": torch.ones(10)}, STEPS)
    storage(checkpoints).release()
    replaced = checkpoints.store_async({"weight": torch.ones(10)}, STEPS).wait()
    assert states(checkpoints) == {
        complete: "completed",
        cut_off.storage_id: "active",  # it has files, which the cluster deletes
        replaced: "completed",
    }
    assert load(checkpoints, replaced)["weight"].equal(torch.ones(10))


def test_idle_writer_that_was_killed_is_reported(checkpoints: CheckpointContext) -> None:
    checkpoints.store_async({"weight": torch.zeros(10)}, STEPS).wait()
    process = checkpoints._async_saver()._writer._process
    process.kill()
    process.wait()
    pending = checkpoints.store_async({"weight": torch.ones(10)}, STEPS)
    with pytest.raises(WriterDied):
        pending.wait()
    again = checkpoints.store_async({"weight": torch.ones(10)}, STEPS)
    assert load(checkpoints, again.wait())["weight"].equal(torch.ones(10))


def test_state_without_memory_is_stored_synchronously_with_a_warning(
    checkpoints: CheckpointContext,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_memory, "available_bytes", lambda: 1000)
    pending = checkpoints.store_async({"weight": torch.arange(10_000)}, STEPS)
    assert pending.done
    assert "does not fit into the free host memory" in caplog.text
    assert load(checkpoints, pending.storage_id)["weight"].equal(torch.arange(10_000))
    assert states(checkpoints) == {pending.storage_id: "completed"}
    assert not checkpoints._async_saver()._writer.is_running


def test_memory_of_the_buffers_is_logged_once(
    checkpoints: CheckpointContext, caplog: pytest.LogCaptureFixture
) -> None:
    state = {"weight": torch.zeros(1 << 20)}
    with caplog.at_level(logging.INFO, "determined.checkpointing"):
        for _ in range(2):
            checkpoints.store_async(state, STEPS).wait()
    assert caplog.text.count("asynchronous checkpoints use 4 MiB of host memory") == 1


def test_growing_state_gets_larger_buffers(checkpoints: CheckpointContext) -> None:
    for elements in (10, 100_000, 1000):
        state = {"weight": torch.randn(elements)}
        loaded = load(checkpoints, checkpoints.store_async(state, STEPS).wait())
        assert loaded["weight"].equal(state["weight"])


@pytest.mark.parametrize(
    ("value", "name"),
    [({"a": [{1, 2}]}, r"state\['a'\]\[0\] is a builtins.set"), ({"a": numpy.zeros(1)}, "numpy")],
)
def test_other_values_are_rejected_with_their_place(
    checkpoints: CheckpointContext, value: Any, name: str
) -> None:
    with pytest.raises(TypeError, match=name):
        checkpoints.store_async(value, STEPS)


TRAINER = """
import sys, torch
from determined.core import CheckpointContext, DummyDistributedContext
from tests.support.held_storage import HeldStorage, RecordingRegistry

storage = HeldStorage(sys.argv[1])
checkpoints = CheckpointContext(DummyDistributedContext(), storage, RecordingRegistry())
checkpoints.store_async({"weight": torch.zeros(10)}, {"steps_completed": 1}).wait()
storage.hold()
checkpoints.store_async({"weight": torch.ones(10)}, {"steps_completed": 2})
checkpoints.wait()
"""


def test_writer_ends_with_a_killed_training_process(tmp_path: pathlib.Path) -> None:
    held = HeldStorage(str(tmp_path / "stored"))
    trainer = subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(tmp_path / "stored")],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
    )
    writer = held.wait_until_held()
    trainer.kill()
    trainer.wait()
    deadline = time.monotonic() + TOO_LONG_S
    while pathlib.Path(f"/proc/{writer}").exists():
        assert time.monotonic() < deadline, "the writer still runs"
        time.sleep(0.01)
    held.release()
    complete = [path.parent for path in (tmp_path / "stored").glob("*/metadata.json")]
    assert [torch.load(path / "state_dict.pth")["weight"].sum() for path in complete] == [0]
