"""Check the invariants of the world after every step, and at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from det_controlplane.db.engine.database import Tx
from sqlalchemy import TextClause, text

from tests.world import rules
from tests.world.endings import EndWatch
from tests.world.ledger import Ledger, Run
from tests.world.replay import Replays
from tests.world.timeline import Timeline
from tests.world.violation import Violation

if TYPE_CHECKING:
    from tests.world.hosts import Hosts

__all__ = ["Invariants", "Returned", "Violation"]


def all_rules(queries: dict[str, str]) -> TextClause:
    parts = (f"SELECT '{n}' AS rule, what FROM ({sql}) AS x (what)" for n, sql in queries.items())
    return text(" UNION ALL ".join(parts))


_RULES, _JOURNAL_RULES = all_rules(rules.RULES), all_rules(rules.JOURNAL_RULES)
_TICK_RULES = all_rules(rules.TICK_RULES)
_UNFINISHED = text(rules.UNFINISHED)
_STATES = text(rules.STATES)
_LIVE = text("""
    SELECT 1 FROM containers c JOIN allocations a ON a.id = c.allocation_id
    WHERE c.id = cast(:id AS uuid) AND a.state <> 'TERMINATED' AND a.epoch = c.epoch
""")
_REPORTED = text("""
    SELECT metric_group, total_batches, (metrics->>'loss')::float AS loss FROM metrics
    WHERE trial_id = :trial AND NOT archived
""")
_NOT_GIVEN_BACK = text(rules.NOT_GIVEN_BACK)
_AWAITED, _GIVEN_UP = text(rules.AWAITED), text(rules.GIVEN_UP)
_ENDED_AS_LOST = text(rules.ENDED_AS_LOST)
_LAST_RUNS = text(rules.LAST_RUNS)
# The control plane declares an agent lost at once if its machine was terminated.
_AGENTS = text("""
    SELECT g.id, g.state::text AS state, g.last_seen_at FROM agents g
    WHERE NOT EXISTS (SELECT 1 FROM instances i WHERE i.agent_id = g.id AND i.state IN ('TERMINATING', 'GONE'))
