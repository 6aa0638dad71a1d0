"""`python3 -m determined.launch.torch_distributed [OVERRIDES --] (--trial FILE:CLASS | SCRIPT...)`

This starts one worker for each slot with the environment that `torch.distributed` reads. With OVERRIDES, which are
options of `torch.distributed.run`, that program starts the workers.
"""

import os
import sys
from typing import Dict, List, Optional, Sequence

from determined._info import task_info
from determined.constants import DTRAIN_SSH_PORT
from determined.launch._arguments import parse
from determined.launch._peers import Peers, find_peers
from determined.launch._watch import PeerWatch
from determined.launch._workers import replace_process, run_ranks

DEFAULT_PORT = 29400


def worker_env(peers: Peers, rank: int, local_rank: int) -> Dict[str, str]:
    """Return the variables that torchrun sets, except those of its agent's store. Rank 0 hosts the store itself."""
    env = {
        **common_env(peers),
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(peers.total),
        "LOCAL_WORLD_SIZE": str(peers.local),
        "GROUP_RANK": str(peers.rank),
        "GROUP_WORLD_SIZE": str(peers.containers),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(peers.total),
        "MASTER_ADDR": peers.chief,
        "MASTER_PORT": str(port()),
        "TORCHELASTIC_RUN_ID": os.environ.get("DET_ALLOCATION_ID", "off-cluster"),
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
    if peers.local > 1:
        # torchrun does the same, because many workers with many threads compete for the same cores.
        env.setdefault("OMP_NUM_THREADS", "1")
    return env


def common_env(peers: Peers) -> Dict[str, str]:
    return {**os.environ, "USE_TORCH_DISTRIBUTED": "True", "DET_CHIEF_IP": peers.chief}


def port() -> int:
    return int(os.environ.get("C10D_PORT") or DEFAULT_PORT)


def is_elastic() -> bool:
    """Return whether the trial of this container may run with fewer slots than it asked for."""
    info = task_info()
    trial = info.trial if info is not None and info.task_type == "TRIAL" else None
    resources = (trial._config.get("resources") or {}) if trial is not None else {}
    return resources.get("min_slots_per_trial") is not None


def elastic_watch(peers: Peers) -> Optional[PeerWatch]:
    """Return the watch of an elastic trial on several machines. It uses the port that other launchers use for ssh."""
    if peers.containers == 1 or not is_elastic():
        return None
    return PeerWatch(peers, int(os.environ.get("DTRAIN_SSH_PORT") or DTRAIN_SSH_PORT))


def torchrun_command(peers: Peers, overrides: Sequence[str], command: Sequence[str]) -> List[str]:
    """Return the torchrun command. The last option takes precedence, so the overrides come after our options."""
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        f"--nnodes={peers.containers}",
        f"--nproc_per_node={peers.local}",
        f"--node_rank={peers.rank}",
        "--max_restarts=0",
        f"--master_addr={peers.chief}",
        f"--master_port={port()}",
        *overrides,
        "--no_python",
        sys.executable,
        "-m",
        "determined.launch.wrap_rank",
        "RANK",
        *command,
    ]


def main(argv: Optional[Sequence[str]] = None) -> int:
    launch = parse("torch_distributed", sys.argv[1:] if argv is None else argv)
    peers = find_peers()
    if launch.overrides:
        command = torchrun_command(peers, launch.overrides, launch.command)
        return replace_process(command, common_env(peers))
    return run_ranks(peers, launch.command, worker_env, elastic_watch(peers))


if __name__ == "__main__":
    sys.exit(main())
