"""`python3 -m determined.exec.gc_checkpoints`: delete checkpoints from storage and report the deletions.

The specification is one JSON object, in the environment variable DET_GC_SPEC or in the file given by --spec:
{"storage": {...}, "checkpoints": ["uuid", ...], "globs": ["**/*"], "delete_tensorboards": false,
"experiment_ids": [1], "dry_run": false}

Without `globs`, all files are deleted. With an empty list no file is deleted, and the stored files are reported.
"""

import argparse
import json
import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Mapping, Optional, Tuple

from determined._paths import on_host
from determined._task_session import task_session
from determined.common import storage
from determined.common.http import Session

logger = logging.getLogger("determined.gc")

EVERYTHING = ["**/*"]
PARALLEL = 4
REPORT_BATCH = 50


class CollectionFailed(RuntimeError):
    """Some checkpoints could not be deleted. All other deletions were done and reported."""


def collect(spec: Mapping[str, Any], session: Optional[Session]) -> None:
    """Delete the files that the specification names. It is safe to repeat."""
    manager = storage.from_config(spec["storage"], in_task=True)
    globs = EVERYTHING if spec.get("globs") is None else list(spec["globs"])
    ids = list(spec.get("checkpoints") or [])
    if spec.get("dry_run"):
        for storage_id in ids:
            logger.info(
                "would delete %s from checkpoint %s", ", ".join(globs) or "nothing", storage_id
            )
        return
    failed = []
    for start in range(0, len(ids), REPORT_BATCH):
        failed += _delete_batch(manager, ids[start : start + REPORT_BATCH], globs, session)
    problems = [f"checkpoint {i}: {e}" for i, e in failed]
    if spec.get("delete_tensorboards"):
        problems += _delete_tensorboards(manager, spec)
    if problems:
        raise CollectionFailed("; ".join(problems))


def _delete_batch(
    manager: storage.StorageManager, ids: List[str], globs: List[str], session: Optional[Session]
) -> List[Tuple[str, Exception]]:
    def delete(storage_id: str) -> Any:
        try:
            _require_mounted(manager, storage_id)
            return storage_id, manager.delete(storage_id, globs) if globs else _list_stored_files(
                manager, storage_id
            )
        except (
            Exception
        ) as e:  # any SDK's error: continue with the other checkpoints, then fail the task
            return storage_id, e

    with ThreadPoolExecutor(PARALLEL) as pool:
        outcomes = list(pool.map(delete, ids))
    deleted = [(i, remaining) for i, remaining in outcomes if not isinstance(remaining, Exception)]
    if deleted and session is not None:
        session.patch("/api/v1/checkpoints", {"checkpoints": [_patch(*d) for d in deleted]})
    for storage_id, remaining in deleted:
        logger.info("checkpoint %s: %d files remain", storage_id, len(remaining))
    return [(i, remaining) for i, remaining in outcomes if isinstance(remaining, Exception)]


def _require_mounted(manager: storage.StorageManager, storage_id: str) -> None:
    """Raise FileNotFoundError if a directory is not mounted here, because its files must not count as deleted."""
    path = manager.direct_path(storage_id)
    if path is not None and not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(f"{os.path.dirname(path)} is not there: is the storage mounted?")


def _list_stored_files(manager: storage.StorageManager, storage_id: str) -> Dict[str, int]:
    try:
        return manager.list(storage_id)
    except FileNotFoundError:
        return {}


def _patch(storage_id: str, remaining: Mapping[str, int]) -> Dict[str, Any]:
    resources = {path: str(size) for path, size in remaining.items()}
    return {"uuid": storage_id, "resources": {"resources": resources}}


def _delete_tensorboards(manager: storage.StorageManager, spec: Mapping[str, Any]) -> List[str]:
    """Delete the TensorBoard files of each experiment; return a sentence for each failure."""
    cluster_id = spec.get("cluster_id") or os.environ.get("DET_CLUSTER_ID", "")
    problems = []
    # Older control planes name one experiment.
    for experiment_id in spec.get("experiment_ids") or [spec["experiment_id"]]:
        try:
            manager.delete(f"{cluster_id}/tensorboard/experiment/{experiment_id}")
        except Exception as e:  # any SDK's error; the other experiments go on, the task fails
            problems.append(f"TensorBoard files of experiment {experiment_id}: {e}")
        else:
            logger.info("deleted the TensorBoard files of experiment %s", experiment_id)
    return problems


def _read_spec(path: Optional[str]) -> Dict[str, Any]:
    raw = os.environ.get("DET_GC_SPEC", "")
    if path is not None:
        with open(on_host(path)) as f:
            raw = f.read()
    if not raw:
        raise SystemExit("nothing to collect: set DET_GC_SPEC or give --spec FILE")
    spec: Dict[str, Any] = json.loads(raw)
    return spec


def main(argv: Optional[List[str]] = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    parser = argparse.ArgumentParser(prog="python3 -m determined.exec.gc_checkpoints")
    parser.add_argument("--spec", metavar="FILE")
    spec = _read_spec(parser.parse_args(argv).spec)
    try:
        collect(spec, task_session() if os.environ.get("DET_MASTER") else None)
    except CollectionFailed as e:
        logger.error("%s", e)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
