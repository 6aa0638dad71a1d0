"""Directories in memory for the replicas of trials. They outlive containers and restarts of the agent.

The control plane names the directories that no run will read any more.
"""

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from det_controlplane.core.agent_protocol import ContainerSpec, Mount, TaskUser

from det_agent.environment import RUN_DIR
from det_agent.process_paths import may_switch_user

MEMORY = Path("/dev/shm")
PLACE = f"{RUN_DIR}/replicas"
VARIABLE = "DET_REPLICA_DIR"

_log = logging.getLogger(__name__)
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")


class Replicas:
    """The directories of this agent's trials. `owner` distinguishes agents on one machine."""

    def __init__(self, owner: str, memory: Path = MEMORY) -> None:
        self._root = memory / f"determined-{owner}"

    def provide(self, spec: ContainerSpec) -> ContainerSpec:
        """Return the specification with a mounted directory, or unchanged if it needs none or there is no memory."""
        if not spec.replica_bytes or not _SAFE_NAME.fullmatch(spec.task_id):
            return spec
        folder = self._root / spec.task_id
        try:
            self._root.mkdir(mode=0o711, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            _hand_over(folder, spec.user)
        except OSError as e:
            _log.warning("task %s gets no memory for replicas: %s", spec.task_id, e)
            return spec
        env = {**spec.env, VARIABLE: PLACE}
        return replace(spec, mounts=(*spec.mounts, Mount(str(folder), PLACE)), env=env)

    def tasks(self) -> tuple[str, ...]:
        """Return the tasks with a directory, also of earlier processes of this agent."""
        with contextlib.suppress(OSError):
            return tuple(sorted(os.listdir(self._root)))
        return ()

    def drop(self, task_ids: Collection[str], running: Collection[str] = ()) -> None:
        """Delete the directories of tasks without a container in `running`."""
        for task_id in set(task_ids) - set(running):
            if task_id in self.tasks():
                _log.info("deleting the replicas of task %s", task_id)
                shutil.rmtree(self._root / task_id, ignore_errors=True)
        if not self.tasks():
            with contextlib.suppress(OSError):
                self._root.rmdir()


def _hand_over(folder: Path, user: TaskUser) -> None:
    if may_switch_user(user):
        os.chown(folder, user.uid, user.gid)
