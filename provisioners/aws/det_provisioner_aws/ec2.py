"""Rent machines from EC2 (docs/adr/0020-fleets-for-choices.md)."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
from det_controlplane.core.provision import catalog
from det_controlplane.core.provision.model import RefusalKind
from det_controlplane.ports.compute import (
    CloudMachine,
    LaunchOutcome,
    LaunchRequest,
    Place,
    Refusal,
    Unreachable,
)

from det_provisioner_aws.clients import Clients
from det_provisioner_aws.errors import AwsError, place_refusal
from det_provisioner_aws.fleets import Failure, Fleets, explain
from det_provisioner_aws.groups import Attempt, PlacementGroups, attempts, is_unknown_group
from det_provisioner_aws.machines import machine_of
from det_provisioner_aws.parameters import (
    CLUSTER_TAG,
    LAUNCH_TAG,
    launch_parameters,
    run_parameters,
)
from det_provisioner_aws.places import Places, Target, choices
from det_provisioner_aws.settings import PROVIDER, AwsSettings, BadSettings, read_settings

CONSOLE_CHARACTERS = 20_000
_BATCH = 100
_INSTANCE_ID = re.compile(r"\bi-[0-9a-f]+\b")
# With these errors the call was not sent, because credentials are missing or expired.
_NO_CREDENTIALS = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    SSOError,
)
_NOT_THERE = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
# After these refusals, other offers in the region would fail as well.
_FINAL = (RefusalKind.DENIED, RefusalKind.RETRYABLE)


class Ec2Compute:
    """Rents EC2 machines in the regions of the offers."""

    provider = PROVIDER

    def __init__(self, endpoint_url: str | None = None, page_size: int = 1000) -> None:
        self._clients = Clients(endpoint_url)
        self._places = Places(self._clients)
        self._fleets = Fleets(self._clients)
        self._page_size = page_size
        self._groups = PlacementGroups(self._clients)

    def launch(self, request: LaunchRequest) -> LaunchOutcome:
        region = request.offers[0].region
        with _translated_errors("launch"):
            try:
                return self._find(request, region) or self._launch(request, region)
            except (BadSettings, ParamValidationError) as e:
                error = AwsError("", str(e))
            except _NO_CREDENTIALS as e:
                error = AwsError("NoCredentials", str(e))
            except ClientError as e:
                error = self._readable(_definite_error(e), region)
            failures = [Failure(offer, offer.zone, error) for offer in request.offers]
            return explain(request.offers, failures)

    def terminate(self, machines: Sequence[CloudMachine]) -> Sequence[Refusal]:
        refusals: list[Refusal] = []
        for region in dict.fromkeys(m.region for m in machines):
            ids = [m.cloud_id for m in machines if m.region == region]
            for start in range(0, len(ids), _BATCH):
                refusals += self._terminate(region, ids[start : start + _BATCH])
        return refusals

    def owned(self, cluster_id: str, place: Place) -> Sequence[CloudMachine]:
        with _translated_errors("list machines"):
            try:
                return self._tagged(CLUSTER_TAG, cluster_id, place.region)
            except ClientError as e:
                error = self._readable(AwsError.of(e.response), place.region)
                raise Unreachable(place_refusal(error, place.region).sentence) from e

    def console(self, machine: CloudMachine, place: Place) -> str:
        ec2 = self._clients.reading("ec2", machine.region)
        with _translated_errors("read the console"):
            for which in ({"Latest": True}, {}):  # only Nitro machines support Latest
                try:
                    answer = ec2.get_console_output(InstanceId=machine.cloud_id, **which)
                    return str(answer.get("Output", ""))[-CONSOLE_CHARACTERS:]
                except ClientError as e:
                    if AwsError.of(e.response).code != "UnsupportedOperation":
                        return ""
        return ""

    def delete_groups(self, cluster_id: str, place: Place, in_use: Collection[str]) -> bool:
        with _translated_errors("delete placement groups"):
            try:
                return self._groups.delete_unused(cluster_id, place.region, in_use)
            except ClientError as e:
                error = self._readable(AwsError.of(e.response), place.region)
                raise Unreachable(place_refusal(error, place.region).sentence) from e

    def _find(self, request: LaunchRequest, region: str) -> LaunchOutcome | None:
        """Return the machine that an earlier call with this token launched. EC2's own tokens do not span offers."""
        machines = self._tagged(LAUNCH_TAG, request.token, region)
        return LaunchOutcome(machines[0]) if machines else None

    def _launch(self, request: LaunchRequest, region: str) -> LaunchOutcome:
        settings = read_settings(request.settings)
        has_gpus = any(catalog.has_gpus(PROVIDER, o.machine_type) for o in request.offers)
        image = self._places.image(region, settings)
        common = launch_parameters(settings, image, has_gpus=has_gpus)
        targets, without_subnet = self._places.targets(region, settings, request.offers)
        failures = [Failure(o, o.zone, _no_subnet(o.zone or region)) for o in without_subnet]
        fleet_targets = choices(targets)
        outside_group = ""
        if len(fleet_targets) > 1 and not settings.is_exact and request.gang is None:
            machine, new_failures = self._fleets.launch(request, settings, common, fleet_targets)
        else:
            machine, new_failures, outside_group = self._run_in_order(
                request, settings, common, targets
            )
        failures += [
            Failure(f.offer, f.zone, self._readable(f.error, region)) for f in new_failures
        ]
        outcome = explain(request.offers, failures, machine, targets)
        return replace(outcome, outside_group=outside_group)

    def _run_in_order(
        self,
        request: LaunchRequest,
        settings: AwsSettings,
        common: dict[str, Any],
        targets: Sequence[Target],
    ) -> tuple[CloudMachine | None, list[Failure], str]:
        """Make one attempt after another until EC2 launches a machine. Return why it is in no group of its gang."""
        failures: dict[Target, Failure] = {}
        outside_group = ""
        in_order = attempts(request, settings, targets)
        for attempt in in_order:
            target = attempt.target
            try:
                if attempt.group:
                    self._groups.ensure(request, settings, attempt)
                answer = self._run(common, request, settings, attempt)
            except ClientError as e:
                error = _definite_error(e)
                failures[target] = Failure(target.offer, target.subnet.zone, error)
                if attempt.group:
                    outside_group = outside_group or f"{error.message} ({error.code})"
                elif error.kind in _FINAL:
                    break
                continue
            machine = machine_of(answer["Instances"][0], target.offer.region)
            machine = replace(machine, group=attempt.group or machine.group)
            failures.pop(target, None)
            self._delete_groups_of_failures(in_order, attempt.group)
            return machine, list(failures.values()), "" if attempt.group else outside_group
        self._delete_groups_of_failures(in_order, "")
        return None, list(failures.values()), ""

    def _run(
        self,
        common: dict[str, Any],
        request: LaunchRequest,
        settings: AwsSettings,
        attempt: Attempt,
    ) -> Any:
        region = attempt.target.offer.region
        token = f"{request.token}-{attempt.token_suffix}"
        parameters = run_parameters(
            common, request, settings, attempt.target, token, attempt.group
        )  # fmt: skip
        ec2 = self._clients.acting("ec2", region)
        try:
            return ec2.run_instances(**parameters)
        except ClientError as e:
            if not (attempt.group and is_unknown_group(AwsError.of(e.response))):
                raise
        self._groups.forget(region, attempt.group)  # it was deleted after it was created
        self._groups.ensure(request, settings, attempt)
        return ec2.run_instances(**parameters)

    def _delete_groups_of_failures(self, in_order: Sequence[Attempt], used: str) -> None:
        """Delete groups without a machine. EC2 keeps the groups that other machines of the gang use."""
        for attempt in in_order:
            if attempt.group and attempt.group != used:
                region = attempt.target.offer.region
                if self._groups.exists(region, attempt.group):
                    self._groups.delete(region, attempt.group)

    def _terminate(self, region: str, ids: list[str]) -> list[Refusal]:
        """Terminate machines of a region. EC2 rejects calls with an unknown id, so such ids are removed first."""
        while ids:
            try:
                with _translated_errors("terminate machines"):
                    self._clients.acting("ec2", region).terminate_instances(InstanceIds=ids)
                return []
            except ClientError as e:
                error = AwsError.of(e.response)
                unknown_ids = set(_INSTANCE_ID.findall(error.message))
                remaining = [i for i in ids if i not in unknown_ids]
                if error.code not in _NOT_THERE or len(remaining) == len(ids):
                    return [place_refusal(self._readable(error, region), region)]
                ids = remaining
        return []

    def _tagged(self, tag: str, value: str, region: str) -> list[CloudMachine]:
        pages = self._clients.reading("ec2", region).get_paginator("describe_instances")
        filters = [{"Name": f"tag:{tag}", "Values": [value]}]
        return [
            machine_of(instance, region)
            for page in pages.paginate(
                Filters=filters, PaginationConfig={"PageSize": self._page_size}
            )
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
        ]

    def _readable(self, error: AwsError, region: str) -> AwsError:
        """Decode a denial that does not name the missing permission, if the role may do that."""
        if not error.encoded or "not authorized to perform: " in error.message:
            return error
        try:
            sts = self._clients.reading("sts", region)
            answer = sts.decode_authorization_message(EncodedMessage=error.encoded)
            context = json.loads(answer["DecodedMessage"])["context"]
            message = (
                f"not authorized to perform: {context['action']} on resource: {context['resource']}"
            )
        except (ClientError, BotoCoreError, KeyError, ValueError):
            return error
        return AwsError(error.code, message, error.status)


def _no_subnet(place: str) -> AwsError:
    remedy = "add one to network_interface.subnet_ids"
    return AwsError("", f"the pool has no subnet in {place}, {remedy}")


def _definite_error(e: ClientError) -> AwsError:
    """Return the error of a launch. Raise Unreachable if a machine may have been launched nevertheless."""
    error = AwsError.of(e.response)
    if error.leaves_unknown:
        raise Unreachable(f"EC2 failed to launch and does not say what it did: {e}") from e
    return error


@contextmanager
def _translated_errors(purpose: str) -> Iterator[None]:
    """Translate errors of an unreachable or silent AWS to Unreachable."""
    try:
        yield
    except BotoCoreError as e:
        raise Unreachable(f"EC2 did not answer when asked to {purpose}: {e}") from e
