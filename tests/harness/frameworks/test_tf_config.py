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
    with ml.forks(ml.require("tensorflow"), folder, "tensorflow") as made:
        yield made


def learned(forks: ml.Forks, home: pathlib.Path, *environments: Mapping[str, str]) -> list[Any]:
    """Return what the script learned in each of the environments, in which it runs at once."""
    outputs = forks.run_beside([SCRIPT], home, *environments)
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


def test_a_lone_container_needs_no_tf_config(forks: ml.Forks, tmp_path: pathlib.Path) -> None:
    (found,) = learned(forks, tmp_path, {})
    assert (found["rank"], found["size"], found["everybody"]) == (0, 1, [0])
    assert (found["strategy"], found["replicas"]) == ("_DefaultDistributionStrategy", 1)


def test_containers_find_each_other_and_a_strategy_over_all(
    forks: ml.Forks, tmp_path: pathlib.Path
) -> None:
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    shared = {f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)}
    tasks = (
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        for rank in range(2)
    )
    found = learned(forks, tmp_path, *({**shared, "TF_CONFIG": json.dumps(t)} for t in tasks))
    assert [f["rank"] for f in found] == [f["cross_rank"] for f in found] == [0, 1]
    assert [f["everybody"] for f in found] == [[0, 1], [0, 1]]
    assert [(f["size"], f["local_size"], f["replicas"]) for f in found] == [(2, 1, 2), (2, 1, 2)]
