"""Every framework as an experiment on a whole cluster: paused, resumed, and trained to its end.

`make test` does so with two. The exact resume of Lightning is tested only here. tests/harness/frameworks tests
Keras, transformers and PyTorch, and test_gallery.py trains each on a cluster.
"""

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support import ml
from tests.support.cluster import Cluster, local_cluster

pytestmark = pytest.mark.slow
CODE = Path(__file__).parent / "frameworks"
STEPS = 40


@dataclass(frozen=True)
class Framework:
    name: str
    environment: str
    entrypoint: str
    metric: str
    slots: int = 1


@dataclass(frozen=True)
class Trained:
    experiment_id: int
    trial_id: int
    state: str
    paused_after: int


ALWAYS = [
    Framework("transformers", "ml", "python3 transformers_train.py", "eval_loss"),
    Framework("lightning", "ml", "lightning_def:Trial", "val_loss"),
]
FRAMEWORKS = [
    *ALWAYS,
    Framework("tensorflow", "tensorflow", "python3 tensorflow_train.py", "loss"),
    Framework(
        "deepspeed",
        "deepspeed",
        "python3 -m determined.launch.deepspeed --trial deepspeed_def:Trial",
        "val_loss",
        slots=2,
    ),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("frameworks")
    slots = sum(framework.slots for framework in FRAMEWORKS)
    with local_cluster(folder, runtime="process", slots=slots) as running_cluster:
        yield running_cluster


def configuration(framework: Framework) -> str:
    defaults = ml.task_defaults(framework.environment)
    return yaml.safe_dump(
        {
            "name": framework.name,
            "entrypoint": framework.entrypoint,
            "environment": {"environment_variables": defaults["environment_variables"]},
            "resources": {"slots_per_trial": framework.slots},
            "hyperparameters": {"global_batch_size": 2 * framework.slots},
            "searcher": {
                "name": "single",
                "metric": framework.metric,
                "max_length": {"batches": STEPS},
            },
            "scheduling_unit": 2,
            "max_restarts": 0,
        }
    )


def steps(cluster: Cluster, trial_id: int) -> list[int]:
    """Return the steps of the first rank, in order."""
    reported_steps = []
    for entry in cluster.task_logs(trial_id):
        match = re.search(r"did step (\d+)", entry["log"])
        if match and not entry.get("rankId"):
            reported_steps.append(int(match[1]))
    return reported_steps


def trained(cluster: Cluster, framework: Framework, folder: Path) -> Trained:
    """Train an experiment that is paused behind its second step."""
    path = folder / f"{framework.name}.yaml"
    path.write_text(configuration(framework))
    experiment_id = cluster.create(path, CODE)
    trial_id = cluster.until(lambda: cluster.trials(experiment_id), "a trial exists")[0]["id"]
    cluster.until(lambda: 2 in steps(cluster, trial_id), "it trains", timeout_s=360)
    cluster.det("experiment", "pause", str(experiment_id))
    cluster.until(lambda: not cluster.containers_of(trial_id), "its slots are free")
    paused_after = steps(cluster, trial_id)[-1]
    cluster.det("experiment", "activate", str(experiment_id))
    state = cluster.until_state(experiment_id, "COMPLETED", "ERROR", timeout_s=480)
    return Trained(experiment_id, trial_id, state, paused_after)


@pytest.fixture(scope="module")
def training(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, "Future[Trained]"]]:
    """Trains with all frameworks of this run at once: most of the time of each is waiting."""
    folder = tmp_path_factory.mktemp("configurations")
    names = {item.name for item in request.session.items if item.path == request.path}
    frameworks = [f for f in FRAMEWORKS if any(name.endswith(f"[{f.name}]") for name in names)]
    with ThreadPoolExecutor(len(frameworks)) as pool:
        yield {f.name: pool.submit(trained, cluster, f, folder) for f in frameworks}


@pytest.mark.parametrize(
    "framework",
    [
        *ALWAYS,
        *(
            pytest.param(f, marks=pytest.mark.heavy("pauses each framework as another"))
            for f in FRAMEWORKS
            if f not in ALWAYS
        ),
    ],
    ids=lambda f: f.name,
)
def test_paused_trial_resumes_at_the_next_step(
    cluster: Cluster, framework: Framework, training: "dict[str, Future[Trained]]"
) -> None:
    result = training[framework.name].result()
    trial = cluster.trials(result.experiment_id)[0]
    assert result.state == "COMPLETED", cluster.logs(result.trial_id)
    assert result.paused_after < STEPS
    assert steps(cluster, result.trial_id) == list(range(1, STEPS + 1))
    assert (trial["restarts"], trial["totalBatchesProcessed"]) == (0, STEPS)
    assert trial["bestValidation"]["metrics"]["avgMetrics"][framework.metric] >= 0
