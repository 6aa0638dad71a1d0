"""The expected gain of a search, its early end, and the importance of hyperparameters, in the terminal."""

import csv
import io
import json
from typing import Any

import pytest
from det_cli.assistants.reading import Reader
from determined.common.http import Session

from tests.cli.conftest import Det
from tests.support.fake_cluster import FakeCluster

E = "/api/v1/experiments/1"
SEARCHER = {"name": "model_asha", "metric": "loss", "smaller_is_better": True}
GAIN = {"value": 0.00123, "limit": 0.001, "usdOfTraining": 2.0, "perUsd": 0.000615}
SENTENCE = "the search ended early: its cost of $10.50 exceeded stop_when.or_cost_above ($10.00)"


def answer(cluster: FakeCluster, state: str, **search: Any) -> None:
    """Let the cluster have an experiment without trials."""
    config = {"searcher": SEARCHER, "hyperparameters": {}}
    experiment = {"id": 1, "name": "n", "state": state, "config": config, "archived": False}
    cluster.on("GET", E, {"experiment": experiment})
    cluster.on("GET", f"{E}/trials", {"trials": [], "pagination": {"total": 0}})
    cluster.on("GET", "/api/v1/why/experiment/1", {"reasons": []})
    cost = {"id": 1, "costUsd": 0.0, "slotHours": 0.0}
    cluster.on("GET", "/api/v1/costs/experiments", {"costs": [cost]})
    empty: dict[str, Any] = {
        "unit": "batches",
        "brackets": [],
        "trials": [],
        "ending": None,
        "expectedGain": None,
    }
    cluster.on("GET", f"{E}/search", empty | search)


def test_running_search_shows_its_expected_gain_and_its_price(
    cluster: FakeCluster, det: Det
) -> None:
    answer(cluster, "STATE_ACTIVE", expectedGain=GAIN)
    output = det("e", "describe", 1).out
    assert "expected gain in loss by another full training: 0.00123" in output
    assert "0.000615 for each dollar: a full training costs $2.00" in output
    assert "(the search ends below 0.001)" in output


def test_gain_without_prices_or_limit_is_short(cluster: FakeCluster, det: Det) -> None:
    free = {"value": 0.5, "limit": None, "usdOfTraining": None, "perUsd": None}
    answer(cluster, "STATE_ACTIVE", expectedGain=free)
    output = det("e", "describe", 1).out
    assert "expected gain in loss by another full training: 0.5\n" in output


def test_ended_search_shows_its_reason_instead_of_a_gain(cluster: FakeCluster, det: Det) -> None:
    ending = {"reason": "COST_ABOVE", "sentence": SENTENCE}
    answer(cluster, "STATE_COMPLETED", expectedGain=GAIN, ending=ending)
    output = det("e", "describe", 1).out
    assert SENTENCE in output
    assert "expected gain" not in output


def test_data_of_a_search_has_its_gain_and_its_reason(cluster: FakeCluster, det: Det) -> None:
    """Only the summary had them."""
    ending = {"reason": "COST_ABOVE", "sentence": SENTENCE}
    answer(cluster, "STATE_COMPLETED", expectedGain=GAIN, ending=ending)
    (described,) = json.loads(det("e", "describe", 1, "--format", "json").out)
    assert described["experiment"]["search"] == {"expectedGain": GAIN, "ending": ending}
    text = det("e", "describe", 1, "--format", "yaml").out
    assert SENTENCE in " ".join(text.split())


def table(det: Det) -> dict[str, str]:
    out = det("e", "describe", 1, "--format", "csv").out
    (row,) = csv.DictReader(io.StringIO(out.split("Experiment:\n")[1].split("\n\n")[0]))
    return row


def test_table_of_a_search_has_its_gain_and_its_reason(cluster: FakeCluster, det: Det) -> None:
    ending = {"reason": "COST_ABOVE", "sentence": SENTENCE}
    answer(cluster, "STATE_COMPLETED", expectedGain=GAIN, ending=ending)
    row = table(det)
    assert (row["Expected Gain"], row["Gain per Dollar"]) == ("0.00123", "0.000615")
    assert row["Search Ended"] == SENTENCE


def test_table_of_a_search_without_a_gain_has_no_such_columns(
    cluster: FakeCluster, det: Det
) -> None:
    answer(cluster, "STATE_ACTIVE")
    assert not {"Expected Gain", "Gain per Dollar", "Search Ended"} & table(det).keys()


def test_other_searches_are_described_without_a_further_request(
    cluster: FakeCluster, det: Det
) -> None:
    cluster.add(1, config={"searcher": {"name": "random", "metric": "loss"}})
    (described,) = json.loads(det("e", "describe", 1, "--format", "json").out)
    assert "search" not in described["experiment"]
    assert not cluster.sent("GET", f"{E}/search")


def test_assistants_read_the_gain_and_the_reason(cluster: FakeCluster) -> None:
    ending = {"reason": "COST_ABOVE", "sentence": SENTENCE}
    answer(cluster, "STATE_COMPLETED", expectedGain=GAIN, ending=ending)
    described = Reader(Session(cluster.url)).describe_experiment(1)
    assert (described["expected_gain"], described["expected_gain_per_usd"]) == (0.00123, 0.000615)
    assert described["search_ended"] == SENTENCE


@pytest.mark.parametrize("shares", [(0.75, 0.25), ()])
def test_importance_is_a_table_with_a_note(
    cluster: FakeCluster, det: Det, shares: tuple[float, ...]
) -> None:
    rows = [{"name": f"h{n}", "importance": share} for n, share in enumerate(shares)]
    found = {"metric": "loss", "trials": 60, "best": 8, "hyperparameters": rows, "note": "A note."}
    cluster.on("GET", f"{E}/importance", found)
    result = det("e", "importance", 1)
    assert [line.split()[-1] for line in result.out.splitlines() if " h" in line] == [
        f"{share:.0%}" for share in shares
    ]
    assert result.err == "A note.\n"
    assert json.loads(det("e", "importance", 1, "--json").out) == found
