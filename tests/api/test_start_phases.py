"""The phases of the start of a trial, for the trial, for its pool, and for Prometheus."""

from datetime import datetime, timedelta

import pytest

from tests.support.api import Api, Caller, create, report_metrics, trial_of
from tests.support.rented import RentedCluster


@pytest.fixture
def api(cluster: RentedCluster) -> Api:
    return cluster.api


def start_and_report(cluster: RentedCluster, user: Caller) -> int:
    """Start a trial on a new machine: 15 s until it boots, 25 s until it joins, 25 s until the first report."""
    experiment_id = create(user, activate=True)
    cluster.settle()
    (machine,) = cluster.cloud.alive()
    cluster.pass_time(seconds=40)
    agent = cluster.boot(machine, uptime_s=25)
    cluster.settle()
    agent.work()
    cluster.pass_time(seconds=25)
    trial_id = int(user.get(f"/api/v1/experiments/{experiment_id}/trials")["trials"][0]["id"])
    assert report_metrics(user, trial_id, "training", 1, {"loss": 1.0}, run=1).status == 200
    return trial_id


def test_start_of_a_trial_shows_where_the_time_went(cluster: RentedCluster, user: Caller) -> None:
    trial_id = start_and_report(cluster, user)
    start = user.get(f"/api/v1/trials/{trial_id}/start")["start"]
    seconds = {phase["name"]: phase["seconds"] for phase in start["phases"]}
    assert seconds["boot"] == pytest.approx(15, abs=5)
    assert seconds["join"] == pytest.approx(25, abs=1)
    assert seconds["first report"] == pytest.approx(25, abs=5)
    assert start["isComplete"]
    (machine,) = cluster.instances()
    assert datetime.fromisoformat(machine["bootedAt"]) == cluster.time - timedelta(seconds=50)
    cost = sum(phase["usd"] for phase in start["phases"])
    assert cost == pytest.approx(65 * machine["priceUsdHour"] / 3600, rel=0.2)


def test_trial_has_the_time_of_its_first_run(cluster: RentedCluster, user: Caller) -> None:
    waiting_id = trial_of(user, create(user))["id"]
    trial_id = start_and_report(cluster, user)
    trial = user.get(f"/api/v1/trials/{trial_id}")["trial"]
    assert trial["startTime"] < trial["firstRunTime"]
    assert user.get(f"/api/v1/trials/{waiting_id}")["trial"]["firstRunTime"] is None


def test_pool_and_prometheus_show_the_quantiles_of_starts(
    cluster: RentedCluster, user: Caller
) -> None:
    start_and_report(cluster, user)
    pool = user.get("/api/v1/rented-pools/default")["pool"]
    phases = {phase["name"]: phase for phase in pool["startPhases"]}
    assert phases["boot"]["starts"] == phases["join"]["starts"] == phases["total"]["starts"] == 1
    assert phases["join"]["p50Seconds"] == phases["join"]["p95Seconds"] == 25
    assert phases["join"]["p50Usd"] == pytest.approx(25 / 3600 * 0.4, rel=0.02)
    page = cluster.api.signed_in("admin").ask("GET", "/prom/det-state-metrics").body.decode()
    assert 'det_start_phase_seconds{pool="default",phase="boot",quantile="0.5"}' in page
    assert 'det_start_phase_seconds{pool="default",phase="join",quantile="0.5"} 25' in page
    assert 'det_start_phase_usd{pool="default",phase="join",quantile="0.5"} 0.00' in page


def test_second_join_of_a_machine_keeps_its_first_boot(
    cluster: RentedCluster, user: Caller
) -> None:
    start_and_report(cluster, user)
    (before,) = cluster.instances()
    cluster.boot(cluster.cloud.alive()[0], uptime_s=1)
    (after,) = cluster.instances()
    assert after["bootedAt"] == before["bootedAt"] is not None


@pytest.mark.parametrize("uptime_s", [-1.0, 1e12])
def test_impossible_uptime_is_ignored(
    cluster: RentedCluster, user: Caller, uptime_s: float
) -> None:
    create(user, activate=True)
    cluster.settle()
    cluster.boot(cluster.cloud.alive()[0], uptime_s=uptime_s)
    (machine,) = cluster.instances()
    assert (machine["state"], machine["bootedAt"]) == ("REGISTERED", None)


@pytest.mark.parametrize(("days", "is_old"), [(29.5, False), (31, True)])
def test_pool_warns_about_an_image_that_is_older_than_a_month(
    cluster: RentedCluster, user: Caller, days: float, is_old: bool
) -> None:
    create(user, activate=True)
    cluster.settle()
    cluster.boot(cluster.cloud.alive()[0], image_age_s=days * 86400)
    image = user.get("/api/v1/rented-pools/default")["pool"]["image"]
    built_at = datetime.fromisoformat(image["builtAt"])
    assert cluster.time - built_at == timedelta(days=days)
    assert image["ageDays"] == int(days)
    warning = "the image is 31 days old: make a new one with `det deploy aws|gcp image`"
    assert image["warning"] == (warning if is_old else "")


def test_pool_with_machines_of_a_public_image_has_no_age(
    cluster: RentedCluster, user: Caller
) -> None:
    start_and_report(cluster, user)
    assert user.get("/api/v1/rented-pools/default")["pool"]["image"] is None


def test_trial_before_its_first_run_has_no_start(cluster: RentedCluster, user: Caller) -> None:
    unmanaged = user.post(
        "/api/v1/experiments",
        {
            "config": "{name: a, searcher: {name: custom, metric: loss, unit: batches}}",
            "unmanaged": True,
        },
    )
    trial = user.post("/api/v1/trials", {"experimentId": unmanaged["experiment"]["id"]})["trial"]
    assert user.get(f"/api/v1/trials/{trial['id']}/start") == {"start": None}
    assert user.ask("GET", "/api/v1/trials/999/start").status == 404
