"""`det deploy local support-bundle`: an archive without secrets for the analysis of a cluster's problems."""

import io
import json
import platform
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import yaml

from det_controlplane.core.secrets import redacted
from det_controlplane.entry.local.files import LocalFiles

LOG_BYTES = 5 * 1024**2  # of each log, its end
_DOCTOR_S = 60.0


def write(files: LocalFiles, folder: Path) -> Path:
    """Write the bundle into a folder and return its path."""
    name = f"support-bundle-{files.desired().cluster_name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.tar.gz"
    path.touch(mode=0o600)
    with tarfile.open(path, "w:gz") as archive:
        for member, content in _members(files):
            info = tarfile.TarInfo(f"{name}/{member}")
            info.size, info.mtime = len(content), int(time.time())
            archive.addfile(info, io.BytesIO(content))
    return path


def _members(files: LocalFiles) -> Iterator[tuple[str, bytes]]:
    yield "versions.json", _json(_versions())
    yield "cluster.json", _json(redacted(asdict(files.desired())))
    running = files.supervisor_pid() is not None
    yield "processes.json", _json({"running": running, **files.report()})
    if files.cluster_config.exists():
        yield "cluster.yaml", _config(files.cluster_config)
    yield "doctor.txt", _doctor(files.desired().url)
    for log in sorted(files.logs.glob("*.log*")):
        yield f"logs/{log.name}", _end_of(log)


def _versions() -> dict[str, Any]:
    packages = {d.metadata["Name"]: d.version for d in distributions()}
    return {
        "python": sys.version,
        "platform": platform.platform(),
        "packages": dict(sorted(packages.items())),
    }


def _config(path: Path) -> bytes:
    config = redacted(yaml.safe_load(path.read_text()) or {})
    return yaml.safe_dump(config, sort_keys=False).encode()


def _doctor(url: str) -> bytes:
    """Return the report of the agent's doctor about this machine."""
    command = [sys.executable, "-m", "det_agent.main", "doctor", "--master-url", url]
    try:
        process = subprocess.run(command, capture_output=True, timeout=_DOCTOR_S, check=False)
    except subprocess.TimeoutExpired:
        return f"det-agent doctor took more than {_DOCTOR_S:.0f} s\n".encode()
    return process.stdout + process.stderr


def _end_of(log: Path) -> bytes:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_BYTES))
        return file.read(LOG_BYTES)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, default=str) + "\n").encode()
