"""The image of the control plane: its build context from this installation, and its build with Cloud Build."""

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
# The paths in an installed package, and in a checkout.
_DOCKERFILES = (
    _HERE.parent / "cloudrun/Dockerfile",
    _HERE.parents[3] / "controlplane/cloudrun/Dockerfile",
)
_LOCKS = (_HERE.parent / "cloudrun/requirements.lock", _HERE.parents[3] / "requirements.lock")
_BASE = re.compile(r"^ARG BASE=(\S+)", re.M)
_BUILD_S = 1200
# A grant to a new account takes effect within minutes. Until then Google may deny any call.
_RIGHTS_S, _RETRY_S = 300.0, 10.0
# Failure types of a build if its account lacks a permission.
_WITHOUT_RIGHTS = frozenset({"FETCH_SOURCE_FAILED", "PUSH_NOT_AUTHORIZED", "LOGGING_FAILURE"})
# `builds.create` reads the source as the build's account. It answers 400 with the cause in these words.
_UNREADABLE = "could not resolve source"
_ENDED = frozenset({"SUCCESS", "FAILURE", "INTERNAL_ERROR", "TIMEOUT", "CANCELLED", "EXPIRED"})


def context() -> bytes:
    """Return the packed build context: the Dockerfile, the lock file and a wheel of this installation."""
    from det_controlplane.adapters import own_wheel

    wheel = own_wheel.find()
    if wheel is None:
        raise CommandError("determined-serverless is not installed correctly", "install it again")
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
    # Without time stamps, the same sources produce the same bytes and need no second build.
    return gzip.compress(packed.getvalue(), mtime=0)


def _first(places: tuple[Path, ...]) -> Path:
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise CommandError(f"{places[0].name} is missing in this installation", "install it again")
    return path


def ensure(google: Google, cluster_id: str, bucket: str, say: Say) -> str:
    """Return the image of this installation in the cluster's registry, with its digest.

    Builds the image if the registry has no image of these sources on the current base image.
    """
    repository = f"det-{cluster_id}"
    packed = context()
    sources = hashlib.sha256(packed).hexdigest()[:20]
    base = _base(say)
    # Each build gets both tags. If the digest of the base is unknown, `up` uses the last build of the sources.
    tags = [sources, f"{sources}-{_short(base)}"] if base else [sources]
    image = f"{google.region}-docker.pkg.dev/{google.project}/{repository}/{NAME}"
    digest = _digest(google, repository, tags[-1])
    if not digest:
        say("Building the image of the control plane (some minutes)")
        source = f"builds/{sources}.tar.gz"
        # Cloud Build reads this generation of the object, so a task cannot replace it with a later write.
        generation = google.upload(bucket, source, packed)
        place = {"bucket": bucket, "object": source, "generation": generation}
        options = ["--build-arg", f"BASE={base}"] if base else []
        digest = _build(google, cluster_id, [f"{image}:{tag}" for tag in tags], options, place, say)
    return f"{image}@{digest}"


def _base(say: Say) -> str:
    """Return the base image of the Dockerfile with its digest, or '' with a warning if the digest is unknown."""
    default = _BASE.search(_first(_DOCKERFILES).read_text())
    if default is None:
        raise CommandError("the Dockerfile of this installation has no BASE", "install it again")
    name = default[1]
    result = registry.look_up(ImageName.parse(name))
    if not result.digest:
        reason = result.reason or "its registry sends no digest"
        say(f"warning: cannot check whether the base image {name} changed: {reason}")
        return ""
    return f"{name}@{result.digest}"


def _short(base: str) -> str:
    """Return the first characters of the digest in the name of a base image."""
    return base.rpartition(":")[2][:12]


def _digest(google: Google, repository: str, tag: str) -> str:
    """Return the digest of the image with a tag, or ''."""
    where = f"/v1/projects/{google.project}/locations/{google.region}/repositories/{repository}"
    tag_info = google.call("GET", "artifactregistry", f"{where}/packages/{NAME}/tags/{tag}") or {}
    return str(tag_info.get("version", "")).rpartition("/")[2]


class _NoRights(Exception):
    """The build's account lacks a permission. The grant may not have taken effect yet."""


def _build(
    google: Google,
    cluster_id: str,
    images: Sequence[str],
    options: Sequence[str],
    source: Mapping[str, str],
    say: Say,
) -> str:
    """Build an image from an object in a bucket, push it with several names, and return its digest."""
    builder = f"det-{cluster_id}-build@{google.project}.iam.gserviceaccount.com"
    name_options = [word for image in images for word in ("-t", image)]
    request = {
        "source": {"storageSource": source},
        "steps": [
            {
                "name": "gcr.io/cloud-builders/docker",
                "args": ["build", *options, *name_options, "."],
            },
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
                    f"grant the named permission to {builder}, or pass an image with"
                    " `det deploy gcp up --image IMAGE`",
                ) from e
            if not waited_s:
                say(f"{builder} does not have its permissions yet: retrying for {_RIGHTS_S:g} s")
        time.sleep(_RETRY_S)
        waited_s += _RETRY_S


def _digest_of_build(google: Google, request: Mapping[str, Any]) -> str:
    """Run a build until it ends and return the digest of its image. Raises _NoRights or CommandError."""
    build = _start(google, request)
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


def _start(google: Google, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Start a build. Raises _NoRights if its account is unknown or cannot read the source yet."""
    try:
        response = google.call(
            "POST", "cloudbuild", f"/v1/projects/{google.project}/builds", request
        )
    except Refused as e:
        if e.status == 403 or (e.status == 400 and _UNREADABLE in e.cause):
            raise _NoRights(e.cause) from e
        raise
    if response is None:
        raise _NoRights(f"{request['serviceAccount']} is not known to Cloud Build")
    build: Mapping[str, Any] = response["metadata"]["build"]
    return build


def _page(build: Mapping[str, Any]) -> str:
    where = build.get("logUrl") or json.dumps(build)[:200]
    return f"its log is at {where}; `det deploy gcp up --image IMAGE` uses your own image"
