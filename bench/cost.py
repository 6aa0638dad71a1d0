"""Tell what a cluster costs: `python -m bench.cost > docs/cost.md`.

From the reference month, what agents ask for in an hour, the variables of infra/terraform, and published prices.
"""

# ruff: noqa: E501 – the sentences are as long as they are read

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from det_cli.deployment.prices import (
    AWAKE_ACU,
    PRICES,
    PRICES_OF,
    AwsStack,
    GcpStack,
    awake_usd_hour,
    aws_idle,
    gcp_idle,
    hours_for_rds,
    price,
    run_instance_usd_hour,
)
from det_controlplane.core.provision.catalog import machine_type, with_gpus
from det_controlplane.core.provision.offers import Capacity

from bench.reference_month import DAYS, DRIFT, FAULTS, SEED, TYPES, USERS, Outcome, played

TERRAFORM = Path(__file__).parents[1] / "infra" / "terraform"
GPUS = 100
IDLE_LIMIT_USD = {"aws": 1.0, "gcp": 10.0}
SHARE_LIMIT, SPOT_LIMIT = 0.0015, 0.45

# What an agent asks for in an hour where polls are not held; tests/api/test_requests_of_agents.py counts the polls.
IDLE_POLLS, STEADY_POLLS, EARLIER_POLLS = 360, 360, 1800
# Lines of steady work that nobody follows are collected; that test checks for how long.
LOG_BATCHES = 120
# Assumed of a trial: metrics once a minute, a line of its log every ten seconds, each of which was sent on its own before.
REPORTS, EARLIER_LOG_BATCHES = 60, 360
# bench/warm_requests.py holds a request to so much processor of a function and of its database, and a tick of a function.
FUNCTION_CPU_S, DATABASE_CPU_S, TICK_CPU_S = 0.0015, 0.001, 0.02
# tests/api/test_work_of_schedules.py counts passes of the schedules in an hour, their waits, and ways to the database.
TICK_PASSES, TICK_WAITS_S, PROVISION_PASSES = 120, 60.0, 60
REQUEST_TRIPS, TICK_TRIPS, PROVISION_TRIPS = 3.2, 31, 17
# Where polls are held, an idle or steady agent sends one each 30 s, and lines of its log at once.
HELD_POLLS = 120
# What a function with 1024 MB has of a processor; assumed of a way to the database, and of a cloud that lists machines.
PROCESSOR, TRIP_S, LISTING_S = 1024 / 1769, 0.0016, 1.0
REQUEST_S = round(FUNCTION_CPU_S / PROCESSOR + REQUEST_TRIPS * TRIP_S, 3)
TICK_S_HOUR = TICK_WAITS_S + TICK_PASSES * (TICK_CPU_S / PROCESSOR + TICK_TRIPS * TRIP_S)
PROVISION_S_HOUR = PROVISION_PASSES * (LISTING_S + PROVISION_TRIPS * TRIP_S)
# Lines of the functions themselves. Those of the platform are switched off: three a request, of some 400 bytes together.
LOG_GB_HOUR, PLATFORM_LOG_GB = 0.001, 400e-9


@dataclass(frozen=True, slots=True)
class Stack:
    """Hold what infra/terraform says by default."""

    aws: AwsStack
    gcp: GcpStack
    memory_gb: float
    api_memory_gb: float
    pause_after_s: int


