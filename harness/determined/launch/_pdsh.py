"""A replacement of `pdsh` for DeepSpeed's launcher: run a command on all containers, and stop them together.

Unlike pdsh it does not use ssh for the local container, does not change the output lines (they have a rank prefix
already), and stops all nodes when one fails. Images need no pdsh.
"""

import getopt
import os
import re
import sys
from typing import List, NamedTuple, Optional, Sequence

from determined.launch._ssh_files import container_name
from determined.launch._workers import Worker, run_workers

_OPTIONS = "SNbdiqf:l:t:u:w:x:R:M:"
_PLACEHOLDER = re.compile("%[hnu%]")


class Request(NamedTuple):
    hosts: List[str]
    command: str


def request(argv: Sequence[str]) -> Request:
    options, words = getopt.getopt(list(argv), _OPTIONS)
    hosts = [host for name, value in options if name == "-w" for host in value.split(",")]
    excluded = [host for name, value in options if name == "-x" for host in value.split(",")]
    return Request([host for host in hosts if host not in excluded], " ".join(words))


def node(number: int, host: str, command: str, user: str) -> Worker:
    values = {"%h": host, "%n": str(number), "%u": user, "%%": "%"}
    remote_command = _PLACEHOLDER.sub(lambda match: values[match[0]], command)
    here = host == container_name(0)
    argv = ["sh", "-c", remote_command] if here else ["ssh", "-a", "-x", host, remote_command]
    return Worker(number, argv, os.environ, what="node")


def main(argv: Optional[Sequence[str]] = None) -> int:
    try:
        hosts, command = request(sys.argv[1:] if argv is None else argv)
    except getopt.GetoptError as e:
        print(f"pdsh of determined.launch.deepspeed: {e}", file=sys.stderr)
        return 2
    user = os.environ.get("USER", "")
    return run_workers([node(number, host, command, user) for number, host in enumerate(hosts)])


if __name__ == "__main__":
    sys.exit(main())
