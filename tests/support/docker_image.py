"""The image for containers of the tests: bash, Python, NumPy and OpenSSH from this machine's packages.

No registry is used. The packages are Debian's or Ubuntu's. NumPy comes from the environment of the tests if its
Python has the version of the image's.
"""

import hashlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from tests.support import skips, ssh
from tests.support.cache import only_one
from tests.support.docker import docker_engine

IMAGE = "det-test:latest"
RECIPE = "5"
_WANTED = (
    "base-files", "bash", "dash", "coreutils", "findutils", "grep", "gzip", "hostname", "procps", "python3",
    "python3-minimal", "sed", "tar", "util-linux", "libpython3-stdlib", "libstdc++6", "netbase", "ca-certificates",
    *ssh.PACKAGES,
)  # fmt: skip
_UNWANTED = re.compile(r"(perl|debconf|dpkg|openssl|media-types|tzdata|init-system|install-info)")
_SKIPPED_FILES = re.compile(r"^/(\.|usr/share/(doc|man|locale|lintian|info|bash-completion)(/|$))")
_EXTRA_FILES = (
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/usr/bin/sh",
)
_EMPTY_FOLDERS = ("tmp", "proc", "sys", "dev", "run", "root", "home", "var", "var/tmp", "opt")
_MERGED = ("bin", "sbin", "lib", "lib64")


def docker_image(client: Any) -> str:
    """Build the image unless this engine has it."""
    ssh.install_ssh()
    with only_one("docker-image"):
        try:
            image = client.images.get(IMAGE)
            if image.labels.get("recipe") == _recipe():
                return IMAGE
        except ImageNotFound:
            pass
        _build(client)
    return IMAGE


def _build(client: Any) -> None:
    if not os.path.exists("/usr/bin/dpkg-query"):
        skips.skip(
            "the image of tests is made of Debian packages", "a machine with Debian or Ubuntu"
        )
    if not os.path.exists("/usr/bin/python3"):
        subprocess.run(["apt-get", "install", "-y", "python3"], check=True, capture_output=True)
    with tempfile.NamedTemporaryFile(suffix=".tar") as rootfs:
        with tarfile.open(fileobj=rootfs, mode="w") as tar:
            _add_skeleton(tar)
            for path in sorted({*package_files(_closure()), *_extra_files()}):
                add(tar, path, path)
            _add_numpy(tar)
        rootfs.flush()
        changes = [
            "ENV PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8",
            f"LABEL recipe={_recipe()}",
        ]
        repository, tag = IMAGE.split(":")
        client.api.import_image_from_file(rootfs.name, repository, tag, changes=changes)


def _recipe() -> str:
    made_of = f"{RECIPE}{sys.version_info[:2]}{ssh.has_ssh()}"
    return hashlib.sha256(made_of.encode()).hexdigest()[:12]


def _add_skeleton(tar: tarfile.TarFile) -> None:
    for name in ("usr", *(f"usr/{n}" for n in _MERGED), *_EMPTY_FOLDERS, "etc"):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
        tar.addfile(entry)
    for name in _MERGED:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
        tar.addfile(link)


def package_files(packages: Iterable[str]) -> list[str]:
    """Return the files of packages of this machine, as they are in an image with a merged /usr."""
    listed_files = _query("-L", *packages).splitlines()
    files = {re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", path) for path in listed_files}
    # The links of a merged /usr are in the skeleton, and an archive must not name a path twice.
    files -= {f"/{name}" for name in _MERGED}
    return sorted(p for p in files if not _SKIPPED_FILES.match(p) and _is_file(p))


def _extra_files() -> list[str]:
    return [path for path in _EXTRA_FILES if _is_file(path)]


def _closure() -> list[str]:
    """Return the installed packages that the wanted ones depend on, themselves included."""
    depends: dict[str, set[str]] = {}
    for line in _query(
        "-W", "-f", "${Package}|${db:Status-Abbrev}|${Depends}, ${Pre-Depends}\n"
    ).splitlines():
        package, status, names = line.split("|", 2)
        if status.startswith("ii"):
            depends[package] = set(re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9.+-]+)", names))
    package_names: set[str] = set()
    remaining = [p for p in _WANTED if p in depends]
    while remaining:
        package = remaining.pop()
        if package not in package_names and not _UNWANTED.search(package):
            package_names.add(package)
            remaining += [name for name in depends[package] if name in depends]
    return sorted(package_names)


def _add_numpy(tar: tarfile.TarFile) -> None:
    spec = importlib.util.find_spec("numpy")
    versions = subprocess.run(
        ["/usr/bin/python3", "-c", "import sys; print(sys.version_info[:2])"],
        capture_output=True,
        text=True,
    )
    if spec is None or spec.origin is None or versions.stdout.strip() != str(sys.version_info[:2]):
        return
    site = Path(spec.origin).parents[1]
    for name in ("numpy", "numpy.libs"):
        for path in sorted((site / name).rglob("*")):
            if path.is_file() and "tests" not in path.parts and path.suffix != ".pyc":
                add(tar, str(path), f"/usr/lib/python3/dist-packages/{path.relative_to(site)}")


def add(tar: tarfile.TarFile, source: str, target: str) -> None:
    """Add a file of this machine to an image."""
    entry = tar.gettarinfo(source, target.lstrip("/"))
    if entry.isreg() or entry.islnk():
        # Hard links become files: their other name may not be in the image.
        entry.type = tarfile.REGTYPE
        content = Path(source).read_bytes()
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    else:
        tar.addfile(entry)


def _is_file(path: str) -> bool:
    return os.path.islink(path) or os.path.isfile(path)


def _query(*arguments: str) -> str:
    return subprocess.run(
        ["dpkg-query", *arguments], check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    print(docker_image(docker_engine()))
