"""Translate EC2's errors to refusals."""

import re
from dataclasses import dataclass
from typing import Any

from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_controlplane.ports.compute import Refusal

# After these errors the machine may or may not have been launched.
_UNKNOWN = (
    "InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout",
)  # fmt: skip
_KINDS = {
    RefusalKind.NO_CAPACITY: (
        "InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity", "InsufficientFreeAddressesInSubnet",
        "InsufficientVolumeCapacity", "InsufficientAddressCapacity",
        "ReservationCapacityExceeded", "UnfulfillableCapacity", "SpotMaxPriceTooLow",
    ),
    RefusalKind.DENIED: (
        "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure",
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "OptInRequired", "Blocked",
        "PendingVerification", "InvalidClientTokenId", "UnrecognizedClientException",
        "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "RequestExpired",
        "NoCredentials",
    ),
    # Errors caused by the pool's settings. They persist until an operator corrects the settings.
    RefusalKind.INVALID: (
        "", "Unsupported", "UnsupportedOperation", "InvalidParameter", "InvalidParameterValue",
        "InvalidParameterCombination", "MissingParameter", "UnknownParameter", "ValidationException",
        "InvalidAMIID.Malformed", "InvalidAMIID.NotFound", "InvalidAMIID.Unavailable",
        "InvalidSubnetID.NotFound", "InvalidSubnetId.Malformed", "InvalidSubnet", "InvalidSubnet.Conflict",
        "InvalidGroup.NotFound", "InvalidGroupId.Malformed", "InvalidSecurityGroupID.NotFound",
        "InvalidSecurityGroupId.Malformed", "InvalidKeyPair.NotFound", "InvalidKeyPair.Format",
        "InvalidPlacementGroup.Unknown", "InvalidPlacementGroupId.Malformed", "InvalidCapacityReservationId.NotFound",
        "InvalidCapacityReservationId.Malformed", "InvalidBlockDeviceMapping", "InvalidInstanceType",
        "InvalidUserData.Malformed", "InvalidTagKey.Malformed", "TagLimitExceeded", "VPCIdNotSpecified",
        "InvalidAvailabilityZone",
    ),
    RefusalKind.RETRYABLE: (
        "IdempotentParameterMismatch", "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound", *_UNKNOWN,
    ),
}  # fmt: skip
_KIND_OF = {code: kind for kind, codes in _KINDS.items() for code in codes}
# Families of codes that AWS extends. The order matters: RequestLimitExceeded is throttling, not a quota.
_PATTERNS = (
    (re.compile(r"Throttl|RequestLimitExceeded|TooManyRequests|SlowDown"), RefusalKind.RETRYABLE),
    # A new launch template is not visible everywhere at once.
    (re.compile(r"VersionNotFound"), RefusalKind.RETRYABLE),
    (re.compile(r"(Limit|Count)Exceeded"), RefusalKind.QUOTA),
)
# A message of InvalidParameterCombination. The account's plan allows only small types.
_FREE_PLAN = re.compile(r"not eligible for Free Tier", re.IGNORECASE)
# A message of InvalidParameterValue. It appears for some time after the profile and its role were created.
_NEW_PROFILE = re.compile(r"IAM Instance Profile", re.IGNORECASE)
# Quotas that count the vCPUs of types with these prefixes: on-demand, and spot.
_QUOTAS = (
    (("p5",), "Running On-Demand P instances (L-417A185B)", "All P5 Spot Instance Requests"),
    (("p",), "Running On-Demand P instances (L-417A185B)", "All P4, P3 and P2 Spot Instance Requests (L-7212CCBC)"),
    (
        ("g", "vt"),
        "Running On-Demand G and VT instances (L-DB2E81BA)", "All G and VT Spot Instance Requests (L-3819A6DF)",
    ),
    (("trn",), "Running On-Demand Trn instances", "All Trn Spot Instance Requests"),
    (("inf",), "Running On-Demand Inf instances", "All Inf Spot Instance Requests"),
    (
        ("a", "c", "d", "h", "i", "m", "r", "t", "z"),
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances (L-1216C47A)",
        "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests (L-34B43A08)",
    ),
)  # fmt: skip
FREE_PLAN_REMEDY = (
    "The account has AWS's free plan: upgrade it by"
    " `aws freetier upgrade-account-plan --account-plan-type PAID --region us-east-1`"
)
_QUOTAS_OF_TYPES = ("VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded")
_ACTION = re.compile(r"not authorized to perform:? `?([\w-]+:\w+)`?(?: on resource: (\S+))?")
_ENCODED = re.compile(r"Encoded authorization failure message: (\S+)")
_ZONE = re.compile(r"\b[a-z]{2}(?:-[a-z]+)+-\d[a-z]\b")


