import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support import ml
from tests.support.ports import free_port

pytestmark = pytest.mark.slow
SCRIPT = str(pathlib.Path(__file__).parent / "tf_config_script.py")


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ml.Forks]:
    folder = tmp_path_factory.mktemp("forks")
    with ml.forks(ml.require("tensorflow"), folder, "tensorflow") as processes:
        yield processes


def results(forks: ml.Forks, home: pathlib.Path, *environments: Mapping[str, str]) -> list[Any]:
    """Run the script in all environments at once. Return the printed results."""
    outputs = forks.run_beside([SCRIPT], home, *environments)
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


def test_single_container_needs_no_tf_config(forks: ml.Forks, tmp_path: pathlib.Path) -> None:
    (result,) = results(forks, tmp_path, {})
    assert (result["rank"], result["size"], result["ranks"]) == (0, 1, [0])
    assert (result["strategy"], result["replicas"]) == ("_DefaultDistributionStrategy", 1)


def test_containers_connect_and_use_a_strategy_over_all(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    shared = {f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)}
    tasks = (
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        for rank in range(2)
    )
    outcomes = results(forks, tmp_path, *({**shared, "TF_CONFIG": json.dumps(t)} for t in tasks))
    assert [f["rank"] for f in outcomes] == [f["cross_rank"] for f in outcomes] == [0, 1]
    assert [f["ranks"] for f in outcomes] == [[0, 1], [0, 1]]
    assert [(f["size"], f["local_size"], f["replicas"]) for f in outcomes] == [(2, 1, 2), (2, 1, 2)]
