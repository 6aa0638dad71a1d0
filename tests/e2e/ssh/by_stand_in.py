"""A rank that the stand-in for horovodrun started: it meets the others; the last one fails in the first run."""

import json
import os
import sys
import time
from types import SimpleNamespace

import determined as det

info = det.get_cluster_info()
assert info is not None
numbers = {
    n: int(os.environ[f"HOROVOD_{n}"])
    for n in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
}
print(
    f"rank {numbers['RANK']} of {numbers['SIZE']}, local {numbers['LOCAL_RANK']} of {numbers['LOCAL_SIZE']}, "
    f"container {info.container_rank}, slots {info.slot_ids}, {os.environ['DET_CONTAINER_ID']}, "
    f"in {os.path.realpath(os.getcwd()) == os.path.realpath(os.environ['DET_WORKDIR'])}, argument {sys.argv[1]!r}"
)
if numbers["RANK"] == 3 and os.environ["DET_TRIAL_RUN_ID"] == "1":
    sys.exit(7)
hvd = SimpleNamespace(
    **{name.lower(): (lambda value=value: value) for name, value in numbers.items()}
)
with det.core.init(distributed=det.core.DistributedContext.from_horovod(hvd)) as core:
    if os.environ["DET_TRIAL_RUN_ID"] == "1":
        time.sleep(600)
    everybody = core.distributed.allgather((numbers["RANK"], info.agent_id))
    if numbers["RANK"] == 0:
        print(f"met {json.dumps(sorted(everybody))}")
        core.train.report_validation_metrics(1, {"loss": 0.5})
