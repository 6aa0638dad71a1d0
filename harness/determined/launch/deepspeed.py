"""`python3 -m determined.launch.deepspeed [OVERRIDES --] (--trial FILE:CLASS | SCRIPT...)`

Every container starts its own workers with the environment that DeepSpeed reads, so neither ssh nor pdsh is needed.
With OVERRIDES, which are options of the `deepspeed` command, that command starts the workers. With several
containers it uses ssh.
"""

import os
import sys
from typing import Dict, List, Optional, Sequence

from determined import _paths
from determined.launch import _place, _ssh, _ssh_files, torch_distributed
from determined.launch._arguments import parse
from determined.launch._encoded import through_shells
from determined.launch._peers import Peers, find_peers
from determined.launch._workers import replace_process, run_ranks


def worker_env(peers: Peers, rank: int, local_rank: int) -> Dict[str, str]:
    """Return the variables of torchrun's workers, and the additional ones of DeepSpeed's launcher."""
    return {
        **torch_distributed.worker_env(peers, rank, local_rank),
        "CROSS_RANK": str(peers.rank),
        "CROSS_SIZE": str(peers.containers),
        "LOCAL_SIZE": str(peers.local),
    }


def hostfile(peers: Peers) -> str:
    """Return the hostfile. It has names, because DeepSpeed rejects equal addresses of agents on one machine."""
    return "".join(f"{_ssh_files.container_name(i)} slots={n}\n" for i, n in enumerate(peers.slots))


def deepspeed_command(peers: Peers, overrides: Sequence[str], command: Sequence[str]) -> List[str]:
    path = os.path.join(_paths.run_dir(), "hostfile")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(hostfile(peers))
    where = ["--hostfile", path] if peers.containers > 1 else ["--num_gpus", str(peers.local)]
    # DeepSpeed quotes words for its remote shell in its own way. On one node it does not quote.
    words = through_shells(command) if peers.containers > 1 else command
    wrapped = [sys.executable, "-m", "determined.launch.wrap_rank", "RANK", *words]
    ours = ["--master_addr", peers.chief, "--master_port", str(torch_distributed.port())]
    return ["deepspeed", *where, *ours, *overrides, "--no_local_rank", "--no_python", *wrapped]


def main(argv: Optional[Sequence[str]] = None) -> int:
    launch = parse("deepspeed", sys.argv[1:] if argv is None else argv)
    peers = find_peers()
    if launch.overrides:
        return _by_deepspeed(peers, launch.overrides, launch.command)
    return run_ranks(peers, launch.command, worker_env, torch_distributed.elastic_watch(peers))


def _by_deepspeed(peers: Peers, overrides: Sequence[str], command: Sequence[str]) -> int:
    if not peers.is_chief:
        return _ssh.serve_as_daemon()
    common = torch_distributed.common_env(peers)
    # DeepSpeed numbers each node's devices from 0, even if the container has other devices of the machine.
    env_with_place = {**common, _place.PLACE: _place.record(common)}
    env = _ssh.reach_peers(peers, env_with_place) if peers.containers > 1 else env_with_place
    if env is None:
        return _ssh.CANNOT_RUN_HERE
    return replace_process(deepspeed_command(peers, overrides, command), env)


if __name__ == "__main__":
    sys.exit(main())
