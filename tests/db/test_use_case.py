"""Marks and effects of a use case are written with its commit, and wakes are sent after it; or none of them."""

import pytest
from det_controlplane.db.scheduling import pool_marks
from det_controlplane.services.context import Context
from det_controlplane.services.use_case import change


class _Waker:
    def __init__(self) -> None:
        self.woken: list[str] = []

    def wake(self, topic: str) -> None:
        self.woken.append(topic)


def _marked(ctx: Context) -> list[str]:
    with ctx.db.autocommit() as tx:
        return pool_marks.dirty_pools(tx)


def test_commit_marks_the_pool_and_wakes_the_scheduler(ctx: Context) -> None:
    waker = _Waker()
    ctx.waker = waker
    with change(ctx) as change_scope:
        change_scope.queue_changed("gpu")
        assert waker.woken == []
    assert _marked(ctx) == ["gpu"]
    assert waker.woken == ["schedule"]


def test_early_return_still_marks_the_pool(ctx: Context) -> None:
    def early() -> None:
        with change(ctx) as change_scope:
            change_scope.queue_changed("gpu")
            return

    early()
    assert _marked(ctx) == ["gpu"]


def test_failed_change_marks_no_pool_and_wakes_no_process(ctx: Context) -> None:
    waker = _Waker()
    ctx.waker = waker

    def failing() -> None:
        with change(ctx) as change_scope:
            change_scope.queue_changed("gpu")
            change_scope.when_committed(lambda: waker.wake("committed"))
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        failing()
    assert _marked(ctx) == []
    assert waker.woken == []
