"""Decide whether a trial stops early: on its own request, on its searcher's decision, or for a preemption."""

from typing import Any, Mapping, Optional

from determined.workloads import Progress

# These searchers train every trial to its full length, so they are not asked after a validation.
_NEVER_STOP = (None, "single", "random", "grid")


def is_searched(config: Mapping[str, Any]) -> bool:
    """Return whether the searcher of a configuration may stop trials before their end."""
    return (config.get("searcher") or {}).get("name") not in _NEVER_STOP


class Stopping:
    """Checks for the chief: it calls them between workloads and, for preemptions, within a long workload.

    A trial that the searcher stopped ends after a report or a validation, so that its last checkpoint has metrics.
    A preempted trial ends at once, because other jobs wait for its slots.
    """

    def __init__(self, context: Any) -> None:
        self._core = context._core
        settings = context._settings
        self._is_searched = settings.managed and is_searched(settings.exp_conf)
        self._first_batch: Optional[int] = None
        self._asked_at: Optional[int] = None
        self._stopped_by_searcher = False

    def between_workloads(self, progress: Progress, requested: bool) -> bool:
        """Return whether to save and stop. A trial that requests its own stop still trains one workload first."""
        if self._first_batch is None:
            self._first_batch = progress.batches
        if requested and progress.batches > self._first_batch:
            return True
        if self._core.preempt.should_preempt():
            return True
        done = progress.batches
        if progress.validated_at == done and self._asked_at != done:
            self._asked_at = done
            self._ask_searcher()
        return self._stopped_by_searcher

    def within_workload(self) -> bool:
        """Return whether to stop now, within a reporting period."""
        if self._stopped_by_searcher or not self._core.preempt.should_preempt(auto_ack=False):
            return False
        self._ask_searcher()
        return not self._stopped_by_searcher

    def _ask_searcher(self) -> None:
        if self._is_searched and not self._stopped_by_searcher:
            self._stopped_by_searcher = self._core.train._is_stopped_by_searcher()
