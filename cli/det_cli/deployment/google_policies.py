"""Check for policies of an organisation that would stop a cluster on Google Cloud, before a deployment."""

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
# Return whether a value of a rule covers the wanted location, image or address; None if that is unknown.
Means = Callable[[str], bool | None]


def check(
    google: Google, machines: Sequence[Machines], variables: Mapping[str, Any], say: Say
) -> None:
    """Raise CommandError for a policy that stops the cluster; warn about policies that cannot be checked."""
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
            say(f"warning: the policy {constraint} depends on tags, and is not judged here")
            continue
        for problem in judge(rules):
            raise CommandError(
                f"the policy {constraint} of the organisation stops the cluster: {problem}",
                f"or ask who administers the organisation for an exception for {google.project}; {SKIP}",
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
            "agents and people call its services without an account of Google Cloud, and sign in at the cluster itself"
        )


def _external_ip(rules: Rules, machines: Sequence[Machines]) -> Iterator[str]:
    pools = sorted({one.pool for one in machines if one.has_external_ip})
    # Allowed values are names of single machines. The names of rented machines are unknown before they start.
    if pools and _allows(rules, lambda value: False) is False:
        yield (
            f"machines of {', '.join(pools)} would have addresses of their own: give --var machine_external_ip=false,"
            " which lets them reach out by Cloud NAT"
        )


def _images(rules: Rules, machines: Sequence[Machines]) -> Iterator[str]:
    for one in machines:
        project = one.image_project
        if project and _allows(rules, lambda value, p=project: _is_project(value, p)) is False:  # type: ignore[misc]
            yield (
                f"machines of {one.pool} would boot an image of project {project}: name one of an allowed project by"
                " --environment-image, or by boot_disk_source_image in a configuration"
            )


def _locations(
    rules: Rules, home: str, machines: Sequence[Machines], variables: Mapping[str, Any]
) -> Iterator[str]:
    for region in sorted({home, *(one.region for one in machines)}):
        if _allows(rules, lambda value, r=region: _is_in(value, r)) is False:  # type: ignore[misc]
            yield f"it allows no resources in {region}: name an allowed region by --region"
    anywhere = _allows(rules, lambda value: _plain(value) == "global")
    if anywhere is False and not variables.get("secret_location"):
        yield (
            "secrets that Google places itself are refused where locations are bound: give --var"
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
        answers = [means(value) for value in allowed]
        if allowed and not any(answers):
            verdict = None if None in answers else False
    return verdict


def _plain(value: str) -> str:
    return value.removeprefix("is:")


def _is_project(value: str, project: str) -> bool | None:
    return None if value.startswith("under:") else _plain(value) == f"projects/{project}"


def _is_in(value: str, region: str) -> bool | None:
    """Return whether a value of the constraint on locations covers a region."""
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
