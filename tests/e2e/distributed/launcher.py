"""A user's own launcher: it starts the script for each slot with Determined's variables about peers."""

import os
import subprocess
import sys

import determined as det

info = det.get_cluster_info()
assert info is not None
mine = info.container_rank
before, local = sum(info.container_slot_counts[:mine]), info.container_slot_counts[mine]
workers = []
for local_rank in range(local):
    env = {
        **os.environ,
        "USE_TORCH_DISTRIBUTED": "True",
        "RANK": str(before + local_rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(sum(info.container_slot_counts)),
        "LOCAL_WORLD_SIZE": str(local),
        "GROUP_RANK": str(mine),
        "GROUP_WORLD_SIZE": str(len(info.container_addrs)),
        "MASTER_ADDR": info.container_addrs[0],
        "MASTER_PORT": os.environ["C10D_PORT"],
        "DET_CHIEF_IP": info.container_addrs[0],
    }
    command = [sys.executable, "-m", "determined.launch.wrap_rank", "RANK", *sys.argv[1:]]
    workers.append(subprocess.Popen(command, env=env))
sys.exit(max(worker.wait() for worker in workers))
