"""A record of calls outside of a cluster, which `det experiment create --local --test-mode` evaluates."""

import os

# The path of a file. The command sets this variable.
VARIABLE = "DET_LOCAL_TEST_SEEN"


def note(event: str) -> None:
    """Record a metric group that was reported, or "checkpoint". Without the variable, do not record it."""
    path = os.environ.get(VARIABLE)
    if path:
        with open(path, "a") as f:
            f.write(f"{event}\n")
