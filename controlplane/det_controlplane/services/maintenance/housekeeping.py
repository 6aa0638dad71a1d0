"""Delete expired data, and seal secrets of earlier versions, once a day at most and only after work ran."""

import logging
from datetime import timedelta

from det_controlplane.core.config import load_yaml
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.db.cluster import cluster, earlier_secrets
from det_controlplane.db.cluster.earlier_secrets import Unsealed
from det_controlplane.db.people import sessions, sign_in_failures
from det_controlplane.services import sealing
from det_controlplane.services.checkpoints import collection, missing_files
from det_controlplane.services.code import model_definitions
from det_controlplane.services.context import Context
from det_controlplane.services.logs import master_log, retention
from det_controlplane.services.organization import audit_listing as audit

log = logging.getLogger("det.secrets")

INTERVAL = timedelta(days=1)
_BATCH = 200


def run_if_due(ctx: Context) -> bool:
    """Delete expired rows, if that is due. It is called at the end of an experiment, as logs only grow with work."""
    now = ctx.now()
    with ctx.db.begin() as tx:
        if not cluster.claim_clean_up(tx, now, now - INTERVAL):
            return False
        sessions.forget_expired(tx, now - INTERVAL)
        sign_in_failures.forget_old(tx, now - INTERVAL)
    seal_earlier_secrets(ctx)
    model_definitions.collect_unused(ctx)
    collection.collect_cut_off(ctx)
    retention.delete_old(ctx)
    master_log.forget_old(ctx)
    audit.forget_old(ctx)
    missing_files.look(ctx)
    return True


def seal_earlier_secrets(ctx: Context) -> int:
    """Encrypt secrets of configurations that earlier versions stored. Return the number of checked rows.

    Addresses of webhooks stay until they are set again: a version that does not unseal them posts to them after a rollback."""
    if ctx.cipher is None:
        return 0
    count = sum(_seal_table(ctx, table) for table in earlier_secrets.TABLES)
    if count:
        log.info("kept the secrets of %d configurations apart", count)
    return count


def _seal_table(ctx: Context, table: str) -> int:
    done = 0
    while True:
        with ctx.db.begin() as tx:
            rows = earlier_secrets.some(tx, table, _BATCH)
            for row in rows:
                parts = sealing.seal(ctx, row.config)
                earlier_secrets.store(tx, row, parts.shown, parts.secrets, **_more_values(ctx, row))
        done += len(rows)
        if len(rows) < _BATCH:
            return done


def _more_values(ctx: Context, row: Unsealed) -> dict[str, str]:
    if row.table == "storages":
        return {"fingerprint": sealing.fingerprint(ctx, row.config)}
    if row.original is None:
        return {}
    try:
        submitted = load_yaml(row.original)
    except InvalidConfig:
        return {"original_config": ""}
    return {"original_config": sealing.text_without_secrets(row.original, submitted)}
