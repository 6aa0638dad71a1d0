"""Write the Grafana dashboards of `infra/grafana/dashboards`: scripts/grafana_dashboards.py [--write]

Without --write, the script fails if a file differs from the definitions here."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "infra" / "grafana" / "dashboards"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _HEIGHT, _STAT_HEIGHT = 24, 8, 4


@dataclass(frozen=True)
class Panel:
    """A panel: `queries` maps each legend to its expression. A width of 24 fills a row."""

    title: str
    queries: dict[str, str]
    meaning: str
    unit: str = "short"
    kind: str = "timeseries"  # or stat
    width: int = 12
    stacks: bool = False
    limit: float | None = None  # above it the value is red


@dataclass(frozen=True)
class Dashboard:
    uid: str
    title: str
    panels: Sequence[Panel]
    has_pools: bool = True


def stat(title: str, expression: str, meaning: str, unit: str = "short", **more: Any) -> Panel:
    return Panel(title, {"": expression}, meaning, unit, "stat", 6, **more)


DASHBOARDS = (
    Dashboard(
        "det-cluster",
        "Determined: cluster and queue",
        (
            stat("Used slots", 'sum(det_slots_used{pool=~"$pool"})', "Slots that containers hold."),
            stat("Slots", 'sum(det_slots{pool=~"$pool"})', "Slots of joined agents."),
            stat(
                "Queued allocations",
                'sum(det_queued_allocations{pool=~"$pool"}) or vector(0)',
                "Runs and tasks that wait for slots.",
            ),
            stat(
                "Longest wait",
                'max(det_queued_oldest_seconds{pool=~"$pool"}) or vector(0)',
                "Wait of the oldest queued allocation.",
                "s",
                limit=3600,
            ),
            Panel(
                "Slots",
                {
                    "used {{pool}}": 'det_slots_used{pool=~"$pool"}',
                    "all {{pool}}": 'det_slots{pool=~"$pool"}',
                },
                "Used and existing slots of each pool.",
            ),
            Panel(
                "Queue",
                {
                    "allocations {{pool}}": 'det_queued_allocations{pool=~"$pool"}',
                    "slots {{pool}}": 'det_queued_slots{pool=~"$pool"}',
                },
                "Waiting allocations, and the slots that they ask for.",
            ),
            Panel(
                "Wait of the oldest allocation",
                {"{{pool}}": 'det_queued_oldest_seconds{pool=~"$pool"}'},
                "A growing line means that the queue does not move.",
                "s",
            ),
            Panel(
                "Running allocations",
                {"{{pool}}": 'det_running_allocations{pool=~"$pool"}'},
                "Allocations that have slots.",
                stacks=True,
            ),
            Panel(
                "Experiments with running containers",
                {"experiments": "count(count by (experiment_id) (det_job_id_experiment_id))"},
                "Experiments of containers that have not ended.",
                width=24,
            ),
        ),
    ),
    Dashboard(
        "det-cold-starts",
        "Determined: cold starts",
        (
            stat(
                "Median start",
                'max(det_start_phase_seconds{pool=~"$pool", phase="total", quantile="0.5"})',
                "From submission to first report, over the last month.",
                "s",
            ),
            stat(
                "95th percentile",
                'max(det_start_phase_seconds{pool=~"$pool", phase="total", quantile="0.95"})',
                "A start with bad luck.",
                "s",
            ),
            stat(
                "Cost of a median start",
                'max(det_start_phase_usd{pool=~"$pool", phase="total", quantile="0.5"})',
                "Price of the machines until the first report.",
                "currencyUSD",
            ),
            stat(
                "Machines that never joined",
                'sum(det_instances_unjoined{pool=~"$pool"}) or vector(0)',
                "Of the last hour.",
                limit=1,
            ),
            Panel(
                "Phases of the median start",
                {
                    "{{pool}} {{phase}}": (
                        'det_start_phase_seconds{pool=~"$pool", phase!="total", quantile="0.5"}'
                    )
                },
                "The longest phase shows what to shorten.",
                "s",
                width=24,
                stacks=True,
            ),
            Panel(
                "Phases of a slow start",
                {
                    "{{pool}} {{phase}}": (
                        'det_start_phase_seconds{pool=~"$pool", phase!="total", quantile="0.95"}'
                    )
                },
                "The 95th percentile of each phase.",
                "s",
                stacks=True,
            ),
            Panel(
                "Cost of phases",
                {
                    "{{pool}} {{phase}}": (
                        'det_start_phase_usd{pool=~"$pool", phase!="total", quantile="0.5"}'
                    )
                },
                "The median cost of each phase.",
                "currencyUSD",
                stacks=True,
            ),
        ),
    ),
    Dashboard(
        "det-money",
        "Determined: money",
        (
            stat(
                "Now per hour",
                'sum(det_instances_usd_per_hour{pool=~"$pool"}) or vector(0)',
                "Price of the rented machines.",
                "currencyUSD",
            ),
            stat(
                "Last 24 hours",
                'sum(increase(det_pool_cost_usd{pool=~"$pool"}[24h])) or vector(0)',
                "Cost of machines in one day.",
                "currencyUSD",
            ),
            stat(
                "Idle share",
                'sum(det_pool_idle_cost_usd{pool=~"$pool"}) / sum(det_pool_cost_usd{pool=~"$pool"})',
                "The share of the cost in which no work held the slots.",
                "percentunit",
            ),
            stat(
                "Fullest budget",
                "max(det_budget_spent_usd / det_budget_limit_usd)",
                "The largest used share of a budget.",
                "percentunit",
                limit=0.9,
            ),
            Panel(
                "Price per hour",
                {
                    "{{pool}} {{provider}} {{capacity}}": (
                        "sum by (pool, provider, capacity)"
                        ' (det_instances_usd_per_hour{pool=~"$pool"})'
                    )
                },
                "Price of the rented machines by pool, cloud and capacity.",
                "currencyUSD",
                stacks=True,
            ),
            Panel(
                "Cost",
                {
                    "all {{pool}}": 'det_pool_cost_usd{pool=~"$pool"}',
                    "idle {{pool}}": 'det_pool_idle_cost_usd{pool=~"$pool"}',
                },
                "Cost since the pool rented its first machine.",
                "currencyUSD",
            ),
            Panel(
                "Cost of a slot hour",
                {
                    "{{pool}}": (
                        'increase(det_pool_cost_usd{pool=~"$pool"}[24h])'
                        ' / increase(det_pool_slot_hours{pool=~"$pool"}[24h])'
                    )
                },
                "Cost of the last day, divided by the hours that work held slots.",
                "currencyUSD",
            ),
            Panel(
                "Budgets",
                {"{{scope}} {{name}} {{period}}": "det_budget_spent_usd / det_budget_limit_usd"},
                "The used share of each budget.",
                "percentunit",
            ),
        ),
    ),
    Dashboard(
        "det-machines",
        "Determined: agents and machines",
        (
            stat(
                "Joined agents",
                'sum(det_agents{pool=~"$pool", state="JOINED"}) or vector(0)',
                "Agents that poll.",
            ),
            stat(
                "Suspect agents",
                'sum(det_agents{pool=~"$pool", state="SUSPECT"}) or vector(0)',
                "Agents that stopped to poll. Their work is not placed elsewhere yet.",
                limit=1,
            ),
            stat(
                "Rented machines",
                'sum(det_instances{pool=~"$pool"}) or vector(0)',
                "Machines of all states that are not gone.",
            ),
            stat(
                "Oldest ending machine",
                'max(det_instances_oldest_seconds{pool=~"$pool", state="TERMINATING"}) or vector(0)',
                "A machine that its cloud does not end costs money.",
                "s",
                limit=900,
            ),
            Panel(
                "Machines by state",
                {"{{pool}} {{state}}": 'sum by (pool, state) (det_instances{pool=~"$pool"})'},
                "REQUESTED, LAUNCHED, REGISTERED, DRAINING and TERMINATING machines.",
                stacks=True,
            ),
            Panel(
                "Machines by place",
                {
                    "{{provider}} {{region}} {{capacity}}": (
                        'sum by (provider, region, capacity) (det_instances{pool=~"$pool"})'
                    )
                },
                "Machines by cloud, region and capacity.",
                stacks=True,
            ),
            Panel(
                "Longest time in a state",
                {
                    "{{pool}} {{provider}} {{state}}": (
                        'det_instances_oldest_seconds{pool=~"$pool", state!="REGISTERED"}'
                    )
                },
                "LAUNCHED is the time until an agent joins.",
                "s",
            ),
            Panel(
                "Agents",
                {"{{pool}} {{state}}": 'det_agents{pool=~"$pool"}'},
                "Agents by state.",
                stacks=True,
            ),
            Panel(
                "Machines that never joined",
                {"{{pool}}": 'det_instances_unjoined{pool=~"$pool"}'},
                "Machines of the last hour that ended without an agent.",
                width=24,
            ),
        ),
    ),
    Dashboard(
        "det-control-plane",
        "Determined: control plane",
        (
            stat("Healthy", "min(determined_healthy)", "1: the API reaches its database."),
            stat(
                "Age of the last tick",
                "max(det_tick_age_seconds)",
                "Ticks run each minute while there is work.",
                "s",
                limit=180,
            ),
            stat(
                "Errors in 5 minutes",
                'sum(det_log_lines{level=~"ERROR|CRITICAL"})',
                "Errors in the log of the control plane.",
                limit=1,
            ),
            stat(
                "Delay of effects",
                "max(det_outbox_overdue_seconds)",
                "Deletions and messages that should have happened.",
                "s",
                limit=900,
            ),
            Panel(
                "Age of the last tick",
                {"age": "det_tick_age_seconds", "work (0 or 1)": "det_tick_due"},
                "An age above three minutes while there is work means that ticks stalled.",
                "s",
            ),
            Panel(
                "Log lines in five minutes",
                {"{{level}}": "det_log_lines"},
                "Warnings and errors of all processes of the control plane.",
            ),
            Panel(
                "Processor of the API",
                {"{{instance}}": "rate(process_cpu_seconds_total[5m])"},
                "Processor seconds per second of the answering process.",
                "percentunit",
            ),
            Panel(
                "Memory of the API",
                {"{{instance}}": "process_resident_memory_max_bytes"},
                "The most memory that the answering process had.",
                "bytes",
            ),
        ),
        has_pools=False,
    ),
)


def document(dashboard: Dashboard) -> dict[str, Any]:
    """Return the dashboard in Grafana's JSON."""
    panels, x, y, row_height = [], 0, 0, 0
    for number, panel in enumerate(dashboard.panels, 1):
        height = _STAT_HEIGHT if panel.kind == "stat" else _HEIGHT
        if x + panel.width > _COLUMNS:
            x, y, row_height = 0, y + row_height, 0
        place = {"x": x, "y": y, "w": panel.width, "h": height}
        panels.append(_panel(panel, number, place))
        x, row_height = x + panel.width, max(row_height, height)
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["determined"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "Determined",
                "tags": ["determined"],
                "asDropdown": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": _variables(dashboard)},
        "panels": panels,
    }


