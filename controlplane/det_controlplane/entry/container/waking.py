"""Start the tick and provision services for work that the API stored, even if a call to them is lost."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from det_controlplane.adapters.cloud_run import Services
from det_controlplane.adapters.notifier import LocalNotifier
from det_controlplane.api.app import App
from det_controlplane.api.http import Answer, Request
from det_controlplane.api.router import Router
from det_controlplane.entry.scheduled_work import Clock, SetSchedules, Turn
from det_controlplane.services.context import Context
from det_controlplane.services.maintenance import activity
from det_controlplane.services.maintenance.reminding import Reminder

log = logging.getLogger("det.container")


@contextmanager
def waking(
    ctx: Context, notifier: LocalNotifier, others: Services, set_schedules: SetSchedules | None
) -> Iterator[None]:
    """Call the service of each topic when the topic is woken. A schedule repeats lost calls."""
    for topic in others.topics:
        notifier.on(topic, partial(others.wake, topic))
    if set_schedules is not None:
        notifier.on("schedule", partial(_resume, ctx, set_schedules))
    yield


def _resume(ctx: Context, set_schedules: SetSchedules) -> None:
    """Resume the schedules of an idle cluster, because this process may get no processor time for retries."""
    try:
        if not activity.is_on(ctx):
            set_schedules(on=True)
    except Exception as e:
        log.warning("the schedules could not be resumed: %s", e)


def checking_schedules(ctx: Context, turn: Turn, set_schedules: SetSchedules) -> Turn:
    """Wrap a turn: pause schedules again that the API resumed for work that is already done."""

    def checked(clock: Clock) -> float | None:
        due_s = turn(clock)
        if due_s is None and not activity.is_on(ctx):
            set_schedules(on=False)
            due_s = turn(clock)  # work may have been stored before the schedules were paused
        return due_s

    return checked


class RemindingApp(App):
    """The API. Its requests also check for work of processes that died before they called a service."""

    def __init__(self, ctx: Context, router: Router) -> None:
        super().__init__(ctx, router)
        self._reminder = Reminder()

    def handle(self, request: Request) -> Answer:
        before = self.ctx.db.uses
        answer = super().handle(request)
        if self.ctx.db.uses > before:  # health checks must not keep a database awake
            self._reminder.look(self.ctx)
        return answer
