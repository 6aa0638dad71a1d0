"""Build the search of an experiment from the `searcher` section of its configuration."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from det_controlplane.core.hparams import Space, is_constant

from .adaptive import AdaptiveAsha
from .asha import AshaConfig, StoppingAsha
from .asha_promotion import PromotionAsha
from .brackets import Bracket, bracket_rungs, levels, make_brackets, rung_units
from .custom import RemoteSearch
from .explore import Explorer
from .grid import GridSearch
from .local_asha import LOCAL_FRACTION, LocalProposal, RecentRung
from .method import MOST_AT_ONCE, Method, SearchFailed
from .model_asha import ModelProposal
from .pbt import PbtConfig, PopulationTraining
from .random_search import RandomSearch
from .rng import Rng
from .sampling import Proposal, Sampler
from .search import Search

Searcher = Mapping[str, Any]

_CONCURRENT = 16
_DIVISOR = 4
_MAX_RUNGS = 5
_MODEL_RUNGS = 2  # The model compares trials after a third of their training, not after an 81st.


def new(searcher: Searcher, space: Space, seed: int) -> Search:
    """Return a new search. Raises SearchFailed if the configuration is invalid."""
    return _build(searcher, space, Rng(seed))


def restore(searcher: Searcher, space: Space, seed: int, snapshot: Mapping[str, Any]) -> Search:
    """Return the search with the state of the snapshot. It continues exactly like the original search."""
    search = _build(searcher, space, Rng(seed, snapshot["rng"]["drawn"]))
    search.load(snapshot)
    return search


def length_of(max_length: Any) -> int | None:
    """Return the number in `{"batches": 100}` or in a plain 100."""
    if isinstance(max_length, Mapping):
        return int(next(iter(max_length.values())))
    return None if max_length is None else int(max_length)


def unit_of(searcher: Searcher) -> str:
    """Return the unit of training lengths: the time metric or the unit of `max_length`."""
    if searcher.get("time_metric"):
        return str(searcher["time_metric"])
    length = searcher.get("max_length") or searcher.get("length_per_round")
    if isinstance(length, Mapping):
        return str(next(iter(length)))
    return str(searcher.get("unit") or "batches")


def _rungs_of(searcher: Searcher) -> int:
    """Return the number of rungs of one bracket. By default, it has as many as fit into its training length."""
    if searcher.get("num_rungs"):
        return int(searcher["num_rungs"])
    default = _MODEL_RUNGS if searcher.get("name") == "model_asha" else _MAX_RUNGS
    most = searcher.get("max_rungs") or default
    return min(most, levels(max_time_of(searcher), searcher.get("divisor") or _DIVISOR))


def report_lengths(searcher: Searcher) -> list[int]:
    """Return the ascending lengths at which a search decides. The last one is the whole training of a trial."""
    name, divisor = searcher.get("name"), searcher.get("divisor") or _DIVISOR
    if name == "pbt":
        each = _round_length(searcher)
        return [each * (i + 1) for i in range(int(searcher["num_rounds"]))]
    if name in ("async_halving", "local_asha", "model_asha", "adaptive_asha"):
        rungs = max(bracket.rungs for bracket in brackets_of(searcher))
        return sorted(set(rung_units(rungs, max_time_of(searcher), divisor)))
    return [length_of(searcher.get("max_length")) or int(searcher.get("max_time") or 1)]


def brackets_of(searcher: Searcher) -> list[Bracket]:
    """Return the brackets of a halving configuration."""
    divisor = searcher.get("divisor") or _DIVISOR
    max_trials = int(searcher["max_trials"])
    if searcher.get("name") != "adaptive_asha":
        return [Bracket(_rungs_of(searcher), max_trials, _concurrent(searcher))]
    rungs = sorted(searcher.get("bracket_rungs") or (), reverse=True) or bracket_rungs(
        searcher.get("mode") or "standard",
        searcher.get("max_rungs") or _MAX_RUNGS,
        max_time_of(searcher),
        divisor,
        max_trials,
    )
    return make_brackets(rungs, max_trials, _concurrent(searcher), divisor)


def _build(searcher: Searcher, space: Space, rng: Rng) -> Search:
    name = str(searcher.get("name"))
    if name not in _METHODS:
        names = ", ".join(sorted(_METHODS))
        raise SearchFailed(f"searcher.name {name!r} is not a search method; use one of {names}")
    method = _METHODS[name](searcher, Sampler(space, rng))
    return Search(method, rng, _metric_names(name, searcher), _invalid_limit(name, searcher, space))


def _invalid_limit(name: str, searcher: Searcher, space: Space) -> float:
    """Return the number of trials that may reject their hyperparameters before the search ends."""
    if name in ("custom", "grid"):  # these methods do not replace such trials
        return math.inf
    if is_constant(space):
        return 0
    # A mostly invalid space may use ten times its trials. An entirely invalid space must end.
    trials = searcher.get("max_trials") or searcher.get("population_size") or 1
    return 100 + 10 * int(trials)


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
    (bracket,) = brackets_of(searcher)
    return _bracket_method(searcher, sampler, bracket)


def _adaptive_asha(searcher: Searcher, sampler: Sampler) -> Method:
    brackets = brackets_of(searcher)
    return AdaptiveAsha([_bracket_method(searcher, sampler, bracket) for bracket in brackets])


def _local_asha(searcher: Searcher, sampler: Sampler) -> Method:
    (bracket,) = brackets_of(searcher)
    config = _asha_config(searcher, bracket)
    fraction = searcher.get("local_fraction")
    proposal = LocalProposal(
        sampler, bracket.rungs, LOCAL_FRACTION if fraction is None else float(fraction)
    )
    if promotes(searcher):
        return PromotionAsha(proposal, config)
    return StoppingAsha(proposal, config, RecentRung)


def _model_asha(searcher: Searcher, sampler: Sampler) -> Method:
    (bracket,) = brackets_of(searcher)
    config = _asha_config(searcher, bracket)
    least_gain = (searcher.get("stop_when") or {}).get("expected_gain_below")
    proposal = ModelProposal(sampler, bracket.rungs, config.divisor, least_gain)
    if promotes(searcher):
        return PromotionAsha(proposal, config)
    return StoppingAsha(proposal, config, RecentRung)


def promotes(searcher: Searcher) -> bool:
    """Return whether trials wait at rungs for their promotion instead of stopping there."""
    return searcher.get("max_time") is None and not searcher.get("stop_once")


def _pbt(searcher: Searcher, sampler: Sampler) -> Method:
    explore = searcher.get("explore_function") or {}
    replace = searcher.get("replace_function") or {}
    explorer = Explorer(
        sampler.space,
        sampler.rng,
        float(explore.get("resample_probability", 0.2)),
        float(explore.get("perturb_factor", 0.2)),
    )
    config = PbtConfig(
        metric=str(searcher["metric"]),
        smaller_is_better=searcher.get("smaller_is_better", True) is not False,
        time_metric=unit_of(searcher),
        population_size=int(searcher["population_size"]),
        num_rounds=int(searcher["num_rounds"]),
        length_per_round=_round_length(searcher),
        truncate_fraction=float(replace.get("truncate_fraction", 0.2)),
    )
    return PopulationTraining(sampler, explorer, config)


def _round_length(searcher: Searcher) -> int:
    length = searcher.get("time_per_round") or length_of(searcher.get("length_per_round"))
    if not length:
        raise SearchFailed("searcher pbt needs length_per_round, or time_metric and time_per_round")
    return int(length)


def _custom(searcher: Searcher, sampler: Sampler) -> Method:
    return RemoteSearch(sampler.rng, str(searcher["metric"]), unit_of(searcher))


def _bracket_method(searcher: Searcher, sampler: Sampler, bracket: Bracket) -> Method:
    config = _asha_config(searcher, bracket)
    if promotes(searcher):
        return PromotionAsha(Proposal(sampler), config)
    return StoppingAsha(Proposal(sampler), config)


def _asha_config(searcher: Searcher, bracket: Bracket) -> AshaConfig:
    return AshaConfig(
        metric=str(searcher["metric"]),
        smaller_is_better=searcher.get("smaller_is_better", True) is not False,
        time_metric=unit_of(searcher),
        max_time=max_time_of(searcher),
        num_rungs=bracket.rungs,
        divisor=searcher.get("divisor") or _DIVISOR,
        max_trials=bracket.max_trials,
        max_concurrent=bracket.max_concurrent,
        sets_length=searcher.get("max_time") is None,
    )


def max_time_of(searcher: Searcher) -> float:
    total = searcher.get("max_time") or length_of(searcher.get("max_length"))
    if total is None:
        raise SearchFailed(
            f"searcher {searcher.get('name')} needs time_metric and max_time, or max_length"
        )
    return float(total)


def _concurrent(searcher: Searcher) -> int:
    value = searcher.get("max_concurrent_trials")
    return _CONCURRENT if value is None else min(int(value), MOST_AT_ONCE)


_METHODS: dict[str, Callable[[Searcher, Sampler], Method]] = {
    "single": _single,
    "random": _random,
    "grid": _grid,
    "async_halving": _async_halving,
    "adaptive_asha": _adaptive_asha,
    "local_asha": _local_asha,
    "model_asha": _model_asha,
    "pbt": _pbt,
    "custom": _custom,
}
