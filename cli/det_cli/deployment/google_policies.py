"""Checks of an organisation's policies that would prevent a cluster on Google Cloud."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from det_cli.deployment.google import Denied, Google
from det_cli.deployment.google_machines import Machines
from det_cli.deployment.google_quotas import SKIP
from det_cli.errors import CommandError
from det_cli.render import Say

INVOKER = "run.managed.requireInvokerIam"
EXTERNAL_IP = "compute.vmExternalIpAccess"
IMAGES = "compute.trustedImageProjects"
LOCATIONS = "gcp.resourceLocations"
# The prefixes of the regions in each group of locations. Other groups are not checked.
_GROUPS = {
    "us": ("us-",), "northamerica": ("us-", "northamerica-"), "southamerica": ("southamerica-",),
    "europe": ("europe-",), "asia": ("asia-",), "australia": ("australia-",), "africa": ("africa-",),
}  # fmt: skip

Json = Mapping[str, Any]
Rules = Sequence[Json]
# Returns True if a value of a rule covers a location, image or address, or None if that is unknown.
Means = Callable[[str], bool | None]


def check(
    google: Google, machines: Sequence[Machines], variables: Mapping[str, Any], say: Say
) -> None:
    """Raise CommandError for a policy that prevents the cluster. Warn about policies that cannot be checked."""
    checks: Mapping[str, Callable[[Rules], Iterator[str]]] = {
        INVOKER: lambda rules: _invoker(rules),
        EXTERNAL_IP: lambda rules: _external_ip(rules, machines),
        IMAGES: lambda rules: _images(rules, machines),
        LOCATIONS: lambda rules: _locations(rules, google.region, machines, variables),
    }
    for constraint, judge in checks.items():
        try:
            rules = _rules(google, constraint)
        except Denied as e:
            say(f"warning: policies of the organisation cannot be read: {e.cause}")
            return
        if any("condition" in rule for rule in rules):
            say(f"warning: the policy {constraint} depends on tags and is not checked")
            continue
        for problem in judge(rules):
            raise CommandError(
                f"the policy {constraint} of the organisation prevents the cluster: {problem}",
                f"ask an administrator of the organisation for an exception for {google.project}; {SKIP}",
            )


def _rules(google: Google, constraint: str) -> Rules:
    """Return the rules in force in the project, including inherited rules of the organisation and its folders."""
    path = f"/v2/projects/{google.project}/policies/{constraint}:getEffectivePolicy"
    policy = google.call("GET", "orgpolicy", path) or {}
    rules: Rules = policy.get("spec", {}).get("rules", ())
    return rules


def _invoker(rules: Rules) -> Iterator[str]:
    if any(rule.get("enforce") for rule in rules):
        yield (
            "agents and users call its services without a Google Cloud account and sign in at the cluster"
        )


def _external_ip(rules: Rules, machines: Sequence[Machines]) -> Iterator[str]:
    pools = sorted({one.pool for one in machines if one.has_external_ip})
    # Allowed values are names of single machines. The names of rented machines are unknown before they start.
    if pools and _allows(rules, lambda value: False) is False:
        yield (
            f"machines of {', '.join(pools)} would have external addresses: give --var machine_external_ip=false"
            " to use Cloud NAT instead"
        )


def _images(rules: Rules, machines: Sequence[Machines]) -> Iterator[str]:
    for one in machines:
        project = one.image_project
        if project and _allows(rules, lambda value, p=project: _is_project(value, p)) is False:  # type: ignore[misc]
            yield (
                f"machines of {one.pool} would boot an image of project {project}: give an image of an allowed project"
                " with --environment-image, or with boot_disk_source_image in a configuration"
            )


def _locations(
    rules: Rules, home: str, machines: Sequence[Machines], variables: Mapping[str, Any]
) -> Iterator[str]:
    for region in sorted({home, *(one.region for one in machines)}):
        if _allows(rules, lambda value, r=region: _is_in(value, r)) is False:  # type: ignore[misc]
            yield f"it allows no resources in {region}: give an allowed region with --region"
    anywhere = _allows(rules, lambda value: _plain(value) == "global")
    if anywhere is False and not variables.get("secret_location"):
        yield (
            "it does not allow secrets with automatic replication: give --var"
            f" secret_location={home}"
        )


def _allows(rules: Rules, means: Means) -> bool | None:
    """Return whether the rules allow the values that `means` covers, or None if that is unknown."""
    verdict: bool | None = True
    for rule in rules:
        values = rule.get("values", {})
        if rule.get("denyAll"):
            return False
        if any(means(value) for value in values.get("deniedValues", ())):
            return False
        allowed = values.get("allowedValues", ())
        matches = [means(value) for value in allowed]
        if allowed and not any(matches):
            verdict = None if None in matches else False
    return verdict


def _plain(value: str) -> str:
    return value.removeprefix("is:")


def _is_project(value: str, project: str) -> bool | None:
    return None if value.startswith("under:") else _plain(value) == f"projects/{project}"


def _is_in(value: str, region: str) -> bool | None:
    """Return True if a value of the location constraint covers a region, or None if that is unknown."""
    if not value.startswith("in:"):
        plain = _plain(value)
        return plain == region or plain.startswith(f"{region}-")
    group = value.removeprefix("in:").removesuffix("-locations")
    if group == region:
        return True
    beginnings = _GROUPS.get(group)
    if beginnings is not None:
        return region.startswith(beginnings)
    # A group of a single region has the name of the region, with a digit at its end. Other groups are unknown.
    return False if group[-1:].isdigit() else None
