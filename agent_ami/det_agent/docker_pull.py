"""Pull an image and log its progress in a few lines."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from det_controlplane.core.agent_protocol import ContainerSpec
from docker.errors import APIError, DockerException, ImageNotFound

from det_agent import parallel_pull
from det_agent.registry_reader import Unsuitable
from det_agent.runtime import NoRoom, Say, StartFailed

PROGRESS_EVERY_S = 5.0
# Error messages of the kernel that are not caused by the image name.
_OF_THE_DISK = (
    "no space left on device",
    "disk quota exceeded",
    "input/output error",
    "read-only file system",
)

_log = logging.getLogger(__name__)


class Progress:
    """Summarise the events of layers for a progress line every few seconds."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}
        self._done: set[str] = set()

    def take(self, event: Mapping[str, Any]) -> None:
        layer, status = event.get("id"), event.get("status", "")
        if not layer or status.startswith(("Pulling from", "Digest")):
            return
        self._layers.setdefault(layer, (0, 0))
        detail = event.get("progressDetail") or {}
        if status == "Downloading" and detail.get("total"):
            self._layers[layer] = (detail["current"], detail["total"])
        elif status in ("Pull complete", "Already exists"):
            self._done.add(layer)
            total = self._layers[layer][1]
            self._layers[layer] = (total, total)

    def line(self, image: str) -> str:
        current = sum(c for c, _ in self._layers.values()) / 1e6
        total = sum(t for _, t in self._layers.values()) / 1e6
        layers = f"{len(self._done)} of {len(self._layers)} layers"
        return f"Pulling {image}: {layers}, {current:.0f} of {total:.0f} MB downloaded"


def ensure_image(api: Any, spec: ContainerSpec, say: Say, cancelled: Callable[[], bool]) -> None:
    """Pull the image if it is missing. `api` is Docker's low-level client. Raises StartFailed."""
    if not spec.image:
        raise StartFailed("image_pull", "the task names no image: set environment.image")
    if not spec.force_pull and _is_here(api, spec.image):
        return
    pull(api, spec.image, _credentials(spec), say, cancelled)


def pull(
    api: Any,
    image: str,
    auth: Mapping[str, str] | None = None,
    say: Say = _log.info,
    cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Pull an image. Without `auth`, use this machine's Docker configuration. Raises StartFailed."""
    say(f"Pulling image {image}")
    start = time.monotonic()
    with _layers_over_several_connections(api, image, auth, say, cancelled):
        try:
            events = api.pull(_add_tag(image), stream=True, decode=True, auth_config=auth)
            _follow(events, image, say, cancelled)
        except DockerException as e:
            raise _pull_failure(image, _message_of(e)) from e
    say(f"Pulled image {image} in {time.monotonic() - start:.1f} s")


@contextmanager
def _layers_over_several_connections(
    api: Any,
    image: str,
    auth: Mapping[str, str] | None,
    say: Say,
    cancelled: Callable[[], bool],
) -> Iterator[None]:
    """Pull large layers over several connections first. The pull inside of this context does the rest, or all of it."""
    name = ""
    try:
        try:
            with parallel_pull.served(api, _add_tag(image), auth) as name:
                _follow(api.pull(name, stream=True, decode=True), image, say, cancelled)
        except (Unsuitable, OSError, ValueError, KeyError, DockerException) as e:
            _log.info("the engine pulls %s over one connection a layer: %s", image, e)
        except StartFailed as e:
            if e.failure == "aborted":
                raise
            _log.warning("the engine pulls %s over one connection a layer: %s", image, e)
        yield
    finally:
        if name:
            with contextlib.suppress(DockerException, OSError):
                api.remove_image(name, noprune=True)


def _follow(
    events: Iterable[Mapping[str, Any]], image: str, say: Say, cancelled: Callable[[], bool]
) -> None:
    progress, logged_at = Progress(), time.monotonic()
    for event in events:
        if cancelled():
            raise StartFailed("aborted", "the container was killed while its image was pulled")
        if event.get("error"):
            raise _pull_failure(image, str(event["error"]))
        progress.take(event)
        if time.monotonic() - logged_at >= PROGRESS_EVERY_S:
            logged_at = time.monotonic()
            say(progress.line(image))


def _is_here(api: Any, image: str) -> bool:
    try:
        api.inspect_image(image)
    except ImageNotFound:
        return False
    except DockerException as e:
        raise StartFailed("agent_error", f"the Docker engine does not answer: {e}") from e
    return True


def _add_tag(image: str) -> str:
    """Add the tag `latest` if it has no tag. The engine would otherwise pull every tag."""
    name = image.rpartition("/")[2]
    return image if ":" in name or "@" in name else f"{image}:latest"


def _credentials(spec: ContainerSpec) -> dict[str, str] | None:
    """Return the task's credentials, or None to use this machine's Docker configuration."""
    credentials = dict(spec.registry_auth)
    if not credentials:
        return None
    renamed = {"server_address": "serveraddress", "identity_token": "identitytoken"}
    return {renamed.get(name, name): value for name, value in credentials.items() if value}


def _message_of(error: DockerException) -> str:
    if isinstance(error, APIError):
        return str(error.explanation or error)
    return str(error)


def _pull_failure(image: str, reason: str) -> StartFailed:
    message = f"cannot pull image {image}: {reason.strip()}"
    if any(words in reason.lower() for words in _OF_THE_DISK):
        # This is not an agent error, which is always retried: the image may be too large for any machine.
        return NoRoom("image_pull", f"{message} (the disk of this machine has no room for it)")
    remedy = "check the name in environment.image, and environment.registry_auth if it is private"
    return StartFailed("image_pull", f"{message} ({remedy})")
