"""The image of the control plane: what it is built from, out of this installation, and its build by Cloud Build."""

import gzip
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from det_cli.deployment.google import Google
from det_cli.errors import CommandError

NAME = "controlplane"
DISTRIBUTION = "determined-serverless"
PACKAGES = (
    "determined", "det_cli", "det_controlplane", "det_provisioner_aws", "det_provisioner_gcp", "det_agent",
)  # fmt: skip
_HERE = Path(__file__).resolve()
# In an installed distribution they lie beside this module, in a checkout where people look for them.
_DOCKERFILES = (
    _HERE.parent / "cloudrun/Dockerfile",
    _HERE.parents[3] / "controlplane/cloudrun/Dockerfile",
)
_LOCKS = (_HERE.parent / "cloudrun/requirements.lock", _HERE.parents[3] / "requirements.lock")
_EPOCH = (2020, 1, 1, 0, 0, 0)
_BUILD_S = 1200
_ENDED = frozenset({"SUCCESS", "FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED"})

Say = Callable[[str], None]


def context() -> bytes:
    """Return the folder that the image is built from, packed: Dockerfile, versions, a wheel of this installation."""
    version = importlib.metadata.version(DISTRIBUTION)
    wheel = f"dist/determined_serverless-{version}-py3-none-any.whl"
    files = {
        "Dockerfile": _first(_DOCKERFILES).read_bytes(),
        "requirements.lock": _first(_LOCKS).read_bytes(),
        wheel: _wheel(version),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    # Without times, the same sources are the same bytes, and need no second build.
    return gzip.compress(packed.getvalue(), mtime=0)


def _first(places: tuple[Path, ...]) -> Path:
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise CommandError(f"{places[0].name} is missing in this installation", "install it again")
    return found


def _wheel(version: str) -> bytes:
    """Return this installation as a wheel, also when it is an editable one."""
    info = f"determined_serverless-{version}.dist-info"
    metadata = importlib.metadata.distribution(DISTRIBUTION).read_text("METADATA") or ""
    files = dict(_sources())
    files[f"{info}/METADATA"] = metadata.encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    files[f"{info}/RECORD"] = record.encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return packed.getvalue()


def _sources() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        for place in (found.submodule_search_locations or ()) if found else ():
            folder = Path(place)
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                name = path.relative_to(folder.parent)
                if "__pycache__" not in name.parts and "terraform" not in name.parts:
                    yield name.as_posix(), path.read_bytes()


def built(google: Google, cluster_id: str, bucket: str, say: Say) -> str:
    """Return the image of this installation in the cluster's registry, by its digest; builds it if it is not there."""
    repository = f"det-{cluster_id}"
    packed = context()
    tag = hashlib.sha256(packed).hexdigest()[:20]
    image = f"{google.region}-docker.pkg.dev/{google.project}/{repository}/{NAME}"
    digest = _digest(google, repository, tag)
    if not digest:
        say("Building the image of the control plane (some minutes)")
        source = f"builds/{tag}.tar.gz"
        google.upload(bucket, source, packed)
        digest = _build(google, cluster_id, f"{image}:{tag}", bucket, source)
    return f"{image}@{digest}"


def _digest(google: Google, repository: str, tag: str) -> str:
    """Return the digest of what has a tag; empty when nothing has it."""
    where = f"/v1/projects/{google.project}/locations/{google.region}/repositories/{repository}"
    found = google.call("GET", "artifactregistry", f"{where}/packages/{NAME}/tags/{tag}") or {}
    return str(found.get("version", "")).rpartition("/")[2]


def _build(google: Google, cluster_id: str, image: str, bucket: str, source: str) -> str:
    builder = f"det-{cluster_id}-build@{google.project}.iam.gserviceaccount.com"
    asked = {
        "source": {"storageSource": {"bucket": bucket, "object": source}},
        "steps": [
            {"name": "gcr.io/cloud-builders/docker", "args": ["build", "-t", image, "."]},
        ],
        "images": [image],
        "timeout": f"{_BUILD_S}s",
        "serviceAccount": f"projects/{google.project}/serviceAccounts/{builder}",
        "options": {"logging": "CLOUD_LOGGING_ONLY"},
    }
    path = f"/v1/projects/{google.project}/builds"
    begun = google.call("POST", "cloudbuild", path, asked) or {}
    build = begun.get("metadata", {}).get("build", {})
    limit = time.monotonic() + _BUILD_S + 120
    while build.get("status") not in _ENDED:
        if time.monotonic() > limit:
            raise CommandError("Cloud Build does not finish the image", _page(build))
        time.sleep(2)
        build = google.call("GET", "cloudbuild", f"{path}/{build['id']}") or build
    if build["status"] != "SUCCESS":
        told = (
            build.get("failureInfo", {}).get("detail")
            or build.get("statusDetail")
            or "no reason given"
        )
        raise CommandError(
            f"Cloud Build could not build the image: {build['status']}, {told}", _page(build)
        )
    return str(build["results"]["images"][0]["digest"])


def _page(build: "dict[str, str]") -> str:
    where = build.get("logUrl") or json.dumps(build)[:200]
    return f"its log is at {where}; `det deploy gcp up --image IMAGE` takes one that you built"
