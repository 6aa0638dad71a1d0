"""`python3 -m determined.launch.deepspeed [OVERRIDES --] (--trial FILE:CLASS | SCRIPT...)`

Every container starts its own workers with the environment that DeepSpeed reads, so neither ssh nor pdsh is needed.
With OVERRIDES, which are options of the `deepspeed` command, that command starts the workers.
"""

import os
import sys
from typing import Dict, List, Optional, Sequence

from determined import _paths
from determined.launch import torch_distributed
from determined.launch._arguments import parse
from determined.launch._peers import Peers, find_peers
from determined.launch._ssh import serve_as_daemon, use_keys
from determined.launch._workers import Worker, replace_process, run_workers


def worker_env(peers: Peers, rank: int, local_rank: int) -> Dict[str, str]:
    """What torchrun's workers have, and the names that only DeepSpeed's launcher sets."""
    return {
        **torch_distributed.worker_env(peers, rank, local_rank),
        "CROSS_RANK": str(peers.rank),
        "CROSS_SIZE": str(peers.containers),
        "LOCAL_SIZE": str(peers.local),
    }


def hostfile(peers: Peers) -> str:
    return "".join(f"{host} slots={n}\n" for host, n in zip(peers.addresses, peers.slots))


def deepspeed_command(peers: Peers, overrides: Sequence[str], command: Sequence[str]) -> List[str]:
    path = os.path.join(_paths.run_dir(), "hostfile")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(hostfile(peers))
    where = ["--hostfile", path] if peers.containers > 1 else ["--num_gpus", str(peers.local)]
    wrapped = [sys.executable, "-m", "determined.launch.wrap_rank", "RANK", *command]
    ours = ["--master_addr", peers.chief, "--master_port", str(torch_distributed.port())]
    return ["deepspeed", *where, *ours, *overrides, "--no_local_rank", "--no_python", *wrapped]


def main(argv: Optional[Sequence[str]] = None) -> int:
    launch = parse("deepspeed", sys.argv[1:] if argv is None else argv)
    peers = find_peers()
    if launch.overrides:
        return _by_deepspeed(peers, launch.overrides, launch.command)
    if peers.total == 1:
        return replace_process(launch.command, worker_env(peers, 0, 0))
    workers = [
        Worker(ranks["rank"], launch.command, worker_env(peers, **ranks))
        for ranks in peers.local_ranks()
    ]
    return run_workers(workers)


def _by_deepspeed(peers: Peers, overrides: Sequence[str], command: Sequence[str]) -> int:
    env = torch_distributed.common_env(peers)
    if peers.containers > 1:
        if not peers.is_chief:
            return serve_as_daemon()
        env = use_keys(env)
    return replace_process(deepspeed_command(peers, overrides, command), env)


if __name__ == "__main__":
    sys.exit(main())
