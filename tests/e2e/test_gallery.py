"""Every example of the gallery, at its smallest size, submitted by our command line and by the stock one."""

import base64
import getpass
import hashlib
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import ml
from tests.support.cluster import ROOT, Cluster, local_cluster
from tests.support.stock import StockClient, stock_client

pytestmark = pytest.mark.slow
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Example:
    """A configuration in the gallery: `small` are overrides, and `metrics` are the expected validation metrics of
    its best trial."""

    config: str
    environment: str = ""
    small: tuple[str, ...] = ()
    include: str = ""
    metrics: tuple[str, ...] = ()
    trials: int = 1

    @property
    def path(self) -> Path:
        return EXAMPLES / self.config

    def options(self) -> list[str]:
        options = [part for change in self.small for part in ("--config", change)]
        options += ["--include", str(self.path.parent / self.include)] if self.include else []
        return [*options, *(["--template", self.environment] if self.environment else [])]


CORE = "core_api_steps/step"
SEARCH = "entrypoint=python3 search.py --in-cluster --trials 3 --lengths 30 60"
TRANSFORMERS = (
    "entrypoint=python3 train.py --output_dir out --max_steps 4 --per_device_train_batch_size 2"
    " --eval_strategy steps --eval_steps 4 --save_strategy steps --save_steps 4 --report_to none"
)
GALLERY = [
    Example(f"{CORE}_1_run.yaml"),
    Example(f"{CORE}_2_metrics.yaml", metrics=("error",)),
    Example(f"{CORE}_3_checkpoints.yaml", metrics=("error",)),
    Example(
        f"{CORE}_4_search.yaml", small=("searcher.max_trials=2",), metrics=("error",), trials=2
    ),
    Example(
        "numpy_digits/adaptive.yaml",
        small=("searcher.max_trials=2", "searcher.max_time=60"),
        metrics=("validation_error", "validation_loss"),
        trials=2,
    ),
    Example("ci/config.yaml", metrics=("error",)),
    Example("custom_search/in_cluster.yaml", small=(SEARCH,), include="../numpy_digits"),
    Example(
        "pytorch_mnist_like/const.yaml",
        "ml",
        small=("searcher.max_length.epochs=1", "hyperparameters.records=200"),
        metrics=("validation_loss", "accuracy"),
    ),
    Example(
        "pytorch_mnist_like/distributed.yaml",
        "ml",
        small=("searcher.max_length.epochs=1", "hyperparameters.records=200"),
        metrics=("validation_loss", "accuracy"),
    ),
    Example(
        "fsdp_transformer/fsdp.yaml",
        "ml",
        small=("searcher.max_length.epochs=1", "hyperparameters.records=200"),
        metrics=("validation_loss",),
    ),
    Example(
        "distributed_core_api/distributed.yaml",
        "ml",
        small=("hyperparameters.batches=5",),
        metrics=("validation_error",),
    ),
    Example(
        "keras_adaptive/adaptive.yaml",
        "tensorflow",
        small=("searcher.max_trials=1", "searcher.max_time=2", "hyperparameters.epochs=2"),
        metrics=("loss", "accuracy"),
    ),
    Example(
        "transformers_text/const.yaml",
        "ml",
        small=(TRANSFORMERS, "searcher.max_length.batches=4"),
        metrics=("eval_loss",),
    ),
    Example(
        "lightning_spirals/const.yaml",
        "ml",
        small=("hyperparameters.epochs=1",),
        metrics=("val_loss",),
    ),
    Example(
        "deepspeed_sine/zero.yaml",
        "deepspeed",
        small=("searcher.max_length.batches=4",),
        metrics=("validation_loss",),
    ),
]
INFERENCE = Example(
    "batch_inference/inference.yaml",
    "ml",
    small=("hyperparameters.records=200",),
    include="../pytorch_mnist_like",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with templates that add the environments of frameworks to PATH."""
    folder = tmp_path_factory.mktemp("gallery")
    with local_cluster(folder, runtime="process") as running_cluster:
        for name in sorted({example.environment for example in GALLERY} - {""}):
            template = folder / f"{name}.yaml"
            variables = ml.task_defaults(name)["environment_variables"]
            template.write_text(
                yaml.safe_dump({"environment": {"environment_variables": variables}})
            )
            running_cluster.det("template", "create", name, template)
        yield running_cluster


@pytest.fixture(scope="module")
def stock(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockClient]:
    with stock_client(cluster.env["DET_MASTER"], tmp_path_factory.mktemp("client")) as client:
        client.det("user", "login", "determined", stdin="\n")
        yield client


def by_ours(cluster: Cluster, example: Example, *more: str) -> int:
    """Create the experiment of an example with our client; return its id."""
    return cluster.create(example.path, example.path.parent, *example.options(), *more)


def by_stock(stock: StockClient, example: Example, *more: str) -> int:
    """Create the experiment of an example with the stock client; return its id."""
    folders = (example.path, example.path.parent)
    result = stock.det("e", "create", *folders, *example.options(), *more)
    return int(result.split("Created experiment")[1].split()[0])


@pytest.fixture(scope="module")
def ours(cluster: Cluster) -> dict[str, int]:
    """All examples at once: much of the time of each is waiting."""
    return {example.config: by_ours(cluster, example) for example in GALLERY}


@pytest.fixture(scope="module")
def stocks(ours: dict[str, int], stock: StockClient) -> dict[str, int]:
    """All examples again. Those with a framework are compared with ours, and not trained a second time."""
    return {
        example.config: by_stock(stock, example, *(["--paused"] if example.environment else []))
        for example in GALLERY
    }


@pytest.fixture(params=["ours", "stocks"])
def submitted(request: pytest.FixtureRequest) -> dict[str, int]:
    """Return the experiments of one of the clients, by example."""
    experiments: dict[str, int] = request.getfixturevalue(request.param)
    return experiments


def completed(cluster: Cluster, experiment_id: int) -> list[dict[str, Any]]:
    """Wait for the end of an experiment; return its trials, all of which must have trained."""
    state = cluster.until_state(experiment_id, "COMPLETED", "ERROR", timeout_s=480)
    trials = cluster.trials(experiment_id)
    assert state == "COMPLETED", "".join(cluster.logs(trial["id"]) for trial in trials)
    return trials


@pytest.mark.parametrize("example", GALLERY, ids=lambda example: example.config)
def test_example_completes(cluster: Cluster, ours: dict[str, int], example: Example) -> None:
    assert_trained(cluster, ours[example.config], example)


@pytest.mark.parametrize(
    "example", [e for e in GALLERY if not e.environment], ids=lambda example: example.config
)
def test_example_submitted_by_the_stock_client_completes(
    cluster: Cluster, stocks: dict[str, int], example: Example
) -> None:
    assert_trained(cluster, stocks[example.config], example)


@pytest.mark.parametrize(
    "example", [e for e in GALLERY if e.environment], ids=lambda example: example.config
)
def test_both_clients_submit_the_same_experiment(
    cluster: Cluster, ours: dict[str, int], stocks: dict[str, int], example: Example
) -> None:
    """Equal submissions train equally."""
    assert sent(cluster, stocks[example.config]) == sent(cluster, ours[example.config])


def sent(cluster: Cluster, experiment_id: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the configuration of an experiment but for the seed it drew, and its files with their digests."""
    model = cluster.get(f"/api/v1/experiments/{experiment_id}/model_def")["b64Tgz"]
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(model))) as tar:
        files = {
            member.name: hashlib.sha256(content.read()).hexdigest()
            for member in tar
            if (content := tar.extractfile(member)) is not None
        }
    assert files
    config = cluster.experiment(experiment_id)["config"]
    del config["reproducibility"]["experiment_seed"]
    return config, files


