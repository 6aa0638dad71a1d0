"""Ranks write replicas, lose machines and resume. Each rank is a thread, and each machine has a directory."""

import errno
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from determined.core import DistributedContext
from determined.replicas._replicator import Replicator, Reports, Settings

from tests.support.ports import free_port

MIB = 1024 * 1024
Work = Callable[[Replicator, int], Any]


class Trial:
    """A trial on machines that are directories. `run` starts its next run on some of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0
        self.limit = 64 * MIB
        self.checkpoint_steps = 0
        self.reports = Reports()

    def run(self, machines: Sequence[str], work: Work, slots: int = 1) -> list[Any]:
        """Call `work(replicator, rank)` on each rank and return the results."""
        self.runs += 1
        port = free_port()
        size = len(machines) * slots
        results: list[Any] = [None] * size

        def live(rank: int) -> None:
            cross, local = divmod(rank, slots)
            directory = self.folder / machines[cross]
            directory.mkdir(exist_ok=True)
            distributed = DistributedContext(
                rank=rank, size=size, local_rank=local, local_size=slots, cross_rank=cross,
                cross_size=len(machines), chief_ip="127.0.0.1", pub_port=port,
            )  # fmt: skip
            settings = Settings(str(directory), self.limit, self.runs, self.checkpoint_steps)
            replicator = Replicator(distributed, settings, self.reports)
            try:
                results[rank] = work(replicator, rank)
                distributed.allgather(None)
            except Exception as e:
                results[rank] = e
            finally:
                replicator.close()
                distributed.close()

        threads = [threading.Thread(target=live, args=(rank,)) for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        errors = [result for result in results if isinstance(result, Exception)]
        if errors:
            raise errors[0]
        return results

    def lose(self, machine: str) -> None:
        shutil.rmtree(self.folder / machine)

    def files(self, machine: str) -> list[str]:
        return sorted(path.name for path in (self.folder / machine).iterdir())


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


@contextmanager
def warnings_in(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    messages: list[str] = []
    with caplog.at_level(logging.WARNING, "determined.core"):
        yield messages
    messages += [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def train(steps: int) -> Work:
    """Train some steps. The weights have the number of steps, and each rank's own state has its rank."""

    def work(replicator: Replicator, rank: int) -> None:
        for step in range(1, steps + 1):
            state = {"weights": torch.full((1000,), float(step))}
            replicator.replicate(state, step, rank_state={"rank": rank, "step": step})
        replicator.wait()

    return work


def resumed(replicator: Replicator, rank: int) -> Any:
    replica = replicator.restore()
    if replica is None:
        return None
    weights = replica.state["weights"]
    return (
        replica.steps_completed,
        float(weights[0]),
        [s and s["rank"] for s in replica.rank_states],
    )


def test_trial_resumes_from_its_last_step_after_the_loss_of_any_machine(trial: Trial) -> None:
    for lost in ("a", "b", "c", "d"):
        trial.run(list("abcd"), train(3))
        trial.lose(lost)
        rest = [name for name in "abcd" if name != lost]
        assert trial.run(rest, resumed) == [(3, 3.0, [0, 1, 2, 3])] * 3


def test_machine_without_a_replica_gets_it_from_another(trial: Trial) -> None:
    trial.run(["a", "b"], train(2), slots=2)
    trial.lose("a")
    assert trial.run(["new", "b"], resumed, slots=2) == [(2, 2.0, [0, 1, 2, 3])] * 4


def test_runs_continue_from_replicas_of_runs_that_resumed(trial: Trial) -> None:
    def more(replicator: Replicator, rank: int) -> Any:
        replica = replicator.restore()
        assert replica is not None
        replicator.replicate(b"more", replica.steps_completed + 1)
        replicator.wait()

    trial.run(list("abc"), train(3))
    trial.run(["a", "b"], more)
    (result,) = trial.run(["b"], lambda r, _: r.restore())
    assert result.steps_completed == 4
    assert result.state == b"more"
    assert result.rank_states == [None, None]


def test_states_may_change_as_soon_as_the_call_returns(trial: Trial) -> None:
    def work(replicator: Replicator, rank: int) -> None:
        weights = torch.ones(100_000)
        replicator.replicate({"weights": weights}, 1)
        weights.zero_()

    trial.run(["a"], work)
    assert trial.run(["a"], resumed) == [(1, 1.0, [None])]


def test_only_one_rank_of_a_machine_makes_the_common_state(trial: Trial) -> None:
    made = []

    def work(replicator: Replicator, rank: int) -> None:
        def make() -> bytes:
            made.append(rank)
            return b""

        replicator.replicate(make, 1)

    trial.run(["a", "b"], work, slots=2)
    assert sorted(made) == [0, 2]


