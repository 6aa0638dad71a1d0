"""Names that are derived from stored data, so that a repeated call finds its machine."""

import hashlib
import re
from uuid import UUID, uuid5

from det_controlplane.ports.compute import LaunchRequest

CLUSTER_LABEL, MACHINE_LABEL, POOL_LABEL = "det-cluster", "det-machine", "det-pool"
POOL_METADATA = "det-pool"  # the exact name of the pool, because labels have no capital letters

_REQUESTS = UUID("6b1f1f0e-5d0b-4d0c-9d9e-0c5c1c8d2a11")
_MAX_LABEL = 63


def machine_name(request: LaunchRequest) -> str:
    """Return the name of a request's machine. Google Cloud allows a name only once in each zone."""
    return f"det-{request.machine_id.hex}-{request.attempt}"


def policy_prefix(cluster_id: str) -> str:
    """Return the beginning of the names of the cluster's placement policies. Policies have no labels."""
    return f"det-{label_value(cluster_id).replace('_', '-')[:44].strip('-')}-"


def policy_name(request: LaunchRequest) -> str:
    """Return the name of the compact placement policy of a gang."""
    gang = request.gang.id if request.gang else ""
    return policy_prefix(request.cluster_id) + hashlib.sha256(gang.encode()).hexdigest()[:12]


def request_id(request: LaunchRequest, *what: str) -> str:
    """Return the UUID with which Google Cloud recognizes a repeated call for a place and machine types."""
    return str(uuid5(_REQUESTS, "/".join((request.token, *what))))


def cloud_id(project: str, name: str) -> str:
    """Return the id of a machine. It includes the project, because calls about the machine need it."""
    return f"{project}/{name}"


def split_cloud_id(value: str) -> tuple[str, str]:
    """Return the project and name of a machine."""
    project, _, name = value.rpartition("/")
    return project, name


def label_value(text: str) -> str:
    """Convert a text to a valid label value. Different texts have different values."""
    allowed = re.sub(r"[^-_a-z0-9]", "-", text.lower())
    if allowed == text and len(text) <= _MAX_LABEL:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{allowed[: _MAX_LABEL - 9]}-{digest}"


def label_key(text: str) -> str:
    """Convert a text to a valid label key, which starts with a letter."""
    value = label_value(text)
    return value if value[:1].isalpha() else f"l{value}"[:_MAX_LABEL]


def region_of(zone: str) -> str:
    """Return the region of a zone, such as `us-central1` for `us-central1-a`."""
    return zone.rpartition("-")[0]


def machine_id(label: str) -> UUID | None:
    """Return the id in a machine's label, or None if the label was edited by hand."""
    try:
        return UUID(hex=label)
    except ValueError:
        return None
