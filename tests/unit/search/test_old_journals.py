"""Journals of searches that were started by earlier versions replay to the same decisions."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from det_controlplane.core.search import Create, Shutdown, new, restore
from det_controlplane.testing.searchers import CONTRACT_SPACE, EVERY_FAULT, DrivenTrial, Driver

_DATA = Path(__file__).parents[2] / "data" / "search"

_TIME = {"metric": "loss", "time_metric": "batches", "max_time": 81, "divisor": 3, "max_trials": 30}
_LENGTH = {"metric": "loss", "max_length": {"batches": 81}, "divisor": 3, "max_trials": 30}
_ROUND = {"metric": "loss", "time_metric": "batches", "length_per_round": 10}
# The digest of all actions in four searches with faults, computed before `stop_when` existed.
DIGESTS: dict[str, tuple[dict[str, Any], str]] = {
    "random": ({"name": "random", "metric": "loss", "max_trials": 30}, "17e58c34a3b59e6d"),
    "grid": ({"name": "grid", "metric": "loss"}, "92564c2bd1d063e3"),
    "async_halving, stopping": (
        {**_TIME, "name": "async_halving", "num_rungs": 4},
        "82474af3dc53c829",
    ),
    "async_halving": ({**_LENGTH, "name": "async_halving", "num_rungs": 4}, "f5db9f4920146f10"),
    "adaptive_asha, stopping": ({**_TIME, "name": "adaptive_asha"}, "2dd09a0e19a08028"),
    "adaptive_asha": ({**_LENGTH, "name": "adaptive_asha"}, "602e1b778884da8e"),
    "local_asha, stopping": ({**_TIME, "name": "local_asha"}, "d9462d9a0a1a6444"),
    "local_asha": ({**_LENGTH, "name": "local_asha"}, "aa6157ccb4db8eec"),
    "pbt": ({**_ROUND, "name": "pbt", "population_size": 6, "num_rounds": 4}, "d97e8e6bd678ad7f"),
}


def digest(searcher: dict[str, Any]) -> str:
    hashed = hashlib.sha256()
    for seed in range(4):
        search = new(searcher, CONTRACT_SPACE, seed)
        driver = Driver(search, searcher, seed, 30, EVERY_FAULT).run()
        hashed.update(repr(driver.actions).encode())
    return hashed.hexdigest()[:16]


@pytest.mark.parametrize("name", DIGESTS)
def test_decisions_are_those_of_earlier_versions(name: str) -> None:
    searcher, expected = DIGESTS[name]
    assert digest(searcher) == expected


@pytest.mark.parametrize("form", ["stopping", "promotion"])
@pytest.mark.parametrize("knows_gain", [True, False])
def test_model_asha_continues_from_a_snapshot_of_an_earlier_version(
    form: str, knows_gain: bool
) -> None:
    """The decisions may differ from the earlier version, but no trial is lost or created twice."""
    stored = json.loads((_DATA / f"model_asha_{form}.json").read_text("utf-8"))
    if not knows_gain:
        del stored["snapshot"]["cost_ending"], stored["snapshot"]["method"]["proposal"]["gain"]
    searcher, seed = stored["searcher"], stored["seed"]
    live = {}
    for trial in stored["live"]:
        create = Create(trial["request_id"], trial["seed"], trial["hparams"])
        live[create.request_id] = DrivenTrial(
            create, trial["length"], trial["target"], trial["parked"], trial["stopped"]
        )
    search = restore(searcher, CONTRACT_SPACE, seed, stored["snapshot"])
    known = set(stored["known"])
    driver = Driver(search, searcher, seed, 30, live=live, known=known).finish()
    assert driver.outcome == Shutdown()
    assert len(driver.known) == 30
