"""The network of a machine: a user-mode stack, which needs no rules on the host."""

import os
import subprocess
from pathlib import Path

from fresh_machine.system import Failed

# Different from slirp4netns's default addresses, which a rootless engine in the machine uses for its containers.
ADDRESSES = "10.0.77.0/24"
# The address of slirp4netns's name server.
NAME_SERVER = "10.0.77.3"


class Network:
    def __init__(self, first_process: int, log: Path) -> None:
        until_closed, self._open = os.pipe()
        ready, ready_write = os.pipe()
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [
                    "slirp4netns",
                    "--configure",
                    "--mtu=65520",
                    f"--cidr={ADDRESSES}",
                    "--disable-host-loopback",
                    f"--exit-fd={until_closed}",
                    f"--ready-fd={ready_write}",
                    str(first_process),
                    "tap0",
                ],
                pass_fds=(until_closed, ready_write),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        os.close(until_closed)
        os.close(ready_write)
        is_ready = os.read(ready, 1) == b"1"
        os.close(ready)
        if not is_ready:
            self.close()
            raise Failed(f"slirp4netns made no network: {log.read_text().strip()}")

    def close(self) -> None:
        os.close(self._open)
        self._process.wait()
