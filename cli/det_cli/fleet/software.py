"""The files that a host gets: the cluster's own wheel, the agent's configuration and the scripts that install them."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from determined.common.http import Session

from det_cli.errors import CommandError
from det_cli.fleet.facts import Cluster, Manifest
from det_cli.fleet.hosts import Host

_SCRIPTS = Path(__file__).parent
_WHEELS = "/agents/v1/wheel"
TOKEN_FILE, CERTIFICATE_FILE = "/etc/determined/token", "/etc/determined/master.crt"


@dataclass(frozen=True)
class Software:
    """The wheel of the cluster with its libraries, so that agents and cluster have one version."""

    name: str
    wheel: bytes
    constraints: bytes
    libraries: tuple[str, ...]

    @property
    def version(self) -> str:
        return self.name.split("-")[1]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.wheel).hexdigest()

    @property
    def release(self) -> str:
        """Return the name of the folder of this version on hosts."""
        return f"{self.version}-{self.sha256[:12]}"


@dataclass(frozen=True)
class Trust:
    """The certificate of the cluster that agents accept, as this command does."""

    certificate: str = ""  # PEM of an authority; empty: the authorities of the host
    fingerprint: str = ""
    verify: bool = True

    def options(self) -> dict[str, Any]:
        if not self.verify:
            return {"skip_verify": True}
        if self.fingerprint:
            return {"master_cert_sha256": self.fingerprint}
        return {"master_cert": CERTIFICATE_FILE} if self.certificate else {}


def fetch_software(session: Session) -> Software:
    """Download the wheel that the cluster serves to its machines."""
    from det_controlplane.core.provision.boot import AGENT_LIBRARIES

    status, headers, _ = session.request_bytes("GET", _WHEELS)
    name = headers.get("location", "").rpartition("/")[2]
    if status != 302 or not name.endswith(".whl"):
        raise CommandError(
            "this cluster does not serve the software of its agents",
            "install the agent by hand: docs/reference/agent.md",
        )
    wheel = session.request_bytes("GET", f"{_WHEELS}/{name}")[2]
    constraints = session.request_bytes("GET", f"{_WHEELS}/constraints.txt")
    return Software(name, wheel, constraints[2] if constraints[0] == 200 else b"", AGENT_LIBRARIES)


def trust_of(session: Session) -> Trust:
    """Return how this command trusts the cluster, for agents that have to trust it too."""
    options = session.options
    if options["server_hostname"]:
        raise CommandError(
            "agents cannot check the certificate for another name (DET_MASTER_CERT_NAME)",
            "unset it, and give the name in the certificate with --master-url",
        )
    certificate = Path(options["cert_file"]).read_text() if options["cert_file"] else ""
    return Trust(certificate, options["fingerprint"] or "", options["verify"])


def agent_config(host: Host, agent_id: str, cluster: Cluster, trust: Trust) -> bytes:
    """Return /etc/determined/agent.yaml of a host. It contains no secret."""
    options = {
        "master_url": cluster.url,
        "agent_id": agent_id,
        "resource_pool": host.pool,
        "token_file": TOKEN_FILE,
        "slots": host.slots,
        "visible_gpus": host.gpus,
        "exclude_gpus": host.exclude_gpus,
        "container_runtime": host.runtime,
        "security": {"tls": trust.options()} if trust.options() else {},
    }
    given = {name: value for name, value in options.items() if value}
    return (json.dumps(given, indent=1, sort_keys=True) + "\n").encode()


def manifest(
    host: Host, agent_id: str, cluster: Cluster, trust: Trust, software: Software, token_id: int
) -> Manifest:
    config = agent_config(host, agent_id, cluster, trust) + trust.certificate.encode()
    digest = hashlib.sha256(config).hexdigest()
    return Manifest(
        cluster.id, agent_id, software.version, software.sha256, digest, host.service, token_id
    )


def installation(
    software: Software,
    trust: Trust,
    config: bytes,
    notes: Manifest,
    settings: Mapping[str, str],
    token: str,
) -> bytes:
    """Return a tar file with everything that install.sh needs. Only root and the SSH user can read its files there."""
    import shlex

    files = {
        software.name: software.wheel,
        "constraints.txt": software.constraints,
        "libraries.txt": "\n".join(software.libraries).encode(),
        "agent.yaml": config,
        "fleet.json": json.dumps(asdict(notes)).encode(),
        "settings": "".join(f"{n}={shlex.quote(v)}\n" for n, v in settings.items()).encode(),
        "install.sh": script("install.sh"),
    }
    if trust.certificate:
        files["master.crt"] = trust.certificate.encode()
    if token:
        files["token"] = token.encode()
    return packed(files)


def script(name: str) -> bytes:
    return (_SCRIPTS / name).read_bytes()


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return a tar file with files that only their owner can read."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
