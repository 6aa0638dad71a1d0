"""The console of a machine of the box shows why its start failed, before its power goes."""

import threading
from pathlib import Path

import pytest
from det_controlplane.core.provision.boot import Boot, last_words, user_data

from tests.support.cloudbox.machine import Image, power_on
from tests.support.cloudbox.network import network

pytestmark = pytest.mark.usefixtures("machines_may_boot")
NO_DRIVER = "printf '#!/bin/sh\\nexit 124\\n' > {scratch}/bin/timeout"
# The script's output arrives late, as on a busy machine.
SLOW = "printf '#!/bin/sh\\nsleep 0.5; exec /usr/bin/tee \"$@\"\\n' > {scratch}/bin/tee"


def test_console_shows_why_a_machine_failed_to_start(tmp_path: Path) -> None:
    boot = Boot("a-cluster", "http://10.77.0.1:1", "pool", "aws", has_gpus=True)
    off = threading.Event()
    with network() as wires:
        machine = power_on(
            wires, tmp_path, "i-1", "one", user_data(boot), Image(f"{NO_DRIVER}; {SLOW}"),
            lambda _: None, lambda _: off.set(), {},
        )  # fmt: skip
        try:
            assert off.wait(60)
        finally:
            machine.close()
    assert "the image needs NVIDIA's driver" in last_words(machine.printed())
    assert machine.console[-1] == "power off"
