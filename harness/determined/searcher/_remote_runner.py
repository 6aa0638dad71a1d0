"""Run a search method in a task of the cluster, as the script of an experiment with `searcher.name: single`."""

import logging
import sys
from typing import TYPE_CHECKING, Iterable, Optional

from determined.common.http import Session
from determined.searcher._runner import Config, PathLike, SearchRunner
from determined.searcher._search_method import SearchMethod

if TYPE_CHECKING:
    from determined import core

logger = logging.getLogger("determined.searcher")


class RemoteSearchRunner(SearchRunner):
    """A runner with its state in checkpoints of its own trial, so that it resumes after a preemption or a restart.

    with det.core.init() as core_context:
        RemoteSearchRunner(method, core_context).run("searched.yaml", ".")
    """

    # Preemption is checked between two polls.
    poll_s = 15

    def __init__(self, search_method: SearchMethod, context: "core.Context") -> None:
        super().__init__(search_method)
        info = context.info
        if info is None or info._trial_info is None or context._session is None:
            raise RuntimeError(
                "RemoteSearchRunner runs in a trial of a cluster: submit this script as an"
                " experiment, or use LocalSearchRunner"
            )
        if context.distributed.rank != 0:
            raise RuntimeError("RemoteSearchRunner runs in the chief of a trial only")
        self._context = context
        self._info = info
        self._task_session = context._session
        self._saved_as: Optional[str] = info.latest_checkpoint

    def run(
        self,
        exp_config: Config,
        model_dir: Optional[PathLike] = None,
        includes: Optional[Iterable[PathLike]] = None,
    ) -> int:
        """Run the search. When preempted, exit with status 0; the next run of the trial continues the search."""
        if self._saved_as is not None:
            with self._context.checkpoint.restore_path(self._saved_as) as path:
                experiment_id = self._read_from(path)
        else:
            once = f"search-runner-{self._info.cluster_id}-{self._info.trial.trial_id}"
            experiment_id = self._create(exp_config, model_dir, includes, once)
        return self._search(experiment_id)

    def _session(self) -> Session:
        return self._task_session

    def _exit_if_preempted(self) -> None:
        if self._context.preempt.should_preempt():
            logger.info("preempted: the search continues from its checkpoint")
            sys.exit(0)

    def _save(self) -> None:
        """Save a checkpoint and delete the previous one, because only the newest is needed."""
        previous, self._saved_as = self._saved_as, self._with_retries(self._store)
        if previous is not None:
            stale = previous
            self._with_retries(lambda: self._context.checkpoint.delete(stale))

    def _store(self) -> str:
        metadata = {
            "steps_completed": self.state.last_event_id,
            "experiment_id": self.state.experiment_id,
        }
        with self._context.checkpoint.store_path(metadata) as (path, uuid):
            self._write_to(path)
        return uuid
