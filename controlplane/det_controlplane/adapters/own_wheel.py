"""Build a wheel of the installed distribution, so that it does not have to be in a package index.

Equal sources give equal bytes, also from an editable installation.
"""

import base64
import hashlib
import importlib.metadata
import importlib.util
import io
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from det_controlplane.ports.wheel import OwnWheel

DISTRIBUTION = "determined-serverless"
PACKAGES = (
    "determined", "det_cli", "det_controlplane", "det_provisioner_aws", "det_provisioner_gcp", "det_agent",
)  # fmt: skip
_FILE = "determined_serverless-{version}-py3-none-any.whl"
_HOME = Path(__file__).resolve().parents[2]  # the parent of the control plane's package
_EPOCH = (2020, 1, 1, 0, 0, 0)
# Only an installation deploys stacks. Agents and pipelines do not need these files.
_EXCLUDED = frozenset({"__pycache__", "terraform"})
_METADATA_FILES = ("METADATA", "entry_points.txt")
# The path of the tested library versions within a wheel. A checkout has them in its root folder.
_LOCK = "det_cli/deployment/cloudrun/requirements.lock"


def find(beside: Path = _HOME) -> OwnWheel | None:
    """Return the wheel that is packed beside the control plane, or else a wheel of the installed distribution."""
    packed = sorted(beside.glob(_FILE.format(version="*")))
    if packed:
        return PackedWheel(packed[-1])
    try:
        return InstalledWheel(importlib.metadata.version(DISTRIBUTION))
    except importlib.metadata.PackageNotFoundError:
        return None


class PackedWheel:
    """A wheel file that is part of a deployment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def name(self) -> str:
        return self._path.name

    def content(self) -> bytes:
        return self._path.read_bytes()

    def constraints(self) -> bytes:
        with zipfile.ZipFile(self._path) as archive:
            return archive.read(_LOCK) if _LOCK in archive.namelist() else b""


class InstalledWheel:
    """A wheel of this installation. It is built at first use."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._build_lock = threading.Lock()
        self._content = b""

    def name(self) -> str:
        return _FILE.format(version=self._version)

    def content(self) -> bytes:
        with self._build_lock:
            if not self._content:
                self._content = _pack_wheel(self._files())
            return self._content

    def constraints(self) -> bytes:
        installed = importlib.util.find_spec("det_cli")
        folders = list(installed.submodule_search_locations or ()) if installed else []
        places = [
            *(Path(folder).parent / _LOCK for folder in folders),
            _HOME.parent / Path(_LOCK).name,
        ]
        return next((place.read_bytes() for place in places if place.is_file()), b"")

    def _files(self) -> dict[str, bytes]:
        info = f"determined_serverless-{self._version}.dist-info"
        files = {**dict(_sources()), _LOCK: self.constraints()}
        for name, content in _metadata().items():
            files[f"{info}/{name}"] = content
        files[f"{info}/WHEEL"] = (
            b"Wheel-Version: 1.0\nGenerator: determined-serverless\n"
            b"Root-Is-Purelib: true\nTag: py3-none-any\n"
        )
        record = "".join(_record(name, content) for name, content in files.items())
        files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
        return files


def _sources() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            folder = Path(place)
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                name = path.relative_to(folder.parent)
                if _EXCLUDED.isdisjoint(name.parts):
                    yield name.as_posix(), path.read_bytes()


def _metadata() -> dict[str, bytes]:
    """Return the metadata of the installation: requirements, commands, licences."""
    files = importlib.metadata.files(DISTRIBUTION) or ()
    contents: dict[str, bytes] = {}
    for file in sorted(files, key=str):
        folder, _, name = file.as_posix().partition("/")
        if folder.endswith(".dist-info") and (
            name in _METADATA_FILES or name.startswith("licenses/")
        ):
            contents[name] = Path(str(file.locate())).read_bytes()
    return contents


def _record(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def _pack_wheel(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return packed.getvalue()