def stack() -> Stack:
    controlplane = _text("modules/aws/controlplane/main.tf")
    sizes = _match(r"memory_mb\s*=\s*merge\({(.*?)}", controlplane)
    memories = {name: int(mb) for name, mb in re.findall(r"(\w+)\s*=\s*(\d+)", sizes)}
    return Stack(
        aws=AwsStack(
            database=_default("aws/variables.tf", "database"),
            database_instance_class=_default("aws/variables.tf", "database_instance_class"),
            rds_gb=_number(r"\ballocated_storage\s*= max\(", "modules/aws/database/main.tf"),
            secrets=_count("modules/aws", "aws_secretsmanager_secret"),
            log_retention_days=int(_default("aws/variables.tf", "log_retention_days")),
            relay=_default("aws/variables.tf", "relay") == "true",
            relay_gb=_number(r"volume_size\s*=", "modules/aws/relay/main.tf"),
        ),
        gcp=GcpStack(
            database_tier=_default("gcp/variables.tf", "database_tier"),
            database_highly_available=_default("gcp/variables.tf", "database_highly_available")
            == "true",
            database_disk_gb=int(_default("gcp/variables.tf", "database_disk_gb")),
            schedules=len(_names("modules/gcp/controlplane/main.tf", r"services\s*="))
            - 1,  # all but the API
            secrets=len(_names("gcp/main.tf", r"module \"secrets\".*?values\s*=")),
        ),
        memory_gb=memories["tick"] / 1024,
        api_memory_gb=memories["api"] / 1024,
        pause_after_s=int(_default("aws/variables.tf", "database_pause_after_s")),
    )


def _number(before: str, path: str) -> int:
    return int(_match(before + r"\s*(\d+)", _text(path)))


def _text(path: str) -> str:
    return (TERRAFORM / path).read_text()


def _default(path: str, variable: str) -> str:
    block = _match(rf'variable "{variable}" {{(.*?)\n}}', _text(path))
    return _match(r"default\s*=\s*\"?([^\"\n]+)\"?", block).strip()


def _count(folder: str, resource: str) -> int:
    files = sorted((TERRAFORM / folder).rglob("*.tf"))
    return sum(len(re.findall(rf'resource "{resource}" ', f.read_text())) for f in files)


def _names(path: str, before: str) -> list[str]:
    """Return the keys of the map that follows a pattern."""
    body = _match(before + r"\s*{\n(.*?)\n  }", _text(path))
    return re.findall(r"^    ([\w-]+)\s*=", body, re.MULTILINE)


