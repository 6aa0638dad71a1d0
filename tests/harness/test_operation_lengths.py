"""The training length of a trial class under a custom search method, in the unit of the searcher."""

from types import SimpleNamespace
from typing import Any

import pytest
from determined import _legacy_plan
from determined._units import Batch, Epoch, TrainUnit


@pytest.mark.parametrize(
    ("unit", "length"),
    [({}, Batch(30)), ({"unit": "epochs"}, Epoch(30)), ({"unit": "records"}, Batch(3))],
)
def test_operation_length_uses_the_unit_of_the_searcher(
    unit: dict[str, Any], length: TrainUnit
) -> None:
    operation = SimpleNamespace(length=30)
    core = SimpleNamespace(searcher=SimpleNamespace(operations=lambda: iter([operation])))
    config = {"searcher": {"name": "custom", "metric": "loss", **unit}}
    lengths = _legacy_plan.lengths(config, {"global_batch_size": 10}, core)
    assert lengths.max_length == length
