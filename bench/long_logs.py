"""Measure a log of ten million lines: `python -m bench.long_logs`.

The figures are its first and last page, a time in its middle, searches for rare and absent texts, and a follower.
"""

import http.client
import json
import sys
import time
from typing import Any

from det_controlplane.db.engine.database import Database
from sqlalchemy import text

from bench.api import Cluster, running
from bench.data import figure, trials_of

LINES, PART = 10_000_000, 500_000
RARE = 1_000_003  # one of so many lines has another text
# Lines are one millisecond apart, and inserted in parts, because a statement of the API may take two minutes at most.
FILL = text(f"""
    INSERT INTO task_logs (task_id, allocation_id, agent_id, container_id, rank_id, logged_at, level, source,
           stdtype, log)
    SELECT :task, :task || '.1', 'agent-' || n % 4, 'container-' || n % 4, n % 4,
           timestamptz '2026-01-01 00:00+0' + n * interval '1 millisecond', 'LOG_LEVEL_INFO', 'task', 'stdout',
           CASE WHEN n % {RARE} = 0 THEN 'CUDA error: out of memory at ' || n
                ELSE 'step ' || n || ': loss=0.1234 samples/s=999' END
    FROM generate_series(cast(:first AS bigint), cast(:last AS bigint)) AS n
""")
# The cluster's earlier messages about the trial are first, but have a later time than all of these.
FORGET = text("DELETE FROM task_logs WHERE task_id = :task")


def fill(cluster: Cluster, task_id: str, lines: int = LINES) -> None:
    database = Database(cluster.database_url())
    with database.begin() as tx:
        tx.execute(FORGET, {"task": task_id})
    for first in range(1, lines, PART):
        with database.begin() as tx:
            tx.execute(FILL, {"task": task_id, "first": first, "last": first + PART - 1})
    # Autovacuum does this while a log grows. Without it, PostgreSQL would plan for a table of a few lines.
    with database.begin() as tx:
        tx.execute(text("ANALYZE task_logs"))
    database.dispose()


class Stream:
    """An open log that returns lines one by one."""

    def __init__(self, cluster: Cluster, task_id: str, query: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", cluster.port)
        headers = {"Authorization": f"Bearer {cluster.token}"}
        self.began = time.perf_counter()
        self._connection.request("GET", f"/api/v1/tasks/{task_id}/logs?{query}", headers=headers)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()

    def lines(self, most: int) -> list[dict[str, Any]]:
        lines: list[dict[str, Any]] = []
        while len(lines) < most and (line := self._answer.readline()):
            message = json.loads(line)
            assert "result" in message, message
            lines.append(message["result"])
        return lines

    def close(self) -> None:
        self._connection.close()


def page_ms(cluster: Cluster, task_id: str, query: str, lines: int) -> float:
    """Return the time until some lines arrived, and check that there are no more."""
    stream = Stream(cluster, task_id, query)
    log_lines = stream.lines(lines)
    took_ms = (time.perf_counter() - stream.began) * 1000
    stream.close()
    assert len(log_lines) == lines, f"{query}: {len(log_lines)} lines"
    return took_ms


def main() -> None:
    with running() as cluster:
        cluster.sign_in()
        task_id = trials_of(cluster)[0]["taskId"]
        start = time.perf_counter()
        fill(cluster, task_id)
        print(f"# filled in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        middle = "timestampAfter=2026-01-01T01:23:20Z"
        pages = {
            "first_page": ("limit=1000", 1000, 100),
            "last_page": ("limit=1000&orderBy=ORDER_BY_DESC", 1000, 100),
            "page_of_a_rank": ("limit=1000&rankIds=3", 1000, 200),
            "page_by_time": (f"limit=1000&{middle}", 1000, 500),
            "last_page_before_a_time": (
                f"limit=1000&orderBy=ORDER_BY_DESC&timestampBefore={middle[15:]}",
                1000,
                500,
            ),
            "search_of_text": ("limit=1&searchText=out%20of%20memory", 1, None),
            "search_of_pattern": ("limit=1&searchText=CUDA.*memory&enableRegex=true", 1, None),
            "search_of_text_in_all": ("searchText=out%20of%20memory", LINES // RARE, None),
            "search_of_pattern_in_all": (
                "searchText=CUDA.*memory&enableRegex=true",
                LINES // RARE,
                None,
            ),
        }
        for name, (query, lines, floor) in pages.items():
            page_ms(cluster, task_id, query, lines) if floor else None
            took_ms = page_ms(cluster, task_id, query, lines)
            figure(f"long_log_{name}", took_ms, "ms", floor, better="lower")


if __name__ == "__main__":
    main()
