"""Tell whether a trial ends before its length: by its own wish, its searcher's, or because its slots are wanted."""

from typing import Any, Mapping, Optional

from determined.workloads import Progress

# These train every trial to its end: after a validation of theirs there is nothing to ask.
_NEVER_STOP = (None, "single", "random", "grid")


def is_searched(config: Mapping[str, Any]) -> bool:
    """Return whether the searcher of a configuration may stop trials before their end."""
    return (config.get("searcher") or {}).get("name") not in _NEVER_STOP


class Stopping:
    """Asked by the chief between workloads and, for a preemption, within a long one.

    A trial that its searcher gave up ends where a report or a validation ends, with the metrics of its last
    checkpoint known. A preemption does not wait for that: others do.
    """

    def __init__(self, context: Any) -> None:
        self._core = context._core
        settings = context._settings
        self._is_searched = settings.managed and is_searched(settings.exp_conf)
        self._first_batch: Optional[int] = None
        self._asked_at: Optional[int] = None
        self._given_up = False

    def between_workloads(self, progress: Progress, requested: bool) -> bool:
        """Return whether to save and end; a trial that asks for its end trains one workload all the same."""
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
        return self._given_up

    def within_workload(self) -> bool:
        """Return whether to end now, amid a reporting period."""
        if self._given_up or not self._core.preempt.should_preempt(auto_ack=False):
            return False
        self._ask_searcher()
        return not self._given_up

    def _ask_searcher(self) -> None:
        if self._is_searched and not self._given_up:
            self._given_up = self._core.train._is_given_up()
