"""The tie-break between equally good agents: nearest hash downwards from the request's, wrapping around.

A shelf is a sorted list of tokens, hash and agent index in one integer, so the nearest agent is one binary search.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from functools import lru_cache
from hashlib import md5
from struct import Struct

_INDEX_BITS = 24
_INDEX_MASK = (1 << _INDEX_BITS) - 1
_HASH_RANGE = 1 << 64
_eight_bytes = Struct("<Q").unpack_from

Shelf = list[int]


def tie_hash(name: str) -> int:
    """Eight bytes of md5: spreads equal choices over the pool, the same way in every process."""
    eight: int = _eight_bytes(md5(name.encode(), usedforsecurity=False).digest())[0]
    return eight


@lru_cache(maxsize=1 << 16)
def _agent_hash(agent_id: str) -> int:
    return tie_hash(agent_id)


@lru_cache(maxsize=64)
def tokens_of(agent_ids: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens by agent, and the agents by token; passes over a pool find the same agents again and again."""
    tokens = [_agent_hash(id) << _INDEX_BITS | index for index, id in enumerate(agent_ids)]
    return tuple(tokens), tuple(token & _INDEX_MASK for token in sorted(tokens))


def distance(target: int, token: int) -> int:
    return (target - (token >> _INDEX_BITS)) % _HASH_RANGE


def nearest(shelf: Shelf, target: int, blocked: Collection[int]) -> int | None:
    if blocked or not shelf:
        return next(by_distance(shelf, target, blocked), None)
    return shelf[bisect_right(shelf, target << _INDEX_BITS | _INDEX_MASK) - 1] & _INDEX_MASK


def by_distance(shelf: Shelf, target: int, blocked: Collection[int]) -> Iterator[int]:
    """The shelf's agents that are not blocked, nearest first."""
    start = bisect_right(shelf, target << _INDEX_BITS | _INDEX_MASK) - 1
    for step in range(len(shelf)):
        agent = shelf[start - step] & _INDEX_MASK
        if agent not in blocked:
            yield agent


def discard(shelf: Shelf, token: int) -> None:
    at = bisect_left(shelf, token)
    if at < len(shelf) and shelf[at] == token:
        del shelf[at]
