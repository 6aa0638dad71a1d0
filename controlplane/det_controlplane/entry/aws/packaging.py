"""Builds the zip for AWS Lambda: packaged by Chalice, trimmed, with byte-code.

    python -m det_controlplane.entry.aws.packaging OUT_DIR [--google] [--telemetry] [--architecture arm64]

leaves `deployment.zip` in OUT_DIR; for pools on Google Cloud also `provision.zip`, with the client of Compute Engine.
Lambda's task directory is read-only, so code without byte-code would be compiled at every cold start: half of its
CPU time.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from det_controlplane.adapters import own_wheel

PACKAGE = Path(__file__).resolve().parents[2]
# Libraries of the API at run time. Lambda has boto3, and Chalice adds its own run time.
ROOTS = (
    "pydantic",
    "sqlalchemy",
    "alembic",
    "pg8000",
    "pyyaml",
    "google-re2",
    "cryptography",
    "bcrypt",
    "pyjwt",
)
# Further libraries for pools on Google Cloud: `provision` calls Compute Engine, and the API only verifies proofs of
# machines.
GOOGLE_ROOTS = ("google-cloud-compute",)
OF_PROVISION_ALONE = (
    "google/[!ao]*", "google/api*", "google_cloud_*", "google_api_core-*", "googleapis_common_protos-*",
    "grpc*", "opentelemetry*", "proto", "proto_plus-*", "protobuf-*",
)  # fmt: skip
# Further libraries for telemetry. They need some of the packages that otherwise only `provision` has.
TELEMETRY_ROOTS = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
OF_TELEMETRY = ("google/[!ao]*", "googleapis_common_protos-*", "opentelemetry*", "protobuf-*")
UNUSED_BY_TELEMETRY = ("google/cloud", "google/longrunning", "google/type")
# Further libraries of the relay, which is a server.
RELAY_ROOTS = ("uvicorn", "websockets", "h11", "httptools")
OF_RELAY_ALONE = ("uvicorn*", "websockets*", "h11*", "httptools*", "click*")
APP = '''"""The functions of the zip, where Chalice looks for them."""

from det_controlplane.entry.aws.chalice_app import app, keys, migrate, provision, tick

__all__ = ["app", "keys", "migrate", "provision", "tick"]
'''
UNUSED = (
    # Packages ask for their own version: METADATA stays.
    # OpenTelemetry finds its parts by entry_points.txt.
    "*.dist-info/[!Me]*",
    "det_controlplane/testing",
    "det_controlplane/webui/**/*.ts",
    "pydantic/v1",
    "pydantic/mypy.py",
    "sqlalchemy/testing",
    "alembic/testing",
)
# The same sources give the same bytes, so that a deployment without changes uploads nothing new.
EPOCH = (2020, 1, 1, 0, 0, 0)
# Processors that Lambda has, and how ELF files name theirs.
MACHINES = {"x86_64": 62, "arm64": 183}
# That Terraform sends, and AWS takes, in one request.
LARGEST_ZIP = 50 * 1024**2
# The glibc 2.x of the runtime on Amazon Linux 2, and of those since.
GLIBC = {"python3.11": 26}
NEWER_GLIBC = 34


class PackagingFailed(Exception):
    """The zip cannot be made; the message says why, as Chalice or the compiler said it."""


def build(
    out: Path,
    files: Mapping[str, bytes] | None = None,
    *,
    google: bool = False,
    relay: bool = False,
    telemetry: bool = False,
    architecture: str = "x86_64",
    runtime: str = "",
) -> Path:
    """Build the zip, with further files of a deployment: its cluster configuration and certificates.

    `keys.zip` beside it lacks these files, because they may hold secrets. With `google`, `provision.zip` is built too,
    so that pools can rent from Google Cloud. With `relay`, `relay.zip` is built for the machine that carries traffic to
    tasks. With `telemetry`, the zips contain OpenTelemetry. The libraries are built for `architecture`. `runtime` must
    be the version of this Python, because the zip contains its byte-code."""
    refuse_other_python(runtime)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        project, package, task = (Path(folder) / n for n in ("project", "packaged", "task"))
        more = (
            *(GOOGLE_ROOTS if google else ()),
            *(RELAY_ROOTS if relay else ()),
            *(TELEMETRY_ROOTS if telemetry else ()),
        )
        of_provision_alone: tuple[str, ...] = OF_PROVISION_ALONE
        if telemetry:
            of_provision_alone = (
                *(pattern for pattern in OF_PROVISION_ALONE if pattern not in OF_TELEMETRY),
                *UNUSED_BY_TELEMETRY,
            )
        write_project(project, more, google=google, architecture=architecture)
        run_chalice(project, package)
        with zipfile.ZipFile(package / "deployment.zip") as archive:
            archive.extractall(task)
        trim(task)
        refuse_other_machines(task, architecture)
        refuse_newer_glibc(task)
        add_bytecode(task)
        files = {**agents_wheel(), **(files or {})}
        for name, content in files.items():
            (task / name).write_bytes(content)
        if relay:
            write_zip(task, out / "relay.zip", without=of_provision_alone)
        if google:
            write_zip(task, out / "provision.zip", without=OF_RELAY_ALONE)
        trim(task, (*of_provision_alone, *OF_RELAY_ALONE))
        write_zip(task, out / "deployment.zip")
        for name in files:
            (task / name).unlink()
        write_zip(task, out / "keys.zip")
    return out / "deployment.zip"


def agents_wheel() -> dict[str, bytes]:
    """Return the wheel that rented machines install. The function cannot build it, because its zip does not contain the
    agent."""
    wheel = own_wheel.find()
    return {wheel.name(): wheel.content()} if wheel else {}


def own_runtime() -> str:
    """Return the runtime of Lambda that has the Python of this process."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def refuse_other_python(runtime: str) -> None:
    """Raise PackagingFailed for a runtime that cannot load the packages and byte-code of this Python."""
    here = own_runtime()
    if runtime not in ("", here):
        raise PackagingFailed(
            f"the functions are to run in {runtime}, and this command packages them for {here}, in which it runs:"
            f" leave `runtime` out, or install and run it with that Python"
        )


