"""Sentences for those that wait for what is known at once."""

from collections.abc import Iterable

from .model import Request, Told, WaitCode

_NAMES_SHOWN = 3
_new = tuple.__new__  # without a Python call for each of hundreds


def behind(blocker: Request, priority: int) -> Told:
    """A request of a more important priority has to start first."""
    need = counted(blocker.slots, "slot") if blocker.slots else "an agent"
    sentence = f"priority {priority} goes first: {blocker.allocation_id} waits for {need}"
    way_out = "a smaller priority number moves it ahead"
    return Told(WaitCode.BEHIND_HIGHER_PRIORITY, f"{sentence}; {way_out}")


def next_on(agents: str) -> Told:
    """The room is reserved; allocations on these agents are leaving."""
    sentence = f"is next on {agents}; it starts when allocations that were asked to leave have left"
    return _new(Told, (WaitCode.WAITING_FOR_PREEMPTION, sentence))


def share_used(offered: int, held: int) -> Told:
    sentence = f"its job's fair share is {counted(offered, 'slot')} and it holds {held}"
    return Told(WaitCode.FAIR_SHARE, f"{sentence}; it starts when the share grows or a trial ends")


def named(of: Iterable[str]) -> str:
    shown = list(of)
    more = len(shown) - _NAMES_SHOWN
    return ", ".join(shown[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
