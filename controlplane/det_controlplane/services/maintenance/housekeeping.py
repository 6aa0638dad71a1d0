"""Delete expired data once a day at most, and only after work ran."""

from datetime import timedelta

from det_controlplane.db.cluster import cluster
from det_controlplane.db.people import sessions, sign_in_failures
from det_controlplane.services.checkpoints import collection, missing_files
from det_controlplane.services.code import model_definitions
from det_controlplane.services.context import Context
from det_controlplane.services.logs import master_log, retention
from det_controlplane.services.maintenance import earlier_secrets
from det_controlplane.services.organization import audit_listing as audit

INTERVAL = timedelta(days=1)


def run_if_due(ctx: Context) -> bool:
    """Delete expired rows, if that is due. It is called at the end of an experiment, as logs only grow with work."""
    now = ctx.now()
    with ctx.db.begin() as tx:
        if not cluster.claim_clean_up(tx, now, now - INTERVAL):
            return False
        sessions.forget_expired(tx, now - INTERVAL)
        sign_in_failures.forget_old(tx, now - INTERVAL)
    earlier_secrets.seal(ctx)
    model_definitions.collect_unused(ctx)
    collection.collect_cut_off(ctx)
    retention.delete_old(ctx)
    master_log.forget_old(ctx)
    audit.forget_old(ctx)
    missing_files.look(ctx)
    return True
