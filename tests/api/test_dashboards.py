"""Grafana's dashboards and Prometheus' rules name only series that the cluster exports."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.grafana_dashboards import DASHBOARDS, FOLDER
from tests.api.test_start_phases import start_and_report
from tests.support.api import create
from tests.support.postgres import DatabaseServer
from tests.support.promql import exported, named
from tests.support.rented import rented_cluster

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "infra" / "grafana" / "prometheus" / "alerts.yaml"
PAGES = ("/prom/det-state-metrics", "/debug/prom/metrics")
# Prometheus itself adds this series and these labels to a scrape.
OF_PROMETHEUS = {"up": {"job", "instance"}}
ADDED_LABELS = {"job", "instance"}
_LEGEND = re.compile(r"{{(\w+)}}")


def expressions() -> Iterator[tuple[str, str, set[str]]]:
    """Yield the place, the expression and the labels of the text of each query."""
    for path in sorted(FOLDER.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                labels = set(_LEGEND.findall(target["legendFormat"]))
                yield f"{path.name}: {panel['title']}", target["expr"], labels
    for rule in rules():
        texts = " ".join(rule["annotations"].values())
        yield rule["alert"], rule["expr"], set(re.findall(r"\$labels\.(\w+)", texts))


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture(scope="module")
def series(
    postgres_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, set[str]]:
    """Return what a cluster exports that rented, waited, reported and ended machines."""
    with (
        postgres_server.database() as url,
        postgres_server.opened(url) as database,
        rented_cluster(database, tmp_path_factory.mktemp("scraped")) as cluster,
    ):
        admin, user = cluster.api.signed_in("admin"), cluster.api.signed_in("determined")
        budget = {"scope": "pool", "of": "default", "limitUsd": "100", "period": "month"}
        admin.done("PUT", "/api/v1/budgets", budget)
        pages: list[str] = []

        def scrape() -> None:
            pages.extend(admin.ask("GET", page).body.decode() for page in PAGES)

        start_and_report(cluster, user)
        scrape()
        create(user, activate=True)
        cluster.settle()
        scrape()
        for _ in range(3):  # the second machine does not join, and the cloud confirms its end
            cluster.pass_time(minutes=12)
            cluster.settle()
        scrape()
    return exported(pages)


def test_each_query_names_series_and_labels_that_exist(series: Mapping[str, set[str]]) -> None:
    wrong = []
    for place, expression, shown_labels in expressions():
        metrics = named(expression)
        assert metrics, place
        for metric, labels in metrics.items():
            available = (OF_PROMETHEUS | dict(series)).get(metric)
            if available is None:
                wrong.append(f"{place}: no series {metric}")
            elif missing := labels - available - ADDED_LABELS:
                wrong.append(f"{place}: {metric} has no label {', '.join(sorted(missing))}")
        every = set[str]().union(*((OF_PROMETHEUS | dict(series)).get(m, set()) for m in metrics))
        if missing := shown_labels - every - ADDED_LABELS:
            wrong.append(f"{place}: its text shows {', '.join(sorted(missing))}")
    assert wrong == []


def test_check_finds_wrong_names() -> None:
    assert named('sum by (pool) (rate(a{b="x{y}"}[5m])) / c > 0 and on (d) e') == {
        "a": {"b", "pool", "d"},
        "c": {"pool", "d"},
        "e": {"pool", "d"},
    }


def test_files_are_those_of_the_definitions() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "grafana_dashboards.py")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert {path.stem for path in FOLDER.glob("*.json")} == {d.uid for d in DASHBOARDS}


@pytest.mark.parametrize("dashboard", [d.uid for d in DASHBOARDS])
def test_dashboard_has_the_form_that_grafana_loads(dashboard: str) -> None:
    document = json.loads((FOLDER / f"{dashboard}.json").read_text())
    assert document["uid"] == dashboard
    assert document["schemaVersion"] >= 36
    variables = {variable["name"] for variable in document["templating"]["list"]}
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in document["panels"]:
        place = panel["gridPos"]
        assert panel["type"] in ("timeseries", "stat")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables


def test_every_alert_has_a_section_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "observability.md").read_text()
    headings = {line.removeprefix("### ") for line in guide.splitlines() if line.startswith("### ")}
    for rule in rules():
        assert rule["alert"] in headings
        assert rule["annotations"]["runbook"].endswith("#" + rule["alert"].lower())
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
