"""The Core API of several workers that torch.distributed joins; runs again from its checkpoint after it was paused."""

import os
import time
from typing import Any

import determined as det
import torch.distributed as dist
from determined import core

STEPS = 6


def train(context: Any, first: int) -> None:
    rank = context.distributed.rank
    for step in range(first + 1, STEPS + 1):
        ranks = context.distributed.allgather(rank)
        print(f"step {step} of {ranks} by {det.__version__}", flush=True)
        if os.environ["DET_TRIAL_RUN_ID"] == "1" and step == 2:
            time.sleep(3)  # long enough to be paused here
        if rank == 0:
            context.train.report_training_metrics(step, {"loss": 1 / step})
            context.train.report_validation_metrics(step, {"loss": 1 / step})
        with context.checkpoint.store_path({"steps_completed": step}, shard=True) as (path, _):
            (path / f"rank-{rank}").write_text(str(step))
        if context.preempt.should_preempt():
            return


def main() -> None:
    dist.init_process_group("gloo")
    info = det.get_cluster_info()
    assert info is not None
    first = 0
    distributed = core.DistributedContext.from_torch_distributed()
    with core.init(distributed=distributed) as context:
        if info.latest_checkpoint:
            with context.checkpoint.restore_path(info.latest_checkpoint) as path:
                first = int((path / f"rank-{context.distributed.rank}").read_text())
        train(context, first)
    dist.destroy_process_group()


main()
