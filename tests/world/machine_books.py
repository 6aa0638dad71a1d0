"""Check machines: the rows of the control plane against the machines and charges of the clouds."""

from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from det_controlplane.db.engine.database import Tx
from det_controlplane.db.money import costs
from det_controlplane.db.money.costs import Span
from det_controlplane.testing.fakecloud import FakeCloud, RentedMachine
from sqlalchemy import text

from tests.world.hosts import Hosts
from tests.world.invariants import all_rules, none_broken
from tests.world.machine_rules import MACHINE_RULES
from tests.world.timeline import Timeline
from tests.world.violation import Violation

_ROWS = text("""
    SELECT i.id, i.pool, i.state::text AS state, i.cloud_id, i.provider, i.zone, i.machine_type, i.price_usd_hour,
           i.launched_at, i.ended_at, i.stopped, i.reason, coalesce(g.leaving, false) AS leaving
    FROM instances i LEFT JOIN agents g ON g.id = i.agent_id
""")
# Deleted experiments keep their costs.
_EXPERIMENTS_EVER = text("""
    SELECT id FROM experiments UNION SELECT experiment_id FROM deleted_containers WHERE experiment_id IS NOT NULL
""")
_RULES = all_rules(MACHINE_RULES)
_ENDED = ("GONE", "FAILED")
_COUNTED = ("REQUESTED", "LAUNCHED", "REGISTERED")
_CENT = Decimal("0.01")


class Books:
    def __init__(
        self,
        hosts: Hosts,
        timeline: Timeline,
        clouds: Collection[FakeCloud],
        most_machines: Mapping[str, int],
    ) -> None:
        self._hosts = hosts
        self._timeline = timeline
        self._clouds = clouds
        self._most_machines = most_machines
        self.strays: set[UUID] = set()  # machines that this control plane never asked for

    def check_step(self) -> None:
        with self._hosts.observed() as tx:
            none_broken(tx, _RULES)
            rows = {r.id: r for r in tx.execute(_ROWS).all()}
        self._check_launches(rows)
        self._check_maximum(rows)

    def _check_launches(self, rows: Mapping[Any, Any]) -> None:
        launched_ids = set()
        for machine in self._machines():
            id = machine.request.machine_id
            if id in launched_ids:
                raise Violation(f"instance {id} was launched twice, again as {machine.cloud_id}")
            launched_ids.add(id)
            row = rows.get(id)
            if row is None and id not in self.strays:
                raise Violation(f"{machine.cloud_id} was launched without a row")
            if row is None:
                continue
            if row.state in _ENDED and self._stays(machine):
                raise Violation(
                    f"instance {id} is {row.state} ({row.reason}), and {machine.cloud_id} lives"
                )
            if row.cloud_id == machine.cloud_id:
                _check_what_came(row, machine)

    def _check_maximum(self, rows: Mapping[Any, Any]) -> None:
        for pool, most in self._most_machines.items():
            staying = [
                r for r in rows.values()
                if r.pool == pool and r.state in _COUNTED and not r.leaving and not r.stopped
            ]  # fmt: skip
            if len(staying) > most:
                raise Violation(f"pool {pool} has {len(staying)} machines, it may have {most}")

    def alive(self) -> list[RentedMachine]:
        return [machine for cloud in self._clouds for machine in cloud.alive()]

    def check_money(self) -> None:
        with self._hosts.observed() as tx:
            self._check_money(tx, tx.execute(_ROWS).all(), self._timeline.now())

    def check_end(self) -> None:
        """Check that no machine is left, and that the costs of the machines add up."""
        self.check_money()
        with self._hosts.observed() as tx:
            rows = tx.execute(_ROWS).all()
        for row in rows:
            if row.state not in _ENDED:
                raise Violation(f"instance {row.id} is {row.state}, and no machine is left")

    def _check_money(self, tx: Tx, rows: Collection[Any], now: datetime) -> None:
        """Check that the costs of work and idle time equal those of the intervals, in any order of addition."""
        span = Span(datetime(2000, 1, 1, tzinfo=timezone.utc), now, now)
        pools = costs.by_pool(tx, span)
        intervals = Decimal(0)
        for row in (r for r in rows if r.launched_at is not None):
            seconds = ((row.ended_at or now) - row.launched_at).total_seconds()
            intervals += row.price_usd_hour * Decimal(seconds) / 3600
        ids = list(tx.execute(_EXPERIMENTS_EVER).scalars())
        of_work = sum((c.usd for c in costs.of_experiments(tx, ids, span)), Decimal(0))
        total = sum((p.usd for p in pools), Decimal(0))
        working = sum((p.working_usd for p in pools), Decimal(0))
        if not _same(total, intervals):
            raise Violation(f"pools cost {total}, their machines {intervals}")
        if not _same(working, of_work):
            raise Violation(f"pools worked for {working}, experiments cost {of_work}")
        every_entry = sum((c.usd for c in costs.by_user(tx, span)), Decimal(0))
        every_entry += sum((m.usd for m in costs.idle_of_machines(tx, span)), Decimal(0))
        first = self._timeline.start
        by_day = sum(
            (Decimal(p.usd) for p in costs.machines_by_day(tx, first, now, now)), Decimal(0)
        )
        if not (_same(every_entry, intervals) and _same(by_day, intervals)):
            raise Violation(f"reports tell {every_entry} and {by_day}, machines cost {intervals}")
        if any(p.idle_usd < -_CENT for p in pools):
            raise Violation(f"a pool worked for more than it cost: {pools}")

    def _stays(self, machine: RentedMachine) -> bool:
        now = self._timeline.now().timestamp()
        return now < min(machine.shuts_down_at, machine.ends_at) and not machine.stopped

    def _machines(self) -> list[RentedMachine]:
        return [machine for cloud in self._clouds for machine in cloud.rented]


def _check_what_came(row: Any, machine: RentedMachine) -> None:
    offer = machine.offer
    actual_offer = row.provider, row.zone, row.machine_type
    expected_offer = offer.provider, machine.zone, offer.machine_type
    # If the cloud chose the zone, the price is the zone's price at that time.
    if actual_offer != expected_offer or (
        offer.zone and row.price_usd_hour != offer.price_usd_hour
    ):
        raise Violation(
            f"instance {row.id} is {actual_offer} at {row.price_usd_hour}, rented was {offer}"
        )


def _same(one: Decimal, other: Decimal) -> bool:
    return abs(one - other) < _CENT / 2