def refuse_other_machines(task: Path, architecture: str) -> None:
    """Raise PackagingFailed for a library that was compiled for another processor."""
    wrong = [
        f"{path.relative_to(task)} ({machine})"
        for path in sorted(task.rglob("*.so*"))
        if (machine := elf_machine(path)) not in (None, MACHINES[architecture])
    ]
    if wrong:
        raise PackagingFailed(
            f"some libraries are not for {architecture} (ELF machine {MACHINES[architecture]}): {', '.join(wrong[:5])}"
        )


def refuse_newer_glibc(task: Path, runtime: str = "") -> None:
    """Raise PackagingFailed for a library that Lambda cannot load, because it was compiled for a newer glibc."""
    newest = GLIBC.get(runtime or own_runtime(), NEWER_GLIBC)
    wrong = [
        f"{path.relative_to(task)} (2.{version})"
        for path in sorted(task.rglob("*.so*"))
        if (version := needed_glibc(path)) > newest
    ]
    if wrong:
        older = newest < NEWER_GLIBC
        remedy = "with Python 3.12 or 3.13" if older else "on a machine whose glibc is no newer"
        raise PackagingFailed(
            f"some libraries need a newer glibc than Lambda's 2.{newest}: {', '.join(wrong[:5])}: their packages have"
            f" no wheel for it and were compiled here; run the command {remedy}"
        )


def needed_glibc(path: Path) -> int:
    """Return the newest glibc 2.x that the symbols of an ELF file require, or 0 for other files."""
    content = path.read_bytes()
    versions = re.findall(rb"\0GLIBC_2\.(\d+)", content) if content.startswith(b"\x7fELF") else []
    return max(map(int, versions), default=0)


def elf_machine(path: Path) -> int | None:
    """Return the processor that an ELF file was compiled for; None for other files."""
    with path.open("rb") as file:
        head = file.read(20)
    return int.from_bytes(head[18:20], "little") if head.startswith(b"\x7fELF") else None


