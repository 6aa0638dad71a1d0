"""Check before training that this container can write to its checkpoint storage."""

import json
import os
import subprocess
import sys
from typing import Mapping, Optional

from determined.common import storage

PROBE_TIMEOUT_S = 300


class StorageProbe:
    """A check of the storage. File systems are checked directly, clouds in a separate process.

    The process keeps the cloud's SDK out of the entry script, and runs while the containers rendezvous.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        config = json.loads(env.get("DET_EXPERIMENT_CONFIG") or "{}")
        self._config = config.get("checkpoint_storage")
        self._process: Optional[subprocess.Popen[str]] = None
        if self._config and self._config.get("type") not in ("shared_fs", "directory"):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "determined.exec._probe"],
                env=dict(env),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def failure(self) -> Optional[str]:
        """Return the reason why saving would fail, or None."""
        if not self._config:
            return None
        if self._process is None:
            return _failure_of(self._config)
        try:
            output, _ = self._process.communicate(timeout=PROBE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return f"the storage did not answer within {PROBE_TIMEOUT_S} s"
        return None if self._process.returncode == 0 else output.strip()


def _failure_of(config: Mapping[str, object]) -> Optional[str]:
    try:
        storage.from_config(config, in_task=True).validate()
    except Exception as e:  # SDKs raise many types, and each is a reason to show
        return f"{type(e).__name__}: {e}"
    return None


def main() -> int:
    config = json.loads(os.environ.get("DET_EXPERIMENT_CONFIG") or "{}")
    failure = _failure_of(config["checkpoint_storage"])
    if failure is not None:
        print(failure)
    return 0 if failure is None else 1


if __name__ == "__main__":
    sys.exit(main())
