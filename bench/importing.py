"""Import a Determined cluster with many reports of metrics: rows a second, CPU of the source, memory of the program."""

import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from det_controlplane.adapters.embedded_postgres import EmbeddedPostgres
from det_controlplane.core.importing.options import Options
from det_controlplane.db.engine.connections import plain_engine
from det_controlplane.db.engine.migrate import migrate
from det_controlplane.db.importing import source, target
from det_controlplane.services.importing import importing

from bench.cpu import cpu_ms, tree
from bench.decisions import figure
from tests.support.determined_source import SourceCluster

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1_000_000
EXPERIMENTS, TRIALS = 20, 25
_FILL = """
    INSERT INTO {table} (id, trial_id, end_time, metrics, total_batches, trial_run_id, archived, metric_group,
        partition_type)
    SELECT {first} + t.id * {each} + n, t.id, now(), jsonb_build_object({values}), n * 10, 1, false, '{group}', '{kind}'
    FROM runs t, generate_series(1, {each}) n ORDER BY 1
"""


def fill(old: SourceCluster) -> None:
    """Write half of the rows as training metrics and half as validations, in the order of trials."""
    for number in range(1, EXPERIMENTS + 1):
        old.experiment(number)
        for trial in range(TRIALS):
            old.trial((number - 1) * TRIALS + trial + 1, number)
    each = ROWS // 2 // (EXPERIMENTS * TRIALS)
    metrics = "jsonb_build_object('loss', random(), 'accuracy', random(), 'batches', n * 10)"
    training = f"'avg_metrics', {metrics}, 'batch_metrics', null"
    parts = (
        ("raw_steps", training, "training", "TRAINING", 0),
        ("raw_validations", f"'validation_metrics', {metrics}", "validation", "VALIDATION", ROWS),
    )
    with old.engine.begin() as tx:
        for table, values, group, kind, first in parts:
            names = {"table": table, "values": values, "group": group, "kind": kind}
            tx.exec_driver_sql(_FILL.format(each=each, first=first, **names))
        tx.exec_driver_sql("ANALYZE")


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        there, here = (EmbeddedPostgres(Path(folder) / name) for name in ("there", "here"))
        with there, here:
            old = SourceCluster(there.url())
            fill(old)
            old.close()
            migrate(here.url())
            # A process of its own, so that its memory is the import's alone.
            subprocess.run(
                [sys.executable, __file__, "import", there.url(), here.url(), str(there.pid)],
                check=True,
            )


def measure(old_url: str, url: str, source_pid: int) -> None:
    before, start = cpu_ms(list(tree(source_pid))), time.perf_counter()
    with source.opened(old_url) as snapshot, target.opened(url) as cluster:
        result = importing.run(snapshot, cluster, Options(), now, lambda report: None)
        source_cpu_s = (cpu_ms(list(tree(source_pid))) - before) / 1e3
    wall = time.perf_counter() - start
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figure("import_metrics_rate", result.counts.metrics / wall, "1/s", 33_333, "higher")
    figure("import_source_cores", source_cpu_s / wall, "cores", 1.0, "lower")
    figure("import_memory", memory_mib, "MiB", 300, "lower")
    with plain_engine(url).connect() as connection:
        stored = connection.exec_driver_sql("SELECT count(*) FROM metrics").scalar_one()
    assert stored == result.counts.metrics


def now() -> datetime:
    return datetime.now(timezone.utc)


if __name__ == "__main__":
    if sys.argv[1:2] == ["import"]:
        measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
