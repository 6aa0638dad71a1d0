"""A trial's script may come to its end before its search has decided anything about it."""

from collections.abc import Mapping
from typing import Any

import pytest
from det_controlplane.core import search
from det_controlplane.testing.searchers import CONTRACT_SPACE

_LENGTH = {"metric": "loss", "time_metric": "batches", "max_time": 64, "divisor": 2}
_SEARCHERS: tuple[Mapping[str, Any], ...] = (
    {"name": "adaptive_asha", "mode": "standard", "max_trials": 4, **_LENGTH},
    {"name": "async_halving", "num_rungs": 2, "max_trials": 4, **_LENGTH},
    {"name": "local_asha", "num_rungs": 2, "max_trials": 4, **_LENGTH},
    {"name": "model_asha", "num_rungs": 2, "max_trials": 4, **_LENGTH},
    {"name": "random", "metric": "loss", "max_trials": 4, "max_concurrent_trials": 2},
)


@pytest.mark.parametrize("searcher", _SEARCHERS, ids=lambda s: str(s["name"]))
def test_search_ends_if_every_script_exits_early(searcher: Mapping[str, Any]) -> None:
    folded = search.new(searcher, CONTRACT_SPACE, 1)
    live = [a.request_id for a in folded.fold(search.Started()) if isinstance(a, search.Create)]
    last: tuple[search.Action, ...] = ()
    while live:
        last = folded.fold(search.Exited(live.pop()))
        live += [a.request_id for a in last if isinstance(a, search.Create)]
    assert last[-1] == search.Shutdown()
