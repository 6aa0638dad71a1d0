"""`python3 -m determined.launch.tensorflow [--port PORT] [--] (--trial FILE:CLASS | SCRIPT...)`

One process runs in each container, and TF_CONFIG lists all of them. A single container does not need TF_CONFIG; its
GPUs are used by MirroredStrategy. The workers connect to each other at PORT, which the agent chooses by default.
"""

import json
import os
import sys
from typing import Dict, List, Optional, Sequence, Tuple

from determined.launch._arguments import UsageError, parse
from determined.launch._peers import Peers, find_peers
from determined.launch._workers import Worker, replace_process, run_workers

DEFAULT_PORT = 29400


def tf_config(peers: Peers, port: int) -> str:
    workers = [f"{_bracket_address(address)}:{port}" for address in peers.addresses]
    task = {"type": "worker", "index": peers.rank}
    return json.dumps({"cluster": {"worker": workers}, "task": task})


def worker_env(peers: Peers, port: int) -> Dict[str, str]:
    env = {**os.environ, "DET_CHIEF_IP": peers.chief}
    if peers.containers > 1:
        env["TF_CONFIG"] = tf_config(peers, port)
    return env


def split_port(args: Sequence[str]) -> Tuple[int, List[str]]:
    """Return the port from the start of the command line, or the agent's port, and the other arguments."""
    option, equals, value = (args[0] if args else "").partition("=")
    if option != "--port":
        return int(os.environ.get("C10D_PORT") or DEFAULT_PORT), list(args)
    chosen, rest = ([value], args[1:]) if equals else (args[1:2], args[2:])
    if not (chosen and chosen[0].isdigit()):
        raise UsageError("tensorflow", f"--port needs a number: {' '.join(args[:2])}")
    return int(chosen[0]), list(rest)


def main(argv: Optional[Sequence[str]] = None) -> int:
    port, args = split_port(sys.argv[1:] if argv is None else argv)
    launch = parse("tensorflow", args)
    if launch.overrides:
        raise UsageError("tensorflow", f"unknown options: {' '.join(launch.overrides)}")
    peers = find_peers()
    env = worker_env(peers, port)
    if peers.containers == 1:
        return replace_process(launch.command, env)
    return run_workers([Worker(peers.rank, launch.command, env)])


def _bracket_address(address: str) -> str:
    return f"[{address}]" if ":" in address else address


if __name__ == "__main__":
    sys.exit(main())
