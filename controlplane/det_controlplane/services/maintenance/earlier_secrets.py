"""Seal the secrets of configurations that were stored before they were kept apart.

Addresses of webhooks stay until they are set again: a version that does not unseal them posts to them after a rollback."""

import logging

from det_controlplane.core.config import load_yaml
from det_controlplane.core.problems import InvalidConfig
from det_controlplane.db.cluster import earlier_secrets
from det_controlplane.db.cluster.earlier_secrets import Unsealed
from det_controlplane.services import sealing
from det_controlplane.services.context import Context

log = logging.getLogger("det.secrets")

_BATCH = 200


def seal(ctx: Context) -> int:
    """Encrypt secrets of rows from earlier versions. Return the number of checked rows."""
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
                earlier_secrets.store(tx, row, parts.shown, parts.secrets, **_more(ctx, row))
        done += len(rows)
        if len(rows) < _BATCH:
            return done


def _more(ctx: Context, row: Unsealed) -> dict[str, str]:
    if row.table == "storages":
        return {"fingerprint": sealing.fingerprint(ctx, row.config)}
    if row.original is None:
        return {}
    try:
        submitted = load_yaml(row.original)
    except InvalidConfig:
        return {"original_config": ""}
    return {"original_config": sealing.text_without_secrets(row.original, submitted)}
