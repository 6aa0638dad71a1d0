"""The image of images/Dockerfile, built by a real engine on a local Debian base from debootstrap, without a registry.

It omits PyTorch, because PyTorch is large. The other packages come from the machine's package index and Debian mirror.
"""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from docker.errors import BuildError, ImageNotFound

from tests.support import debian, skips
from tests.support.cache import only_one

BASE, IMAGE = "det-test-debian:latest", "det-test-tasks:latest"
FOLDER = Path(__file__).resolve().parents[2] / "images"
_BASE_PACKAGES = "ca-certificates,python3,python3-pip"
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def task_image(client: Any) -> str:
    """Build the image; the engine's cache has the layers of an unchanged Dockerfile."""
    with only_one("task-image"):
        _make_base(client)
        options = {"BASE": BASE, "TORCH": "", "UV_OPTIONS": ""}
        try:
            client.images.build(
                path=str(FOLDER), tag=IMAGE, buildargs=options, rm=True, network_mode="host"
            )
        except BuildError as e:
            output = "".join(str(line.get("stream", "")) for line in e.build_log)
            raise AssertionError(f"the image cannot be built: {e}\n{output[-3000:]}") from e
    return IMAGE


def base_image(client: Any) -> str:
    """Make the Debian base, with Python and pip, and without JupyterLab, TensorBoard and OpenSSH."""
    with only_one("task-image"):
        _make_base(client)
    return BASE


def _make_base(client: Any) -> None:
    try:
        client.images.get(BASE)
        return
    except ImageNotFound:
        pass
    if shutil.which("debootstrap") is None:
        debian.install("debootstrap")
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        skips.skip("a Debian base needs root and debootstrap", "apt-get install debootstrap")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        command = [
            "debootstrap",
            "--variant=minbase",
            f"--include={_BASE_PACKAGES}",
            "bookworm",
            str(root),
        ]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        if result.returncode:
            skips.skip(
                f"debootstrap failed: {result.stdout[-300:]}",
                "a machine that reaches Debian's mirror",
            )
        # The package index may have a certificate that only this machine trusts.
        shutil.copy(_CERTIFICATES, root / _CERTIFICATES.relative_to("/"))
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.add(root, arcname=".")
    changes = [f"ENV PIP_CERT={_CERTIFICATES} SSL_CERT_FILE={_CERTIFICATES}"]
    repository, tag = BASE.split(":")
    client.api.import_image_from_data(buffer.getvalue(), repository, tag, changes=changes)
