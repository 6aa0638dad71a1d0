"""The image of the control plane: what it is built from, out of this installation, and its build by Cloud Build."""

import gzip
import hashlib
import io
import json
import tarfile
import time
from pathlib import Path

from det_cli.deployment.google import Google
from det_cli.errors import CommandError
from det_cli.render import Say

NAME = "controlplane"
_HERE = Path(__file__).resolve()
# In an installed distribution they lie beside this module, in a checkout where people look for them.
_DOCKERFILES = (
    _HERE.parent / "cloudrun/Dockerfile",
    _HERE.parents[3] / "controlplane/cloudrun/Dockerfile",
)
_LOCKS = (_HERE.parent / "cloudrun/requirements.lock", _HERE.parents[3] / "requirements.lock")
_BUILD_S = 1200
_ENDED = frozenset({"SUCCESS", "FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED"})


def context() -> bytes:
    """Return the folder that the image is built from, packed: Dockerfile, versions, a wheel of this installation."""
    from det_controlplane.adapters import own_wheel

    wheel = own_wheel.found()
    if wheel is None:
        raise CommandError("this is no installation of determined-serverless", "install it again")
    files = {
        "Dockerfile": _first(_DOCKERFILES).read_bytes(),
        "requirements.lock": _first(_LOCKS).read_bytes(),
        f"dist/{wheel.name()}": wheel.content(),
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
