"""Download the files of a checkpoint, from its storage or through the cluster if the storage is not accessible."""

import gzip
import json
import os
import tarfile
import zlib
from typing import IO, Any, Callable, Dict, Mapping, Optional

from determined.common.failures import (
    CheckpointStateException,
    Failure,
    MultipleDownloadsFailed,
    NoDirectStorageAccess,
    ProxiedDownloadFailed,
)
from determined.common.http import APIError, MasterUnreachableError, Session

DIRECT, MASTER, AUTO = "direct", "master", "auto"
_CHUNK = 1 << 20
Watch = Callable[[int], None]


def _ignore_progress(count: int) -> None:
    pass


def download(
    session: Session,
    checkpoint: Mapping[str, Any],
    target: str,
    mode: str = AUTO,
    watch: Watch = _ignore_progress,
) -> None:
    """Download all files to `target` and write metadata.json beside them."""
    uuid = str(checkpoint["uuid"])
    _refuse_gone(uuid, str(checkpoint.get("state")))
    _make_directory(target)
    if mode == MASTER:
        _through_master(session, uuid, target, watch)
    else:
        reason = _directly(checkpoint, target, watch)
        if reason is not None and mode == DIRECT:
            raise NoDirectStorageAccess(
                f"checkpoint {uuid} cannot be read from its storage: {reason}",
                "use --mode master to fetch it through the cluster",
            )
        if reason is not None:
            _after_refusal(session, uuid, target, watch, reason)
    _refuse_incomplete(uuid, checkpoint.get("resources") or {}, target)
    write_metadata(os.path.join(target, "metadata.json"), checkpoint.get("metadata") or {})


def _make_directory(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as e:
        raise Failure(
            f"cannot make the directory '{path}': {e.strerror}", "choose a directory to write to"
        ) from e


def write_metadata(path: str, metadata: Mapping[str, Any]) -> None:
    with open(path, "w", encoding="utf-8") as f:
        json.dump(metadata, f, indent=2)


def _refuse_gone(uuid: str, state: str) -> None:
    if state not in ("STATE_COMPLETED", "STATE_PARTIALLY_DELETED", "None"):
        name = state.replace("STATE_", "")
        raise CheckpointStateException(
            f"checkpoint {uuid} is {name}: it has no files to download",
            "list the checkpoints of its experiment to find another",
        )


def _directly(checkpoint: Mapping[str, Any], target: str, watch: Watch) -> Optional[str]:
    """Download from the storage. Return None on success, otherwise the reason why it failed."""
    training = checkpoint.get("training") or {}
    config = (training.get("experimentConfig") or {}).get("checkpoint_storage")
    if not config:
        return "the storage of its experiment is not known"
    try:
        from determined.common import storage

        storage.from_config(config).download(str(checkpoint["uuid"]), target)
    except Exception as e:
        # Libraries of clouds raise many types for missing rights, keys or packages. The message shows the reason.
        return f"{type(e).__name__}: {e}"
    watch(sum(int(size) for size in (checkpoint.get("resources") or {}).values()))
    return None


def _after_refusal(session: Session, uuid: str, target: str, watch: Watch, reason: str) -> None:
    try:
        _through_master(session, uuid, target, watch)
    except (APIError, MasterUnreachableError, Failure) as e:
        raise MultipleDownloadsFailed(
            f"checkpoint {uuid} can be had neither from its storage ({reason})"
            f" nor through the cluster ({e})"
        ) from e


def _through_master(session: Session, uuid: str, target: str, watch: Watch) -> None:
    accept = {"Accept": "application/gzip"}
    with session.response("GET", f"/checkpoints/{uuid}", headers=accept) as response:
        try:
            with tarfile.open(fileobj=response, mode="r|gz") as archive:
                extract(archive, target, watch)
        except (tarfile.ReadError, EOFError, zlib.error, gzip.BadGzipFile, ConnectionError) as e:
            raise ProxiedDownloadFailed(
                f"the download of checkpoint {uuid} broke off: {e}", "run the command again"
            ) from e


def extract(archive: tarfile.TarFile, target: str, watch: Watch = _ignore_progress) -> None:
    """Unpack files and directories. Reject paths outside of `target`. A file appears only when it is complete."""
    root = os.path.realpath(target)
    for member in archive:
        path = _inside(root, member.name)
        if member.isdir():
            os.makedirs(path, exist_ok=True)
            continue
        content = archive.extractfile(member) if member.isreg() else None
        if content is None:
            raise Failure(f"the archive holds '{member.name}', neither a file nor a directory")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(content, path, watch)


def _inside(root: str, name: str) -> str:
    path = os.path.realpath(os.path.join(root, name))
    if path != root and not path.startswith(root + os.sep):
        raise Failure(f"the archive holds '{name}', which lies outside of the target directory")
    return path


def _write(content: IO[bytes], path: str, watch: Watch) -> None:
    part = path + ".part"
    try:
        with open(part, "wb") as f:
            while True:
                chunk = content.read(_CHUNK)
                if not chunk:
                    break
                f.write(chunk)
                watch(len(chunk))
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def _refuse_incomplete(uuid: str, resources: Mapping[str, Any], target: str) -> None:
    missing: Dict[str, str] = {}
    for name, size in resources.items():
        path = os.path.join(target, name)
        if name.endswith("/"):
            os.makedirs(path, exist_ok=True)
        elif not os.path.isfile(path):
            missing[name] = "missing"
        elif os.path.getsize(path) != int(size) and name != "metadata.json":
            missing[name] = f"{os.path.getsize(path)} of {size} bytes"
    if missing:
        shown = ", ".join(f"{name} ({what})" for name, what in list(missing.items())[:5])
        raise Failure(
            f"checkpoint {uuid} came without {len(missing)} of its files: {shown}",
            "run the command again, or ask an administrator about its storage",
        )


def default_directory(uuid: str) -> str:
    return os.path.join("checkpoints", uuid)