""")
_STARTS = text(
    "SELECT trial_id, run_id, start_steps FROM allocations WHERE start_steps IS NOT NULL"
)
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
_SILENCE_S = 54.0  # lease and wait, less rounding


@dataclass(frozen=True, slots=True)
class Returned:
    """An agent that has joined again with containers."""

    agent_id: str
    containers: Sequence[str]  # that run, or have ended by themselves
    whole: Sequence[str]  # of those, the ones that run or have ended well
    spoke_at: datetime  # when it last sent anything before


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
        self._lost: set[str] = set()
        self._skew_s = skew_s
        # Containers of gangs that wait for an agent, and until when they do at least, in seconds of the timeline.
        self._awaited: dict[str, float] = {}
        # When an outage ended last, after which agents have their whole time.
        self.answering_since: datetime | None = None
        # For how long only the API has been down, and ticks could have noticed it.
        self.unheard_s = 0.0

    def check_step(self, hosts: "Hosts") -> None:
        with hosts.observed() as tx:
            none_broken(tx, self._rules)
            self._check_lost(tx)
            self._check_awaited(tx)
            self._check_trials(tx.execute(_TRIALS).all())
            states = [tuple(r) for r in tx.execute(_STATES).all()]
            if self._replays.check(tx, hosts.processes) or states != self._states:
                none_broken(tx, _JOURNAL_RULES)
                self._check_terminal(states)
            self._states = states

    def _check_lost(self, tx: Tx) -> None:
        """Check that an agent is given up only after the control plane could hear it for its whole time."""
        now = self._timeline.now()
        agents = tx.execute(_AGENTS).all()
        for agent in agents:
            if agent.state == "LOST" and agent.id not in self._lost:
                last_contact = max(filter(None, (agent.last_seen_at, self.answering_since)))
                silent_s = (now - last_contact).total_seconds() - self.unheard_s
                if silent_s < _SILENCE_S - self._skew_s:
                    raise Violation(f"{agent.id} is lost after {silent_s:.0f} s of silence")
        self._lost = {agent.id for agent in agents if agent.state == "LOST"}

    def _check_awaited(self, tx: Tx) -> None:
        """Check that a gang waits long enough for its other agents after one of them has joined again."""
        now_s = self._timeline.seconds
        self._awaited = {id: until_s for id, until_s in self._awaited.items() if until_s > now_s}
        if self._awaited:
            for row in tx.execute(_GIVEN_UP, {"ids": sorted(self._awaited)}):
                raise Violation(f"{row.what} was given up while its run waited for it")

    def end_watches(self) -> dict[int, EndWatch]:
        return self._replays.end_watches()

    def is_live(self, container_id: str) -> bool:
        """Return whether a container is of an allocation that lives."""
        with self._hosts.observed() as tx:
            return tx.execute(_LIVE, {"id": container_id}).scalar() is not None

    def check_start(self, run: Run) -> None:
        """Check that a trial's metrics are complete up to the checkpoint from which a run starts."""
        expected = self._ledger.reported_before(run.started_from, run.trial_id)
        with self._hosts.observed() as tx:
            self._check_reported(tx, run.trial_id, expected)

    def _check_reported(self, tx: Tx, trial_id: int, expected: Mapping[int, float]) -> None:
        stored_losses = {
            (row.metric_group, row.total_batches): row.loss
            for row in tx.execute(_REPORTED, {"trial": trial_id})
        }
        for steps, loss in expected.items():
            for group in ("training", "validation"):
                value = stored_losses.get((group, steps))
                if value != loss:
                    message = f"{group} at step {steps} is {value}, not {loss}"
                    raise Violation(f"trial {trial_id} has a hole: {message}")

    def check_given_back(self, back: Returned) -> None:
        """Check that all runs of an agent that has joined again continue, except replaced runs."""
        with self._hosts.observed() as tx:
            params = {
                "agent": back.agent_id, "ids": list(back.containers), "whole": list(back.whole),
                "spoke_at": back.spoke_at,
            }  # fmt: skip
            for lost_row in tx.execute(_NOT_GIVEN_BACK, params):
                raise Violation(
                    f"{back.agent_id} is back with {lost_row.what}, which is not given back"
                )
            until_s = self._timeline.seconds + _SILENCE_S - self._skew_s
            for row in tx.execute(_AWAITED, {"agent": back.agent_id}):
                self._awaited.setdefault(row.id, until_s)

    def check_tick(self, before: datetime) -> None:
        """Check an uninterrupted tick that began at `before`."""
        with self._hosts.observed() as tx:
            for row in tx.execute(_TICK_RULES, {"now": before}).all():
                raise Violation(f"{row.rule}: {row.what}")

    def everything_ended(self) -> bool:
        with self._hosts.observed() as tx:
            return not tx.execute(_UNFINISHED).all()

    def unfinished(self) -> str:
        with self._hosts.observed() as tx:
            return "; ".join(r.what for r in tx.execute(_UNFINISHED).all())

    def _check_terminal(self, rows: Sequence[tuple[str, str, int | None]]) -> None:
        """Check that ended objects do not change until they are deleted."""
        present = {
            object_name: (state, experiment_id) for object_name, state, experiment_id in rows
        }
        for object_object_name, (state, experiment_id) in self._ended.items():
            now = present.get(object_object_name)
            is_being_deleted = experiment_id in self._ledger.deleting
            if now is None and not is_being_deleted:
                raise Violation(f"{object_object_name} was {state} and is gone")
            if (
                now is not None
                and now[0] != state
                and not (is_being_deleted and now[0].startswith("DELET"))
            ):
                raise Violation(f"{object_object_name} was {state} and is {now[0]}")
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
        """Check that every acknowledged object exists, and that every replay from the beginning agrees."""
        ledger = self._ledger
        with hosts.observed() as tx:
            trials = {r.id: r for r in tx.execute(_TRIALS).all()}
            metrics = {
                (r.trial_id, r.run_id, r.metric_group, r.total_batches): r.loss
                for r in tx.execute(_METRICS).all()
            }
            checkpoints = {r.uuid for r in tx.execute(_CHECKPOINTS).all()}
            live = {r.id for r in tx.execute(_EXITS).all() if r.state != "TERMINATED"}
            starts = [tuple(row) for row in tx.execute(_STARTS)]
            self._check_results(tx)
            self._replays.check_from_scratch(tx)
        for m in ledger.metrics:
            stored_value = metrics.get((m.trial_id, m.run_id, m.group, m.steps))
            superseded = any(
                trial_id == m.trial_id and run_id > m.run_id and steps < m.steps
                for trial_id, run_id, steps in starts
            )
            if m.trial_id in trials and stored_value != m.loss and not superseded:
                raise Violation(f"{m} was acknowledged, and {stored_value} is stored")
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

    def _check_results(self, tx: Tx) -> None:
        """Check that trials have all metrics of the runs that they are made of, and that no end counts as a loss."""
        for row in tx.execute(_LAST_RUNS):
            run = self._ledger.runs.get(row.key)
            if run is not None:
                before = self._ledger.reported_before(run.started_from, run.trial_id)
                self._check_reported(tx, run.trial_id, before | dict(run.reported))
        ended_tasks = sorted(self._ledger.ended & self._ledger.forgotten)
        for lost_row in tx.execute(_ENDED_AS_LOST, {"ids": ended_tasks}):
            raise Violation(f"{lost_row.what} ended by itself, and counts as lost")


def none_broken(tx: Tx, query: TextClause) -> None:
    for row in tx.execute(query).all():
        raise Violation(f"{row.rule}: {row.what}")
