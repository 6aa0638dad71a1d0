"""Machines of Amazon EC2. Importing the package loads no SDK: calls do."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from det_controlplane.ports.compute import Compute
from det_controlplane.ports.identity import IdentityVerifier
from det_controlplane.ports.market import Market


def compute(sections: Sequence[Mapping[str, Any]]) -> Compute:
    """Return how to rent machines, for pools with these provider sections."""
    from det_provisioner_aws.ec2 import Ec2Compute

    return Ec2Compute()


def market(sections: Sequence[Mapping[str, Any]]) -> Market:
    """Return how to read types and prices."""
    from det_provisioner_aws.prices import Ec2Market

    # Functions in a network that only IPv6 leaves do not reach the price list.
    return Ec2Market(price_list=os.environ.get("DET_AWS_PRICE_LIST") != "false")


def identity_verifiers(sections: Sequence[Mapping[str, Any]]) -> Sequence[IdentityVerifier]:
    """Return how machines of these sections' accounts and regions prove themselves."""
    from det_provisioner_aws.identity import AwsIdentityVerifier
    from det_provisioner_aws.trust import trusted_by

    return (AwsIdentityVerifier(trusted_by(sections)),)
