"""The forms in which Google Compute Engine refuses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class GceError(Exception):
    """An error that answers a call."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message

    def shown(self) -> dict[str, Any]:
        one = {"domain": "global", "reason": self.reason, "message": self.message}
        return {"error": {"code": self.status, "message": self.message, "errors": [one]}}


@dataclass(frozen=True)
class OperationError:
    """An error that an accepted call ends with."""

    status: int
    errors: tuple[dict[str, Any], ...]

    def shown(self) -> dict[str, Any]:
        return {
            "error": {"errors": list(self.errors)},
            "httpErrorStatusCode": self.status,
            "httpErrorMessage": "SERVICE UNAVAILABLE" if self.status == 503 else "FORBIDDEN",
        }


# The message of a bulk insert; its inserts contain the reasons.
MIN_COUNT_NOT_REACHED = OperationError(
    503,
    ({"code": "VM_MIN_COUNT_NOT_REACHED", "message": "Requested minimum count of 1 VMs could not be created."},),
)  # fmt: skip


def stockout(zone: str, machine_type: str, zones_with_room: Sequence[str] = ()) -> OperationError:
    """Return the error of a zone without room, with the zones that Google proposes instead."""
    body = {"zone": zone, "vmType": machine_type, "attachment": ""}
    if zones_with_room:
        body["zonesAvailable"] = ",".join(zones_with_room)
    path = f"projects/acme/zones/{zone}"
    one = {
        "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS" if zones_with_room else "ZONE_RESOURCE_POOL_EXHAUSTED",
        "message": f"The zone '{path}' does not have enough resources available to fulfill the request."
        "  Try a different zone, or try again later.",
        "errorDetails": [
            {
                "errorInfo": {
                    "domain": "compute.googleapis.com",
                    "reason": "resource_availability",
                    "metadatas": body,
                }
            }
        ],
    }  # fmt: skip
    return OperationError(503, (one,))


def quota(metric: str, limit: float, region: str = "") -> OperationError:
    """Return the error of a quota of a region or, without one, of the project."""
    place = f"in region {region}" if region else "globally"
    one = {
        "code": "QUOTA_EXCEEDED",
        "message": f"Quota '{metric}' exceeded.  Limit: {limit} {place}.",
        "errorDetails": [
            {
                "quotaInfo": {
                    "metricName": f"compute.googleapis.com/{metric.lower()}",
                    "limitName": f"{metric.replace('_', '-')}-per-project" + ("-region" if region else ""),
                    "limit": limit,
                    "dimensions": {"region": region} if region else {},
                }
            }
        ],
    }  # fmt: skip
    return OperationError(403, (one,))


def denied(permission: str, project: str = "acme") -> GceError:
    return GceError(
        403, "forbidden", f"Required '{permission}' permission for 'projects/{project}'"
    )


def throttled() -> GceError:
    return GceError(
        403,
        "rateLimitExceeded",
        "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'",
    )
