"""Notes of what code does off-cluster, for `det experiment create --local --test-mode`."""

import os

# A file, which that command names.
VARIABLE = "DET_LOCAL_TEST_SEEN"


def note(what: str) -> None:
    """Note that a metric group was reported, or `checkpoint`: that one was saved; tests alone ask for it."""
    path = os.environ.get(VARIABLE)
    if path:
        with open(path, "a") as f:
            f.write(f"{what}\n")
