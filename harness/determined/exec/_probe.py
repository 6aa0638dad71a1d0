"""Check that this container can write to its checkpoint storage, before training and not after it."""

import json
import os
import subprocess
import sys
from typing import Mapping, Optional

from determined.common import storage

PROBE_TIMEOUT_S = 300


class StorageProbe:
    """Probes the storage: a file system at once, a cloud in a process that loads its SDK and ends again.

    So the entry stays small, and the probe runs while the containers meet.
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
        """Return why saving would fail; None if it works."""
        if not self._config:
            return None
        if self._process is None:
            return _failure_of(self._config)
        try:
            told, _ = self._process.communicate(timeout=PROBE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return f"the storage did not answer within {PROBE_TIMEOUT_S} s"
        return None if self._process.returncode == 0 else told.strip()


def _failure_of(config: Mapping[str, object]) -> Optional[str]:
    try:
        storage.from_config(config, in_task=True).validate()
    except Exception as e:  # whatever a storage's SDK raises is the reason we show
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