def test_checkpoint_of_the_same_step_is_preferred(trial: Trial) -> None:
    trial.run(["a", "b"], train(3))
    trial.checkpoint_steps = 3
    assert trial.run(["a", "b"], resumed) == [None, None]
    assert trial.files("a") == ["origin.json"]


def test_damaged_copy_is_found_before_the_ranks_agree(trial: Trial) -> None:
    trial.run(["a", "b"], train(3))
    path = trial.folder / "a" / "rank-0.1"
    content = bytearray(path.read_bytes())
    content[4100] ^= 1
    path.write_bytes(content)
    # The other machine has a copy of the damaged item.
    assert trial.run(["a", "b"], resumed) == [(3, 3.0, [0, 1])] * 2


def test_state_above_the_limit_ends_replication_with_one_warning(
    trial: Trial, caplog: pytest.LogCaptureFixture
) -> None:
    def grow(replicator: Replicator, rank: int) -> None:
        for step in range(1, 5):
            replicator.replicate({"weights": torch.zeros(step * MIB // 4)}, step)

    trial.limit = 5 * MIB
    with warnings_in(caplog) as messages:
        trial.run(["a", "b"], grow)
    assert len(messages) == 1
    assert "may be used: set resources.replica_memory" in messages[0]
    assert trial.files("a") == trial.files("b") == ["origin.json"]


def test_full_memory_ends_replication_with_one_warning(
    trial: Trial, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with warnings_in(caplog) as messages:
        trial.run(["a", "b"], train(3))
    cause = "no room for a replica in memory ([Errno 28] No space left on device)"
    assert messages == [f"the trial is no longer replicated: rank 0: {cause}"]


def test_loss_of_two_neighbours_falls_back_to_the_checkpoint_with_a_sentence(
    trial: Trial, caplog: pytest.LogCaptureFixture
) -> None:
    def shards(replicator: Replicator, rank: int) -> None:
        replicator.replicate(None, 7, rank_state=torch.full((10,), float(rank)))
        replicator.wait()

    trial.run(list("abcd"), shards)
    trial.lose("b")
    trial.lose("c")
    trial.checkpoint_steps = 5
    with warnings_in(caplog) as messages:
        assert trial.run(["a", "d"], lambda r, _: r.restore()) == [None, None]
    assert messages == [
        "continuing from the checkpoint of step 5, because no remaining machine has the state of rank 1 at step 7"
    ]


def test_shards_of_all_ranks_are_read_after_the_loss_of_a_machine(trial: Trial) -> None:
    def shards(replicator: Replicator, rank: int) -> None:
        replicator.replicate(None, 7, rank_state=torch.full((10,), float(rank)))
        replicator.wait()

    trial.run(list("abc"), shards)
    trial.lose("b")

    def load(replicator: Replicator, rank: int) -> list[float]:
        replica = replicator.restore()
        assert replica is not None
        return [float(shard[0]) for shard in replica.rank_states]

    a, c = trial.run(["a", "c"], load)
    assert a == c == [0.0, 1.0, 2.0]


def test_replica_that_the_cluster_refuses_is_not_used(
    trial: Trial, caplog: pytest.LogCaptureFixture
) -> None:
    trial.reports = Reports(reported=lambda: {"training": 2})
    trial.run(["a"], train(2))
    asked = []

    def refuse(steps: int, reported: dict[str, int]) -> str:
        asked.append((steps, reported))
        return "the report of step 2 is lost"

    trial.reports = Reports(start_from=refuse)
    with warnings_in(caplog) as messages:
        assert trial.run(["a"], resumed) == [None]
    assert asked == [(2, {"training": 2})]
    assert messages == ["continuing without a checkpoint, because the report of step 2 is lost"]


def test_run_that_does_not_resume_deletes_replicas_of_earlier_runs(trial: Trial) -> None:
    trial.run(["a", "b"], train(9))
    trial.run(["a", "b"], train(2))
    assert trial.run(["a", "b"], resumed) == [(2, 2.0, [0, 1])] * 2


def test_items_of_ranks_that_are_gone_are_deleted(trial: Trial) -> None:
    def more(replicator: Replicator, rank: int) -> Any:
        replicator.restore()
        for step in (4, 5):
            replicator.replicate(b"", step, rank_state=b"")

    trial.run(list("abcd"), train(3))
    assert "rank-3.0" in trial.files("a")
    trial.run(["a", "b"], more)
    assert not [name for name in trial.files("a") if name.startswith(("rank-2", "rank-3"))]
