"""The stock command line and SDK of Determined 0.38.1, unchanged, on a whole cluster."""

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Start, default_clusters, in_docker_on_demand
from tests.support.cluster import Cluster
from tests.support.stock import StockClient, stock_client

pytestmark = [pytest.mark.slow, in_docker_on_demand]
FILES = Path(__file__).parent / "files"
CONFIG = FILES / "single.yaml"
UUID = r"[0-9a-f]{8}-[0-9a-f-]{27}"
NEW = "Better1Password"
LONG = ("--config", "hyperparameters.steps=2000", "--config", "hyperparameters.pause=0.5")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Change passwords, templates and agents of clusters that no other file has."""
    with default_clusters(tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="module")
def stock(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StockClient]:
    folder = tmp_path_factory.mktemp("client")
    with stock_client(cluster.env["DET_MASTER"], folder) as client:
        yield client


@pytest.fixture(scope="module")
def admin(stock: StockClient) -> StockClient:
    stock.det("user", "login", "admin", stdin="\n")
    stock.det("user", "login", "determined", stdin="\n")
    return stock


@pytest.fixture(scope="module")
def trained(stock: StockClient) -> str:
    """The id of an experiment that has completed."""
    result = stock.det("e", "create", CONFIG, FILES, "--follow")
    assert "step 1" in result
    assert "step 4" in result
    match = re.search(r"Created experiment (\d+)", result)
    assert match, result
    stock.det("e", "wait", match[1], "--polling-interval", 1)
    return match[1]


@pytest.fixture
def training(stock: StockClient) -> Iterator[str]:
    """The id of an experiment that trains for longer than the test takes."""
    result = stock.det("e", "create", CONFIG, FILES, *LONG)
    match = re.search(r"Created experiment (\d+)", result)
    assert match, result
    yield match[1]
    stock.det("e", "kill", match[1])


def only_trial(stock: StockClient, experiment_id: str) -> str:
    rows = csv_of(stock, "e", "list-trials", experiment_id)
    return rows[0].split(",")[0]


def csv_of(stock: StockClient, *args: object) -> list[str]:
    return stock.det(*args, "--csv").strip().splitlines()[1:]


def checkpoint_of(stock: StockClient, experiment_id: str) -> str:
    match = re.search(UUID, stock.det("e", "list-checkpoints", experiment_id, "--best", 1))
    assert match
    return match[0]


def test_user_signs_in_and_out(stock: StockClient) -> None:
    stock.det("user", "login", "determined", stdin="\n")
    assert "'determined'" in stock.det("user", "whoami")
    stock.det("user", "logout")


def test_wrong_password_is_reported(stock: StockClient) -> None:
    output = stock.refused("user", "login", "admin", stdin="wrong\n")
    assert "Invalid username/password combination" in output


def test_cluster_without_a_provider_reports_it(stock: StockClient) -> None:
    assert "No SSO providers found" in stock.det("auth", "login")
    assert "No SSO providers found" in stock.det("auth", "list-providers")


def test_experiment_is_listed_and_described_with_its_trial_and_metrics(
    stock: StockClient, trained: str
) -> None:
    assert re.search(rf"{trained} \| determined.*\| COMPLETED", stock.det("e", "list"))
    result = stock.det("e", "describe", trained, "--metrics")
    assert "COMPLETED" in result
    assert "0.0333333" in result
    assert "val_loss" in stock.det("t", "describe", only_trial(stock, trained))
    assert "entrypoint: python3 train.py" in stock.det("e", "config", trained)


def test_logs_are_shown_completely_and_by_tail(stock: StockClient, trained: str) -> None:
    trial = only_trial(stock, trained)
    whole = stock.det("t", "logs", trial)
    assert [f"step {n}" in whole for n in (1, 2, 3, 4)] == [True] * 4
    tail = stock.det("t", "logs", trial, "--tail", 1)
    assert "exited successfully with a zero exit code" in tail
    assert "step 4" not in tail
    assert "step 4" in stock.det("e", "logs", "-f", trained)


def test_user_creates_a_support_bundle(stock: StockClient, trained: str, tmp_path: Path) -> None:
    stock.det("t", "support-bundle", only_trial(stock, trained), "-o", tmp_path)
    (bundle,) = tmp_path.iterdir()
    with tarfile.open(bundle) as tar:
        names = " ".join(tar.getnames())
    assert "trial" in names
    assert "master" in names


def test_checkpoints_are_described_and_downloaded_through_the_api(
    stock: StockClient, trained: str
) -> None:
    uuid = checkpoint_of(stock, trained)
    assert uuid in stock.det("checkpoint", "describe", uuid)
    out = stock.folder / "downloaded"
    stock.det("checkpoint", "download", uuid, "--mode", "master", "-o", out)
    assert (out / "state").read_text() == "4"
    stock.det("e", "download", trained, "-o", stock.folder / "best")


def test_model_definition_is_downloaded(stock: StockClient, trained: str) -> None:
    stock.det("e", "download-model-def", trained, "--output-dir", stock.folder)
    assert (stock.folder / f"experiment_{trained}_model_def.tgz").stat().st_size > 0


def test_experiment_with_our_extensions_is_created_and_described(stock: StockClient) -> None:
    elastic = ("--config", "resources.min_slots_per_trial=1")
    result = stock.det("e", "create", CONFIG, FILES, "--paused", *elastic)
    match = re.search(r"Created experiment (\d+)", result)
    assert match, result
    assert "min_slots_per_trial: 1" in stock.det("e", "config", match[1])
    assert match[1] in stock.det("e", "describe", match[1])
    stock.det("e", "kill", match[1])


def test_experiment_is_paused_activated_and_killed(stock: StockClient, training: str) -> None:
    assert "Paused" in stock.det("e", "pause", training)
    assert re.search(rf"{training} \|.*\| PAUSED", stock.det("e", "list"))
    assert "Activated" in stock.det("e", "activate", training)
    assert "Killed" in stock.det("e", "kill", training)
    assert stock.run("e", "wait", training, "--polling-interval", 1).code == 1
    assert re.search(rf"{training} \|.*\| CANCELED", stock.det("e", "list"))


def test_running_experiment_is_in_every_list(
    cluster: Cluster, stock: StockClient, training: str
) -> None:
    cluster.until_state(int(training), "RUNNING")
    assert f"stock ({training})" in stock.det("job", "list")
    assert f"(Experiment {training})" in stock.det("slot", "list")
    assert f"(Experiment {training})" in stock.det("task", "list")
    assert re.search(r"agent-0.*\|\s+4 \|\s+1 \|", stock.det("agent", "list"))


def test_settings_of_a_running_experiment_can_be_changed(stock: StockClient, training: str) -> None:
    stock.det("e", "set", "priority", training, 7)
    stock.det("e", "set", "max-slots", training, 2)
    stock.det("e", "set", "name", training, "another name")
    stock.det("e", "set", "description", training, "what it is for")
    stock.det("e", "label", "add", training, "first")
    result = stock.det("e", "describe", training)
    assert "another name" in result
    assert "what it is for" in result
    assert "first" in result
    config = stock.det("e", "config", training)
    assert "priority: 7" in config
    assert "max_slots: 2" in config
    stock.det("e", "label", "remove", training, "first")
    assert "first" not in stock.det("e", "describe", training)


def test_completed_experiment_continues_with_more_steps(
    cluster: Cluster, stock: StockClient, trained: str
) -> None:
    more = ("--config", "hyperparameters.steps=6", "--config", "searcher.max_length=6")
    assert "Continued" in stock.det("e", "continue", trained, *more)
    cluster.until_state(int(trained), "COMPLETED")
    logs = stock.det("t", "logs", only_trial(stock, trained))
    assert "resumed at 4" in logs
    assert "step 6" in logs


def test_experiment_is_archived_and_deleted_with_its_files(
    cluster: Cluster, stock: StockClient
) -> None:
    result = stock.det("e", "create", CONFIG, FILES, "--follow")
    experiment_id = result.split("Created experiment")[1].split()[0]
    stock.det("e", "wait", experiment_id, "--polling-interval", 1)
    uuid = checkpoint_of(stock, experiment_id)
    stock.det("e", "archive", experiment_id)
    assert f" {experiment_id} |" not in stock.det("e", "list")
    stock.det("e", "unarchive", experiment_id)
    stock.det("e", "delete", "--yes", experiment_id)
    files = cluster.folder / "data/checkpoints" / uuid
    cluster.until(lambda: not files.exists(), "the checkpoint is gone")
    cluster.until(
        lambda: stock.run("e", "describe", experiment_id).code != 0, "the experiment is gone"
    )


def test_retention_policies_are_set(stock: StockClient, trained: str) -> None:
    keep = ("--save-experiment-best", 0, "--save-trial-best", 1, "--save-trial-latest", 1)
    assert "Set GC policy" in stock.det("e", "set", "gc-policy", trained, *keep, "--yes")
    stock.det("e", "set", "log-retention", trained, "--days", 30)
    stock.det("t", "set", "log-retention", only_trial(stock, trained), "--forever")


def test_test_mode_validates_the_configuration(stock: StockClient) -> None:
    result = stock.det("e", "create", CONFIG, FILES, "--test-mode")
    assert "validation succeeded" in result
    assert "Model definition test succeeded" in result


def test_our_extensions_of_resources_are_accepted(stock: StockClient) -> None:
    ours = ("--config", "resources.topology=strict", "--config", "resources.hang_timeout=10m")
    output = stock.det("e", "create", CONFIG, FILES, "--paused", *ours)
    experiment_id = re.findall(r"Created experiment (\d+)", output)[0]
    described = stock.det("e", "config", experiment_id)
    assert "topology: strict" in described
    assert "hang_timeout: 600" in described
    stock.det("e", "kill", experiment_id)


def test_search_is_previewed(stock: StockClient) -> None:
    assert "train to completion" in stock.det("preview-search", CONFIG)


def test_configuration_overrides_its_template(stock: StockClient) -> None:
    fragment = stock.folder / "fragment.yaml"
    fragment.write_text("description: of the template\nname: not this\n")
    stock.det("template", "create", "ours", fragment)
    assert "ours" in stock.det("template", "list")
    assert "of the template" in stock.det("template", "describe", "ours")
    result = stock.det("e", "create", CONFIG, FILES, "--template", "ours", "--paused")
    experiment_id = result.split("Created experiment")[1].split()[0]
    config = stock.det("e", "config", experiment_id)
    assert "description: of the template" in config
    assert "name: stock" in config
    stock.det("e", "kill", experiment_id)
    stock.det("template", "remove", "ours")
    assert "not found" in stock.refused("template", "describe", "ours")


def test_workspaces_and_projects_contain_experiments(stock: StockClient) -> None:
    stock.det("workspace", "create", "vision")
    stock.det("project", "create", "vision", "cats", "--key", "cats", "--description", "meow")
    assert "CATS" in stock.det("project", "list", "vision")
    result = stock.det("e", "create", CONFIG, FILES, "--paused")
    experiment_id = result.split("Created experiment")[1].split()[0]
    assert "cats" in stock.det("e", "move", experiment_id, "vision", "cats")
    output = stock.det("project", "list-experiments", "vision", "cats")
    assert f" {experiment_id} | determined" in output
    stock.det("project", "edit", "vision", "cats", "--new_name", "dogs")
    stock.det("workspace", "edit", "vision", "--name", "sight")
    assert "default" in stock.det("workspace", "list-pools", "sight")
    assert "have not ended" in stock.refused("workspace", "delete", "--yes", "sight")
    stock.det("e", "kill", experiment_id)
    stock.det("project", "archive", "sight", "dogs")
    stock.det("project", "unarchive", "sight", "dogs")
    stock.det("workspace", "delete", "--yes", "sight")
    assert "sight" not in stock.det("workspace", "list")


def test_checkpoint_is_registered_as_a_model_version(stock: StockClient, trained: str) -> None:
    uuid = checkpoint_of(stock, trained)
    stock.det("model", "create", "counter-model", "--description", "counts")
    stock.det("model", "register-version", "counter-model", uuid)
    assert "counter-model" in stock.det("model", "list")
    assert uuid in stock.det("model", "list-versions", "counter-model")
    assert uuid in stock.det("model", "describe", "counter-model")
    assert "version 1 of model" in stock.refused("e", "delete", "--yes", trained)
    assert "already exists" in stock.refused("model", "create", "counter-model")
    stock.det("model", "delete", "counter-model")


def test_administrator_manages_users(admin: StockClient) -> None:
    admin.det("-u", "admin", "user", "create", "grace", "--password", "Strong1Password")
    assert "grace" in admin.det("user", "list")
    admin.det("-u", "admin", "user", "edit", "grace", "--display-name", "Grace H.")
    admin.det("-u", "admin", "user", "deactivate", "grace")
    assert "not active" in admin.refused("user", "login", "grace", stdin="Strong1Password\n")
    admin.det("-u", "admin", "user", "activate", "grace")
    admin.det("user", "login", "grace", stdin="Strong1Password\n")
    admin.det("user", "change-password", stdin=f"{NEW}\n{NEW}\n{NEW}\n")
    assert "'grace'" in admin.det("user", "whoami")
    message = admin.refused("user", "create", "friend", "--password", NEW)
    assert "administrator" in message
    admin.det("user", "logout")
    admin.det("user", "login", "grace", stdin=f"{NEW}\n")
    admin.det("user", "login", "determined", stdin="\n")


def test_token_is_listed_until_it_is_revoked(stock: StockClient) -> None:
    result = stock.det("token", "create", "--description", "for the nightly job")
    match = re.search(r"TokenID: (\d+)", result)
    assert match, result
    assert "for the nightly job" in stock.det("token", "list")
    stock.det("token", "revoke", match[1])
    assert "for the nightly job" not in stock.det("token", "list")


def test_master_commands_show_the_cluster(admin: StockClient) -> None:
    assert "version: 0.38.1" in admin.det("master", "info")
    assert "resource_pools" in admin.det("-u", "admin", "master", "config")
    admin.det("-u", "admin", "master", "logs")
    admin.det("-u", "admin", "master", "cluster-message", "set", "-m", "closed on Sunday")
    assert "closed on Sunday" in admin.det("-u", "admin", "master", "cluster-message", "get")
    admin.det("-u", "admin", "master", "cluster-message", "clear")
    span = ("2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
    assert "slot_hours" in admin.det("resources", "allocations", *span)


def test_agents_and_slots_are_disabled_and_enabled(admin: StockClient, cluster: Cluster) -> None:
    agent = csv_of(admin, "agent", "list")[0].split(",")[0]
    admin.det("-u", "admin", "slot", "disable", agent, 3)
    assert any(",3,False," in row for row in csv_of(admin, "slot", "list"))
    admin.det("-u", "admin", "slot", "enable", agent, 3)
    admin.det("-u", "admin", "agent", "disable", agent)
    admin.det("-u", "admin", "agent", "enable", agent)


def test_bindings_can_be_called(stock: StockClient, trained: str) -> None:
    result = stock.det("dev", "bindings", "call", "get_GetExperiment", trained)
    assert f'"id": {trained}' in result


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("e", "describe", "9999"), "experiment 9999 not found"),
        (("t", "describe", "9999"), "trial 9999 not found"),
        (("t", "logs", "9999"), "trial 9999 not found"),
        (("agent", "disable", "nobody"), "only an administrator may take agents"),
        (("model", "describe", "nothing"), "model 'nothing' not found"),
        (("template", "describe", "nothing"), "template 'nothing' not found"),
        (("e", "create", CONFIG, FILES, "--config", "searcher.name=guess"), "searcher.name"),
        (("e", "create", CONFIG, FILES, "--config", "resources.slots_per_trial=99"), "99 slots"),
        (("e", "create", CONFIG, FILES, "--config", "resources.resource_pool=gpu"), "default"),
    ],
    ids=lambda value: " ".join(map(str, value[:2])) if isinstance(value, tuple) else "",
)
def test_invalid_commands_report_the_cause(
    stock: StockClient, args: tuple[object, ...], sentence: str
) -> None:
    assert sentence in stock.refused(*args)


def test_sdk_trains_reads_and_registers(cluster: Cluster, stock: StockClient) -> None:
    master = cluster.env["DET_MASTER"]
    result = stock.script(FILES / "sdk_flow.py", master, FILES, stock.folder / "sdk")
    assert result.code == 0, result.out + result.err
    assert "the SDK did it all" in result.out


def test_every_sdk_method_gets_a_response(cluster: Cluster, stock: StockClient) -> None:
    out = stock.folder / "methods"
    out.mkdir()
    result = stock.script(FILES / "sdk_methods.py", cluster.env["DET_MASTER"], FILES, out)
    assert result.code == 0, result.out + result.err
    assert json.loads(result.out.splitlines()[-1]) == [
        "Checkpoint.get_pachyderm_commit", "Determined.add_oauth_client", "Determined.list_oauth_clients",
        "Determined.remove_oauth_client", "Experiment.get_pachyderm_config",
    ]  # fmt: skip


def test_canceled_experiment_and_killed_trial_end(
    cluster: Cluster, stock: StockClient, training: str
) -> None:
    assert "Canceled" in stock.det("e", "cancel", training)
    cluster.until_state(int(training), "CANCELED")
    result = stock.det("e", "create", CONFIG, FILES, *LONG)
    other = result.split("Created experiment")[1].split()[0]
    cluster.until(lambda: cluster.trials(int(other)), "it has a trial")
    stock.det("t", "kill", only_trial(stock, other))
    cluster.until_state(int(other), "CANCELED")


def test_trial_is_downloaded_and_checkpoint_files_are_removed(stock: StockClient) -> None:
    keep = ("--config", "checkpoint_storage.save_trial_latest=2")
    result = stock.det("e", "create", CONFIG, FILES, *keep, "--follow")
    experiment_id = result.split("Created experiment")[1].split()[0]
    stock.det("e", "wait", experiment_id, "--polling-interval", 1)
    trial, out = only_trial(stock, experiment_id), stock.folder / "of trial"
    stock.det("t", "download", trial, "--latest", "-o", out)
    assert (out / "state").exists()
    uuid = checkpoint_of(stock, experiment_id)
    stock.det("checkpoint", "rm", uuid, "--glob", "sta*", "--yes")
    stock.det("checkpoint", "delete", uuid, "--yes")


def test_job_priority_is_changed(stock: StockClient, training: str) -> None:
    (row,) = [row for row in csv_of(stock, "job", "list") if f"({training})" in row]
    (job,) = re.findall(UUID, row)
    stock.det("job", "update", job, "--priority", 11)
    assert "priority: 11" in stock.det("e", "config", training)


def test_task_log_is_the_log_of_its_trial(stock: StockClient, trained: str) -> None:
    result = stock.det("dev", "bindings", "call", "get_GetTrial", only_trial(stock, trained))
    first = json.loads(result)["trial"]["taskIds"][0]
    assert "step 4" in stock.det("task", "logs", first)


def test_template_is_set_and_replaced(stock: StockClient) -> None:
    fragment = stock.folder / "set.yaml"
    for name in ("first", "second"):
        fragment.write_text(f"description: the {name}\n")
        stock.det("template", "set", "theirs", fragment)
        assert f"the {name}" in stock.det("template", "describe", "theirs")
    stock.det("template", "remove", "theirs")


def test_client_shows_versions_and_usage(stock: StockClient) -> None:
    assert "0.38.1" in stock.det("version")
    span = ("2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z")
    assert "training" in stock.det("resources", "raw", *span)
