import json
import pathlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import ml
from tests.support.ports import free_port

pytestmark = pytest.mark.slow
SCRIPT = str(pathlib.Path(__file__).parent / "tf_config_script.py")


def learned(home: pathlib.Path, **env: str) -> Any:
    output = ml.run("tensorflow", [SCRIPT], home, 300, PYTHONPATH=str(ml.ROOT), **env)
    return json.loads(output.strip().splitlines()[-1])


def test_a_lone_container_needs_no_tf_config(tmp_path: pathlib.Path) -> None:
    found = learned(tmp_path)
    assert (found["rank"], found["size"], found["everybody"]) == (0, 1, [0])
    assert (found["strategy"], found["replicas"]) == ("_DefaultDistributionStrategy", 1)


def test_containers_find_each_other_and_a_strategy_over_all(tmp_path: pathlib.Path) -> None:
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    shared = {f"INTER_TRAIN_PROCESS_COMM_PORT_{i}": str(free_port()) for i in (1, 2)}

    def run(rank: int) -> Any:
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        return learned(tmp_path, TF_CONFIG=json.dumps(task), **shared)

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(run, range(2)))
    assert [f["rank"] for f in found] == [f["cross_rank"] for f in found] == [0, 1]
    assert [f["everybody"] for f in found] == [[0, 1], [0, 1]]
    assert [(f["size"], f["local_size"], f["replicas"]) for f in found] == [(2, 1, 2), (2, 1, 2)]
