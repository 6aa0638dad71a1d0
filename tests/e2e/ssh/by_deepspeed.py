"""A rank that DeepSpeed's launcher started: one all_reduce over gloo, reported by the chief."""

import os
import sys

import determined as det
import torch
import torch.distributed

info = det.get_cluster_info()
assert info is not None
rank = int(os.environ["RANK"])
print(
    f"rank {rank} of {os.environ['WORLD_SIZE']}, local {os.environ['LOCAL_RANK']} of {os.environ['LOCAL_SIZE']}, "
    f"container {info.container_rank}, slots {info.slot_ids}, {os.environ['DET_CONTAINER_ID']}, "
    f"in {os.path.realpath(os.getcwd()) == os.path.realpath(os.environ['DET_WORKDIR'])}, argument {sys.argv[1]!r}"
)
torch.distributed.init_process_group("gloo")
total = torch.tensor([10.0**rank])
torch.distributed.all_reduce(total)
with det.core.init(distributed=det.core.DistributedContext.from_deepspeed()) as core:
    if rank == 0:
        core.train.report_validation_metrics(1, {"loss": total.item()})
    print(f"all_reduce gave {total.item():.0f}")
