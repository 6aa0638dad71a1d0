"""Build the files of a release into a folder: `make dist`.

    python -m scripts.release.build OUT [--without image] [--base IMAGE]

The sources are the files of the commit, so that the same commit always gives the same bytes. Each file gets an SBOM and
a provenance statement, and SHA256SUMS lists them all."""

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.release import bom, image
from scripts.release.provenance import Source, statement

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("lambda", "image")


class ReleaseFailed(Exception):
    """The release cannot be built. The message names the cause and the fix."""


@dataclass(frozen=True)
class Artefact:
    path: Path
    bom: dict[str, Any]


def build(out: Path, *, root: Path, without: frozenset[str], options: image.Options) -> list[Path]:
    """Build all files into `out`, which must be empty or missing, and return them."""
    if out.exists() and any(out.iterdir()):
        raise ReleaseFailed(f"{out} is not empty: remove it, or name another folder")
    source = read_source(root)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        checkout, unpacked = Path(folder) / "checkout", Path(folder) / "unpacked"
        export(root, checkout)
        artefacts = build_packages(checkout, out, source)
        with zipfile.ZipFile(artefacts[0].path) as wheel:
            wheel.extractall(unpacked)
        version = bom.read_version(unpacked)
        libraries = bom.Libraries.of_lock(checkout / "requirements.lock")
        artefacts.append(build_agent_wheel(unpacked, out, artefacts[0].bom))
        if "lambda" not in without:
            artefacts.append(build_lambda(unpacked, out, version, libraries))
        if "image" not in without:
            artefacts.append(build_image(checkout, out, version, source, libraries, options))
    for artefact in artefacts:
        describe(artefact, source)
    return write_sums(out)


def read_source(root: Path) -> Source:
    """Return the commit that is checked out. Raises ReleaseFailed if files differ from it."""
    changes = git(root, "status", "--porcelain", "--untracked-files=no").decode().splitlines()
    if changes:
        raise ReleaseFailed(
            f"{len(changes)} files differ from the commit, such as {changes[0][3:]}: commit the changes or stash them"
        )
    commit, seconds = git(root, "log", "-1", "--format=%H %ct").decode().split()
    return Source.of_environment(commit, int(seconds), os.environ)


def export(root: Path, checkout: Path) -> None:
    """Write the files of the commit, without any that git ignores or does not know."""
    with tarfile.open(fileobj=io.BytesIO(git(root, "archive", "HEAD"))) as archive:
        archive.extractall(checkout, filter="fully_trusted")


def git(root: Path, *arguments: str) -> bytes:
    result = subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=False)
    if result.returncode != 0:
        raise ReleaseFailed(f"git {arguments[0]} failed: {result.stderr.decode().strip()}")
    return result.stdout


def run(*arguments: str, cwd: Path, **variables: str) -> None:
    environment = {**os.environ, **variables}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise ReleaseFailed(f"python {' '.join(arguments)} failed:\n{result.stdout}{result.stderr}")


def build_packages(checkout: Path, out: Path, source: Source) -> list[Artefact]:
    """Build the wheel and the source distribution with the Hatchling of the lock file."""
    command = ("-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(out.resolve()))
    run(*command, cwd=checkout, SOURCE_DATE_EPOCH=str(source.seconds))
    libraries = bom.Libraries.of_lock(checkout / "requirements.lock")
    needed = bom.required_by((checkout / "pyproject.toml").read_text(), libraries)
    paths = [*out.glob("*.whl"), *out.glob("*.tar.gz")]
    return [Artefact(path, bom.describe(path, needed, contained=False)) for path in paths]


def build_agent_wheel(unpacked: Path, out: Path, described: dict[str, Any]) -> Artefact:
    """Pack the wheel that a cluster serves to its machines; it lacks the Terraform stacks.

    Its build tag distinguishes it from the complete wheel, and `dist/*.whl` is only the latter."""
    script = "import sys; from det_controlplane.adapters import own_wheel; wheel = own_wheel.find()"
    target = out.resolve() / "agent/content"
    target.parent.mkdir()
    run(
        "-c", f"{script}; open({str(target)!r}, 'wb').write(wheel.content())",
        cwd=unpacked, PYTHONPATH=str(unpacked),
    )  # fmt: skip
    name = next(out.glob("*.whl")).name.replace("-py3-", "-1agent-py3-")
    path = target.rename(target.with_name(name))
    return Artefact(path, bom.renamed(described, path))


def build_lambda(unpacked: Path, out: Path, version: str, libraries: bom.Libraries) -> Artefact:
    """Build the zip of the functions, for the Python and the processor of this command."""
    with tempfile.TemporaryDirectory() as folder:
        run(
            "-m", "det_controlplane.entry.aws.packaging", folder,
            cwd=unpacked, PYTHONPATH=str(unpacked), PYTHONDONTWRITEBYTECODE="1",
        )  # fmt: skip
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        path = out / f"determined-serverless-{version}-lambda-{python}-x86_64.zip"
        shutil.copyfile(Path(folder) / "deployment.zip", path)
    with zipfile.ZipFile(path) as archive:
        contained = libraries.check(bom.installed_in(archive.namelist()))
    return Artefact(path, bom.describe(path, contained, contained=True))


def build_image(
    checkout: Path,
    out: Path,
    version: str,
    source: Source,
    libraries: bom.Libraries,
    options: image.Options,
) -> Artefact:
    """Build the image of the control plane with the wheel of this release."""
    path = out / f"determined-serverless-{version}-image.tar"
    names = image.build(
        image.Context(
            (checkout / "controlplane/cloudrun/Dockerfile").read_bytes(),
            (checkout / "requirements.lock").read_bytes(),
            next(out.glob("*.whl")),
        ),
        path,
        f"determined-serverless:{version}",
        source.seconds,
        options,
    )
    contained = libraries.check(bom.installed_in(names))
    return Artefact(path, bom.describe(path, contained, contained=True))


def describe(artefact: Artefact, source: Source) -> None:
    """Write the SBOM and the provenance statement beside an artefact."""
    path = artefact.path
    for suffix, content in (
        ("cdx.json", artefact.bom),
        ("intoto.json", statement(path.name, digest(path), source)),
    ):
        text = json.dumps(content, indent=2, sort_keys=True) + "\n"
        path.with_name(f"{path.name}.{suffix}").write_text(text)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_sums(out: Path) -> list[Path]:
    files = sorted(p for p in out.rglob("*") if p.is_file())
    lines = [f"{digest(path)}  {path.relative_to(out).as_posix()}\n" for path in files]
    (out / "SHA256SUMS").write_text("".join(lines))
    return [*files, out / "SHA256SUMS"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the files of a release.")
    parser.add_argument("out", type=Path, help="an empty or new folder")
    parser.add_argument(
        "--without", action="append", choices=KINDS, default=[], help="do not build this part"
    )
    parser.add_argument("--base", default="", help="base image, instead of the Dockerfile's")
    args = parser.parse_args()
    try:
        files = build(
            args.out,
            root=ROOT,
            without=frozenset(args.without),
            options=image.Options(base=args.base),
        )
    except (ReleaseFailed, bom.WrongVersion, image.ImageFailed) as e:
        print(e, file=sys.stderr)
        return 1
    for path in files:
        print(f"{path.stat().st_size:>12,}  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
