"""A rank that horovodrun started: it reduces with the others; the last one fails in the first run."""

import json
import os
import sys

import determined as det
import horovod.torch as hvd
import torch

info = det.get_cluster_info()
assert info is not None
rank = int(os.environ["HOROVOD_RANK"])
print(
    f"rank {rank} of {os.environ['HOROVOD_SIZE']}, "
    f"local {os.environ['HOROVOD_LOCAL_RANK']} of {os.environ['HOROVOD_LOCAL_SIZE']}, "
    f"container {info.container_rank}, slots {info.slot_ids}, {os.environ['DET_CONTAINER_ID']}, "
    f"in {os.path.realpath(os.getcwd()) == os.path.realpath(os.environ['DET_WORKDIR'])}, argument {sys.argv[1]!r}"
)
if rank == 3 and os.environ["DET_TRIAL_RUN_ID"] == "1":
    sys.exit(7)
# In the first run, the other ranks wait here for the failed rank.
hvd.init()
total = hvd.allreduce(torch.tensor([10.0**rank]), op=hvd.Sum)
with det.core.init(distributed=det.core.DistributedContext.from_horovod(hvd)) as core:
    print(f"all_reduce gave {total.item():.0f}")
    everybody = core.distributed.allgather((hvd.rank(), info.agent_id))
    gathered = core.distributed.gather(hvd.local_rank())
    told = core.distributed.broadcast(f"from {rank}")
    local = core.distributed.allgather_local(hvd.cross_rank())
    print(f"gathered {gathered}, told {told}, here {local}")
    if rank == 0:
        print(f"met {json.dumps(sorted(everybody))}")
        core.train.report_validation_metrics(1, {"loss": total.item()})
