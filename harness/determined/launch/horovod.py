"""`python3 -m determined.launch.horovod [OVERRIDES --] (--trial FILE:CLASS | SCRIPT...)`

The chief runs `horovodrun`; the other containers let it in by ssh. OVERRIDES are options of `horovodrun`.
"""

import json
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence

from determined.launch import _ssh
from determined.launch._arguments import parse
from determined.launch._peers import Peers, find_peers
from determined.launch._workers import replace_process


def horovodrun_command(
    peers: Peers, overrides: Sequence[str], command: Sequence[str], config: Mapping[str, Any]
) -> List[str]:
    hosts = ",".join(f"{host}:{n}" for host, n in zip(peers.addresses, peers.slots))
    if peers.containers == 1:
        hosts = f"localhost:{peers.total}"
    return [
        "horovodrun",
        *("-np", str(peers.total)),
        *("-H", hosts),
        *("--start-timeout", "600"),
        *(("--ssh-port", str(_ssh.port())) if peers.containers > 1 else ()),
        *(("--ssh-identity-file", _ssh.key_file("id_rsa")) if peers.containers > 1 else ()),
        *_optimizations(config),
        *overrides,
        *(sys.executable, "-m", "determined.launch.wrap_rank", "HOROVOD_RANK"),
        *command,
    ]


def _optimizations(config: Mapping[str, Any]) -> List[str]:
    """The `optimizations` section of the configuration, as options of horovodrun."""
    chosen = config.get("optimizations") or {}
    options: List[str] = []
    if chosen.get("auto_tune_tensor_fusion"):
        options.append("--autotune")
    else:
        if chosen.get("tensor_fusion_threshold") is not None:
            options += ["--fusion-threshold-mb", str(chosen["tensor_fusion_threshold"])]
        if chosen.get("tensor_fusion_cycle_time") is not None:
            options += ["--cycle-time-ms", str(chosen["tensor_fusion_cycle_time"])]
    return options


def run(overrides: Sequence[str], command: Sequence[str]) -> int:
    peers = find_peers()
    if not peers.is_chief:
        return _ssh.serve_as_daemon()
    if peers.containers > 1:
        _ssh.make_keys()
        _ssh.wait_for_peers(peers.addresses[1:])
    config: Dict[str, Any] = json.loads(os.environ.get("DET_EXPERIMENT_CONFIG") or "{}")
    env = {**os.environ, "DET_CHIEF_IP": peers.chief, "USE_HOROVOD": "1"}
    return replace_process(horovodrun_command(peers, overrides, command, config), env)


def main(argv: Optional[Sequence[str]] = None) -> int:
    launch = parse("horovod", sys.argv[1:] if argv is None else argv)
    return run(launch.overrides, launch.command)


if __name__ == "__main__":
    sys.exit(main())
