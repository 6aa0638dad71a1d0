"""A scheduling pass takes a few statements, however much it starts; logs are stored as they come."""

from collections import Counter

import pytest
from det_controlplane.db.engine.database import Database
from det_controlplane.db.logs import logs
from det_controlplane.services.experiments import creation
from det_controlplane.services.scheduling import schedule_pool
from sqlalchemy import text

from tests.support.searching import ASHA, OWNER, Agent, context
from tests.support.statements import statements

_PLACED = text("""
    SELECT c.agent_id, c.slot_ids, c.epoch, c.rank, a.epoch AS of_allocation, a.state::text AS state, a.ports,
           (SELECT array_agg(s.slot_id) FROM slots s WHERE s.container_id = c.id) AS held
    FROM containers c JOIN allocations a ON a.id = c.allocation_id
""")
_LINES = text("SELECT task_id, log FROM task_logs WHERE source = 'master'")
_LOGS = text("SELECT log FROM task_logs ORDER BY id")


def statements_of_a_pass(database: Database, trials: int) -> list[str]:
    ctx = context(database)
    creation.create(ctx, OWNER, creation.Submission(config=ASHA.format(trials=trials)))
    with statements(database) as queries:
        plan = schedule_pool.run(ctx, "default")
    assert plan is not None
    assert len(plan.start) == trials
    return queries


def test_number_of_statements_does_not_depend_on_number_of_starts(database: Database) -> None:
    for n in range(8):
        Agent.joined(context(database), f"agent-{n}", slots=8)
    statements_of_a_pass(database, 1)
    one = statements_of_a_pass(database, 1)
    many = statements_of_a_pass(database, 60)
    assert len(one) == len(many)


def test_allocations_started_together_have_distinct_slots_and_ports(database: Database) -> None:
    for n in range(3):
        Agent.joined(context(database), f"agent-{n}", slots=4)
    statements_of_a_pass(database, 12)
    placed = database.read(_PLACED)
    assert Counter(p.agent_id for p in placed) == {f"agent-{n}": 4 for n in range(3)}
    assert all((p.epoch, p.of_allocation, p.state, p.rank) == (1, 1, "ASSIGNED", 0) for p in placed)
    assert all(p.held == p.slot_ids for p in placed)
    ports = [port for p in placed for port in p.ports.values()]
    assert len(set(ports)) == len(ports) == 12 * len(schedule_pool.PORT_BASES)
    assert len({r.task_id for r in database.read(_LINES)}) == 12


def test_ports_are_unique_on_an_agent_if_they_are_scarce(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_pool, "HIGHEST_PORT", schedule_pool.PORT_BASES["C10D_PORT"] + 3)
    for n in range(3):
        Agent.joined(context(database), f"agent-{n}", slots=4)
    for _ in range(2):
        statements_of_a_pass(database, 6)
    placed = database.read(_PLACED)
    for agent in {p.agent_id for p in placed}:
        ports = [port for p in placed if p.agent_id == agent for port in p.ports.values()]
        assert len(set(ports)) == len(ports) == 4 * len(schedule_pool.PORT_BASES)
        assert max(ports) <= schedule_pool.HIGHEST_PORT


@pytest.mark.parametrize(
    ("printed", "stored"),
    [
        ("nul \0", "nul \ufdd0"),  # read back as NUL
        ("half \ud83d", "half \ufffd"),
        ("the text \\u0000", "the text \\u0000"),
        ("\U0001f600", "\U0001f600"),
    ],
    ids=["nul", "surrogate", "escape", "emoji"],
)
def test_any_program_output_is_stored(database: Database, printed: str, stored: str) -> None:
    ctx = context(database)
    with database.begin() as tx:
        logs.insert(tx, [{"task_id": "a", "log": printed}, {"task_id": "a", "log": "b"}], ctx.now())
    assert [r.log for r in database.read(_LOGS)] == [stored, "b"]
