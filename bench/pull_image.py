"""Make the image of the benchmark of pulls: Python, PyTorch, and filler instead of CUDA's libraries.

The files lie in one folder, as a registry serves them: `manifest.json` and a blob for each digest. The sizes follow
PyTorch's own image for CUDA: nearly all of it is one gzip layer.
"""

import hashlib
import io
import json
import os
import random
import subprocess
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.support import docker_image
from tests.support.docker_image import add

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
# The first import of torch needs these beside the standard library.
_PACKAGES = (
    "torch", "torchgen", "functorch", "numpy", "numpy.libs", "sympy", "mpmath", "networkx", "jinja2", "markupsafe",
    "filelock", "fsspec", "typing_extensions.py",
)  # fmt: skip
_SITE = "usr/lib/python3/dist-packages"
_BLOCK = 64 * 1024
_FILE_BYTES = 256 * 1024**2


def make(folder: Path, filler_gb: float, layers: int = 1) -> dict[str, Any]:
    """Make the image unless the folder has it. `layers` is the number of equal layers of the filler."""
    path = folder / "manifest.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        writers: list[Callable[[tarfile.TarFile], None]] = [_base]
        writers += [_Filler(filler_gb / layers, n, with_torch=n == 0) for n in range(layers)]
        writers.append(lambda tar: _add_bytes(tar, "etc/bench", b"the last layer\n"))
        stored = [_layer(folder, write) for write in writers]
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [diff_id for _, diff_id, _ in stored]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _blob(folder, json.dumps(config).encode(), CONFIG),
            "layers": [
                {"mediaType": LAYER, "size": size, "digest": digest} for digest, _, size in stored
            ],
        }
        path.write_text(json.dumps(manifest))
    manifest_json: dict[str, Any] = json.loads(path.read_text())
    return manifest_json


def _blob(folder: Path, content: bytes, media_type: str) -> dict[str, Any]:
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    (folder / digest).write_bytes(content)
    return {"mediaType": media_type, "size": len(content), "digest": digest}


class _Hashing(io.RawIOBase):
    """Write to a pipe and compute the digest of the written bytes."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self.digest = pipe, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self._pipe.write(data)
        return len(data)


def _layer(folder: Path, write: Callable[[tarfile.TarFile], None]) -> tuple[str, str, int]:
    """Store a layer. Return its digest, the digest of its tar, and its size."""
    partial = folder / "partial"
    with partial.open("wb") as target:
        process = subprocess.Popen(["igzip", "-2"], stdin=subprocess.PIPE, stdout=target)
        assert process.stdin is not None
        pipe = _Hashing(process.stdin)
        with tarfile.open(fileobj=pipe, mode="w|", bufsize=1024**2) as tar:
            write(tar)
        process.stdin.close()
        assert process.wait() == 0
    with partial.open("rb") as packed:
        digest = "sha256:" + _sha256(packed)
    partial.rename(folder / digest)
    return digest, "sha256:" + pipe.digest.hexdigest(), (folder / digest).stat().st_size


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := file.read(1024**2):
        digest.update(block)
    return digest.hexdigest()


def _base(tar: tarfile.TarFile) -> None:
    docker_image._add_skeleton(tar)
    for path in sorted(
        {*docker_image.package_files(docker_image._closure()), *docker_image._extra_files()}
    ):
        add(tar, path, path)


class _Filler:
    """PyTorch, and files that compress to about a half, like libraries of CUDA."""

    def __init__(self, gb: float, seed: int, *, with_torch: bool) -> None:
        self._bytes, self._seed, self._with_torch = int(gb * 1e9), seed, with_torch

    def __call__(self, tar: tarfile.TarFile) -> None:
        if self._with_torch:
            for path in sorted(p for name in _PACKAGES for p in _files_of(name)):
                add(tar, str(path[0]), f"/{_SITE}/{path[1]}")
        code = (_site() / "torch/lib/libtorch_cpu.so").read_bytes()
        choice, blocks = random.Random(self._seed), len(code) // _BLOCK
        for number in range(max(1, self._bytes // _FILE_BYTES)):
            content = bytearray()
            while len(content) < min(_FILE_BYTES, self._bytes):
                start = choice.randrange(blocks) * _BLOCK
                # A part is random, because code for GPUs compresses less than code for processors.
                content += choice.randbytes(_BLOCK // 4) + code[start : start + _BLOCK * 3 // 4]
            _add_bytes(tar, f"opt/cuda/lib/{self._seed}-{number}.so", bytes(content))


@cache
def _site() -> Path:
    """Return the packages of the environment that `scripts/ml-venv ml` makes."""
    home = Path(os.environ.get("DET_ML_VENVS", ".venvs"))
    sites = sorted(home.glob("ml/lib/python3*/site-packages"))
    if not sites:
        raise SystemExit("bench: torch is missing: run scripts/ml-venv ml")
    return sites[0]


def _files_of(name: str) -> list[tuple[Path, Path]]:
    root = _site() / name
    paths = [root] if root.is_file() else [p for p in root.rglob("*") if p.is_file()]
    return [
        (path, path.relative_to(_site()))
        for path in paths
        if path.suffix != ".a" and "test" not in path.parts
    ]


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