def write_project(
    project: Path,
    more: Sequence[str] = (),
    *,
    google: bool = False,
    architecture: str = "x86_64",
) -> None:
    if architecture not in MACHINES:
        raise PackagingFailed(
            f"Lambda has no processor {architecture}: give {' or '.join(MACHINES)}"
        )
    (project / ".chalice").mkdir(parents=True)
    stage = {"lambda_architecture": architecture}
    config = {"version": "2.0", "app_name": "determined-serverless", "stages": {"api": stage}}
    (project / ".chalice/config.json").write_text(json.dumps(config))
    (project / "app.py").write_text(APP)
    (project / "requirements.txt").write_text("\n".join(pinned((*ROOTS, *more))) + "\n")
    ignore = shutil.ignore_patterns("__pycache__", "testing")
    for package in (PACKAGE, *provisioners("aws"), *(provisioners("gcp") if google else ())):
        shutil.copytree(package, project / "vendor" / package.name, ignore=ignore)


def provisioners(cloud: str) -> list[Path]:
    """Return the package of a cloud's provisioner. The package for EC2 needs only libraries that Lambda has."""
    spec = importlib.util.find_spec(f"det_provisioner_{cloud}")
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []


def pinned(roots: tuple[str, ...]) -> list[str]:
    """Return the roots and all they require, in the versions that are installed here."""
    versions: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        name = _normal(waiting.pop())
        if name in versions:
            continue
        distribution = importlib.metadata.distribution(name)
        versions[name] = distribution.version
        for requirement in distribution.requires or []:
            if "extra ==" not in requirement and _applies(requirement):
                waiting.append(re.split(r"[ ;\[<>=!~(]", requirement, maxsplit=1)[0])
    return [f"{name}=={version}" for name, version in sorted(versions.items())]


def _applies(requirement: str) -> bool:
    """Return whether a requirement is installed here: markers exclude old interpreters and other platforms."""
    try:
        importlib.metadata.distribution(re.split(r"[ ;\[<>=!~(]", requirement, maxsplit=1)[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def run_chalice(project: Path, out: Path) -> None:
    command = [sys.executable, "-c", "from chalice.cli import main; main()"]
    command += ["package", "--pkg-format", "terraform", "--stage", "api", str(out)]
    # Chalice asks for a region, though packaging talks to none.
    environment = {**os.environ, "AWS_DEFAULT_REGION": "us-west-2"}
    process = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    if process.returncode != 0:
        raise PackagingFailed(f"chalice package failed:\n{process.stdout}{process.stderr}")


def trim(task: Path, unused: Sequence[str] = UNUSED) -> None:
    for pattern in unused:
        for path in task.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def add_bytecode(task: Path) -> None:
    """Compile the files of the zip with unchecked byte-code, because Lambda changes their times.

    A separate process compiles them. Byte-code depends on the names that the process has interned, so only a fresh
    process gives the same bytes for the same sources."""
    command = [sys.executable, "-s", "-S", "-m", "compileall", "-q", "-j", "1"]
    command += ["-s", str(task), "-p", "/var/task", "--invalidation-mode", "unchecked-hash"]
    process = subprocess.run(
        [*command, str(task)],
        cwd=task.parent,
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise PackagingFailed(
            f"some file in the zip does not compile:\n{process.stdout}{process.stderr}"
        )


def write_zip(task: Path, target: Path, without: Sequence[str] = ()) -> None:
    """Write the files of a folder except those that match the patterns. Raises PackagingFailed above Lambda's limit."""
    left_out = {path for pattern in without for path in task.glob(pattern)}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(p for p in task.rglob("*") if p.is_file()):
            if not left_out.isdisjoint((path, *path.parents)):
                continue
            entry = zipfile.ZipInfo(str(path.relative_to(task)), EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    size = target.stat().st_size
    if size > LARGEST_ZIP:
        raise PackagingFailed(
            f"{target.name} has {size / 1024**2:.1f} MiB, and Lambda takes {LARGEST_ZIP / 1024**2:.0f} in a request"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the zip for AWS Lambda.")
    parser.add_argument("out", type=Path, help="folder for deployment.zip")
    parser.add_argument("--google", action="store_true", help="for pools on Google Cloud too")
    parser.add_argument("--telemetry", action="store_true", help="with OpenTelemetry")
    parser.add_argument("--architecture", choices=MACHINES, default="x86_64", help="its processor")
    args = parser.parse_args()
    try:
        path = build(
            args.out,
            google=args.google,
            telemetry=args.telemetry,
            architecture=args.architecture,
        )
    except PackagingFailed as e:
        print(e, file=sys.stderr)
        return 1
    print(f"{path}: {path.stat().st_size / 1024**2:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
