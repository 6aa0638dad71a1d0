"""The way out of a machine: a user's network stack beside it, which needs no rule of the host."""

import os
import subprocess
from pathlib import Path

from fresh_machine.system import Failed

# Not the addresses that slirp4netns takes by itself: a rootless engine in the machine has those for its containers.
ADDRESSES = "10.0.77.0/24"
# slirp4netns answers questions for names at this address.
NAME_SERVER = "10.0.77.3"


class Network:
    def __init__(self, first_process: int, log: Path) -> None:
        until_closed, self._open = os.pipe()
        ready, tell_ready = os.pipe()
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [
                    "slirp4netns",
                    "--configure",
                    "--mtu=65520",
                    f"--cidr={ADDRESSES}",
                    "--disable-host-loopback",
                    f"--exit-fd={until_closed}",
                    f"--ready-fd={tell_ready}",
                    str(first_process),
                    "tap0",
                ],
                pass_fds=(until_closed, tell_ready),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        os.close(until_closed)
        os.close(tell_ready)
        is_ready = os.read(ready, 1) == b"1"
        os.close(ready)
        if not is_ready:
            self.close()
            raise Failed(f"slirp4netns made no network: {log.read_text().strip()}")

    def close(self) -> None:
        os.close(self._open)
        self._process.wait()
