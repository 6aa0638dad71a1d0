"""The replica that a restarted trial resumes from, the machines of copies, and the limit of memory."""

from dataclasses import replace

from determined.replicas._choice import (
    Inventory,
    Turn,
    choose,
    needed_bytes,
    next_machine,
    problem_of,
)
from determined.replicas._slots import Header

MIB = 1024 * 1024


def header(item: str, sequence: int = 5, run: int = 1, **changes: object) -> Header:
    usual = Header(item, run, sequence, 100 + sequence, 4, True, True)
    return replace(usual, **changes)  # type: ignore[arg-type]


def machine(
    rank: int, sequence: int = 5, run: int = 1, ranks: int = 4, **changes: object
) -> Inventory:
    """Return the items of a machine with one rank, and its copy for the machine before."""
    items = ("state", f"rank-{rank}", f"rank-{(rank - 1) % ranks}")
    headers = (header(item, sequence, run, ranks=ranks, **changes) for item in items)
    return Inventory(tuple(headers), {"run": run, "replica": None})


def test_loss_of_any_machine_loses_no_state() -> None:
    for lost in range(4):
        rest = {n: machine(n) for n in range(4) if n != lost}
        choice = choose(rest, 100).choice
        assert choice is not None
        assert choice.header.steps == 105
        assert choice.missing == ()
        assert choice.holders[f"rank-{lost}"] == (lost + 1) % 4


def test_newest_replica_that_is_complete_on_the_rest_is_chosen() -> None:
    newer = header("rank-0", 6)
    first = machine(0)
    rest = {0: replace(first, headers=(*first.headers, newer)), 1: machine(1), 2: machine(2)}
    choice = choose(rest, 100).choice
    assert choice is not None
    assert choice.header.sequence == 5


def test_replica_without_own_states_of_two_neighbours_is_used_if_it_has_a_state() -> None:
    rest = {0: machine(0), 3: machine(3)}
    choice = choose(rest, 100).choice
    assert choice is not None
    assert choice.missing == (1,)


def test_sharded_replica_needs_the_states_of_all_ranks() -> None:
    def shards(rank: int) -> Inventory:
        items = machine(rank, has_state=False)
        return replace(items, headers=items.headers[1:])

    assert choose({0: shards(0), 2: shards(2), 3: shards(3)}, 100).choice is not None
    decision = choose({0: shards(0), 3: shards(3)}, 100)
    assert decision.choice is None
    assert decision.reason == "no remaining machine has the state of rank 1 at step 105"


def test_replica_that_is_not_newer_than_the_checkpoint_is_not_used() -> None:
    decision = choose({0: machine(0), 1: machine(1)}, 105)
    assert (decision.choice, decision.reason) == (None, "")


def test_replica_of_a_run_that_was_rolled_back_is_not_used() -> None:
    away = machine(3, sequence=9)
    rolled_back = Inventory((), {"run": 2, "replica": None})
    assert choose({0: rolled_back, 3: away}, 100).choice is None
    rest = {0: machine(0, sequence=2, run=2), 3: away}
    choice = choose(rest, 100).choice
    assert choice is not None
    assert choice.header.run == 2


def test_run_that_ended_before_its_first_replica_leaves_the_one_that_it_started_from() -> None:
    started = {"run": 2, "replica": [1, 5]}
    rest = {n: replace(machine(n), origin=started) for n in range(3)}
    choice = choose(rest, 100).choice
    assert choice is not None
    assert choice.header.replica == (1, 5)


def test_copies_go_around_a_ring() -> None:
    assert [next_machine(n, 4) for n in range(4)] == [1, 2, 3, 0]
    assert next_machine(0, 1) is None


def test_needed_memory_counts_two_replicas_with_own_states_and_copies() -> None:
    # Two ranks on the first machine, and one on the second.
    turns = [Turn(0, 10, 1), Turn(0, 0, 2), Turn(1, 10, 4)]
    assert needed_bytes(turns, 0, 2) == 2 * (10 + 1 + 2 + 4)
    assert needed_bytes(turns, 1, 2) == 2 * (10 + 4 + 1 + 2)


def test_state_that_does_not_fit_on_one_machine_ends_replication() -> None:
    turns = [Turn(0, 10 * MIB, 0, room=30 * MIB), Turn(1, 10 * MIB, 0, room=19 * MIB)]
    assert problem_of(turns[:1], 2) == ""
    assert problem_of(turns, 2) == (
        "two replicas need 20 MiB of memory on machine 1 of the trial, and 19 MiB may be used: set "
        "resources.replica_memory, or use larger machines"
    )


def test_problem_of_one_rank_ends_replication_on_all() -> None:
    assert problem_of([Turn(0), Turn(1, problem="no room")], 2) == "rank 1: no room"
