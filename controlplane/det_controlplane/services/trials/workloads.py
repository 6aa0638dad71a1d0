"""List the workloads of a trial, step by step."""

from collections.abc import Iterator

from det_controlplane.core.paging import Page, Sort
from det_controlplane.db.trials import trials, workloads
from det_controlplane.db.trials.workloads import FILTERS, Options
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Missing

__all__ = ["FILTERS", "Options", "of_trial"]


def of_trial(
    ctx: Context, trial_id: int, page: Page, sort: Sort, options: Options
) -> Iterator[str]:
    if not trials.known(ctx.db, [trial_id]):
        raise Missing(f"trial {trial_id} not found")
    return workloads.page(ctx.db, trial_id, page, sort, options)
