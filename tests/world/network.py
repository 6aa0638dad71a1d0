"""Between actors and the control plane: requests and answers are late, lost, repeated, out of order."""

from random import Random

from tests.world.processes import Done, Process
from tests.world.script import SILENCE, Call, Reply
from tests.world.stage import Answered, Judge, Stage

_PATIENCE_S = 15.0


class Network:
    def __init__(self, world: Stage, rng: Random) -> None:
        self._world = world
        self._rng = rng

    def send(self, call: Call, response: Answered, judge: Judge | None = None) -> None:
        """Send a request.

        `answered` hears exactly once: the answer, or SILENCE. `judge` sees every answer that was given, at the moment
        it is given, whether or not it arrives."""
        rates, world = self._world.rates, self._world
        waiting = _Once(response)
        if self._rng.random() < rates.request_lost:
            world.timeline.after(_PATIENCE_S, lambda: waiting(SILENCE))
            return
        world.serve(_Delivery(self, call, waiting, judge), self._latency())
        if self._rng.random() < rates.repeated:
            later = _Delivery(self, call, _ignore, judge)
            world.serve(later, self._latency() + self._rng.uniform(0, 20))

    def arrive(self, reply: Reply, response: Answered) -> None:
        if self._rng.random() < self._world.rates.answer_lost:
            self._world.timeline.after(_PATIENCE_S, lambda: response(SILENCE))
        else:
            self._world.timeline.after(self._latency(), lambda: response(reply))

    def fail(self, response: Answered) -> None:
        self._world.timeline.after(self._rng.uniform(0.1, _PATIENCE_S), lambda: response(SILENCE))

    def _latency(self) -> float:
        slow = self._rng.random() < self._world.rates.repeated
        return self._rng.uniform(0.5, 12.0) if slow else self._rng.uniform(0.01, 0.2)


class _Delivery:
    """An arrival of a request at the control plane."""

    def __init__(self, network: Network, call: Call, response: Answered, judge: Judge | None):
        self._network = network
        self._call = call
        self._answered = response
        self._judge = judge
        self.label = f"{call.method} {call.path}"

    def work(self, process: Process) -> Done:
        reply = process.answer(self._call)

        def served() -> None:
            if self._judge is not None:
                self._judge(reply)
            self._network.arrive(reply, self._answered)

        return Done(str(reply.status), served)

    def lost(self) -> None:
        self._network.fail(self._answered)


class _Once:
    def __init__(self, response: Answered) -> None:
        self._answered: Answered | None = response

    def __call__(self, reply: Reply) -> None:
        on_answer, self._answered = self._answered, None
        if on_answer is not None:
            on_answer(reply)


def _ignore(reply: Reply) -> None:
    return None
