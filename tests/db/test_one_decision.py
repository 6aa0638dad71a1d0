"""Two processes that decide about machines at the same time rent once, and no change is lost."""

import threading
from pathlib import Path

from det_controlplane.db.engine.database import Database
from det_controlplane.db.machines import provision
from det_controlplane.services.machines import deciding
from det_controlplane.services.maintenance import tick
from det_controlplane.services.scheduling import schedule_pool

from tests.support.api import create
from tests.support.rented import rented_cluster


def test_second_decision_waits_for_the_first_and_reads_its_rows(
    database: Database, tmp_path: Path
) -> None:
    with rented_cluster(database, tmp_path) as cluster:
        ctx = cluster.api.ctx
        create(cluster.api.signed_in("determined"), activate=True)
        schedule_pool.run(ctx, "default")
        with database.begin() as tx:
            provision.lock(tx)
            second = threading.Thread(target=deciding.run, args=(ctx,))
            second.start()
            second.join(0.3)
            assert second.is_alive(), "it waits"
            assert not cluster.instances()
        second.join(60)
        assert len(cluster.instances()) == 1
        deciding.run(ctx)
        assert len(cluster.instances()) == 1, "what was asked for counts as coming"


def test_next_tick_decides_for_a_process_that_died_after_its_pass(
    database: Database, tmp_path: Path
) -> None:
    """The pool's mark was cleared, so without another change no decision would follow."""
    with rented_cluster(database, tmp_path) as cluster:
        ctx = cluster.api.ctx
        create(cluster.api.signed_in("determined"), activate=True)
        assert tick.schedule_dirty_pools(ctx) == ["default"]
        assert not cluster.instances()
        tick.run(ctx)
        assert len(cluster.instances()) == 1
