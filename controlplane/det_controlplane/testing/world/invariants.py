"""Check the invariants of the world after every step, and at the end."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import TextClause, text

from det_controlplane.db.engine import Tx
from det_controlplane.testing.world import rules
from det_controlplane.testing.world.ledger import Ledger
from det_controlplane.testing.world.replay import Replays
from det_controlplane.testing.world.timeline import Timeline
from det_controlplane.testing.world.violation import Violation

if TYPE_CHECKING:
    from det_controlplane.testing.world.hosts import Hosts

__all__ = ["Invariants", "Violation"]


def all_rules(named: dict[str, str]) -> TextClause:
    parts = (f"SELECT '{n}' AS rule, what FROM ({sql}) AS x (what)" for n, sql in named.items())
    return text(" UNION ALL ".join(parts))


_RULES, _JOURNAL_RULES = all_rules(rules.RULES), all_rules(rules.JOURNAL_RULES)
_TICK_RULES = all_rules(rules.TICK_RULES)
_UNFINISHED = text(rules.UNFINISHED)
_STATES = text(rules.STATES)
_LIVE = text("SELECT 1 FROM allocations WHERE id = :id AND state <> 'TERMINATED'")
_METRICS = text("""
    SELECT trial_id, run_id, metric_group, total_batches, (metrics->>'loss')::float AS loss FROM metrics
""")
_CHECKPOINTS = text("SELECT uuid::text AS uuid FROM checkpoints")
_TRIALS = text("""
    SELECT t.id, t.experiment_id, t.state::text AS state, t.restarts, t.early_exit, t.stop_requested,
           e.state::text AS experiment_state
    FROM trials t JOIN experiments e ON e.id = t.experiment_id
""")
_EXITS = text("SELECT id::text AS id, state::text AS state FROM containers")
_TERMINAL = ("COMPLETED", "CANCELED", "ERROR", "TERMINATED", "DELETING", "DELETE_FAILED")
_ENDED = ("COMPLETED", "CANCELED", "ERROR")


class Invariants:
    def __init__(
        self, hosts: "Hosts", ledger: Ledger, timeline: Timeline, *, skew_s: float = 0.0
    ) -> None:
        """Compare times of different processes with that tolerance, where their clocks differ."""
        self._rules = _RULES if skew_s == 0 else all_rules(rules.with_skew(skew_s))
        self._hosts = hosts
        self._ledger = ledger
        self._timeline = timeline
        self._replays = Replays()
        self._ended: dict[str, tuple[str, int | None]] = {}
        self._states: list[tuple[str, str, int | None]] = []

    def check_step(self, hosts: "Hosts") -> None:
        with hosts.observed() as tx:
            none_broken(tx, self._rules)
            self._check_trials(tx.execute(_TRIALS).all())
            states = [tuple(r) for r in tx.execute(_STATES).all()]
            if self._replays.check(tx, hosts.processes) or states != self._states:
                none_broken(tx, _JOURNAL_RULES)
                self._check_terminal(states)
            self._states = states

    def is_live(self, allocation_id: str) -> bool:
        with self._hosts.observed() as tx:
            return tx.execute(_LIVE, {"id": allocation_id}).scalar() is not None

    def check_tick(self, before: datetime) -> None:
        """Check a tick that nothing interrupted, which began at `before`."""
        with self._hosts.observed() as tx:
            for broken in tx.execute(_TICK_RULES, {"now": before}).all():
                raise Violation(f"{broken.rule}: {broken.what}")

    def everything_ended(self) -> bool:
        with self._hosts.observed() as tx:
            return not tx.execute(_UNFINISHED).all()

    def unfinished(self) -> str:
        with self._hosts.observed() as tx:
            return "; ".join(r.what for r in tx.execute(_UNFINISHED).all())

    def _check_terminal(self, rows: Sequence[tuple[str, str, int | None]]) -> None:
        """Check that what has ended stays as it ended, until it is deleted."""
        present = {what: (state, experiment_id) for what, state, experiment_id in rows}
        for what, (state, experiment_id) in self._ended.items():
            now = present.get(what)
            asked = experiment_id in self._ledger.deleting
            if now is None and not asked:
                raise Violation(f"{what} was {state} and is gone")
            if now is not None and now[0] != state and not (asked and now[0].startswith("DELET")):
                raise Violation(f"{what} was {state} and is {now[0]}")
        self._ended = {w: s for w, s in present.items() if s[0] in _TERMINAL}

    def _check_trials(self, rows: Sequence[Any]) -> None:
        crashes = self._ledger.crashes()
        for row in rows:
            if row.restarts > crashes.get(row.id, 0):
                raise Violation(
                    f"trial {row.id} has {row.restarts} restarts, its code failed {crashes.get(row.id, 0)} times"
                )
            if row.state == "COMPLETED":
                self._check_completed(row)
            elif row.state == "ERROR" and row.experiment_state != "ERROR":
                pulls = self._ledger.pull_failures.get(row.id, 0)
                if not crashes.get(row.id) and pulls < 3:
                    raise Violation(f"trial {row.id} failed, and its code never did")

    def _check_completed(self, row: Any) -> None:
        """Check that no training is cut short: its program ended, its searcher stopped it, or it gave up."""
        if row.stop_requested or row.early_exit or row.experiment_state == "COMPLETED":
            return
        runs = [r for r in self._ledger.runs.values() if r.trial_id == row.id]
        if not any(r.ended_well for r in runs):
            raise Violation(
                f"trial {row.id} is COMPLETED, and none of its programs ended by itself"
            )

    def check_end(self, hosts: "Hosts") -> None:
        """Check that whatever was acknowledged is there, and every replay agrees from the beginning."""
        ledger = self._ledger
        with hosts.observed() as tx:
            trials = {r.id: r for r in tx.execute(_TRIALS).all()}
            metrics = {
                (r.trial_id, r.run_id, r.metric_group, r.total_batches): r.loss
                for r in tx.execute(_METRICS).all()
            }
            checkpoints = {r.uuid for r in tx.execute(_CHECKPOINTS).all()}
            live = {r.id for r in tx.execute(_EXITS).all() if r.state != "TERMINATED"}
            self._replays.check_from_scratch(tx)
        for m in ledger.metrics:
            stored = metrics.get((m.trial_id, m.run_id, m.group, m.steps))
            if m.trial_id in trials and stored != m.loss:
                raise Violation(f"{m} was acknowledged, and {stored} is stored")
        for uuid, trial_id in ledger.checkpoints.items():
            if trial_id in trials and uuid not in checkpoints:
                raise Violation(
                    f"checkpoint {uuid} of trial {trial_id} was acknowledged and is gone"
                )
        for trial_id in ledger.early_exits:
            trial = trials.get(trial_id)
            if trial is not None and not trial.early_exit and trial.state not in _ENDED:
                raise Violation(
                    f"trial {trial_id}: its early exit was acknowledged and is forgotten"
                )
        if live & ledger.forgotten:
            raise Violation(f"exits were acknowledged and forgotten: {live & ledger.forgotten}")


def none_broken(tx: Tx, query: TextClause) -> None:
    for broken in tx.execute(query).all():
        raise Violation(f"{broken.rule}: {broken.what}")
