"""A search inside a transaction: folded up to the row's `seq`, appended to under the experiment's lock."""

from collections.abc import Mapping
from typing import Any

from det_controlplane.core import hparams, search
from det_controlplane.core.hparams import Space
from det_controlplane.db import experiments, searches
from det_controlplane.db.engine import Tx
from det_controlplane.db.experiments import ExperimentRow
from det_controlplane.services.context import Context
from det_controlplane.services.errors import Taken
from det_controlplane.services.searchcache import CachedSearch

# A cold process replays this many events at most.
SNAPSHOT_EVERY = 500


class Journal:
    def __init__(self, ctx: Context, tx: Tx, experiment: ExperimentRow) -> None:
        self._ctx = ctx
        self._tx = tx
        self._experiment = experiment
        self._search: search.Search | None = None
        self._new: list[search.Event] = []
        self._closed = False

    def record(self, event: search.Event) -> tuple[search.Action, ...]:
        """Fold one event and keep it for the log."""
        folded = self._folded()
        self._new.append(event)
        actions = folded.fold(event)
        self._closed = self._closed or any(isinstance(a, search.Shutdown) for a in actions)
        return actions

    def progress(self, fractions: dict[str, float]) -> float:
        return self._folded().progress(fractions)

    def write(self) -> None:
        """Append what was recorded; the guard cannot fail under the row lock unless the lock was forgotten."""
        if not self._new:
            return
        row, folded = self._experiment, self._folded()
        new = [e.to_json() for e in self._new]
        if not searches.append(self._tx, row.id, row.seq, new, self._closed):
            raise Taken(f"experiment {row.id}: another process wrote event {row.seq + 1} first")
        row.seq += len(new)
        self._new.clear()
        if row.seq - row.snapshot_seq >= SNAPSHOT_EVERY:
            self._snapshot(folded)

    def write_with_snapshot(self) -> None:
        """So that no process goes on from what it remembers of the search before."""
        self.write()
        self._snapshot(self._folded())

    def _snapshot(self, folded: search.Search) -> None:
        row = self._experiment
        searches.save_snapshot(self._tx, row.id, row.seq, folded.snapshot())
        row.snapshot_seq = row.seq

    def keep(self) -> None:
        """After the commit: the next transaction goes on from here."""
        if self._search is not None:
            entry = CachedSearch(self._experiment.seq, self._search)
            self._ctx.searches.give_back(self._experiment.id, entry)

    def _folded(self) -> search.Search:
        if self._search is None:
            self._search = self._load()
        return self._search

    def _load(self) -> search.Search:
        row = self._experiment
        cached = self._ctx.searches.take(row.id)
        if cached is not None and row.snapshot_seq <= cached.seq <= row.seq:
            folded, seq = cached.search, cached.seq
        else:
            folded, seq = self._restore(), row.snapshot_seq
        if seq < row.seq:
            for event in searches.events(self._tx, row.id, seq, row.seq):
                folded.fold(search.event_from_json(event))
        return folded

    def _restore(self) -> search.Search:
        row = self._experiment
        config = experiments.config(self._tx, row.id)
        space = parse_space(config)
        if row.snapshot_seq:
            saved = searches.snapshot(self._tx, row.id)
            return search.restore(config["searcher"], space, row.seed, saved)
        return search.new(config["searcher"], space, row.seed)


def parse_space(config: Mapping[str, Any]) -> Space:
    """The hyperparameter space of a stored configuration, which was validated when it was stored."""
    space, problems = hparams.parse(config.get("hyperparameters") or {})
    if problems:
        raise ValueError(f"stored hyperparameters are invalid: {problems[0]}")
    return space
