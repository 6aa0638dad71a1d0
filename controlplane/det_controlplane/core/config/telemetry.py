"""The section `telemetry` of the cluster configuration: the OpenTelemetry collector of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from det_controlplane.core.config.reading import Reader

_GRPC_PORT = 4317
_IGNORED = ("enabled", "segment_master_key", "segment_webui_key", "cluster_id")


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The addresses of collectors. Variables such as OTEL_EXPORTER_OTLP_ENDPOINT override them in their process."""

    endpoint: str = ""  # of OTLP over HTTP, for the control plane; empty: off
    task_endpoint: str = ""  # for agents and tasks
    headers: Mapping[str, str] = field(default_factory=dict)  # of the control plane's requests


def read_telemetry(reader: Reader) -> tuple[Telemetry, list[str]]:
    """Read the section. Determined's keys `otel_enabled` and `otel_endpoint` have the same meaning here."""
    is_on = reader.flag("otel_enabled", False)
    endpoint = _address(reader, "otel_endpoint")
    of_tasks = _address(reader, "otel_task_endpoint") or endpoint
    headers = reader.object("otel_headers")
    if any(not isinstance(value, str) for value in headers.values()):
        reader.refuse("otel_headers", "must contain texts, as {api-key: abc}")
    if is_on and not endpoint:
        message = (
            "is required with otel_enabled: the address of OTLP over HTTP, as http://collector:4318"
        )
        reader.refuse("otel_endpoint", message)
    ignored = reader.ignore(*_IGNORED)
    reader.close()
    telemetry = Telemetry(endpoint, of_tasks, headers) if is_on else Telemetry()
    return telemetry, list(ignored)


def _address(reader: Reader, key: str) -> str:
    text = reader.text(key, "").rstrip("/")
    if not text:
        return ""
    bare = "" if "://" in text else text.lstrip("/")
    try:
        url = urlsplit(f"http://{bare}" if bare else text)
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in ("http", "https") or not url.hostname:
        reader.refuse(key, f"must be an address as http://collector:4318, not {text!r}")
    elif port == _GRPC_PORT:
        message = "has the port of gRPC: give the address of OTLP over HTTP, usually port 4318"
        reader.refuse(key, message)
    elif bare:
        tls = f"https://{bare} if the collector uses TLS"
        reader.refuse(key, f"has no scheme: write http://{bare}, or {tls}")
    return url.geturl()
