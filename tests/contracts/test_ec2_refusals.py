"""Translation of EC2's errors to refusals."""

from dataclasses import replace
from decimal import Decimal

import pytest
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.core.provision.offers import Capacity, Offer, Scope
from det_provisioner_aws.errors import AwsError, quota_name, refusal
from det_provisioner_aws.fleets import Failure, explain
from det_provisioner_aws.places import Subnet, Target

A, B = "us-west-2a", "us-west-2b"
OFFER = Offer("aws", "us-west-2", A, "g5.xlarge", Capacity.SPOT, 1, Decimal(1))
ANYWHERE = replace(OFFER, zone="")
TARGETS = [Target(ANYWHERE, Subnet("subnet-a", A)), Target(ANYWHERE, Subnet("subnet-b", B))]
NO_CAPACITY = AwsError("InsufficientInstanceCapacity", "not enough", 500)
UNSUPPORTED = AwsError(
    "Unsupported",
    "Your requested instance type (g5.xlarge) is not supported in your requested Availability Zone"
    " (us-west-2a). Please retry your request by not specifying an Availability Zone or choosing us-west-2b.",
)  # fmt: skip
FREE_PLAN = AwsError(
    "InvalidParameterCombination",
    "The specified instance type is not eligible for Free Tier. For a list of Free Tier instance types, run"
    " 'describe-instance-types' with the filter 'free-tier-eligible=true'.",
)  # fmt: skip


@pytest.mark.parametrize(
    ("code", "status", "kind", "scope"),
    [
        ("InsufficientInstanceCapacity", 500, RefusalKind.NO_CAPACITY, Scope.of(OFFER)),
        ("InsufficientVolumeCapacity", 500, RefusalKind.NO_CAPACITY, Scope.of(OFFER)),
        ("UnfulfillableCapacity", 400, RefusalKind.NO_CAPACITY, Scope.of(OFFER)),
        ("SpotMaxPriceTooLow", 400, RefusalKind.NO_CAPACITY, Scope.of(OFFER)),
        ("InsufficientFreeAddressesInSubnet", 400, RefusalKind.NO_CAPACITY, Scope("aws", "us-west-2", A)),
        ("VcpuLimitExceeded", 400, RefusalKind.QUOTA, Scope("aws", "us-west-2", "", "g5.xlarge", "spot")),
        ("MaxSpotInstanceCountExceeded", 400, RefusalKind.QUOTA, Scope("aws", "us-west-2", "", "g5.xlarge", "spot")),
        ("VolumeLimitExceeded", 400, RefusalKind.QUOTA, Scope("aws", "us-west-2", capacity="spot")),
        ("UnauthorizedOperation", 403, RefusalKind.DENIED, Scope("aws", "us-west-2")),
        ("ExpiredToken", 400, RefusalKind.DENIED, Scope("aws", "us-west-2")),
        ("RequestLimitExceeded", 503, RefusalKind.RETRYABLE, Scope("aws", "us-west-2")),
        ("IdempotentParameterMismatch", 400, RefusalKind.RETRYABLE, Scope("aws", "us-west-2")),
        ("InvalidParameterValue", 400, RefusalKind.INVALID, Scope.of(OFFER)),
        ("InvalidAMIID.NotFound", 400, RefusalKind.INVALID, Scope.of(OFFER)),
        ("SomethingNew", 400, RefusalKind.INVALID, Scope.of(OFFER)),
        ("ThrottledByAWS", 400, RefusalKind.RETRYABLE, Scope("aws", "us-west-2")),
        ("TooManyRequestsException", 429, RefusalKind.RETRYABLE, Scope("aws", "us-west-2")),
        ("InvalidLaunchTemplateId.VersionNotFound", 400, RefusalKind.RETRYABLE, Scope("aws", "us-west-2")),
        ("FleetInstancesLimitExceeded", 400, RefusalKind.QUOTA, Scope("aws", "us-west-2", capacity="spot")),
        ("SomethingNew", 503, RefusalKind.RETRYABLE, Scope("aws", "us-west-2")),
    ],
)  # fmt: skip
def test_codes_have_kinds_and_scopes(
    code: str, status: int, kind: RefusalKind, scope: Scope
) -> None:
    result = refusal(AwsError(code, "said", status), OFFER, A)
    assert (result.kind, result.scope) == (kind, scope)
    assert f"said ({code})" in result.sentence


