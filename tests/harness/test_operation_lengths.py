"""How long a trial class trains where only a search method says so: the operation counts in `searcher.unit`."""

from types import SimpleNamespace
from typing import Any

import pytest
from determined import _legacy_plan
from determined._units import Batch, Epoch, TrainUnit


@pytest.mark.parametrize(
    ("unit", "length"),
    [({}, Batch(30)), ({"unit": "epochs"}, Epoch(30)), ({"unit": "records"}, Batch(3))],
)
def test_an_operation_counts_in_the_unit_of_its_search(
    unit: dict[str, Any], length: TrainUnit
) -> None:
    operation = SimpleNamespace(length=30)
    core = SimpleNamespace(searcher=SimpleNamespace(operations=lambda: iter([operation])))
    config = {"searcher": {"name": "custom", "metric": "loss", **unit}}
    found = _legacy_plan.lengths(config, {"global_batch_size": 10}, core)
    assert found.max_length == length
