"""Machines of Amazon EC2. Importing the package does not load the SDK; its functions do."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.ports.compute import Compute, Market
from det_controlplane.ports.identity import IdentityVerifier
from det_controlplane.ports.provider import Provider


def compute(sections: Sequence[Mapping[str, Any]]) -> Compute:
    """Return the object that rents machines, for pools with these provider sections."""
    from det_provisioner_aws.ec2 import Ec2Compute

    return Ec2Compute()


def market(sections: Sequence[Mapping[str, Any]]) -> Market:
    """Return the object that reads machine types and prices."""
    from det_provisioner_aws.prices import Ec2Market

    # The price list has no IPv6 endpoint, so functions in an IPv6-only network cannot reach it.
    return Ec2Market(price_list=os.environ.get("DET_AWS_PRICE_LIST") != "false")


def identity_verifiers(sections: Sequence[Mapping[str, Any]]) -> Sequence[IdentityVerifier]:
    """Return the verifiers of machines in the accounts and regions of these sections."""
    from det_provisioner_aws.identity import AwsIdentityVerifier, trusted_by

    return (AwsIdentityVerifier(trusted_by(sections)),)


PROVIDER = Provider("aws", compute, identity_verifiers, market)
