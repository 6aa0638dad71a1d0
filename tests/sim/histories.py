"""Print the histories of some worlds for a comparison of two Python processes: `histories.py URL SEED…`."""

import hashlib
import json
import sys
from collections.abc import Sequence

from tests.world.hosts import Hosts
from tests.world.world import World


def told(url: str, seeds: Sequence[int]) -> list[str]:
    """Return each step of each world, and a digest of all rows that it left."""
    hosts = Hosts(url)
    lines = []
    for seed in seeds:
        world = World(seed, hosts)
        world.run()
        rows = json.dumps(hosts.contents(), sort_keys=True)
        digest = hashlib.sha256(rows.encode()).hexdigest()
        lines += [f"world {seed}", *world.history, f"left {digest}"]
    hosts.close()
    return lines


if __name__ == "__main__":
    print("\n".join(told(sys.argv[1], [int(seed) for seed in sys.argv[2:]])))
