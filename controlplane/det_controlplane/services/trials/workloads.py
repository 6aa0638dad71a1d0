"""What a trial did, step by step."""

from det_controlplane.core.paging import Page
from det_controlplane.db import trials, workloads
from det_controlplane.db.workloads import Options
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

__all__ = ["Options", "of_trial"]


def of_trial(ctx: Context, trial_id: int, page: Page, options: Options) -> str:
    if not trials.known(ctx.db, [trial_id]):
        raise Missing(f"trial {trial_id} not found")
    with ctx.db.autocommit() as tx:
        return workloads.page(tx, trial_id, page, options)