@pytest.mark.parametrize(
    ("code", "message", "passing"),
    [
        ("InvalidAMIID.NotFound", "The image id does not exist", False),
        ("InvalidParameterCombination", "groupName cannot be used with subnet", False),
        ("", "root_volume_size is 20 GiB: give 100 or more", False),
        ("SomethingNew", "said", True),
        (
            "InvalidParameterValue",
            "Value (m) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
            True,
        ),
        ("InvalidParameterValue", 'IAM Instance Profile "det-box-machine" has no associated IAM Roles', True),
    ],
)  # fmt: skip
def test_only_errors_of_settings_persist(code: str, message: str, passing: bool) -> None:
    result = refusal(AwsError(code, message), OFFER, A)
    assert (result.kind, result.passing) == (RefusalKind.INVALID, passing)


def test_free_plan_refusal_limits_the_type_and_has_the_remedy() -> None:
    result = refusal(FREE_PLAN, OFFER, A)
    assert result.kind is RefusalKind.QUOTA
    assert result.scope == Scope("aws", "us-west-2", "", "g5.xlarge", "spot")
    assert "aws freetier upgrade-account-plan --account-plan-type PAID" in result.sentence


@pytest.mark.parametrize(
    ("code", "status", "unknown"),
    [
        ("InternalError", 500, True),
        ("Unavailable", 503, True),
        ("SomethingNew", 502, True),
        ("InsufficientInstanceCapacity", 500, False),
        ("InsufficientVolumeCapacity", 500, False),
        ("RequestLimitExceeded", 503, False),
        ("SomethingNew", 400, False),
    ],
)
def test_some_errors_leave_the_effect_unknown(code: str, status: int, unknown: bool) -> None:
    assert AwsError(code, "", status).leaves_unknown is unknown


@pytest.mark.parametrize(
    ("machine_type", "on_demand", "spot"),
    [
        ("p5.48xlarge", "L-417A185B", "All P5"),
        ("p4d.24xlarge", "L-417A185B", "L-7212CCBC"),
        ("g6e.xlarge", "L-DB2E81BA", "L-3819A6DF"),
        ("m5.large", "L-1216C47A", "L-34B43A08"),
        ("trn1.32xlarge", "Trn", "Trn"),
        ("x2iedn.large", "x2iedn", "x2iedn"),
    ],
)
def test_quotas_have_the_names_of_service_quotas(
    machine_type: str, on_demand: str, spot: str
) -> None:
    offer = replace(OFFER, machine_type=machine_type)
    assert spot in quota_name(offer)
    assert on_demand in quota_name(replace(offer, capacity=Capacity.ON_DEMAND))


def test_refusal_of_missing_type_hints_at_other_zones() -> None:
    result = refusal(UNSUPPORTED, OFFER, A)
    assert (result.kind, result.hint) == (RefusalKind.INVALID, (B,))


def test_offer_is_invalid_only_if_all_zones_reject_it() -> None:
    in_a, in_b = Failure(ANYWHERE, A, UNSUPPORTED), Failure(ANYWHERE, B, UNSUPPORTED)
    full = Failure(ANYWHERE, B, NO_CAPACITY)
    kinds = [
        [r.kind for r in explain([ANYWHERE], failures, targets=TARGETS).refusals]
        for failures in ([in_a, full], [in_a], [in_a, in_b])
    ]
    assert kinds == [[RefusalKind.NO_CAPACITY], [RefusalKind.NO_CAPACITY], [RefusalKind.INVALID]]


def test_offer_without_an_error_is_also_explained() -> None:
    second = replace(OFFER, machine_type="g5.2xlarge")
    refusals = explain([OFFER, second], [Failure(OFFER, A, NO_CAPACITY)]).refusals
    assert [r.scope for r in refusals] == [Scope.of(OFFER), Scope.of(second)]
    assert "no reason" in refusals[1].sentence


def test_refusal_of_a_region_is_reported_once() -> None:
    offers = [OFFER, replace(OFFER, machine_type="g5.2xlarge"), replace(OFFER, zone=B)]
    error = AwsError("UnauthorizedOperation", "no", 403)
    (only_refusal,) = explain(offers, [Failure(o, o.zone, error) for o in offers]).refusals
    assert only_refusal.sentence.startswith(
        "EC2 gave no machine in us-west-2: no (UnauthorizedOperation)"
    )


def test_bad_settings_are_reported_with_one_sentence() -> None:
    offers = [OFFER, replace(OFFER, machine_type="g5.2xlarge")]
    bad = AwsError("", "root_volume_size is 20 GiB: give 100 or more")
    refusals = explain(offers, [Failure(o, o.zone, bad) for o in offers]).refusals
    assert [r.scope for r in refusals] == [Scope.of(o) for o in offers]
    assert {r.sentence for r in refusals} == {
        "No machine was requested: root_volume_size is 20 GiB: give 100 or more"
    }
