"""hunt NAME WORLD FIRST LAST"""

import sys, time, os
import pytest

sys.path.insert(0, "/work/wt/lead")
from tests.sim.test_mutations import _ALL, _FITS_NO_MORE
from det_controlplane.testing import GangWorld, MachineWorld, TaskWorld, Violation, World

WORLDS = dict(gang=GangWorld, machine=MachineWorld, task=TaskWorld, world=World)


def test_hunt(hosts, monkeypatch):
    name, world, first, last = os.environ["HUNT"].split("|")
    m = next(m for m in _ALL if m.name == name)
    m.breaks(monkeypatch)
    start = time.time()
    for seed in range(int(first), int(last)):
        try:
            WORLDS[world](seed, hosts).run()
        except Violation as noticed:
            print(
                f"NOTICED {name} | {world} seed {seed} after {time.time() - start:.0f}s: {str(noticed).splitlines()[0][:200]}",
                flush=True,
            )
            with open("/tmp/mut/results", "a") as f:
                f.write(f"{name}|{world}|{seed}|{str(noticed)[:1500]}\n----\n")
            return
    with open("/tmp/mut/results", "a") as f:
        f.write(f"{name}|{world}|{first}-{last}|not noticed in {time.time() - start:.0f}s\n----\n")
