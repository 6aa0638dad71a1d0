"""The report of a rehearsal, as Markdown and as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from det_cli.deployment.rehearsal.records import Outcome, Report, State
from det_cli.errors import UsageError

NOT_INCLUDED = (
    "The cost of machines uses the cluster's prices; the cost of the control plane uses list prices and time."
    " Not included: disks and addresses of machines, traffic, logs, builds, stored checkpoints, discounts and taxes."
    " The cloud's bill, which is available a day later, has the exact cost."
)


def check_writable(path: Path) -> None:
    """Raise UsageError if the report cannot be written. Called before the rehearsal rents machines."""
    if path.is_dir():
        raise UsageError(f"--report {path} is a directory", "give a file name")
    if path.suffix == ".json":
        raise UsageError(
            f"--report {path} is the name of the JSON file, which is written next to the report",
            f"give --report {path.with_suffix('.md')}",
        )
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--report {path} is in a folder that does not exist", "create it first")


def write(path: Path, report: Report) -> None:
    """Write the Markdown report, and a JSON file next to it."""
    path.write_text("\n".join(markdown(report)) + "\n", "utf-8")
    path.with_suffix(".json").write_text(json.dumps(as_json(report), indent=2) + "\n", "utf-8")


def as_json(report: Report) -> dict[str, Any]:
    outcomes = [{**asdict(o), "state": o.state.value} for o in report.outcomes]
    return {
        "cluster_id": report.cluster_id,
        "cloud": report.cloud,
        "place": report.place,
        "versions": dict(report.versions),
        "started_at": report.started_at.isoformat(timespec="seconds"),
        "ended_at": report.ended_at.isoformat(timespec="seconds"),
        "max_cost_usd": report.max_cost_usd,
        "cost_usd": round(report.cost_usd, 4),
        "finished": report.is_finished,
        "passed": report.has_passed,
        "steps": outcomes,
        "leftovers": list(report.leftovers),
        "remains": list(report.remains),
    }


def markdown(report: Report) -> Iterator[str]:
    result = "passed" if report.has_passed else "failed"
    yield f"# Rehearsal of {report.cluster_id}: {result if report.is_finished else 'not finished'}"
    yield ""
    yield f"- Cloud: {report.cloud}, {report.place}"
    for name, version in report.versions.items():
        yield f"- Version of {name}: {version}"
    started, ended = report.started_at, report.ended_at
    yield f"- From {started:%Y-%m-%d %H:%M:%S} to {ended:%Y-%m-%d %H:%M:%S} UTC"
    yield f"- Cost: ${report.cost_usd:.2f} of at most ${report.max_cost_usd:.2f}"
    yield ""
    yield "| step | outcome | seconds | $ | detail |"
    yield "|---|---|---|---|---|"
    for outcome in report.outcomes:
        yield _row(outcome)
    if report.failed:
        yield ""
        yield "## Next steps"
        yield ""
        for outcome in report.failed:
            yield f"- **{outcome.step}**: {outcome.detail}. Next: {outcome.next_step}"
    yield from _list("Machines that still run and cost money", report.leftovers)
    yield from _list("Resources that are kept", report.remains)
    yield ""
    yield NOT_INCLUDED


def _row(outcome: Outcome) -> str:
    numbers = "| " if outcome.state is State.SKIPPED else f"{outcome.seconds:.0f} | "
    numbers += "" if outcome.state is State.SKIPPED else f"{outcome.cost_usd:.2f}"
    detail = " ".join(outcome.detail.split()).replace("|", "\\|")
    return f"| {outcome.step} | {outcome.state.value} | {numbers} | {detail} |"


def _list(title: str, items: "tuple[str, ...] | list[str] | Any") -> Iterator[str]:
    if items:
        yield ""
        yield f"## {title}"
        yield ""
        yield from (f"- {item}" for item in items)
