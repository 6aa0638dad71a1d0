"""The image of the control plane: what it is built from, out of this installation, and its build by Cloud Build."""

import gzip
import hashlib
import io
import json
import re
import tarfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from det_cli.deployment import registry
from det_cli.deployment.google import Google, Refused
from det_cli.deployment.registry import ImageName
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
_BASE = re.compile(r"^ARG BASE=(\S+)", re.M)
_BUILD_S = 1200
# A grant to a new account takes effect within minutes. Until then Google may deny any call.
_RIGHTS_S, _RETRY_S = 300.0, 10.0
# A build fails with these types if its account lacks a right.
_WITHOUT_RIGHTS = frozenset({"FETCH_SOURCE_FAILED", "PUSH_NOT_AUTHORIZED", "LOGGING_FAILURE"})
# `builds.create` reads the source as the build's account. It answers 400 with the cause in these words.
_UNREADABLE = "could not resolve source"
_ENDED = frozenset({"SUCCESS", "FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED"})


def context() -> bytes:
    """Return the folder that the image is built from, packed: Dockerfile, versions, a wheel of this installation."""
    from det_controlplane.adapters import own_wheel

    wheel = own_wheel.find()
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
    """Return the image of this installation in the cluster's registry, by its digest.

    Builds the image if the registry lacks one of these sources on the present base image.
    """
    repository = f"det-{cluster_id}"
    packed = context()
    sources = hashlib.sha256(packed).hexdigest()[:20]
    base = _base(say)
    # Each build gets both tags. Without an answer about the base, `up` uses the last build of the sources.
    tags = [sources, f"{sources}-{_short(base)}"] if base else [sources]
    image = f"{google.region}-docker.pkg.dev/{google.project}/{repository}/{NAME}"
    digest = _digest(google, repository, tags[-1])
    if not digest:
        say("Building the image of the control plane (some minutes)")
        source = f"builds/{sources}.tar.gz"
        # Cloud Build uses this generation of the object, so a task cannot replace it by a later write.
        generation = google.upload(bucket, source, packed)
        place = {"bucket": bucket, "object": source, "generation": generation}
        options = ["--build-arg", f"BASE={base}"] if base else []
        digest = _build(google, cluster_id, [f"{image}:{tag}" for tag in tags], options, place, say)
    return f"{image}@{digest}"


def _base(say: Say) -> str:
    """Return the base image of the Dockerfile by its digest, or '' with a warning if its registry gives none."""
    default = _BASE.search(_first(_DOCKERFILES).read_text())
    if default is None:
        raise CommandError("the Dockerfile of this installation has no BASE", "install it again")
    name = default[1]
    answer = registry.look_up(ImageName.parse(name))
    if not answer.digest:
        reason = answer.reason or "its registry sends no digest"
        say(f"warning: cannot check whether the base image {name} changed: {reason}")
        return ""
    return f"{name}@{answer.digest}"


def _short(base: str) -> str:
    """Return the first characters of the digest in the name of a base image."""
    return base.rpartition(":")[2][:12]


def _digest(google: Google, repository: str, tag: str) -> str:
    """Return the digest of what has a tag; empty when nothing has it."""
    where = f"/v1/projects/{google.project}/locations/{google.region}/repositories/{repository}"
    found = google.call("GET", "artifactregistry", f"{where}/packages/{NAME}/tags/{tag}") or {}
    return str(found.get("version", "")).rpartition("/")[2]


class _NoRights(Exception):
    """The build's account lacks a right. The grant may not have taken effect yet."""


def _build(
    google: Google,
    cluster_id: str,
    images: Sequence[str],
    options: Sequence[str],
    source: Mapping[str, str],
    say: Say,
) -> str:
    """Build an image from an object of a bucket, push it under some names, and return its digest."""
    builder = f"det-{cluster_id}-build@{google.project}.iam.gserviceaccount.com"
    named = [word for image in images for word in ("-t", image)]
    request = {
        "source": {"storageSource": source},
        "steps": [
            {"name": "gcr.io/cloud-builders/docker", "args": ["build", *options, *named, "."]},
        ],
        "images": [*images],
        "timeout": f"{_BUILD_S}s",
        "serviceAccount": f"projects/{google.project}/serviceAccounts/{builder}",
        "options": {"logging": "CLOUD_LOGGING_ONLY"},
    }
    waited_s = 0.0
    while True:
        try:
            return _digest_of_build(google, request)
        except _NoRights as e:
            if waited_s >= _RIGHTS_S:
                raise CommandError(
                    f"Cloud Build could not build the image: {e}",
                    f"give {builder} the right that is named, or give an image by"
                    " `det deploy gcp up --image IMAGE`",
                ) from e
            if not waited_s:
                say(f"{builder} does not have its rights yet: retrying for {_RIGHTS_S:g} s")
        time.sleep(_RETRY_S)
        waited_s += _RETRY_S


def _digest_of_build(google: Google, request: Mapping[str, Any]) -> str:
    """Run a build to its end, and return the digest of its image. Raises _NoRights and CommandError."""
    build = _started(google, request)
    limit = time.monotonic() + _BUILD_S + 120
    while build.get("status") not in _ENDED:
        if time.monotonic() > limit:
            raise CommandError("Cloud Build does not finish the image", _page(build))
        time.sleep(2)
        path = f"/v1/projects/{google.project}/builds/{build['id']}"
        build = google.call("GET", "cloudbuild", path) or build
    if build["status"] == "SUCCESS":
        return str(build["results"]["images"][0]["digest"])
    failure = build.get("failureInfo", {})
    cause = failure.get("detail") or build.get("statusDetail") or "no reason given"
    if failure.get("type") in _WITHOUT_RIGHTS:
        raise _NoRights(f"{build['status']}, {cause}")
    raise CommandError(
        f"Cloud Build could not build the image: {build['status']}, {cause}", _page(build)
    )


def _started(google: Google, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Start a build. Raises _NoRights if its account is unknown or cannot read the source yet."""
    try:
        answer = google.call("POST", "cloudbuild", f"/v1/projects/{google.project}/builds", request)
    except Refused as e:
        if e.status == 403 or (e.status == 400 and _UNREADABLE in e.cause):
            raise _NoRights(e.cause) from e
        raise
    if answer is None:
        raise _NoRights(f"{request['serviceAccount']} is not known to Cloud Build")
    build: Mapping[str, Any] = answer["metadata"]["build"]
    return build


def _page(build: Mapping[str, Any]) -> str:
    where = build.get("logUrl") or json.dumps(build)[:200]
    return f"its log is at {where}; `det deploy gcp up --image IMAGE` takes one that you built"
