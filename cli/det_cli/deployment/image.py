"""The image of the control plane: what it is built from, out of this installation, and its build by Cloud Build."""

import gzip
import hashlib
import io
import json
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
_TRIES, _RIGHTS_S = 5, 20.0
_UNKNOWN = "ACCOUNT_UNKNOWN"
# Of failures, those of an account that does not have yet what it was given.
_WITHOUT_RIGHTS = frozenset(
    {"FETCH_SOURCE_FAILED", "PUSH_NOT_AUTHORIZED", "LOGGING_FAILURE", _UNKNOWN}
)
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
        digest = _build(google, cluster_id, f"{image}:{tag}", bucket, source, say)
    return f"{image}@{digest}"


def _digest(google: Google, repository: str, tag: str) -> str:
    """Return the digest of what has a tag; empty when nothing has it."""
    where = f"/v1/projects/{google.project}/locations/{google.region}/repositories/{repository}"
    found = google.call("GET", "artifactregistry", f"{where}/packages/{NAME}/tags/{tag}") or {}
    return str(found.get("version", "")).rpartition("/")[2]


def _build(google: Google, cluster_id: str, image: str, bucket: str, source: str, say: Say) -> str:
    """Have the image built, and return its digest. An account that was just made may need a minute for its rights."""
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
    for left in reversed(range(_TRIES)):
        build = _ended(google, asked)
        if build["status"] == "SUCCESS":
            return str(build["results"]["images"][0]["digest"])
        failure = build.get("failureInfo", {})
        if not left or failure.get("type") not in _WITHOUT_RIGHTS:
            break
        say(f"{builder} does not have its rights yet: trying again in {_RIGHTS_S:g} s")
        time.sleep(_RIGHTS_S)
    told = failure.get("detail") or build.get("statusDetail") or "no reason given"
    raise CommandError(
        f"Cloud Build could not build the image: {build['status']}, {told}", _page(build)
    )


def _ended(google: Google, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Begin a build, and return it when it has ended."""
    path = f"/v1/projects/{google.project}/builds"
    build = _begun(google, path, asked)
    limit = time.monotonic() + _BUILD_S + 120
    while build.get("status") not in _ENDED:
        if time.monotonic() > limit:
            raise CommandError("Cloud Build does not finish the image", _page(build))
        time.sleep(2)
        build = google.call("GET", "cloudbuild", f"{path}/{build['id']}") or build
    return build


def _begun(google: Google, path: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Begin a build; an account that Cloud Build does not know yet is a build that failed for want of rights."""
    begun = google.call("POST", "cloudbuild", path, asked)
    if begun is None:
        detail = f"{asked['serviceAccount']} is not known there"
        return {"status": "FAILURE", "failureInfo": {"type": _UNKNOWN, "detail": detail}}
    build: Mapping[str, Any] = begun["metadata"]["build"]
    return build


def _page(build: Mapping[str, Any]) -> str:
    where = build.get("logUrl") or json.dumps(build)[:200]
    return f"its log is at {where}; `det deploy gcp up --image IMAGE` takes one that you built"
