"""Rows of jobs: what experiments and tasks are in the queue."""

from typing import Any
from uuid import UUID

from sqlalchemy import select, update

from det_controlplane.db.engine import Tx
from det_controlplane.db.schema import jobs


def change(tx: Tx, job_id: UUID, **values: Any) -> None:
    tx.execute(update(jobs).where(jobs.c.id == job_id).values(values))


def workspace_of(tx: Tx, job_id: UUID) -> int:
    found = select(jobs.c.workspace_id).where(jobs.c.id == job_id)
    return int(tx.execute(found).scalar_one())