def _variables(dashboard: Dashboard) -> list[dict[str, Any]]:
    source = {
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
    }  # fmt: skip
    query = 'label_values({__name__=~"det_slots|det_instances|det_queued_slots"}, pool)'
    pool = {
        "name": "pool", "label": "Pool", "type": "query", "datasource": _SOURCE, "refresh": 2,
        "query": {"query": query, "refId": "pool"}, "includeAll": True, "multi": True,
        "allValue": ".*", "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip
    return [source, pool] if dashboard.has_pools else [source]


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
    }
    options: dict[str, Any] = {"reduceOptions": {"calcs": ["lastNotNull"]}}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacks else "none", "group": "A"}
        defaults["custom"] = {"fillOpacity": 20 if panel.stacks else 0, "stacking": stacking}
        options = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {"refId": chr(65 + i), "datasource": _SOURCE, "expr": expr, "legendFormat": legend}
            for i, (legend, expr) in enumerate(panel.queries.items())
        ],
    }


def files() -> dict[Path, str]:
    """Return the content of each dashboard's file."""
    return {
        FOLDER / f"{dashboard.uid}.json": json.dumps(document(dashboard), indent=1) + "\n"
        for dashboard in DASHBOARDS
    }


def main(arguments: Sequence[str]) -> int:
    if "--write" in arguments:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for path, text in files().items():
            path.write_text(text)
        return 0
    differing = [p.name for p, text in files().items() if not p.exists() or p.read_text() != text]
    if differing:
        names = ", ".join(differing)
        print(f"{names}: run scripts/grafana_dashboards.py --write", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
