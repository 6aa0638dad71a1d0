"""Reports of checkpoints to the cluster. Outside of a cluster, the stored files are the only record."""

import json
import logging
import os
from typing import Any, Dict, Mapping, Optional

from determined.common.http import Session
from determined.common.storage import StorageManager
from determined.core import _seen
from determined.core._json import encode
from determined.core._outbox import Outbox, deliver
from determined.core._train import utc_now

logger = logging.getLogger("determined.core")


class CheckpointRegistry:
    """Checkpoints of a script outside of a cluster, which are not reported."""

    def check_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Raise if the metadata cannot be reported. This is called before any file is stored."""
        encode(dict(metadata))

    def register(self, storage_id: str, metadata: Mapping[str, Any]) -> None:
        """Register an upload before its first file."""

    def report_completed(
        self, storage_id: str, resources: Mapping[str, int], metadata: Mapping[str, Any]
    ) -> None:
        logger.info("saved checkpoint %s (%d files)", storage_id, len(resources))
        _seen.note("checkpoint")

    def unregister(self, storage_id: str) -> None:
        """Remove the entry of an upload that stored no file."""

    def report_deleted(self, storage_id: str) -> None:
        logger.info("deleted checkpoint %s", storage_id)

    def close(self) -> None:
        """Close the connection of this thread, if it has one."""

    def metadata_of(self, storage_id: str, storage: StorageManager) -> Dict[str, Any]:
        with storage.restore_path(storage_id, lambda path: path == "metadata.json") as folder:
            path = os.path.join(folder, "metadata.json")
            with open(path) as f:
                metadata: Dict[str, Any] = json.load(f)
        return metadata


class ClusterCheckpointRegistry(CheckpointRegistry):
    """Reports checkpoints to the cluster, after all earlier metrics."""

    def __init__(
        self,
        session: Session,
        outbox: Optional[Outbox],
        task_id: str,
        allocation_id: str,
        storage_backend_id: Optional[int] = None,
        needs_steps: bool = True,
    ) -> None:
        self._session = session
        self._outbox = outbox
        self._task_id = task_id
        self._allocation_id = allocation_id
        self._storage_backend_id = storage_backend_id
        self._needs_steps = needs_steps

    def check_metadata(self, metadata: Mapping[str, Any]) -> None:
        super().check_metadata(metadata)
        if self._needs_steps and not isinstance(metadata.get("steps_completed"), int):
            raise ValueError(
                "checkpoint metadata must hold 'steps_completed' (an integer): it orders a "
                "trial's checkpoints and matches them with validations"
            )

    def register(self, storage_id: str, metadata: Mapping[str, Any]) -> None:
        """Register an upload, so that the cluster can delete its files if the upload is interrupted.

        Programs outside of the cluster do not register, because the cluster cannot delete their files.
        """
        if not self._allocation_id:
            return
        steps = metadata.get("steps_completed")
        partial = {} if steps is None else {"steps_completed": steps}
        self._report(storage_id, "STATE_ACTIVE", {}, partial)

    def report_completed(
        self, storage_id: str, resources: Mapping[str, int], metadata: Mapping[str, Any]
    ) -> None:
        if self._outbox is not None:
            self._outbox.flush()
        self._report(storage_id, "STATE_COMPLETED", resources, metadata)
        logger.info("reported checkpoint %s (%d files)", storage_id, len(resources))

    def _report(
        self,
        storage_id: str,
        state: str,
        resources: Mapping[str, int],
        metadata: Mapping[str, Any],
    ) -> None:
        report: Dict[str, Any] = {
            "uuid": storage_id,
            "taskId": self._task_id,
            "allocationId": self._allocation_id,
            "reportTime": utc_now(),
            "resources": {path: str(size) for path, size in resources.items()},
            "metadata": dict(metadata),
            "state": state,
            "training": {},
        }
        if self._storage_backend_id is not None:
            report["storageId"] = self._storage_backend_id
        deliver(self._session, "/api/v1/checkpoints", encode(report))

    def unregister(self, storage_id: str) -> None:
        if self._allocation_id:
            self.report_deleted(storage_id)

    def report_deleted(self, storage_id: str) -> None:
        patch = {"uuid": storage_id, "resources": {"resources": {}}}
        self._session.patch("/api/v1/checkpoints", {"checkpoints": [patch]})

    def close(self) -> None:
        self._session.close()

    def metadata_of(self, storage_id: str, storage: StorageManager) -> Dict[str, Any]:
        answer = self._session.get(f"/api/v1/checkpoints/{storage_id}")
        metadata: Dict[str, Any] = answer["checkpoint"].get("metadata") or {}
        return metadata
