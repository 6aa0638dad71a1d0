"""A service that works when it is called: one turn at a time, and no call is lost."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from det_controlplane.entry.container.worker import Worker, server
from det_controlplane.entry.scheduled_work import Clock, run_while_due
from det_controlplane.entry.server.api_server import listen


class Turns:
    """Turns that last until they are let go."""

    def __init__(self) -> None:
        self.taken = 0
        self.began = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def __call__(self, clock: Clock) -> float | None:
        self.taken += 1
        self.began.release()
        assert self.go_on.acquire(timeout=30)
        return 60.0


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    return thread, answers


def test_calls_during_a_turn_return_at_once_and_cause_one_more_turn() -> None:
    turns = Turns()
    worker = Worker(turns)
    first, answers = in_thread(worker.call)
    assert turns.began.acquire(timeout=30)
    assert worker.call() == {"joined": True}
    assert worker.call() == {"joined": True}
    turns.go_on.release()
    assert turns.began.acquire(timeout=30), "calls during a turn cause another turn"
    turns.go_on.release()
    first.join(30)
    assert (answers, turns.taken) == ([{"next_due_s": 60.0}], 2)


def test_call_ends_a_pause() -> None:
    acts: list[int] = []
    paused = threading.Event()

    def act() -> float | None:
        acts.append(1)
        paused.set()
        return 4.9 if len(acts) == 1 else None

    worker = Worker(lambda clock: run_while_due(act, clock))
    first, answers = in_thread(worker.call)
    assert paused.wait(30)
    while first.is_alive():
        worker.call()
        first.join(0.01)
    assert answers == [{"next_due_s": None}]


def test_stopped_worker_ends_its_turn() -> None:
    paused = threading.Event()

    def act() -> float | None:
        paused.set()
        return 4.9

    worker = Worker(lambda clock: run_while_due(act, clock), turn_s=1e9)
    first, answers = in_thread(worker.call)
    assert paused.wait(30)
    worker.stop()
    first.join(30)
    assert answers == [{"next_due_s": 4.9}]


@contextmanager
def serving(worker: Worker) -> Iterator[str]:
    new_server = server(worker, listen("127.0.0.1", 0))
    thread = threading.Thread(target=new_server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{new_server.socket.getsockname()[1]}/"
    finally:
        new_server.shutdown()
        thread.join()
        new_server.server_close()


def post(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, data=b"{}", timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.loads(e.read())


def test_failed_turn_is_reported_and_the_next_call_starts_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns = iter([OSError("the database is gone"), None])

    def turn(clock: Clock) -> float | None:
        failure = next(turns)
        if failure is not None:
            raise failure
        return None

    with serving(Worker(turn)) as url:
        assert post(url) == (500, {"error": "the turn failed: OSError"})
        assert post(url) == (200, {"next_due_s": None})
    assert "the database is gone" in caplog.text


def test_turn_continues_while_work_is_due_within_its_time_limit() -> None:
    waited: list[float] = []
    due = iter([0.0, 3.0, 5.5])
    assert run_while_due(lambda: next(due), Clock(lambda: 100, waited.append)) == 5.5
    assert waited == [0.05, 3.0]
    assert run_while_due(lambda: 3.0, Clock(lambda: 17, waited.append)) == 3.0
    assert len(waited) == 2, "the turn's time limit ends before the next due time"
