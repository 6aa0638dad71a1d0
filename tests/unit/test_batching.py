"""One thread works on the items of several threads."""

import threading
from collections.abc import Callable, Sequence

import pytest
from det_controlplane.db.engine.errors import DatabaseDown, QueryFailed
from det_controlplane.services import batching
from det_controlplane.services.batching import Batcher, BatchRejected, Ticket, together_or_each

Tickets = Sequence[Ticket[int, int]]
WAIT_S = 30


class Doubling:
    """Answers numbers with their doubles; the first round waits for a sign."""

    def __init__(self, most: int = 3) -> None:
        self.rounds: list[list[int]] = []
        self.results: dict[int, int | None] = {}
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.batcher: Batcher[int, int] = Batcher(most=most)
        self._threads: list[threading.Thread] = []

    def work(self, tickets: Tickets) -> None:
        self.rounds.append([t.item for t in tickets])
        if not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(WAIT_S)
        for ticket in tickets:
            ticket.answer(2 * ticket.item)

    def bring(self, number: int) -> None:
        def take() -> None:
            self.results[number] = self.batcher.take(0, number, self.work)

        thread = threading.Thread(target=take)
        self._threads.append(thread)
        thread.start()

    def await_waiting(self, count: int) -> None:
        while self.batcher.waiting(0) < count:
            pass

    def finish(self) -> None:
        self.go_on.set()
        for thread in self._threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_PATIENCE_S", WAIT_S)


@pytest.mark.usefixtures("patient")
def test_items_arriving_during_a_round_share_the_next_in_order() -> None:
    doubling = Doubling()
    for number in range(1, 6):
        doubling.bring(number)
        doubling.await_waiting(number)
        assert doubling.begun.wait(WAIT_S)
    doubling.finish()
    assert doubling.rounds == [[1], [2, 3, 4], [5]]
    assert doubling.results == {n: 2 * n for n in range(1, 6)}
    assert doubling.batcher.waiting(0) == 0


def test_item_does_not_wait_for_a_hanging_round(monkeypatch: pytest.MonkeyPatch) -> None:
    doubling = Doubling()
    doubling.bring(1)
    assert doubling.begun.wait(WAIT_S)
    monkeypatch.setattr(batching, "_PATIENCE_S", -1.0)
    assert doubling.batcher.take(0, 2, doubling.work) == 4
    assert 1 not in doubling.results
    doubling.finish()
    assert doubling.results[1] == 2


def test_failure_is_raised_only_for_items_of_its_round() -> None:
    batcher: Batcher[int, int] = Batcher()

    def fail(tickets: Tickets) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        batcher.take(0, 1, fail)
    assert batcher.take(0, 2, lambda tickets: tickets[0].answer(4)) == 4


def refusing(odd: Callable[[int], bool], calls: list[list[int]]) -> Callable[..., None]:
    def store(tickets: Sequence[Ticket[int, bool]]) -> None:
        calls.append([t.item for t in tickets])
        if any(odd(t.item) for t in tickets):
            raise BatchRejected
        for ticket in tickets:
            ticket.answer(True)

    return store


def test_unstorable_item_is_found_by_storing_each_alone() -> None:
    tickets: list[Ticket[int, bool]] = [Ticket(n) for n in (2, 3, 4)]
    calls: list[list[int]] = []
    together_or_each(tickets, refusing(lambda n: n % 2 == 1, calls))
    assert calls == [[2, 3, 4], [2], [3], [4]]
    assert [t.result for t in tickets] == [True, None, True]
    assert isinstance(tickets[1].error, BatchRejected)


def failing(error: Exception, calls: list[list[int]]) -> Callable[..., None]:
    """Return a function that stores tickets and fails for batches with an odd one."""

    def store(tickets: Sequence[Ticket[int, bool]]) -> None:
        calls.append([t.item for t in tickets])
        if any(t.item % 2 for t in tickets):
            raise error
        for ticket in tickets:
            ticket.answer(True)

    return store


@pytest.mark.parametrize(
    "error", [OverflowError(), UnicodeEncodeError("utf-8", "a", 0, 1, ""), QueryFailed("54000", "")]
)
def test_unexpected_failure_is_raised_only_for_its_item(error: Exception) -> None:
    tickets: list[Ticket[int, bool]] = [Ticket(n) for n in (2, 3, 4)]
    calls: list[list[int]] = []
    together_or_each(tickets, failing(error, calls))
    assert calls == [[2, 3, 4], [2], [3], [4]]
    assert [(t.result, t.error) for t in tickets] == [(True, None), (None, error), (True, None)]


@pytest.mark.parametrize(
    "error", [DatabaseDown(), QueryFailed("55P03", ""), QueryFailed("57014", "")]
)
def test_database_failure_is_not_retried_for_each_item(error: Exception) -> None:
    tickets: list[Ticket[int, bool]] = [Ticket(n) for n in (2, 3, 4)]
    calls: list[list[int]] = []
    with pytest.raises(type(error)):
        together_or_each(tickets, failing(error, calls))
    assert calls == [[2, 3, 4]]
    assert not any(t.answered for t in tickets)


def test_storable_items_are_stored_in_one_call() -> None:
    tickets: list[Ticket[int, bool]] = [Ticket(n) for n in (2, 4)]
    calls: list[list[int]] = []
    together_or_each(tickets, refusing(lambda n: n % 2 == 1, calls))
    assert calls == [[2, 4]]
