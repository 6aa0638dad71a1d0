"""The image of the control plane, built from its own Dockerfile by a real engine and without a registry.

The base is the image of the tests with what Debian's Python needs to make environments; the wheels that it installs are
downloaded once by the machine's own client."""

import hashlib
import importlib.metadata
import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from det_cli.deployment import image
from det_controlplane.adapters import own_wheel
from docker.errors import BuildError, ImageNotFound
from packaging.requirements import Requirement

from tests.support import debian, skips
from tests.support.cache import cache_folder, only_one
from tests.support.docker_image import IMAGE, add, docker_image, package_files

BASE, CONTROL_PLANE = "det-test-venv:latest", "det-test-controlplane:latest"
ROOT = Path(__file__).resolve().parents[2]
WITHOUT_INDEX = "--no-index --find-links /dist"
_VENV = ("python3-venv", "python3-pip-whl", "python3-setuptools-whl")
_DOWNLOAD_S = 400


def control_image(client: Any) -> str:
    """Build the image that `det deploy gcp` has built; what did not change comes from the engine's cache."""
    base = base_image(client)
    with only_one("control-image"):
        files = {**_unpacked(image.context()), **locked_wheels()}
        options = {"BASE": base, "PIP_OPTIONS": WITHOUT_INDEX}
        _build(client, CONTROL_PLANE, files, options)
    return CONTROL_PLANE


def base_image(client: Any) -> str:
    """Build an image with Python that can make environments."""
    docker_image(client)
    with only_one("control-image"):
        return _base(client)


def _base(client: Any) -> str:
    installed = [name for name in (*_VENV, _of_version()) if _has(name)]
    if len(installed) < len(_VENV) + 1 and not _install():
        skips.skip("Debian's python3-venv is not here", "apt-get install python3-venv")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in package_files((*_VENV, _of_version())):
            add(tar, path, path)
    recipe = hashlib.sha256(buffer.getvalue()).hexdigest()[:12]
    try:
        parent = client.images.get(IMAGE).id
        if client.images.get(BASE).labels.get("made-of") == f"{parent}{recipe}":
            return BASE
    except ImageNotFound:
        pass
    dockerfile = f"FROM {IMAGE}\nADD venv.tar /\nLABEL made-of={parent}{recipe}\n"
    _build(client, BASE, {"Dockerfile": dockerfile.encode(), "venv.tar": buffer.getvalue()}, {})
    return BASE


def _of_version() -> str:
    """Return the package that has ensurepip for Debian's Python."""
    return f"python{_python()}-venv"


def _python() -> str:
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    result = subprocess.run(
        ["/usr/bin/python3", "-c", script], check=True, capture_output=True, text=True
    )
    return result.stdout.strip()


def _has(package: str) -> bool:
    result = subprocess.run(["dpkg-query", "-L", package], check=False, capture_output=True)
    return result.returncode == 0


def _install() -> bool:
    debian.install("python3-venv")
    return all(_has(name) for name in (*_VENV, _of_version()))


def locked_wheels() -> dict[str, bytes]:
    """Return the wheels that the distribution needs in the image, in the locked versions."""
    of_image = [{"python_version": _python(), "extra": extra} for extra in ("gcp", "telemetry")]
    required = map(Requirement, importlib.metadata.requires(own_wheel.DISTRIBUTION) or ())
    requirements = [
        f"{r.name}{r.specifier}"
        for r in required
        if not r.marker or any(map(r.marker.evaluate, of_image))
    ]
    lock = (ROOT / "requirements.lock").read_bytes()
    recipe = hashlib.sha256(lock + "".join(requirements).encode() + _python().encode()).hexdigest()[
        :12
    ]
    folder = cache_folder() / f"wheels-{recipe}"
    if not (folder / "complete").exists():
        folder.mkdir(exist_ok=True)
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), "--only-binary=:all:",
            "--python-version", _python(), "--constraint", str(ROOT / "requirements.lock"), *requirements,
        ]  # fmt: skip
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_DOWNLOAD_S, check=False
        )
        assert result.returncode == 0, result.stderr
        (folder / "complete").touch()
    return {f"dist/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.whl"))}


def _unpacked(context: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(context), mode="r:gz") as archive:
        members = ((m.name, archive.extractfile(m)) for m in archive.getmembers())
        return {name: file.read() for name, file in members if file is not None}


def _build(client: Any, tag: str, files: Mapping[str, bytes], options: Mapping[str, str]) -> None:
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    context.seek(0)
    try:
        client.images.build(
            fileobj=context, custom_context=True, tag=tag, buildargs=dict(options), rm=True
        )
    except BuildError as e:
        output = "".join(str(line.get("stream", "")) for line in e.build_log)
        raise AssertionError(f"the image cannot be built: {e}\n{output[-3000:]}") from e
