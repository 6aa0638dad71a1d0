"""`python3 -m determined.launch.horovod [--autohorovod] [OVERRIDES --] (--trial FILE:CLASS | SCRIPT...)`

The chief runs `horovodrun`, which connects to the other containers by ssh. OVERRIDES are options of `horovodrun`.
With --autohorovod and one slot, the command runs directly, as with `determined.launch.autohorovod`.
"""

import json
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence

from determined import constants
from determined.launch import _place, _ssh, _ssh_files, torch_distributed
from determined.launch._arguments import parse
from determined.launch._peers import Peers, find_peers
from determined.launch._workers import replace_process

NOT_ELASTIC = (
    "resources.min_slots_per_trial cannot be used with Horovod, which does not change its number of ranks; start the "
    "program by determined.launch.torch_distributed, or remove min_slots_per_trial"
)


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
        *("--start-timeout", str(constants.HOROVOD_STARTUP_TIMEOUT_SECONDS)),
        # By default, all ranks abort if one of them starts half a minute later.
        *("--gloo-timeout-seconds", str(constants.HOROVOD_GLOO_TIMEOUT_SECONDS)),
        *(("--ssh-port", str(_ssh_files.port())) if peers.containers > 1 else ()),
        *(("--ssh-identity-file", _ssh_files.path("id_rsa")) if peers.containers > 1 else ()),
        *_optimizations(config),
        *overrides,
        *(sys.executable, "-m", "determined.launch.wrap_rank", "HOROVOD_RANK"),
        *command,
    ]


def _optimizations(config: Mapping[str, Any]) -> List[str]:
    """Return the `optimizations` section of the configuration as options of horovodrun."""
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


def _distinct(addresses: Sequence[str]) -> List[str]:
    """Replace addresses equal to the chief's, because horovodrun would start their ranks on the chief."""
    names = [f"127.0.0.{rank + 1}" for rank in range(len(addresses))]
    shares_host = [rank > 0 and address == addresses[0] for rank, address in enumerate(addresses)]
    return [
        name if same and sys.platform == "linux" else address
        for name, same, address in zip(names, shares_host, addresses)
    ]


def run(overrides: Sequence[str], command: Sequence[str]) -> int:
    if torch_distributed.is_elastic():
        print(NOT_ELASTIC, file=sys.stderr)
        return _ssh.CANNOT_RUN_HERE
    peers = find_peers()
    if not peers.is_chief:
        return _ssh.serve_as_daemon()
    env: Optional[Dict[str, str]] = {**os.environ, **_shared_variables(peers)}
    if peers.containers > 1:
        peers = peers._replace(addresses=_distinct(peers.addresses))
        # horovodrun writes its environment into the command lines of all ranks, so keep secrets out of it.
        place = _place.record(os.environ)
        env = {**_place.without_place(os.environ), **_shared_variables(peers), _place.PLACE: place}
        env = _ssh.reach_peers(peers, env)
    if env is None:
        return _ssh.CANNOT_RUN_HERE
    config: Dict[str, Any] = json.loads(os.environ.get("DET_EXPERIMENT_CONFIG") or "{}")
    return replace_process(horovodrun_command(peers, overrides, command, config), env)


def run_if_many(overrides: Sequence[str], command: Sequence[str]) -> int:
    if find_peers().total == 1:
        return replace_process(command, os.environ)
    return run(overrides, command)


def _shared_variables(peers: Peers) -> Dict[str, str]:
    return {"DET_CHIEF_IP": peers.chief, "USE_HOROVOD": "1"}


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    is_auto = args[:1] == ["--autohorovod"]
    launch = parse("horovod", args[1:] if is_auto else args)
    return (run_if_many if is_auto else run)(launch.overrides, launch.command)


if __name__ == "__main__":
    sys.exit(main())
