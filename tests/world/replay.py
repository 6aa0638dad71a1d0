"""Replay equals live: folding an experiment's events gives the trials that exist and the search that decides."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from det_controlplane.core import search
from det_controlplane.core.search import Create
from det_controlplane.db.engine.database import Tx
from det_controlplane.services.search.journal import parse_space
from sqlalchemy import text

from tests.world.endings import EndWatch
from tests.world.processes import Process
from tests.world.violation import Violation

_SEARCHES = text("""
    SELECT experiment_id, seq FROM searches ORDER BY 1
""")
_NEW = text("SELECT e.config, e.seed FROM experiments e WHERE e.id = :id")
_EVENTS = text(
    "SELECT event FROM search_events WHERE experiment_id = :id AND seq > :seq ORDER BY seq"
)
_TRIALS = text("""
    SELECT request_id::text AS request_id, hparams, seed, stop_requested FROM trials
    WHERE experiment_id = :id ORDER BY id
""")


@dataclass(slots=True)
class Replay:
    """The search of one experiment, folded by an observer that only reads."""

    search: search.Search
    seq: int = 0
    created: list[Create] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    end_watch: EndWatch = field(default_factory=EndWatch)

    def fold(self, events: Sequence[dict[str, Any]]) -> None:
        for stored_event in events:
            self.seq += 1
            event = search.event_from_json(stored_event)
            actions = self.search.fold(event)
            self.end_watch.see(event, actions, self.search.ending)
            for action in actions:
                if isinstance(action, Create):
                    self.created.append(action)
                elif isinstance(action, search.Stop):
                    self.stopped.add(action.request_id)


class Replays:
    def __init__(self) -> None:
        self._replays: dict[int, Replay] = {}

    def end_watches(self) -> dict[int, EndWatch]:
        """Return the watches of all searches, by experiment."""
        return {id: replay.end_watch for id, replay in self._replays.items()}

    def check(self, tx: Tx, processes: Sequence[Process]) -> bool:
        """Compare, and return whether there was anything new to fold."""
        has_changed = False
        for row in tx.execute(_SEARCHES).all():
            replay = self._replays.get(row.experiment_id)
            if replay is None:
                replay = self._replays[row.experiment_id] = _begin(tx, row.experiment_id)
            if replay.seq != row.seq:
                has_changed = True
                replay.fold(_events(tx, row.experiment_id, replay.seq))
                _compare(tx, row.experiment_id, replay)
                self._check_memories(row.experiment_id, replay, processes)
        return has_changed

    def _check_memories(
        self, experiment_id: int, replay: Replay, processes: Sequence[Process]
    ) -> None:
        for process in processes:
            entry = process.ctx.memory.pop_search(experiment_id)
            if entry is None:
                continue
            process.ctx.memory.store_search(experiment_id, entry)
            if entry.seq == replay.seq and entry.search.snapshot() != replay.search.snapshot():
                raise Violation(
                    f"experiment {experiment_id}: process {process.name} remembers another search"
                    f" than its {replay.seq} events give"
                )

    def check_from_scratch(self, tx: Tx) -> None:
        for row in tx.execute(_SEARCHES).all():
            replay = _begin(tx, row.experiment_id)
            replay.fold(_events(tx, row.experiment_id, 0))
            _compare(tx, row.experiment_id, replay)
            if replay.search.ending != self._replays[row.experiment_id].search.ending:
                raise Violation(f"experiment {row.experiment_id}: two replays end differently")
            if replay.search.snapshot() != self._replays[row.experiment_id].search.snapshot():
                raise Violation(f"experiment {row.experiment_id}: two replays differ")


def _begin(tx: Tx, experiment_id: int) -> Replay:
    row = tx.execute(_NEW, {"id": experiment_id}).first()
    assert row is not None
    return Replay(search.new(row.config["searcher"], parse_space(row.config), row.seed))


def _events(tx: Tx, experiment_id: int, after: int) -> list[dict[str, Any]]:
    return [r.event for r in tx.execute(_EVENTS, {"id": experiment_id, "seq": after}).all()]


def _compare(tx: Tx, experiment_id: int, replay: Replay) -> None:
    trials = tx.execute(_TRIALS, {"id": experiment_id}).all()
    stored_trials = [(t.request_id, t.hparams, t.seed) for t in trials]
    folded = [(c.request_id, dict(c.hparams), c.seed) for c in replay.created]
    if stored_trials != folded:
        raise Violation(
            f"experiment {experiment_id}: replay creates {len(folded)} trials, {len(stored_trials)} exist, or others"
        )
    stopped_ids = {t.request_id for t in trials if t.stop_requested}
    if not stopped_ids <= replay.stopped:
        raise Violation(
            f"experiment {experiment_id}: replay does not stop {stopped_ids - replay.stopped}"
        )
