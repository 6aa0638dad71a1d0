"""Programs in a task's container: the entry script, and programs that run instead of user code."""

import os
import sys

_OLDEST_PYTHON = (3, 9)


def _refuse_old_python() -> None:
    """Exit if this Python cannot run the harness. This file itself must run in Python 3.6."""
    if sys.version_info[:2] >= _OLDEST_PYTHON:
        return
    image = os.environ.get("DET_IMAGE")
    reason = (
        "tasks need Python {}.{} or newer, and python3 of {} is Python {}.{}: choose another image "
        "(environment.image)".format(
            *_OLDEST_PYTHON, "image " + image if image else "this task", *sys.version_info[:2]
        )
    )
    try:
        path = os.path.join(os.environ.get("DET_RUN_DIR") or "/run/determined", "exit-reason")
        with open(path, "w") as f:
            f.write(reason)
    except OSError:
        pass  # the log has the reason
    sys.stderr.write(reason + "\n")
    sys.exit(80)


_refuse_old_python()