def assert_trained(cluster: Cluster, experiment_id: int, example: Example) -> None:
    trials = completed(cluster, experiment_id)
    assert len(trials) == example.trials
    for trial in trials:
        validated = (trial["bestValidation"] or {"metrics": {"avgMetrics": {}}})["metrics"]
        assert set(example.metrics) <= set(validated["avgMetrics"])
        assert bool(trial["latestValidation"]) == bool(example.metrics)
        assert trial["restarts"] == 0


def test_custom_search_creates_its_trials(cluster: Cluster, submitted: dict[str, int]) -> None:
    runner = submitted["custom_search/in_cluster.yaml"]
    completed(cluster, runner)
    experiments = cluster.get("/api/v1/experiments?limit=-1")["experiments"]
    names = {e["id"]: e["name"] for e in experiments if e["id"] > runner}
    search_ids = [id for id, name in names.items() if name == "numpy-digits-halving"]
    assert search_ids
    assert {len(completed(cluster, id)) for id in search_ids} == {3}


def test_batch_inference_uses_a_trained_checkpoint(
    cluster: Cluster, stock: StockClient, ours: dict[str, int]
) -> None:
    (trained_trial,) = completed(cluster, ours["pytorch_mnist_like/const.yaml"])
    used = trained_trial["bestCheckpoint"]["uuid"]
    option = ("--config", f"hyperparameters.checkpoint={used}")
    inferring = by_ours(cluster, INFERENCE, *option)
    output = by_stock(stock, INFERENCE, *option, "--paused")
    assert sent(cluster, output) == sent(cluster, inferring)
    (trial,) = completed(cluster, inferring)
    accuracy = trial["summaryMetrics"]["inference"]["accuracy"]["last"]
    assert 0 <= accuracy <= 1
    (metric,) = cluster.get(f"/api/v1/checkpoints/{used}/metrics")["metrics"]
    assert (metric["trialId"], metric["group"]) == (trial["id"], "inference")
    (checkpoint, *_) = cluster.get(f"/api/v1/trials/{trial['id']}/checkpoints")["checkpoints"]
    assert checkpoint["state"] == "STATE_COMPLETED"


