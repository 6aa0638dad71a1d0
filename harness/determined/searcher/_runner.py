"""The loop between a search method and its experiment.

Answers are saved before they are posted, and posting one twice changes nothing at the cluster: a runner that goes on
from the saved state neither loses an operation nor repeats one.
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
# Where the API cannot hold a request it answers at once: do not ask in a tight circle.
_PAUSE_S = 2.0


class SearchRunner:
    """The base of the runners, which differ in where they keep their state."""

    poll_s = 60

    def __init__(self, search_method: SearchMethod) -> None:
        self.search_method = search_method
        self.state = SearcherState()
        self._answers: List[Dict[str, Any]] = []  # saved, and maybe not posted yet

    def run(
        self,
        exp_config: Config,
        model_dir: Optional[PathLike] = None,
        includes: Optional[Iterable[PathLike]] = None,
    ) -> int:
        """Create the experiment, or go on with it, and search until it has ended; returns its id."""
        raise NotImplementedError

    def _session(self) -> Session:
        raise NotImplementedError

    def _save(self) -> None:
        """Keep state and answers so that they survive this process."""
        raise NotImplementedError

    def _may_go_on(self) -> None:
        """Raise where the runner has to leave; called between requests."""

    def _create(
        self,
        exp_config: Config,
        model_dir: Optional[PathLike],
        includes: Optional[Iterable[PathLike]],
        once: str,
    ) -> int:
        """Create the experiment of this key; a repeated request finds the experiment that the first request made."""
        if isinstance(exp_config, dict):
            _must_be_custom(exp_config)
        session = self._session()
        body = self._patiently(lambda: submission.body(session, exp_config, model_dir, includes))
        with submission.naming(exp_config):
            made = self._patiently(lambda: submission.submit(session, body, once))
        try:
            _must_be_custom(made["config"])
        except ValueError:
            session.post(f"/api/v1/experiments/{made['id']}/kill")
            raise
        logger.info("searching in experiment %d", made["id"])
        return int(made["id"])

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
                operations = _events.answer(self.search_method, self.state, event)
                if not self.state.experiment_ended:
                    asked = [operation.to_json() for operation in operations]
                    self._answers.append({"event": str(event["id"]), "operations": asked})
            # Progress asks the method for nothing: it is not worth a save, least of all a checkpoint.
            if any("trialProgress" not in event for event in events):
                self._save()

    def _next_events(self, experiment_id: int) -> List[Mapping[str, Any]]:
        path = f"/api/v1/experiments/{experiment_id}/searcher_events"
        params = {"timeoutSeconds": self.poll_s}
        began = time.monotonic()
        answer = self._patiently(
            lambda: self._session().get(path, params=params, timeout_s=self.poll_s + 30.0)
        )
        found = answer["searcherEvents"]
        new = [e for e in found if int(e["id"]) > self.state.last_event_id]
        if not new and time.monotonic() - began < 1:
            time.sleep(_PAUSE_S)
        return new

    def _post(self, experiment_id: int, answer: Mapping[str, Any]) -> None:
        path = f"/api/v1/experiments/{experiment_id}/searcher_operations"
        body = {
            "searcherOperations": answer["operations"],
            "triggeredByEvent": {"id": answer["event"]},
        }
        self._patiently(lambda: self._session().post(path, body))

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Call the API through any outage; a refusal is the caller's."""
        wait_s = 1.0
        while True:
            self._may_go_on()
            try:
                return ask()
            except MasterUnreachableError as e:
                why = str(e)
            except APIError as e:
                if e.status < 500 and e.status != 429:
                    raise
                why = str(e)
            logger.warning("the search waits for the cluster, and goes on by itself: %s", why)
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
