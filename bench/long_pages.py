"""Measure a list of 100,000 experiments without a limit: `python -m bench.long_pages`.

The figure is the memory of API and PostgreSQL above the memory at rest.
"""

import http.client
import threading
import time
from pathlib import Path

from det_controlplane.db.engine.database import Database
from sqlalchemy import text

from bench.api import Cluster, create, figure, running
from bench.cpu import memory_mib

EXPERIMENTS = 100_000
_ID = "cast('00000000-0000-0000-0000-' || lpad(n::text, 12, '0') AS uuid)"
_COLUMNS = text("""
    SELECT string_agg(column_name, ',') FROM information_schema.columns
    WHERE table_name = :table AND table_schema = 'public' AND is_generated = 'NEVER'
      AND column_name NOT IN ('id', 'job_id')
""")
LOOK_S = 0.05


def fill(cluster: Cluster, experiments: int = EXPERIMENTS) -> None:
    """Insert copies of the only experiment."""
    with Database(cluster.database_url()).begin() as tx:
        for table, key in (("jobs", "id"), ("experiments", "job_id")):
            columns = tx.execute(_COLUMNS, {"table": table}).scalar()
            copies = f"SELECT {_ID}, {columns} FROM {table}, generate_series(2, {experiments}) AS n"
            tx.execute(text(f"INSERT INTO {table} ({key}, {columns}) {copies}"))


def read_all(cluster: Cluster) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", cluster.port)
    headers = {"Authorization": f"Bearer {cluster.token}"}
    connection.request("GET", "/api/v1/experiments?limit=-1", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    size = 0
    while block := answer.read(1 << 20):
        size += len(block)
    return size


class Peak:
    """The maximum memory of a cluster's processes during an action."""

    def __init__(self, cluster: Cluster, process: str) -> None:
        self._cluster, self._process = cluster, process
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.rest_mib = self.most_mib = self._now_mib()

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            self.most_mib = max(self.most_mib, self._now_mib())

    def _now_mib(self) -> float:
        alive = [p for p in self._cluster.pids(self._process) if Path(f"/proc/{p}/stat").exists()]
        return memory_mib(alive)


def main() -> None:
    with running() as cluster:
        cluster.sign_in()
        create(cluster, activate=False)
        fill(cluster)
        start = time.perf_counter()
        with Peak(cluster, "api") as api, Peak(cluster, "postgres") as postgres:
            size = read_all(cluster)
        took_s = time.perf_counter() - start
    figure("list_all_answer", size / 1024**2, "MiB", None)
    figure("list_all_time", took_s, "s", None)
    figure("list_all_memory_api", api.most_mib - api.rest_mib, "MiB", 100)
    figure("list_all_memory_postgres", postgres.most_mib - postgres.rest_mib, "MiB", 200)


if __name__ == "__main__":
    main()
