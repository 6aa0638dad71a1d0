"""From the `searcher` of an experiment's configuration to its search."""

from collections.abc import Callable, Mapping
from typing import Any

from det_controlplane.core.hparams import Space

from .adaptive import Tournament
from .asha import AshaConfig, StoppingAsha
from .brackets import Bracket, bracket_rungs, make_brackets
from .grid import GridSearch
from .method import Method, SearchFailed
from .random_search import RandomSearch
from .rng import Rng
from .sampling import Sampler
from .search import Search

Searcher = Mapping[str, Any]

_CONCURRENT = 16
_DIVISOR = 4
_MAX_RUNGS = 5


def new(searcher: Searcher, space: Space, seed: int) -> Search:
    """The search of an experiment before its first event; SearchFailed where none can be made."""
    return _build(searcher, space, Rng(seed))


def restore(searcher: Searcher, space: Space, seed: int, snapshot: Mapping[str, Any]) -> Search:
    """The search as it was when the snapshot was taken: it folds on as the original would."""
    search = _build(searcher, space, Rng(seed, snapshot["rng"]["drawn"]))
    search.load(snapshot)
    return search


def length_of(max_length: Any) -> int | None:
    """The number of `{"batches": 100}` or of a plain 100."""
    if isinstance(max_length, Mapping):
        return int(next(iter(max_length.values())))
    return None if max_length is None else int(max_length)


def unit_of(searcher: Searcher) -> str:
    """What the search counts training in: the time metric, or the unit of `max_length`."""
    if searcher.get("time_metric"):
        return str(searcher["time_metric"])
    max_length = searcher.get("max_length")
    return str(next(iter(max_length))) if isinstance(max_length, Mapping) else "batches"


def brackets_of(searcher: Searcher) -> list[Bracket]:
    """The brackets an adaptive_asha configuration makes."""
    divisor = searcher.get("divisor") or _DIVISOR
    max_trials = int(searcher["max_trials"])
    rungs = sorted(searcher.get("bracket_rungs") or (), reverse=True) or bracket_rungs(
        searcher.get("mode") or "standard",
        searcher.get("max_rungs") or _MAX_RUNGS,
        _max_time(searcher),
        divisor,
        max_trials,
    )
    return make_brackets(rungs, max_trials, _concurrent(searcher), divisor)


def _build(searcher: Searcher, space: Space, rng: Rng) -> Search:
    name = str(searcher.get("name"))
    if name not in _METHODS:
        known = ", ".join(sorted(_METHODS))
        raise SearchFailed(f"searcher.name {name!r} is not a search method; use one of {known}")
    method = _METHODS[name](searcher, Sampler(space, rng))
    # A space that is mostly invalid may use ten times its trials; one that is wholly so must end.
    limit = 100 + 10 * int(searcher.get("max_trials") or 1)
    return Search(method, rng, _metric_names(name, searcher), limit)


def _metric_names(name: str, searcher: Searcher) -> frozenset[str]:
    if name in ("single", "random", "grid"):
        return frozenset()
    return frozenset((str(searcher["metric"]), unit_of(searcher)))


def _single(searcher: Searcher, sampler: Sampler) -> Method:
    return RandomSearch(sampler, 1, 1, length_of(searcher.get("max_length")))


def _random(searcher: Searcher, sampler: Sampler) -> Method:
    length = length_of(searcher.get("max_length"))
    return RandomSearch(sampler, int(searcher["max_trials"]), _concurrent(searcher), length)


def _grid(searcher: Searcher, sampler: Sampler) -> Method:
    return GridSearch(sampler, _concurrent(searcher), length_of(searcher.get("max_length")))


def _async_halving(searcher: Searcher, sampler: Sampler) -> Method:
    bracket = Bracket(
        int(searcher["num_rungs"]), int(searcher["max_trials"]), _concurrent(searcher)
    )
    return _bracket_method(searcher, sampler, bracket)


def _adaptive_asha(searcher: Searcher, sampler: Sampler) -> Method:
    brackets = brackets_of(searcher)
    return Tournament([_bracket_method(searcher, sampler, bracket) for bracket in brackets])


def _bracket_method(searcher: Searcher, sampler: Sampler, bracket: Bracket) -> Method:
    return StoppingAsha(sampler, _asha_config(searcher, bracket))


def _asha_config(searcher: Searcher, bracket: Bracket) -> AshaConfig:
    return AshaConfig(
        metric=str(searcher["metric"]),
        smaller_is_better=searcher.get("smaller_is_better", True) is not False,
        time_metric=unit_of(searcher),
        max_time=_max_time(searcher),
        num_rungs=bracket.rungs,
        divisor=searcher.get("divisor") or _DIVISOR,
        max_trials=bracket.max_trials,
        max_concurrent=bracket.max_concurrent,
        tells_length=searcher.get("max_time") is None,
    )


def _max_time(searcher: Searcher) -> float:
    total = searcher.get("max_time") or length_of(searcher.get("max_length"))
    if total is None:
        raise SearchFailed(
            f"searcher {searcher.get('name')} needs time_metric and max_time, or max_length"
        )
    return float(total)


def _concurrent(searcher: Searcher) -> int:
    value = searcher.get("max_concurrent_trials")
    return _CONCURRENT if value is None else int(value)


_METHODS: dict[str, Callable[[Searcher, Sampler], Method]] = {
    "single": _single,
    "random": _random,
    "grid": _grid,
    "async_halving": _async_halving,
    "adaptive_asha": _adaptive_asha,
}