@dataclass(frozen=True, slots=True)
class AwsError:
    """An error of AWS: a response of its own, or an entry in a response for several machines.

    An error without a code is ours. It means that the settings are invalid, so AWS was not called."""

    code: str
    message: str
    status: int = 400

    @classmethod
    def of(cls, response: dict[str, Any]) -> "AwsError":
        """Make the error from the `response` of botocore's ClientError."""
        error = response.get("Error", {})
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        return cls(str(error.get("Code", "")), str(error.get("Message", "")), int(status))

    @property
    def kind(self) -> RefusalKind:
        if self.is_of_free_plan:
            return RefusalKind.QUOTA
        by_status = RefusalKind.RETRYABLE if self.status >= 500 else RefusalKind.INVALID
        return self._known_kind or by_status

    @property
    def is_passing(self) -> bool:
        """Return whether an invalid launch may succeed later, because no setting is known to cause the error."""
        return self._known_kind is None or bool(_NEW_PROFILE.search(self.message))

    @property
    def is_of_free_plan(self) -> bool:
        """Return whether the account's plan does not allow machines of this type."""
        return bool(_FREE_PLAN.search(self.message))

    @property
    def leaves_unknown(self) -> bool:
        """Return whether the request may have taken effect."""
        return self.code in _UNKNOWN or (self._known_kind is None and self.status >= 500)

    @property
    def _known_kind(self) -> RefusalKind | None:
        matching = (kind for pattern, kind in _PATTERNS if pattern.search(self.code))
        return _KIND_OF.get(self.code) or next(matching, None)

    @property
    def encoded(self) -> str:
        """Return the part of a denial that only `sts:DecodeAuthorizationMessage` can decode."""
        match = _ENCODED.search(self.message)
        return match[1] if match else ""


def refusal(error: AwsError, offer: Offer, zone: str) -> Refusal:
    """Return the reason why an offer gave no machine. `zone` is empty if no zone of the region gave one."""
    scope = _scope(error, offer, zone)
    sentence = _sentence(error, offer, scope)
    return Refusal(error.kind, scope, sentence, _hint(error, zone), error.is_passing)


def place_refusal(error: AwsError, region: str) -> Refusal:
    """Return the reason why a call in a region failed, for calls that do not concern an offer."""
    sentence = f"EC2 in {region} refused: {_reason(error)}{_advice(error, None)}"
    return Refusal(error.kind, Scope("aws", region), sentence)


def _scope(error: AwsError, offer: Offer, zone: str) -> Scope:
    if error.kind in (RefusalKind.DENIED, RefusalKind.RETRYABLE):
        return Scope(offer.provider, offer.region)
    if error.kind is RefusalKind.QUOTA:
        by_type = error.code in _QUOTAS_OF_TYPES or error.is_of_free_plan
        machine_type = offer.machine_type if by_type else ""
        return Scope(offer.provider, offer.region, "", machine_type, offer.capacity.value)
    if error.code == "InsufficientFreeAddressesInSubnet":
        return Scope(offer.provider, offer.region, zone)
    return Scope.of(offer)._replace(zone=zone)


def _sentence(error: AwsError, offer: Offer, scope: Scope) -> str:
    """Return a sentence about the scope, not the offer, so that offers with the same reason share it."""
    if not error.code:  # our own error; AWS was not called
        return f"No machine was requested: {error.message}"
    what = f"{scope.machine_type} {scope.capacity}" if scope.machine_type else "machine"
    where = scope.zone or scope.region
    return f"EC2 gave no {what} in {where}: {_reason(error)}{_advice(error, offer)}"


def _reason(error: AwsError) -> str:
    message = _ENCODED.sub("", error.message).strip().rstrip(".") or "no reason given"
    return f"{message} ({error.code})"


def _advice(error: AwsError, offer: Offer | None) -> str:
    if error.is_of_free_plan:
        return f". {FREE_PLAN_REMEDY}"
    if error.code.endswith("ServiceLinkedRoleCreationNotPermitted"):
        return ". Create the role by `aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`"
    if error.kind is RefusalKind.DENIED:
        match = _ACTION.search(error.message)
        if match:
            on = f" on {match[2]}" if match[2] else ""
            return f". Grant {match[1]}{on} to the role that launches machines"
        return ". Check the rights and credentials of the role that launches machines"
    if error.code in _QUOTAS_OF_TYPES and offer is not None:
        return f'. Request more of the quota "{quota_name(offer)}" in {offer.region}'
    if error.code == "SpotMaxPriceTooLow":
        return ". Raise or remove spot_max_price"
    return ""


def quota_name(offer: Offer) -> str:
    """Return the quota that counts an offer's vCPUs, with its name in Service Quotas."""
    for prefixes, on_demand, spot in _QUOTAS:
        if offer.machine_type.startswith(prefixes):
            return on_demand if offer.capacity is Capacity.ON_DEMAND else spot
    return f"of {offer.machine_type.partition('.')[0]} instances"


def _hint(error: AwsError, zone: str) -> tuple[str, ...]:
    if error.kind not in (RefusalKind.NO_CAPACITY, RefusalKind.INVALID):
        return ()
    _, _, better = error.message.partition("choosing ")
    return tuple(dict.fromkeys(other for other in _ZONE.findall(better) if other != zone))
