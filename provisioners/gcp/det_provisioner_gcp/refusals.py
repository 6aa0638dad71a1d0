"""Translate Google Cloud's errors to refusals, each with a kind, a scope and a sentence."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Offer, Scope
from det_controlplane.ports.compute import Refusal

K = RefusalKind


@dataclass(frozen=True, slots=True)
class GceFault:
    """An error of a call or of an operation, independent of the client library's types."""

    code: str  # such as ZONE_RESOURCE_POOL_EXHAUSTED, or the reason of a call's error
    message: str
    http_status: int = 0
    details: Mapping[str, str] = field(default_factory=dict)
    quota_limit: float | None = None


_KINDS = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": K.NO_CAPACITY,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": K.NO_CAPACITY,
    "REGION_RESOURCE_POOL_EXHAUSTED": K.NO_CAPACITY,
    "RESOURCE_POOL_EXHAUSTED": K.NO_CAPACITY,
    "STOCKOUT": K.NO_CAPACITY,
    "GPU_STOCKOUT": K.NO_CAPACITY,
    "insufficientCapacity": K.NO_CAPACITY,
    "UNSUPPORTED_OPERATION": K.NO_CAPACITY,  # for spot machines that are preempted during their start
    "VM_MIN_COUNT_NOT_REACHED": K.NO_CAPACITY,
    "IP_SPACE_EXHAUSTED": K.NO_CAPACITY,
    "IP_SPACE_EXHAUSTED_WITH_DETAILS": K.NO_CAPACITY,
    "resource_availability": K.NO_CAPACITY,
    "QUOTA_EXCEEDED": K.QUOTA,
    "quotaExceeded": K.QUOTA,
    "forbidden": K.DENIED,
    "PERMISSIONS_ERROR": K.DENIED,
    "FORBIDDEN": K.DENIED,
    "IAM_PERMISSION_DENIED": K.DENIED,
    "accessNotConfigured": K.DENIED,
    "insufficientPermissions": K.DENIED,
    "SERVICE_ACCOUNT_ACCESS_DENIED": K.DENIED,  # ends an operation, with status 400
    "serviceAccountAccessDenied": K.DENIED,
    "conditionNotMet": K.DENIED,  # for an organization policy
    "CONDITION_NOT_MET": K.DENIED,
    "rateLimitExceeded": K.RETRYABLE,
    "userRateLimitExceeded": K.RETRYABLE,
    "RATE_LIMIT_EXCEEDED": K.RETRYABLE,
    "RESOURCE_OPERATION_RATE_EXCEEDED": K.RETRYABLE,
    "OPERATION_CANCELED_BY_USER": K.RETRYABLE,
    "INTERNAL_ERROR": K.RETRYABLE,
    "RESOURCE_NOT_READY": K.RETRYABLE,
    "resourceNotReady": K.RETRYABLE,
    "resourceInUseByAnotherResource": K.RETRYABLE,
}
# A bulk insert reports this together with the cause, or instead of it.
_CONSEQUENCE = "VM_MIN_COUNT_NOT_REACHED"
_PERMISSION = re.compile(r"'(\w+(?:\.\w+)+)' permission for '([^']+)'")
_QUOTA = re.compile(
    r"Quota '(?P<name>[^']+)' exceeded\.\s+Limit: (?P<limit>[\d.]+)(?P<globally> globally)?"
)


def refusal(faults: Sequence[GceFault], offer: Offer) -> Refusal:
    """Return the reason why an offer gave no machine."""
    causes = [f for f in faults if f.code != _CONSEQUENCE] or list(faults)
    fault = causes[0]
    kind = kind_of(fault)
    if kind is K.NO_CAPACITY:
        return _no_capacity(fault, offer)
    if kind is K.QUOTA:
        return _quota(fault, offer)
    if kind is K.DENIED:
        return Refusal(kind, Scope(offer.provider, offer.region), _describe_denial(fault))
    if kind is K.RETRYABLE:
        sentence = f"Google Cloud asks to try again later: {_reason(fault)}"
        return Refusal(kind, Scope(offer.provider, offer.region), sentence)
    return Refusal(kind, Scope.of(offer), f"Google Cloud refuses the machine: {_reason(fault)}")


def names_no_cause(faults: Sequence[GceFault]) -> bool:
    """Return whether the errors report a missing machine without its cause."""
    return bool(faults) and all(f.code == _CONSEQUENCE for f in faults)


def reason_of(faults: Sequence[GceFault]) -> str:
    """Return the first cause among errors, with its code."""
    causes = [f for f in faults if f.code != _CONSEQUENCE] or list(faults)
    return _reason(causes[0])


def kind_of(fault: GceFault) -> RefusalKind:
    """Return the kind of an error, from its code or otherwise from its status."""
    if fault.code in _KINDS:
        return _KINDS[fault.code]
    if fault.http_status in (401, 403, 412):
        return K.DENIED
    return K.INVALID if 400 <= fault.http_status < 500 and fault.http_status != 429 else K.RETRYABLE


def invalid(offer: Offer, problem: str) -> Refusal:
    """Return the refusal of an offer if its pool's section is invalid."""
    sentence = f"the pool's `provider` section for gcp: {problem}"
    return Refusal(K.INVALID, Scope.of(offer), sentence)


def _no_capacity(fault: GceFault, offer: Offer) -> Refusal:
    if fault.code.startswith("IP_SPACE_EXHAUSTED"):
        sentence = f"the pool's subnetwork in {offer.region} has no free address: {_reason(fault)}"
        return Refusal(K.NO_CAPACITY, Scope(offer.provider, offer.region), sentence)
    elsewhere = tuple(
        z.strip() for z in fault.details.get("zonesAvailable", "").split(",") if z.strip()
    )
    where = offer.zone or f"every zone of {offer.region}"
    sentence = f"{where} has no {offer.capacity.value} {offer.machine_type} at the moment"
    if elsewhere:
        sentence += f"; Google Cloud proposes {', '.join(elsewhere)}"
    return Refusal(K.NO_CAPACITY, Scope.of(offer), sentence, elsewhere)


def _quota(fault: GceFault, offer: Offer) -> Refusal:
    match = _QUOTA.search(fault.message)
    is_global = match is not None and match["globally"] is not None
    region = "" if is_global else offer.region
    scope = Scope(offer.provider, region, "", offer.machine_type, offer.capacity.value)
    name = match["name"] if match else fault.details.get("limitName", "")
    if not name:
        return Refusal(K.QUOTA, scope, f"a quota of Google Cloud is used up: {_reason(fault)}")
    allowed = match["limit"].removesuffix(".0") if match else f"{fault.quota_limit or 0:g}"
    where = "of the project" if is_global else f"in {region}"
    sentence = f"the quota {name} {where} allows {allowed} and is used up: request more under IAM & Admin > Quotas"
    return Refusal(K.QUOTA, scope, sentence)


def _describe_denial(fault: GceFault) -> str:
    match = _PERMISSION.search(fault.message)
    if match:
        return f"the provisioner's service account lacks {match[1]} on {match[2]}: grant a role that has it"
    return f"Google Cloud denies the machine: {_reason(fault)}"


def _reason(fault: GceFault) -> str:
    message = " ".join(fault.message.split()) or "no reason was given"
    return f"{message} ({fault.code})" if fault.code else message
