"""Why something waits, in the scheduler's own words."""

from typing import Any
from uuid import UUID

from det_controlplane.core.provision import boot
from det_controlplane.db import waiting
from det_controlplane.db.waiting import Standing
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Invalid, Missing

_SENTENCES = {
    "PAUSED": "is paused: `det experiment activate {experiment_id}` continues it",
    "COMPLETED": "has completed",
    "CANCELED": "was canceled",
    "ENDED": "has ended",
}


def of(ctx: Context, kind: str, id: str) -> list[dict[str, Any]]:
    """One entry for each live allocation; without any, one for the thing itself."""
    if kind not in waiting.KINDS:
        raise Invalid(f"cannot tell why for a {kind!r}; ask for {', '.join(waiting.KINDS)}")
    if kind in ("experiment", "trial") and not id.isdigit():
        raise Invalid(f"{kind} id must be a number, not {id!r}")
    if kind == "job" and not _is_uuid(id):
        raise Invalid(f"job id must be a UUID, not {id!r}; `det job list` shows them")
    with ctx.db.begin() as tx:
        found = waiting.standing(tx, kind, id)
        if found is None:
            raise Missing(f"{kind} '{id}' not found")
        reasons = waiting.reasons(tx, kind, id)
    return [_with_no_show(reason) for reason in reasons] or [_itself(found)]


def _with_no_show(reason: dict[str, Any]) -> dict[str, Any]:
    """Add where the machine stopped that was rented for a waiting allocation before and never joined."""
    no_show = reason.pop("noShow")
    if no_show is not None:
        step = boot.last_step(no_show["console"])
        at = f", its start ended at: {step}" if step else ""
        told = f"a machine before did not join{at} (`det instance describe {no_show['id']}`)"
        reason["sentence"] += f"; {told}"
    return reason


def _itself(row: Standing) -> dict[str, Any]:
    return {
        "allocationId": None, "trialId": None, "state": row.state, "code": row.state,
        "sentence": _sentence_of(row), "since": None,
    }  # fmt: skip


def _sentence_of(row: Standing) -> str:
    last = f"its last run: {row.exit_reason}" if row.exit_reason else ""
    if row.state == "ERROR":
        return f"has failed: {'; '.join(filter(None, (row.error, last))) or 'see its logs'}"
    if row.state in ("COMPLETED", "ENDED") and last:
        return f"{_SENTENCES[row.state]}; {last}"
    if row.state == "ACTIVE" and row.parked:
        return "holds no slots until the searcher tells it to train on"
    told = _SENTENCES.get(row.state, "has nothing queued and nothing running")
    return told.format(experiment_id=row.experiment_id)


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True