def _match(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        raise LookupError(f"infra/terraform has nothing like {pattern!r}")
    return found[1]


def busy_aws(
    agents: float,
    requests: float,
    memory_gb: float,
    turn_memory_gb: float,
    database: Mapping[str, float],
    logs_gb: float = LOG_GB_HOUR,
) -> dict[str, float]:
    """Return the parts of an hour with so many agents at work."""
    each = REQUEST_S * memory_gb * price("lambda_gb_s") + price("lambda_request")
    turns_s = TICK_S_HOUR + PROVISION_S_HOUR
    return {
        f"{agents * requests:,.0f} requests": agents * requests * each,
        "tick and provision": turns_s * turn_memory_gb * price("lambda_gb_s"),
        **database,
        "logs": logs_gb * (price("logs_gb") + price("logs_gb_month")),
    }


def aurora(requests: float) -> dict[str, float]:
    """Return what Aurora costs in an hour with so many requests: each writes something."""
    return {
        f"database, {AWAKE_ACU:g} ACU": awake_usd_hour(),
        "its writes": requests * price("aurora_io"),
    }


def text() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    found, s = played(DAYS), stack()
    yield from _head()
    yield from _idle(s)
    yield from _hundred(s)
    yield from _month(found, s)
    yield from _prices()


def _head() -> Iterator[str]:
    yield "<!-- Written by `python -m bench.cost > docs/cost.md`; a test compares. -->"
    yield "# What a cluster costs"
    yield ""
    yield "A model, not a bill: no real account has seen the product yet. It is computed from the defaults of `infra/terraform`, published prices of"
    yield f"{PRICES_OF}, a simulated month of a team, and the requests of an agent. Free allowances of the clouds are not counted."
    yield ""


def _table(head: str, parts: Mapping[str, float], digits: int) -> Iterator[str]:
    yield f"| {head} | $ |"
    yield "|---|---|"
    for name, usd in parts.items():
        yield f"| {name} | {usd:.{digits}f} |"
    yield f"| **together** | **{sum(parts.values()):.{digits}f}** |"
    yield ""


def _idle(s: Stack) -> Iterator[str]:
    yield "## A month in which nobody trains"
    yield ""
    for cloud, name, parts in (
        ("aws", "AWS", aws_idle(s.aws).parts),
        ("gcp", "Google Cloud", gcp_idle(s.gcp).parts),
    ):
        total, limit = sum(parts.values()), IDLE_LIMIT_USD[cloud]
        verdict = "is met" if total <= limit else "is **missed**"
        yield f"{name}: the aim of ${limit:g} {verdict}."
        yield ""
        yield from _table("a month", parts, 2)
    yield f"Schedules are switched off when nothing waits, runs or is rented, and Aurora pauses {s.pause_after_s} seconds after the last connection. Looking at the cluster wakes it:"
    yield f"a glance of a minute costs {awake_usd_hour() * (60 + s.pause_after_s) / 3600 * 100:.1f} cents of Aurora. On Google Cloud the smallest instance of Cloud SQL runs always: it is most of the bill."
    relayed = aws_idle(replace(s.aws, relay=True)).usd
    yield f"With a relay for notebooks and shells (`relay = true`) an idle month on AWS costs ${relayed:.2f}; an hour in which it runs {price('t3.nano') * 100:.2f} cents."
    instance = run_instance_usd_hour()
    yield f"On Google Cloud a notebook or shell keeps an instance of the relay, {instance * 100:.1f} cents an hour, and its open page one of the API, as the polls of its machine do anyway."
    yield "Checkpoints that are kept cost what the bucket costs."
    yield ""


def _hundred(s: Stack) -> Iterator[str]:
    gpu = float(machine_type("aws", "g4dn.xlarge").price("us-east-1", Capacity.ON_DEMAND))
    bill, requests = GPUS * gpu, STEADY_POLLS + REPORTS + LOG_BATCHES
    parts = busy_aws(GPUS, requests, s.api_memory_gb, s.memory_gb, aurora(GPUS * requests))
    share = sum(parts.values()) / bill
    small = {"database": price(s.aws.database_instance_class)}
    of_rds = sum(busy_aws(GPUS, requests, s.api_memory_gb, s.memory_gb, small).values()) / bill
    verdicts = ["met" if part <= SHARE_LIMIT else "**missed**" for part in (of_rds, share)]
    yield f"## An hour with {GPUS} T4 GPUs at work"
    yield ""
    yield f"{GPUS} machines g4dn.xlarge on demand cost ${bill:.2f} an hour. The control plane on AWS is to add {SHARE_LIMIT:.2%} at most."
    yield f"With `--var database=rds` it adds {of_rds:.2%}: the aim is {verdicts[0]}. With Aurora, the default, which pauses, it adds {share:.2%}: the aim is {verdicts[1]}. The table is of the default."
    yield ""
    yield from _table("an hour", parts, 4)
    yield f"An agent whose work runs steadily polls {STEADY_POLLS} times an hour, an idle one {IDLE_POLLS} times (counted; it was {EARLIER_POLLS} while agents with work polled every two seconds)."
    yield f"Lines of its trial are sent {LOG_BATCHES} times an hour, at once while somebody follows them (a line every ten seconds was {EARLIER_LOG_BATCHES} requests, one every second {3600:,})."
    yield f"A request is held to {FUNCTION_CPU_S * 1000:g} ms of a processor in the function, which has {PROCESSOR:.2f} of one, and to {DATABASE_CPU_S * 1000:g} ms in the database (`bench/warm_requests.py`; 0.95 and 0.27 were measured);"
    yield f"with {REQUEST_TRIPS:g} ways to the database (counted; assumed to take {TRIP_S * 1000:g} ms each) {REQUEST_S * 1000:.0f} ms are billed. {GPUS} agents so need {GPUS * requests / 3600 * DATABASE_CPU_S:.1%} of a processor of the database: {AWAKE_ACU:g} ACU, the least that an Aurora has which is awake, are assumed to do."
    yield f"`tick` looks {TICK_PASSES} times an hour and waits for {TICK_WAITS_S:.0f} s, `provision` lists the machines {PROVISION_PASSES} times (counted, `tests/api/test_work_of_schedules.py`): {TICK_S_HOUR + PROVISION_S_HOUR:.0f} seconds of both with {LISTING_S:g} s for each list."
    yield f"Assumed are also {REPORTS} reports of its trial an hour, a write for each request, and {LOG_GB_HOUR * 1000:g} MB of logs: what Lambda writes of its own about each request is switched off."
    yield _on_larger_machines(s)
    yield ""
    yield from _remedies(s, bill)
    yield from _hundred_on_google()


def _hundred_on_google() -> Iterator[str]:
    """Yield the cost of the control plane on Google Cloud for 100 machines; held polls keep an instance of the API."""
    machine = with_gpus(machine_type("gcp", "n1-standard-4"), "nvidia-tesla-t4", 1)
    gpu = float(machine.price("us-central1", Capacity.ON_DEMAND))
    requests = GPUS * (HELD_POLLS + REPORTS + EARLIER_LOG_BATCHES)
    turns_s = TICK_S_HOUR + PROVISION_S_HOUR
    parts = {
        "an instance of the API, which held polls keep": run_instance_usd_hour(),
        "tick and provision": turns_s * run_instance_usd_hour() / 3600,
        f"{requests:,} requests": requests * price("run_request"),
    }
    share = sum(parts.values()) / (GPUS * gpu)
    yield f"On Google Cloud agents hold their polls for 30 s. While one machine is there, its polls keep an instance of the API, which takes up to 250 requests at once. {GPUS} machines n1-standard-4 with a T4 cost ${GPUS * gpu:.2f} an hour,"
    yield f"and the control plane adds {share:.2%}. An agent sends {HELD_POLLS} polls, {REPORTS} reports and, with a line of its log every ten seconds, {EARLIER_LOG_BATCHES} requests with lines an hour. This excludes Cloud SQL, which costs the same in an idle month. For a single such machine the instance adds {run_instance_usd_hour() / gpu:.0%}."
    yield ""
    yield from _table("an hour on Google Cloud", parts, 4)


def _on_larger_machines(s: Stack) -> str:
    """Tell the share where four GPUs, each with a trial, have one agent."""
    name, gpus = "g4dn.12xlarge", 4
    machines, requests = GPUS // gpus, STEADY_POLLS + LOG_BATCHES + gpus * REPORTS
    bill = machines * float(machine_type("aws", name).price("us-east-1", Capacity.ON_DEMAND))
    database = aurora(machines * requests)
    parts = busy_aws(machines, requests, s.api_memory_gb, s.memory_gb, database)
    return f"These are the smallest machines: on {machines} of {name}, with a trial on each of the {gpus} GPUs, it adds {sum(parts.values()) / bill:.2%} to ${bill:.2f}. Their reports share a request only where they come within the milliseconds of one: each is counted."


def _remedies(s: Stack, bill: float) -> Iterator[str]:
    """Tell what brings the share down, one change after the other."""
    rds = {"database": price(s.aws.database_instance_class)}
    kept = aws_idle(replace(s.aws, database="rds")).usd - aws_idle(s.aws).usd
    now = STEADY_POLLS + REPORTS + LOG_BATCHES
    told = "and Lambda's own lines about each request, as before"
    each = GPUS * PLATFORM_LOG_GB
    many = EARLIER_POLLS + REPORTS + EARLIER_LOG_BATCHES
    some = STEADY_POLLS + REPORTS + EARLIER_LOG_BATCHES
    steps = (
        (f"agents with work polling every two seconds, sending each line of a log, {told}", many, aurora(GPUS * many), many * each),
        (f"sending each line of a log, {told}", some, aurora(GPUS * some), some * each),
        (told.removeprefix("and "), now, aurora(GPUS * now), now * each),
        ("as it is", now, aurora(GPUS * now), 0.0),
        (f"and `database = \"rds\"` with {s.aws.database_instance_class}: no pause, ${kept:.0f} a month more while idle", now, rds, 0.0),
    )  # fmt: skip
    yield "| what it would be with | $ an hour | of the bill |"
    yield "|---|---|---|"
    for name, requests, database, more_gb in steps:
        parts = busy_aws(
            GPUS, requests, s.api_memory_gb, s.memory_gb, database, LOG_GB_HOUR + more_gb
        )
        usd = sum(parts.values())
        yield f"| {name} | {usd:.3f} | {usd / bill:.2%} |"
    yield ""
    yield f"The database is the largest part. An RDS instance meets the aim, and is cheaper for a cluster that works more than {hours_for_rds(s.aws):.0f} hours a month, as `det deploy aws up --dry-run` tells for the one at hand; Aurora is for one that often"
    yield "pauses, and the default ([decision](adr/0033-aurora-by-default.md)). Smaller functions are not done: they have less of a processor, and answer later."
    yield ""


def _month(found: Mapping[str, Outcome], s: Stack) -> Iterator[str]:
    spot, on_demand = found["spot with fallback"], found["on demand"]
    ratio = spot.usd / on_demand.usd
    verdict = "met" if ratio <= SPOT_LIMIT else "**missed**"
    yield "## The reference month"
    yield ""
    yield f"{USERS} people submit single trials, adaptive searches of 16 trials and trials on four GPUs, at day; nights and weekends are quiet. The pool may rent {', '.join(TYPES)} in three zones of"
    yield f"us-east-1. Decisions, cooldowns and prices are the product's; the market is simulated (seed {SEED}): spot costs 45 % of on-demand and drifts by {DRIFT:.0%}, a spot machine is taken back"
    yield f"every {1 / FAULTS.reclaims_per_hour:.0f} hours, {FAULTS.reclaims_unannounced:.0%} of them without a notice, and {FAULTS.stockout:.0%} of the time a zone lacks a type."
    yield ""
    yield f"Spot with fallback costs {ratio:.1%} of on-demand, with the same trials done; the aim of {SPOT_LIMIT:.0%} is {verdict}."
    yield ""
    yield "| | " + " | ".join(found) + " |"
    yield "|---|---|---|"
    rows = (
        ("trials done", "trials", "{:,}"), ("GPU-hours asked for", "gpu_hours", "{:,.0f}"),
        ("machine-hours", "machine_hours", "{:,.0f}"), ("machines", "machines", "{:,}"),
        ("reclaims that hit work", "reclaims", "{:,}"), ("refused offers", "refusals", "{:,}"),
        ("longest wait of a trial, hours", "longest_wait_h", "{:.1f}"), ("machines, $", "usd", "{:,.2f}"),
    )  # fmt: skip
    for name, of, form in rows:
        yield (
            f"| {name} | " + " | ".join(form.format(getattr(o, of)) for o in found.values()) + " |"
        )
    yield f"| control plane, $ | {_control_plane(spot, s):.2f} | {_control_plane(on_demand, s):.2f} |"
    yield ""
    yield f"The control plane is Aurora and functions in the {spot.active_hours:.0f} hours in which a machine is there, and the idle month. Disks, traffic and taxes are not counted."
    yield ""


def _control_plane(outcome: Outcome, s: Stack) -> float:
    requests = STEADY_POLLS + REPORTS + LOG_BATCHES
    agents = outcome.machine_hours / outcome.active_hours
    database = aurora(agents * requests)
    hour = sum(busy_aws(agents, requests, s.api_memory_gb, s.memory_gb, database).values())
    return outcome.active_hours * hour + aws_idle(s.aws).usd


def _prices() -> Iterator[str]:
    yield "## Prices"
    yield ""
    yield f"As published in {PRICES_OF}; those of machines are in [pools](reference/pools.md#machine-types-and-prices)."
    yield ""
    yield "| what | $ |"
    yield "|---|---|"
    for usd, what in PRICES.values():
        yield f"| {what} | {usd:.10f}".rstrip("0").rstrip(".") + " |"


if __name__ == "__main__":
    print(text(), end="")
