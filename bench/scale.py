"""Measure the cost of pages at the size of a company: `python -m bench.scale --size 1 10 100`.

The figures are CPU milliseconds of API and PostgreSQL together for one request, and the factor by which a request costs
more than at the size before. Size 1 has 1,000 experiments, size 100 has 100,000 (bench/scale_fill.py). The CPU time of
a fixed loop shows the speed of the machine. `--data-dir DIR` keeps the cluster of one size and measures it again.
`--only-work` measures the list of all work on a cluster with experiments and tasks only.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

from det_controlplane.db.engine.database import Database
from sqlalchemy import text

from bench import scale_fill
from bench.api import Cluster, create, figure, running
from bench.cpu import cpu_ms, memory_mib

LONGEST_S = 2.0  # for one request's repetitions
FEWEST, MOST = 3, 30
TRIES = 5
PAGE_MS, FILTER_MS, YEAR_MS, CREATE_MS, WORK_MS = 50, 300, 500, 60, 100
FACTOR = 2.0
API_MIB = 250
LOOP = 10_000_000  # turns
PAUSE_S, LONGEST_SETTLING_S = 1.0, 1800.0
# Ticks do this after a fill or an upgrade. Requests are measured when it is done.
UNFINISHED = text("""
    SELECT EXISTS (SELECT FROM closed_days WHERE summed_at IS NULL) OR EXISTS (SELECT FROM changed_days)
        OR NOT EXISTS (SELECT FROM closed_days WHERE day >= now() - interval '49 hours')
        OR EXISTS (SELECT FROM trials WHERE has_values IS NULL AND ended_at IS NOT NULL)
