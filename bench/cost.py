"""Estimate the cost of a cluster: `python -m bench.cost > docs/cost.md`.

The inputs are the reference month, the requests of an agent in an hour, the variables of infra/terraform, and published prices.
"""

# ruff: noqa: E501 – the sentences stand in one line each, as in docs/cost.md

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from det_cli.deployment.prices import (
    AWAKE_ACU,
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
from det_controlplane.core.provision.warm import WarmPolicy

from bench.reference_market import PLENTY, SCARCITY, SHARES
from bench.reference_month import (
    BOOT_S,
    DAYS,
    DRIFT,
    FAULTS,
    RESTART_S,
    SEED,
    TYPES,
    USERS,
    Outcome,
    played,
)

TERRAFORM = Path(__file__).parents[1] / "infra" / "terraform"
GPUS = 100
IDLE_LIMIT_USD = {"aws": 1.0, "gcp": 10.0}
SHARE_LIMIT, SPOT_LIMIT = 0.0015, 0.45

# Polls of an agent in an hour without held polls, as tests/api/test_requests_of_agents.py counts them.
IDLE_POLLS, STEADY_POLLS = 360, 360
# The agent collects log lines of steady work without followers; that test checks for how long.
LOG_BATCHES = 120
# A trial is assumed to report metrics once a minute and to write a log line every ten seconds.
REPORTS, LOG_LINES = 60, 360
# The limits of bench/warm_requests.py: processor time of a function and its database for a request, and of a tick.
FUNCTION_CPU_S, DATABASE_CPU_S, TICK_CPU_S = 0.0015, 0.001, 0.02
# tests/api/test_work_of_schedules.py counts passes of the schedules in an hour, their waits, and round trips to the database.
TICK_PASSES, TICK_WAITS_S, PROVISION_PASSES = 120, 60.0, 60
REQUEST_TRIPS, TICK_TRIPS, PROVISION_TRIPS = 3.2, 40, 17
# Where polls are held, an idle or steady agent sends one each 30 s, and sends lines of its log immediately.
HELD_POLLS = 120
# The processor share of a function with 1024 MB, and assumed times of a database round trip and of a machine listing.
PROCESSOR, TRIP_S, LISTING_S = 1024 / 1769, 0.0016, 1.0
REQUEST_S = round(FUNCTION_CPU_S / PROCESSOR + REQUEST_TRIPS * TRIP_S, 3)
TICK_S_HOUR = TICK_WAITS_S + TICK_PASSES * (TICK_CPU_S / PROCESSOR + TICK_TRIPS * TRIP_S)
PROVISION_S_HOUR = PROVISION_PASSES * (LISTING_S + PROVISION_TRIPS * TRIP_S)
# Log lines of the functions; the platform's own lines are disabled.
LOG_GB_HOUR = 0.001


@dataclass(frozen=True, slots=True)
class Stack:
    """Default settings of infra/terraform."""

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
    match = re.search(pattern, text, re.DOTALL)
    if match is None:
        raise LookupError(f"infra/terraform has nothing like {pattern!r}")
    return match[1]


def busy_aws(
    agents: float,
    requests: float,
    memory_gb: float,
    turn_memory_gb: float,
    database: Mapping[str, float],
    logs_gb: float = LOG_GB_HOUR,
) -> dict[str, float]:
    """Return the costs of an hour with a number of busy agents, by part."""
    each = REQUEST_S * memory_gb * price("lambda_gb_s") + price("lambda_request")
    turns_s = TICK_S_HOUR + PROVISION_S_HOUR
    return {
        f"{agents * requests:,.0f} requests": agents * requests * each,
        "tick and provision": turns_s * turn_memory_gb * price("lambda_gb_s"),
        **database,
        "logs": logs_gb * (price("logs_gb") + price("logs_gb_month")),
    }


def aurora(requests: float) -> dict[str, float]:
    """Return the costs of Aurora in an hour with a number of requests. Each request writes rows."""
    return {
        f"database, {AWAKE_ACU:g} ACU": awake_usd_hour(),
        "its writes": requests * price("aurora_io"),
    }


def text() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    outcomes, s = played(DAYS), stack()
    warm = played(DAYS, warm=WarmPolicy(WARM_USD_DAY))
    yield from _head()
    yield from _idle(s)
    yield from _hundred(s)
    yield from _month(outcomes, s)
    yield from _warm(outcomes, warm)
    yield from _prices()


def _paragraph(*sentences: str) -> str:
    return textwrap.fill(" ".join(sentences), 100, break_long_words=False, break_on_hyphens=False)


def _head() -> Iterator[str]:
    yield "<!-- Written by `python -m bench.cost > docs/cost.md`; a test compares. -->"
    yield "# Cluster costs"
    yield ""
    yield _paragraph(
        "This page estimates the cost of a cluster: when it is idle, when 100 GPUs are busy, and for a team in a month.",
        "No real account has run a cluster yet, so no bill has confirmed these figures.",
        f"It uses the defaults of `infra/terraform` and prices of {PRICES_OF}, without free tiers.",
        "For your own options, run:",
    )
    yield ""
    yield "```sh"
    yield "det deploy aws up --cluster-id team --region us-east-1 --dry-run"
    yield "```"
    yield ""


def _table(head: str, parts: Mapping[str, float], digits: int) -> Iterator[str]:
    yield f"| {head} | $ |"
    yield "|---|---|"
    for name, usd in parts.items():
        yield f"| {name} | {usd:.{digits}f} |"
    yield f"| **total** | **{sum(parts.values()):.{digits}f}** |"
    yield ""


def _idle(s: Stack) -> Iterator[str]:
    yield "## An idle month"
    yield ""
    for cloud, name, parts in (
        ("aws", "AWS", aws_idle(s.aws).parts),
        ("gcp", "Google Cloud", gcp_idle(s.gcp).parts),
    ):
        total, limit = sum(parts.values()), IDLE_LIMIT_USD[cloud]
        verdict = "is met" if total <= limit else "is **missed**"
        yield f"{name} (the goal of ${limit:g} {verdict}):"
        yield ""
        yield from _table("a month", parts, 2)
    relay_usd, instance = aws_idle(replace(s.aws, relay=True)).usd, run_instance_usd_hour() * 100
    glance = awake_usd_hour() * (60 + s.pause_after_s) / 3600 * 100
    yield f"- Aurora pauses {s.pause_after_s} seconds after the last connection. A look at the cluster costs {glance:.1f} cents."
    yield f"- On AWS a relay raises the idle month to ${relay_usd:.2f}, and costs {price('t3.nano') * 100:.2f} cents for each hour it runs."
    yield f"- On Google Cloud a running notebook or shell costs {instance:.1f} cents an hour for the relay."
    yield "- Cloud SQL cannot pause. Stored checkpoints cost the price of the bucket."
    yield ""


def _hundred(s: Stack) -> Iterator[str]:
    gpu = float(machine_type("aws", "g4dn.xlarge").price("us-east-1", Capacity.ON_DEMAND))
    bill, requests = GPUS * gpu, STEADY_POLLS + REPORTS + LOG_BATCHES
    parts = busy_aws(GPUS, requests, s.api_memory_gb, s.memory_gb, aurora(GPUS * requests))
    share = sum(parts.values()) / bill
    small = {"database": price(s.aws.database_instance_class)}
    of_rds = sum(busy_aws(GPUS, requests, s.api_memory_gb, s.memory_gb, small).values()) / bill
    verdicts = ["met" if part <= SHARE_LIMIT else "**missed**" for part in (of_rds, share)]
    rds_extra = aws_idle(replace(s.aws, database="rds")).usd - aws_idle(s.aws).usd
    yield f"## An hour with {GPUS} busy T4 GPUs"
    yield ""
    yield f"On AWS, {GPUS} on-demand machines g4dn.xlarge cost ${bill:.2f} an hour. The control plane adds:"
    yield ""
    yield from _table("an hour, with Aurora", parts, 4)
    yield f"| database | added cost | goal of {SHARE_LIMIT:.2%} |"
    yield "|---|---|---|"
    yield f"| Aurora, the default | {share:.2%} | {verdicts[1]} |"
    yield f"| RDS (`--var database=rds`) | {of_rds:.2%} | {verdicts[0]} |"
    yield ""
    yield _paragraph(
        f"RDS costs ${rds_extra:.0f} a month more while idle. It is cheaper for clusters that work more than",
        f"{hours_for_rds(s.aws):.0f} hours a month ([ADR 33](adr/0033-aurora-by-default.md)).",
        _on_larger_machines(s),
    )
    yield ""
    yield "The comments of [bench/cost.py](../bench/cost.py) give the assumptions of the model, such as the number of requests."
    yield ""
    yield from _hundred_on_google()


def _hundred_on_google() -> Iterator[str]:
    """Yield the cost of the control plane on Google Cloud for 100 machines; held polls keep an instance of the API."""
    machine = with_gpus(machine_type("gcp", "n1-standard-4"), "nvidia-tesla-t4", 1)
    gpu = float(machine.price("us-central1", Capacity.ON_DEMAND))
    requests = GPUS * (HELD_POLLS + REPORTS + LOG_LINES)
    turns_s = TICK_S_HOUR + PROVISION_S_HOUR
    parts = {
        "an instance of the API, kept busy by polls": run_instance_usd_hour(),
        "tick and provision": turns_s * run_instance_usd_hour() / 3600,
        f"{requests:,} requests": requests * price("run_request"),
    }
    share = sum(parts.values()) / (GPUS * gpu)
    yield _paragraph(
        f"On Google Cloud, {GPUS} machines n1-standard-4 with a T4 cost ${GPUS * gpu:.2f} an hour. The control plane adds {share:.2%}, without Cloud SQL.",
        f"An agent sends {HELD_POLLS} polls, {REPORTS} reports and {LOG_LINES} log requests an hour.",
        f"With a single machine the control plane adds {run_instance_usd_hour() / gpu:.0%}.",
    )
    yield ""
    yield from _table("an hour on Google Cloud", parts, 4)


def _on_larger_machines(s: Stack) -> str:
    """Return the added cost if four GPUs, each with a trial, have one agent."""
    name, gpus = "g4dn.12xlarge", 4
    machines, requests = GPUS // gpus, STEADY_POLLS + LOG_BATCHES + gpus * REPORTS
    bill = machines * float(machine_type("aws", name).price("us-east-1", Capacity.ON_DEMAND))
    database = aurora(machines * requests)
    parts = busy_aws(machines, requests, s.api_memory_gb, s.memory_gb, database)
    return f"On {machines} machines {name} with {gpus} GPUs each, Aurora adds {sum(parts.values()) / bill:.2%} to ${bill:.2f}."


WARM_USD_DAY = 5.0
# `python -m bench.reference_month --traces DIR` on 2026-11-29. The traces are not part of this project.
REPLAYED_USD = {"spot, often available": 652.80, "spot, scarce": 1068.70, "on demand": 1406.65}


def _month(outcomes: Mapping[str, Outcome], s: Stack) -> Iterator[str]:
    on_demand = outcomes["on demand"]
    yield "## A month of a team"
    yield ""
    yield _paragraph(
        f"{USERS} people submit single trials, adaptive searches with 16 trials, and trials on four GPUs. They work in the daytime, mostly on weekdays.",
        f"The pool rents {', '.join(TYPES)} in three zones of a region, on spot capacity with on-demand machines as a fallback, or only on demand.",
        f"Spot machines have 45 % of the on-demand price, with a drift of {DRIFT:.0%}.",
        f"All spot machines of a zone and type are reclaimed together, {FAULTS.reclaims_unannounced:.0%} of them without notice.",
        "On-demand machines are always available.",
    )
    yield ""
    yield _paragraph(
        'The spot market has the statistics of a public trace: one V100 at AWS for six weeks from 2023-02-15, the data of the paper "Can\'t Be Late" (NSDI 2024).',
        f"There a spot machine was often available in {_zones(PLENTY)}.",
        f"It was scarce in {_zones(SCARCITY)}.",
        f"The table draws the market by these statistics (seed {SEED}).",
        "A replay of the trace itself costs more than its statistics suggest.",
    )
    yield ""
    yield "| cost, on demand = 100 % | often available | scarce |"
    yield "|---|---|---|"
    for name, usd in (
        ("drawn by the statistics", {name: outcome.usd for name, outcome in outcomes.items()}),
        ("replayed from the trace", REPLAYED_USD),
    ):
        parts = (usd[market] / usd["on demand"] for market in list(outcomes)[:2])
        yield f"| {name} | " + " | ".join(f"{part:.1%}" for part in parts) + " |"
    yield ""
    yield "`python -m bench.reference_month --traces DIR` replays a trace. The drawn month in detail:"
    yield ""
    yield "| | " + " | ".join(outcomes) + " |"
    yield "|---|" + "---|" * len(outcomes)
    rows = (
        ("completed trials", "trials", "{:,}"), ("requested GPU-hours", "gpu_hours", "{:,.0f}"),
        ("machine-hours", "machine_hours", "{:,.0f}"), ("machines", "machines", "{:,}"),
        ("reclaims of busy machines", "reclaims", "{:,}"), ("refused offers", "refusals", "{:,}"),
        ("longest wait of a trial, hours", "longest_wait_h", "{:.1f}"), ("machines, $", "usd", "{:,.2f}"),
    )  # fmt: skip
    for name, of, form in rows:
        yield (
            f"| {name} | "
            + " | ".join(form.format(getattr(o, of)) for o in outcomes.values())
            + " |"
        )
    planes = [f"{_control_plane(outcome, s):.2f}" for outcome in outcomes.values()]
    yield f"| control plane, $ | {' | '.join(planes)} |"
    yield ""
    yield f"The control plane is Aurora and functions for {on_demand.active_hours:.0f} hours with machines, and the idle month."
    yield "Disks, traffic and taxes are not included."
    yield ""


def _warm(outcomes: Mapping[str, Outcome], warm: Mapping[str, Outcome]) -> Iterator[str]:
    yield "### With warm machines"
    yield ""
    yield _paragraph(
        f"The same month with `warm_instances: auto` and `max_warm_cost_per_day: {WARM_USD_DAY:g}`",
        "([warm machines](guides/machines.md#warm-machines)).",
        "A wait is the time until the first trial of a job starts.",
        f"A start takes {BOOT_S + RESTART_S:.0f} seconds in this model.",
        "The bound also counts machines that work uses later, and the end of each idle machine, so it counts more than the month costs more.",
    )
    yield ""
    yield "| without → with warm machines | " + " | ".join(outcomes) + " |"
    yield "|---|" + "---|" * len(outcomes)
    rows = (
        ("median wait, seconds", "median_wait_s", "{:,.0f}"), ("95th percentile, seconds", "p95_wait_s", "{:,.0f}"),
        ("machines, $", "usd", "{:,.2f}"), ("counted for the bound, $", "warm_usd", "{:,.2f}"),
        ("the most on a day, $", "warm_usd_day", "{:,.2f}"),
    )  # fmt: skip
    for name, of, form in rows:
        pairs = (
            f"{form.format(getattr(outcomes[market], of))} → {form.format(getattr(warm[market], of))}"
            for market in outcomes
        )
        yield f"| {name} | " + " | ".join(pairs) + " |"
    yield ""
    yield f"`python -m bench.reference_month --traces DIR --warm {WARM_USD_DAY:g}` replays a trace. There the median wait of the"
    yield "three markets was 0, 0 and 96 seconds instead of 114, 114 and 113, for 3 %, 4 % and 3 % more cost of machines."
    yield ""


def _zones(market: Mapping[str, object]) -> str:
    shares = ", ".join(f"{SHARES[zone]:.0%}" for zone in market)
    return f"{', '.join(market)} ({shares} of the time)"


def _control_plane(outcome: Outcome, s: Stack) -> float:
    requests = STEADY_POLLS + REPORTS + LOG_BATCHES
    agents = outcome.machine_hours / outcome.active_hours
    database = aurora(agents * requests)
    hour = sum(busy_aws(agents, requests, s.api_memory_gb, s.memory_gb, database).values())
    return outcome.active_hours * hour + aws_idle(s.aws).usd


def _prices() -> Iterator[str]:
    yield "## Prices"
    yield ""
    yield _paragraph(
        "[prices.py](../cli/det_cli/deployment/prices.py) has the prices of this model, and",
        "[Pools](reference/pools.md#machine-types-and-prices) the prices of machines.",
    )


if __name__ == "__main__":
    print(text(), end="")