def test_tensorboard_shows_metrics_of_an_example(cluster: Cluster, ours: dict[str, int]) -> None:
    """A notebook is opened by tests/e2e/test_stock_served.py, the tree of tasks runs in test_commands.py."""
    example = ours["pytorch_mnist_like/const.yaml"]
    (trial,) = completed(cluster, example)
    config = ("--config-file", EXAMPLES / "interactive/tensorboard.yaml", "--template", "ml")
    output = cluster.det("tensorboard", "start", str(example), *config, "--no-browser").out
    match = re.search(r"Launched tensorboard (\S+)", output)
    assert match, output
    tags = cluster.get(f"/proxy/{match[1]}/data/plugin/scalars/tags")
    assert "Determined/accuracy" in tags[f"exp-{example}/trial/{trial['id']}"]
    cluster.det("tensorboard", "kill", match[1])


Run = Callable[..., str]


@pytest.fixture(params=["ours", "stock"])
def run_here(request: pytest.FixtureRequest, cluster: Cluster, stock: StockClient) -> Run:
    """Run a script of the gallery in no task, with our harness or the stock one; return its output."""

    def by_ours(script: str, *arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, EXAMPLES / script, *arguments],
            env=cluster.env,
            cwd=cluster.folder,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout + result.stderr

    def by_stock(script: str, *arguments: str) -> str:
        result = stock.script(EXAMPLES / script, *arguments)
        assert result.code == 0, result.out + result.err
        return result.out + result.err

    return by_ours if request.param == "ours" else by_stock


def test_unmanaged_script_reports_and_resumes(
    request: pytest.FixtureRequest, cluster: Cluster, run_here: Run
) -> None:
    name = request.node.callspec.id
    assert "reported 20 steps" in run_here("unmanaged/train.py", name)
    trial = cluster.get(f"/api/v1/trials/by-external-id/{name}/{name}")["trial"]
    assert trial["state"] == "STATE_COMPLETED"
    assert trial["latestValidation"]["totalBatches"] == 20
    assert "reported 0 steps" in run_here("unmanaged/train.py", name)


@pytest.mark.parametrize("run_here", ["ours"], indirect=True)
def test_unmanaged_script_needs_no_name(cluster: Cluster, run_here: Run) -> None:
    run_here("unmanaged/train.py")
    name = f"walk-of-{getpass.getuser()}"
    trial = cluster.get(f"/api/v1/trials/by-external-id/{name}/{name}")["trial"]
    assert trial["state"] == "STATE_COMPLETED"


@pytest.mark.parametrize("step", ["1_run", "2_metrics", "3_checkpoints", "4_search"])
def test_core_api_steps_run_without_a_cluster(run_here: Run, step: str) -> None:
    """Both harnesses compute the same."""
    output = run_here(f"core_api_steps/step_{step}.py")
    assert ("0.0105" if step == "1_run" else "0.01045382327675707") in output


def test_every_gallery_configuration_is_trained() -> None:
    examples = {example.path for example in [*GALLERY, INFERENCE]}
    # The runner of this search submits its configuration.
    examples.add(EXAMPLES / "custom_search/searched.yaml")
    tasks = {*EXAMPLES.glob("generic_tasks/*.yaml"), *EXAMPLES.glob("interactive/*.yaml")}
    assert set(EXAMPLES.glob("*/*.yaml")) - tasks == examples