""")

Request = tuple[str, str, Any, float]


def requests(size: scale_fill.Size) -> dict[str, Request]:
    """Return the requests by name: method, path, body, and the limit in milliseconds at size 100."""
    today = datetime.now(timezone.utc)
    month, year = (f"{(today - timedelta(days=d)):%Y-%m-%dT00:00:00Z}" for d in (30, 365))
    now = f"{today:%Y-%m-%dT00:00:00Z}"
    project, person = size.first_project, size.first_user
    live = size.first + size.experiments - 1
    table = {"limit": 50, "offset": 0, "showArchived": False}

    def get(path: str, most_ms: float = PAGE_MS) -> Request:
        return ("GET", path, None, most_ms)

    def search(path: str, most_ms: float = PAGE_MS, **body: Any) -> Request:
        return ("POST", path, {**table, **body}, most_ms)

    field = {
        "kind": "field",
        "columnName": "hp.lr",
        "location": "LOCATION_TYPE_HYPERPARAMETERS",
        "operator": "<",
    }
    by_lr = {
        "filterGroup": {
            "kind": "group",
            "conjunction": "and",
            "children": [{**field, "type": "COLUMN_TYPE_NUMBER", "value": 0.02}],
        },
        "showArchived": False,
    }
    return {
        "experiments_cli": get("/api/v1/experiments?limit=200"),
        "experiments_webui": search("/api/v1/experiments-search"),
        "experiments_of_project": search("/api/v1/experiments-search", projectId=project),
        "experiments_by_name": get("/api/v1/experiments?limit=50&name=model%20500%20"),
        "experiments_by_start": get(
            "/api/v1/experiments?limit=50&sortBy=SORT_BY_START_TIME&orderBy=ORDER_BY_DESC"
        ),
        "experiments_by_state": get("/api/v1/experiments?limit=50&states=STATE_ERROR"),
        "experiments_live": get("/api/v1/experiments?limit=50&states=STATE_ACTIVE"),
        "experiments_by_user": get(f"/api/v1/experiments?limit=50&userIds={person}"),
        "experiments_by_label": get("/api/v1/experiments?limit=50&labels=label-7"),
        "experiments_by_trials": get(
            "/api/v1/experiments?limit=50&sortBy=SORT_BY_NUM_TRIALS&orderBy=ORDER_BY_DESC"
        ),
        "experiments_by_hparam": search(
            "/api/v1/experiments-search", FILTER_MS, filter=json.dumps(by_lr)
        ),
        "experiment_queued": get(f"/api/v1/experiments/{live}"),
        "runs": search("/api/v1/runs"),
        "runs_by_metric": search("/api/v1/runs", FILTER_MS, sort="validation.loss.min=asc"),
        "runs_by_hparam": search("/api/v1/runs", FILTER_MS, filter=json.dumps(by_lr)),
        "columns": get("/api/v1/projects/0/columns"),
        "columns_of_project": get(f"/api/v1/projects/{project}/columns"),
        "metric_ranges": get(f"/api/v1/projects/{project}/experiments/metric-ranges"),
        "workspaces": get("/api/v1/workspaces?limit=50"),
        "projects": get("/api/v1/workspaces/0/projects?limit=50"),
        "users": get("/api/v1/users?limit=50"),
        "queue": get("/api/v1/job-queues-v2?resourcePool=default&limit=50"),
        "queue_stats": get("/api/v1/job-queues/stats"),
        "agents": get("/api/v1/agents"),
        "audit": get("/api/v1/audit?limit=50"),
        "audit_of_user": get("/api/v1/audit?limit=50&user=person-7"),
        "audit_of_action": get("/api/v1/audit?limit=50&action=experiment.kill"),
        **work_requests(size),
        "tensorboards": get(f"/api/v1/tensorboards?limit=50&userIds={person}"),
        "costs_today": get("/api/v1/costs/me"),
        "costs_of_users": get(f"/api/v1/costs/users?startTime={month}&endTime={now}"),
        "usage_month_raw": get(
            f"/api/v1/resources/allocation/raw?timestampAfter={month}&timestampBefore={now}",
            YEAR_MS,
        ),
        "usage_year": get(
            "/api/v1/resources/allocation/aggregated?period=RESOURCE_ALLOCATION_AGGREGATION_PERIOD_DAILY"
            f"&startDate={year[:10]}&endDate={now[:10]}",
            YEAR_MS,
        ),
    }


def work_requests(size: scale_fill.Size) -> dict[str, Request]:
    """Return requests for pages of the list of all work, with the newest first."""
    month = f"{datetime.now(timezone.utc) - timedelta(days=30):%Y-%m-%dT00:00:00Z}"
    states = "&".join(f"states=STATE_{name}" for name in ("ACTIVE", "PAUSED", "STOPPING"))
    filters = {
        "work": "",
        "work_deep": f"offset={size.experiments * 3 // 2}",
        "work_unfinished": states,
        "work_running": "states=STATE_RUNNING",
        "work_paused": "states=STATE_PAUSED",
        "work_by_state": "states=STATE_ERROR",
        "work_by_user": f"userIds={size.first_user}",
        "work_by_type": "types=TYPE_SHELL",
        "work_by_name": "text=500%20of",
        "work_by_rare_name": "text=of%20run%20777",
        "work_since": f"since={month}",
        "work_sorted_by_name": "sortBy=SORT_BY_NAME",
        "work_sorted_by_end": "sortBy=SORT_BY_END_TIME",
        "work_sorted_by_user": "sortBy=SORT_BY_USER",
    }
    path = "/api/v1/work?limit=50&orderBy=ORDER_BY_DESC"
    return {
        name: ("GET", f"{path}&{query}" if query else path, None, WORK_MS)
        for name, query in filters.items()
    }


def cost_ms(cluster: Cluster, action: Callable[[], object]) -> float:
    """Return the CPU time of API and PostgreSQL for a request, the mean of some repetitions."""
    action()  # to warm up
    for _ in range(TRIES):
        pids = cluster.pids("api", "postgres")
        before, start, calls = cpu_ms(pids), time.perf_counter(), 0
        while calls < FEWEST or (calls < MOST and time.perf_counter() - start < LONGEST_S):
            action()
            calls += 1
        cost = (cpu_ms(pids) - before) / calls
        # The CPU time of a process that ended meanwhile is lost.
        if all(Path(f"/proc/{pid}").exists() for pid in pids):
            break
    return cost


def loop_ms() -> float:
    """Return the CPU time of a fixed Python loop. It makes figures of different machines comparable."""
    start = time.process_time()
    for _ in range(LOOP):
        pass
    return (time.process_time() - start) * 1000


def settle(cluster: Cluster) -> None:
    """Wait until ticks have summed ended days and copied values of trials, or for half an hour."""
    cluster.reconnect()  # a fill takes longer than the server keeps an idle connection
    create(cluster, activate=True)  # wakes the tick
    database = Database(cluster.database_url())
    until = time.monotonic() + LONGEST_SETTLING_S
    while database.read(UNFINISHED)[0][0] and time.monotonic() < until:
        time.sleep(PAUSE_S)
    database.dispose()


@contextmanager
def running_in(folder: Path) -> Iterator[Cluster]:
    """Start the cluster of a folder, and keep its database."""
    cluster = Cluster(folder / "cluster")
    cluster.do("cluster-up")
    try:
        yield cluster
    finally:
        cluster.do("cluster-down")


def filled(
    cluster: Cluster, factor: int, sizes: Path | None, *, only_work: bool = False
) -> scale_fill.Size:
    """Return the size that a file has; otherwise fill the cluster, and write the file. Exit if it has another size."""
    if sizes is not None and sizes.exists():
        size = scale_fill.Size(**json.loads(sizes.read_text()))
        if size.factor != factor:
            sys.exit(
                f"{sizes.parent} has size {size.factor}: use --size {size.factor}, or another directory"
            )
        return size
    prototype = create(cluster, activate=False)
    size, took_s = scale_fill.fill(cluster.database_url(), factor, prototype, only_work=only_work)
    print(f"# size {factor}: filled in {took_s:.0f} s, {size.database_mib} MiB", file=sys.stderr)
    if sizes is not None:
        sizes.write_text(json.dumps(asdict(size)))
    return size


def measure(factor: int, names: list[str], folder: Path | None) -> dict[str, float]:
    """Return the cost of each request on a cluster of a size, which is filled unless the folder has it."""
    costs = {"fixed_loop": loop_ms()}
    with running() if folder is None else running_in(folder) as cluster:
        cluster.sign_in("admin")
        size = filled(cluster, factor, folder and folder / "size.json")
        settle(cluster)
        for name, request in requests(size).items():
            if names and name not in names:
                continue
            cluster.reconnect()
            costs[name] = cost_ms(cluster, partial(cluster.call, *request[:3]))
            print(f"# size {factor}: {name} {costs[name]:.1f} ms", file=sys.stderr)
        if not names or "create" in names:
            costs["create"] = cost_ms(cluster, lambda: create(cluster, activate=True))
        costs["api_memory"] = memory_mib(cluster.pids("api"))
    return costs


def measure_work(factor: int) -> dict[str, float]:
    """Return the cost of each page of all work, on a new cluster with experiments and tasks only."""
    costs = {"fixed_loop": loop_ms()}
    with running() as cluster:
        cluster.sign_in("admin")
        size = filled(cluster, factor, None, only_work=True)
        for name, request in work_requests(size).items():
            cluster.reconnect()
            costs[name] = cost_ms(cluster, partial(cluster.call, *request[:3]))
            print(f"# size {factor}: {name} {costs[name]:.1f} ms", file=sys.stderr)
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, nargs="+", default=[1, 10], help="1, 10 or 100")
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="keep the cluster of one --size here: it is filled once and can be measured again",
    )
    parser.add_argument(
        "--only-work",
        action="store_true",
        help="measure the list of all work, on a cluster with nothing else, which is filled in a minute",
    )
    parser.add_argument("names", nargs="*", help="requests, all if none is named")
    arguments = parser.parse_args()
    folder = arguments.data_dir
    if folder is not None:
        if len(arguments.size) > 1:
            parser.error("--data-dir keeps one cluster: give one --size")
        folder.mkdir(parents=True, exist_ok=True)
    before: dict[str, float] = {}
    for factor in arguments.size:
        if arguments.only_work:
            costs = measure_work(factor)
        else:
            costs = measure(factor, arguments.names, folder)
        limits = {name: request[3] for name, request in requests(scale_fill.Size(factor)).items()}
        limits |= {"create": CREATE_MS, "api_memory": API_MIB}
        for name, cost in costs.items():
            unit = "MiB" if name == "api_memory" else "ms CPU"
            figure(f"scale_{factor}_{name}", cost, unit, limits.get(name))
            if name in before and name in limits and name != "api_memory":
                figure(f"scale_{factor}_{name}_factor", cost / max(before[name], 1.0), "x", FACTOR)
        before = costs


if __name__ == "__main__":
    main()
