"""`python3 -m determined.launch.tensorflow [--] (--trial FILE:CLASS | SCRIPT...)`

One process per container, with TF_CONFIG naming them all. A lone container needs no TF_CONFIG: its GPUs are used
by MirroredStrategy.
"""

import json
import os
import sys
from typing import Dict, Optional, Sequence

from determined.launch._arguments import UsageError, parse
from determined.launch._peers import Peers, find_peers
from determined.launch._workers import Worker, replace_process, run_workers

DEFAULT_PORT = 29400


def tf_config(peers: Peers) -> str:
    port = int(os.environ.get("C10D_PORT") or DEFAULT_PORT)
    workers = [f"{_bracketed(address)}:{port}" for address in peers.addresses]
    task = {"type": "worker", "index": peers.rank}
    return json.dumps({"cluster": {"worker": workers}, "task": task})


def worker_env(peers: Peers) -> Dict[str, str]:
    env = {**os.environ, "DET_CHIEF_IP": peers.chief}
    if peers.containers > 1:
        env["TF_CONFIG"] = tf_config(peers)
    return env


def main(argv: Optional[Sequence[str]] = None) -> int:
    launch = parse("tensorflow", sys.argv[1:] if argv is None else argv)
    if launch.overrides:
        raise UsageError("tensorflow", f"no option is known: {' '.join(launch.overrides)}")
    peers = find_peers()
    if peers.containers == 1:
        return replace_process(launch.command, worker_env(peers))
    return run_workers([Worker(peers.rank, launch.command, worker_env(peers))])


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


if __name__ == "__main__":
    sys.exit(main())
