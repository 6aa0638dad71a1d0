"""`det-agent doctor`: check the requirements of an agent on this machine and print fixes."""

import email.utils
import http.client
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import docker
from determined.common import storage
from determined.common.connections import Connections
from determined.common.http import APIError, MasterUnreachableError, Session
from docker.errors import APIError as EngineError
from docker.errors import DockerException

from det_agent.docker_engine import DOCKER, engine_of
from det_agent.gateway import Gateway, GatewayDependencies
from det_agent.host_address import DEFAULT_NETWORK, HostAddresses
from det_agent.log_limits import LogLimits
from det_agent.report_delivery import ReportDelivery
from det_agent.runtime import ContainerSessions, GatewayAddress, StartFailed
from det_agent.settings import Settings
from det_agent.slots import SlotsUnavailable, discover
from det_agent.spool import Spool
from det_agent.trial_reports import TrialReports

OLDEST_DOCKER = (20, 10)
LITTLE_SPACE_BYTES, TOO_LITTLE_SPACE_BYTES = 20 * 1024**3, 2 * 1024**3
ODD_CLOCK_S, WRONG_CLOCK_S = 30, 240  # clouds accept signatures for five minutes
PING_TOKEN = uuid.uuid4().hex


class Verdict(Enum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    check: str
    verdict: Verdict
    cause: str
    remedy: str = ""


@dataclass(frozen=True)
class Target:
    """The settings and locations to check."""

    settings: Settings
    image: str
    checkpoint_storage: str = ""


def examine(target: Target) -> Iterator[Finding]:
    """Run every check. A failed check does not prevent the others."""
    client, engine = _engine(target.settings)
    yield engine
    with_engine: Sequence[tuple[str, Callable[[Target, Any], Finding]]] = (
        ("containers reach the agent", _bridge),
        ("image pull", _image_pull),
        ("GPU runtime", _gpu_runtime),
    )
    for name, check in with_engine:
        if client is None:
            yield Finding(name, Verdict.SKIPPED, "there is no Docker engine to ask")
        else:
            yield check(target, client)
    yield _disk(target, client)
    if client is not None:
        client.close()
    yield from _api_and_clock(target.settings)
    yield _object_store(target)


def print_findings(findings: Iterator[Finding], write: Callable[[str], object]) -> bool:
    """Print each finding immediately. Return whether no check failed."""
    healthy = True
    for finding in findings:
        write(f"{finding.verdict.value:8} {finding.check}: {finding.cause}")
        if finding.remedy:
            write(f"         {finding.remedy}")
        healthy &= finding.verdict is not Verdict.FAILED
    return healthy


def _engine(settings: Settings) -> tuple[Any, Finding]:
    check = "Docker engine"
    if settings.runtime == "process":
        return None, Finding(check, Verdict.SKIPPED, "container_runtime is process")
    try:
        client = docker.from_env(timeout=60)
        engine = engine_of(client)
    except (DockerException, OSError) as e:
        verdict = Verdict.FAILED if settings.runtime == "docker" else Verdict.WARNING
        effect = "" if settings.runtime == "docker" else "; tasks would run as plain processes"
        remedy = "install Docker and start it (`systemctl enable --now docker`), or set DOCKER_HOST"
        return None, Finding(check, verdict, f"none answers ({e}){effect}", remedy)
    if engine.name == DOCKER and engine.older_than(OLDEST_DOCKER):
        remedy = "upgrade to Docker 20.10 or newer"
        return client, Finding(check, Verdict.WARNING, f"{engine} is old", remedy)
    return client, Finding(check, Verdict.OK, f"{engine} answers")


def _bridge(target: Target, client: Any) -> Finding:
    check, settings = "containers reach the agent", target.settings
    with tempfile.TemporaryDirectory() as folder:
        try:
            gateway, spool = _gateway(settings, Path(folder))
        except OSError as e:
            remedy = f"choose another bind_port, or stop what listens at {settings.bind_port}"
            return Finding(check, Verdict.FAILED, f"the task gateway cannot listen: {e}", remedy)
        port = settings.container_master_port or gateway.port
        address = GatewayAddress(port, PING_TOKEN, settings.container_master_host)
        try:
            gateway.start()
            reached = HostAddresses(client).check(address)
        except StartFailed as e:
            remedy = "see the cause; `docker network inspect bridge` shows the network"
            return Finding(check, Verdict.FAILED, str(e), remedy)
        finally:
            gateway.stop()
            spool.close()
    return Finding(check, Verdict.OK, f"at {reached} from network {DEFAULT_NETWORK}")


def _gateway(settings: Settings, folder: Path) -> tuple[Gateway, Spool]:
    """Create a gateway like the agent's, with the configured port or a free one."""
    spool = Spool(folder)
    upstream = Connections(settings.master_url, **settings.trust)
    reports = TrialReports(folder, ReportDelivery(upstream, lambda: ""), lambda key, text: None)
    logs = LogLimits(spool, settings.agent_id, settings.log_lines_s, settings.log_bytes_s)
    agent = GatewayDependencies(
        settings.agent_id, ContainerSessions(), logs, reports, upstream, PING_TOKEN
    )
    return Gateway(agent, settings.bind_ip or "0.0.0.0", settings.bind_port), spool


def _image_pull(target: Target, client: Any) -> Finding:
    check, image = "image pull", target.image
    if client.images.list(name=image):
        return Finding(check, Verdict.OK, f"{image} is on this machine")
    try:
        engine = engine_of(client)
        if not engine.asks_registries:
            cause = f"{engine.name} asks no registry before it pulls {image}, which is not here"
            return Finding(
                check, Verdict.SKIPPED, cause, f"try `{engine.name.lower()} pull {image}`"
            )
        client.api.inspect_distribution(image)
    except (EngineError, DockerException, OSError) as e:
        cause = str(getattr(e, "explanation", "") or e)
        remedy = (
            f"check this machine's way to the registry (proxy, DNS, `docker login`), then `docker pull {image}`;"
            " --image names the image that your tasks use"
        )
        return Finding(check, Verdict.FAILED, f"the registry of {image} refused: {cause}", remedy)
    return Finding(check, Verdict.OK, f"the registry of {image} answers")


def _gpu_runtime(target: Target, client: Any) -> Finding:
    check = "GPU runtime"
    try:
        slots = discover(
            target.settings.slots,
            target.settings.visible_gpus,
            exclude_gpus=target.settings.exclude_gpus,
        )
    except SlotsUnavailable as e:
        return Finding(check, Verdict.FAILED, str(e), "install the driver of the GPUs")
    gpus = [slot for slot in slots if slot.type == "cuda"]
    if not gpus:
        return Finding(check, Verdict.OK, "no NVIDIA GPU is offered by this agent")
    info = client.info()
    has_nvidia = "nvidia" in (info.get("Runtimes") or {}) or bool(info.get("CDISpecDirs"))
    if has_nvidia or shutil.which("nvidia-container-runtime-hook"):
        return Finding(check, Verdict.OK, f"{len(gpus)} GPUs, and containers can use them")
    remedy = (
        "install the NVIDIA Container Toolkit, run `nvidia-ctk runtime configure`, restart Docker"
    )
    return Finding(
        check, Verdict.FAILED, f"{len(gpus)} GPUs, but containers cannot use them", remedy
    )


def _disk(target: Target, client: Any) -> Finding:
    places = [target.settings.state_dir]
    if client is not None:
        places.append(Path(client.info().get("DockerRootDir") or "/"))
    free = {place: shutil.disk_usage(_find_existing_parent(place)).free for place in places}
    place, least = min(free.items(), key=lambda item: item[1])
    cause = f"{least / 1024**3:.1f} GiB are free below {place}"
    remedy = "delete images that nothing uses (`docker system prune -a`), or use a larger disk"
    if least < TOO_LITTLE_SPACE_BYTES:
        return Finding("disk", Verdict.FAILED, cause, remedy)
    if least < LITTLE_SPACE_BYTES:
        return Finding("disk", Verdict.WARNING, f"{cause}; images of GPU tasks are larger", remedy)
    return Finding("disk", Verdict.OK, cause)


def _find_existing_parent(path: Path) -> Path:
    return path if path.exists() else _find_existing_parent(path.parent)


def _api_and_clock(settings: Settings) -> Iterator[Finding]:
    session = Session(settings.master_url, retries=0, **settings.trust)
    asked_at = time.time()
    try:
        with session.response("GET", "/info") as response:
            date = response.getheader("Date")
    except (APIError, MasterUnreachableError, OSError, http.client.HTTPException) as e:
        remedy = "check master_url, this machine's DNS and firewall, and security.tls.master_cert"
        yield Finding("API", Verdict.FAILED, f"{settings.master_url}: {e}", remedy)
        yield Finding("clock", Verdict.SKIPPED, "the API tells the time, and it does not answer")
        return
    finally:
        session.close()
    yield Finding("API", Verdict.OK, f"{settings.master_url} answers")
    yield _clock(date, asked_at)


def _clock(date: str | None, asked_at: float) -> Finding:
    if not date:
        return Finding("clock", Verdict.SKIPPED, "the API tells no time")
    behind_s = email.utils.parsedate_to_datetime(date).timestamp() - asked_at
    remedy = "synchronise the clock (`timedatectl set-ntp true`)"
    cause = f"differs from the API's by {abs(behind_s):.0f} s"
    if abs(behind_s) > WRONG_CLOCK_S:
        return Finding("clock", Verdict.FAILED, f"{cause}: signed requests are refused", remedy)
    if abs(behind_s) > ODD_CLOCK_S:
        return Finding("clock", Verdict.WARNING, cause, remedy)
    return Finding("clock", Verdict.OK, cause)


def _object_store(target: Target) -> Finding:
    check, place = "object store", target.checkpoint_storage
    if not place:
        remedy = "give --checkpoint-storage s3://bucket/prefix (or gs://, or a directory)"
        return Finding(check, Verdict.SKIPPED, "no checkpoint storage was named", remedy)
    try:
        storage.from_string(place).validate()
    except Exception as e:  # each cloud's client has its own errors
        remedy = "check the bucket's name, this machine's role or key, and its way to the network"
        return Finding(check, Verdict.FAILED, f"{place}: {type(e).__name__}: {e}", remedy)
    return Finding(check, Verdict.OK, f"{place} takes and deletes files")
