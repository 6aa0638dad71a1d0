"""The loop that exchanges events and operations between a search method and its experiment.

Operations are saved before they are posted, and posting them twice has no further effect. A runner that resumes
from the saved state therefore neither loses nor repeats an operation.
"""

import json
import logging
import os
import pathlib
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, TypeVar, Union

from determined.common.http import APIError, MasterUnreachableError, Session
from determined.experimental.client import _submission as submission
from determined.searcher import _events
from determined.searcher._search_method import SearcherState, SearchMethod

logger = logging.getLogger("determined.searcher")

PathLike = Union[str, "os.PathLike[str]"]
Config = Union[PathLike, Dict[str, Any]]
T = TypeVar("T")

_ANSWERS_FILE = "answers.json"
_LONGEST_RETRY_S = 30.0
# The API answers at once if it cannot hold a long poll. The pause avoids a busy loop.
_PAUSE_S = 2.0


class SearchRunner:
    """The base class of the runners. Subclasses store the state in different places."""

    poll_s = 60

    def __init__(self, search_method: SearchMethod) -> None:
        self.search_method = search_method
        self.state = SearcherState()
        self._answers: List[Dict[str, Any]] = []  # saved, but possibly not posted yet

    def run(
        self,
        exp_config: Config,
        model_dir: Optional[PathLike] = None,
        includes: Optional[Iterable[PathLike]] = None,
    ) -> int:
        """Create or resume the experiment, and search until it has ended. Return its id."""
        raise NotImplementedError

    def _session(self) -> Session:
        raise NotImplementedError

    def _save(self) -> None:
        """Store the state and the operations so that they survive this process."""
        raise NotImplementedError

    def _exit_if_preempted(self) -> None:
        """Exit if the runner is preempted. This is called between requests."""

    def _create(
        self,
        exp_config: Config,
        model_dir: Optional[PathLike],
        includes: Optional[Iterable[PathLike]],
        once: str,
    ) -> int:
        """Create the experiment with this idempotency key. A repeated request returns the same experiment."""
        if isinstance(exp_config, dict):
            _must_be_custom(exp_config)
        session = self._session()
        body = self._with_retries(lambda: submission.body(session, exp_config, model_dir, includes))
        with submission.naming(exp_config):
            experiment = self._with_retries(lambda: submission.submit(session, body, once))
        try:
            _must_be_custom(experiment["config"])
        except ValueError:
            session.post(f"/api/v1/experiments/{experiment['id']}/kill")
            raise
        logger.info("searching in experiment %d", experiment["id"])
        return int(experiment["id"])

    def _search(self, experiment_id: int) -> int:
        self.state.experiment_id = experiment_id
        while True:
            for answer in self._answers:
                self._post(experiment_id, answer)
            self._answers = []
            if self.state.experiment_ended:
                return experiment_id
            events = self._next_events(experiment_id)
            for event in events:
                operations = _events.handle(self.search_method, self.state, event)
                if not self.state.experiment_ended:
                    requests = [operation.to_json() for operation in operations]
                    self._answers.append({"event": str(event["id"]), "operations": requests})
            # Progress events never cause operations, so they are not worth a save or even a checkpoint.
            if any("trialProgress" not in event for event in events):
                self._save()

    def _next_events(self, experiment_id: int) -> List[Mapping[str, Any]]:
        path = f"/api/v1/experiments/{experiment_id}/searcher_events"
        params = {"timeoutSeconds": self.poll_s}
        began = time.monotonic()
        answer = self._with_retries(
            lambda: self._session().get(path, params=params, timeout_s=self.poll_s + 30.0)
        )
        events = answer["searcherEvents"]
        new = [e for e in events if int(e["id"]) > self.state.last_event_id]
        if not new and time.monotonic() - began < 1:
            time.sleep(_PAUSE_S)
        return new

    def _post(self, experiment_id: int, answer: Mapping[str, Any]) -> None:
        path = f"/api/v1/experiments/{experiment_id}/searcher_operations"
        body = {
            "searcherOperations": answer["operations"],
            "triggeredByEvent": {"id": answer["event"]},
        }
        self._with_retries(lambda: self._session().post(path, body))

    def _with_retries(self, ask: Callable[[], T]) -> T:
        """Call the API with retries during an outage. Rejected requests raise."""
        wait_s = 1.0
        while True:
            self._exit_if_preempted()
            try:
                return ask()
            except MasterUnreachableError as e:
                why = str(e)
            except APIError as e:
                if e.status < 500 and e.status != 429:
                    raise
                why = str(e)
            logger.warning("the search waits for the cluster and will continue: %s", why)
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_RETRY_S)

    def _write_to(self, folder: pathlib.Path) -> None:
        assert self.state.experiment_id is not None
        self.search_method.save(self.state, folder, experiment_id=self.state.experiment_id)
        (folder / _ANSWERS_FILE).write_text(json.dumps(self._answers))

    def _read_from(self, folder: pathlib.Path) -> int:
        self.state, experiment_id = self.search_method.load(folder)
        self._answers = json.loads((folder / _ANSWERS_FILE).read_text())
        logger.info("resuming the search of experiment %d", experiment_id)
        return experiment_id


def _must_be_custom(config: Mapping[str, Any]) -> None:
    name = (config.get("searcher") or {}).get("name")
    if name != "custom":
        raise ValueError(
            f"a search method needs an experiment with searcher.name 'custom', not {name!r}"
        )
