"""determined.experimental.client against a fake cluster."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from determined.common.api import errors
from determined.common.failures import SignInFailed
from determined.common.http import APIError
from determined.experimental import Determined, client

from tests.support.fake_api import Asked, Refusal
from tests.support.fake_cluster import (
    CKPT,
    END,
    START,
    FakeCluster,
    checkpoint,
    log_line,
    page,
    trial,
)


@pytest.fixture
def sdk(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster with one experiment, and the module not yet connected."""
    monkeypatch.setattr(client, "_connection", None)
    cluster.add(1, config={"searcher": {"smaller_is_better": False}})
    return cluster


def test_the_first_call_connects_as_the_environment_says(sdk: FakeCluster) -> None:
    assert client.whoami().username == "determined"
    assert client.get_session_username() == "determined"


def test_login_chooses_the_user(sdk: FakeCluster) -> None:
    client.login(user="ada", password="Lovelace1")
    me = client.whoami()
    assert (me.username, me.display_name, me.admin) == ("ada", "Ada L.", False)


def test_login_comes_first_and_once(sdk: FakeCluster) -> None:
    client.whoami()
    with pytest.raises(ValueError, match="connected already"):
        client.login()


def test_a_wrong_password_is_refused(sdk: FakeCluster) -> None:
    with pytest.raises(SignInFailed, match="refused user 'ada'"):
        Determined(user="ada", password="wrong")


def test_logout_ends_the_session(sdk: FakeCluster) -> None:
    client.whoami()
    client.logout()
    assert sdk.tokens == {}


def test_two_connections_stand_side_by_side(sdk: FakeCluster) -> None:
    ada = Determined(user="ada", password="Lovelace1")
    admin = Determined(user="admin", password="Secret123")
    assert (ada.whoami().username, admin.whoami().username) == ("ada", "admin")


def test_create_experiment_takes_a_mapping(sdk: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)\n")
    created = client.create_experiment(
        {"name": "x"}, tmp_path / "code", project_id=4, template="base"
    )
    assert (created.id, created.state) == (2, client.ExperimentState.RUNNING)
    (asked,) = sdk.sent("POST", "/api/v1/experiments")
    assert json.loads(asked.body["config"]) == {"name": "x"}
    assert [f["path"] for f in asked.body["modelDefinition"]] == ["train.py"]
    assert (asked.body["projectId"], asked.body["template"]) == (4, "base")


def test_create_experiment_tells_of_an_empty_file(sdk: FakeCluster, tmp_path: Path) -> None:
    config = tmp_path / "const.yaml"
    config.write_text("\n")
    with pytest.raises(ValueError, match=r"const\.yaml is empty"):
        client.create_experiment(config)


@pytest.mark.parametrize("kind", [str, Path])
def test_create_experiment_takes_the_path_of_a_file(
    sdk: FakeCluster, tmp_path: Path, kind: Any
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("# kept\nname: x\n")
    client.create_experiment(kind(config))
    assert sdk.sent("POST", "/api/v1/experiments")[0].body["config"] == "# kept\nname: x\n"


def test_a_refused_configuration_names_its_file(sdk: FakeCluster, tmp_path: Path) -> None:
    def refuse(_asked: Any) -> Any:
        raise Refusal(400, "invalid experiment configuration: not valid YAML: line 3, column 1: x")

    sdk.on("POST", "/api/v1/experiments", refuse)
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(APIError, match=r"bad\.yaml: invalid experiment configuration: not valid"):
        client.create_experiment(tmp_path / "bad.yaml")
    with pytest.raises(APIError, match=r"^invalid experiment configuration"):
        client.create_experiment({})


@pytest.mark.parametrize("word", ["ERROR", "error", "LOG_LEVEL_ERROR", client.LogLevel.ERROR])
def test_a_word_of_a_closed_set_may_be_given_by_its_name(word: Any) -> None:
    assert client.LogLevel(word) is client.LogLevel.ERROR


def test_a_word_that_is_none_of_a_closed_set_is_told_the_others(sdk: FakeCluster) -> None:
    told = "'LOUD' is no LogLevel: choose one of TRACE, DEBUG, INFO"
    with pytest.raises(ValueError, match=told):
        list(client.get_trial(10).iter_logs(min_level="LOUD"))
    with pytest.raises(ValueError, match="is no OrderBy: choose one of ASCENDING"):
        client.list_experiments(order_by="up")  # type: ignore[arg-type]


def test_an_experiment_shows_its_description(sdk: FakeCluster) -> None:
    found = client.get_experiment(1)
    assert (found.name, found.labels, found.progress) == ("mnist-1", {"nightly", "a"}, 1.0)
    assert found.state is client.ExperimentState.COMPLETED
    assert repr(found) == "Experiment(id=1)"


def test_a_missing_experiment_raises_determineds_error(sdk: FakeCluster) -> None:
    with pytest.raises(errors.NotFoundException, match="experiment '9' not found"):
        client.get_experiment(9)


@pytest.mark.parametrize("verb", ["activate", "pause", "cancel", "kill", "archive", "unarchive"])
def test_each_change_of_state_is_one_call(sdk: FakeCluster, verb: str) -> None:
    sdk.add(2, state="STATE_RUNNING")
    getattr(client.get_experiment(2), verb)()
    assert len(sdk.sent("POST", f"/api/v1/experiments/2/{verb}")) == 1


def test_attributes_are_set_here_and_there(sdk: FakeCluster) -> None:
    found = client.get_experiment(1)
    found.set_name("new")
    found.set_description("text")
    found.set_notes("note")
    found.set_labels({"b", "a"})
    assert (found.name, found.description, found.notes) == ("new", "text", "note")
    stored = sdk.experiments[1]
    assert (stored["name"], stored["labels"]) == ("new", ["a", "b"])


def test_wait_returns_the_final_state(sdk: FakeCluster) -> None:
    states = iter(["STATE_QUEUED", "STATE_RUNNING", "STATE_ERROR"])

    def answer(_: Asked) -> Any:
        return {"experiment": {**sdk.experiments[1], "state": next(states)}}

    sdk.on("GET", "/api/v1/experiments/1", answer)
    experiment = client.Experiment(1, client._connected()._session)
    assert experiment.wait(interval=0) is client.ExperimentState.ERROR


def test_await_first_trial_waits_for_one(sdk: FakeCluster) -> None:
    answers = iter([[], [], [trial(10, 1)]])
    sdk.add(2, state="STATE_QUEUED")
    sdk.on("GET", "/api/v1/experiments/2/trials", lambda a: page("trials", next(answers), a))
    assert client.get_experiment(2).await_first_trial(interval=0).id == 10


def test_await_first_trial_gives_up_when_the_experiment_ended(sdk: FakeCluster) -> None:
    sdk.trials.clear()
    with pytest.raises(errors.NotFoundException, match="ended without a trial"):
        client.get_experiment(1).await_first_trial(interval=0)


def test_iter_trials_walks_over_all_pages(sdk: FakeCluster) -> None:
    for id in (11, 12, 13):
        sdk.trials[id] = trial(id, 1)
    assert [t.id for t in client.get_experiment(1).iter_trials(limit=2)] == [10, 11, 12, 13]
    assert len(sdk.sent("GET", "/api/v1/experiments/1/trials")) == 2


def test_list_experiments_sends_its_filters(sdk: FakeCluster) -> None:
    found = client.list_experiments(
        sort_by=client.ExperimentSortBy.NAME,
        order_by=client.OrderBy.DESCENDING,
        experiment_ids=[1, 2],
        labels=["a"],
        users=["ada"],
        states=[client.ExperimentState.COMPLETED],
        name="mnist",
        project_id=1,
    )
    assert [e.id for e in found] == [1]
    (asked,) = sdk.sent("GET", "/api/v1/experiments")
    assert asked.query["experimentIdFilter.incl"] == ["1", "2"]
    assert asked.query["states"] == ["STATE_COMPLETED"]
    assert (asked.first("sortBy"), asked.first("orderBy")) == ("SORT_BY_NAME", "ORDER_BY_DESC")


def test_the_top_checkpoint_follows_the_direction_of_the_searcher(sdk: FakeCluster) -> None:
    assert client.get_experiment(1).top_checkpoint().uuid == CKPT
    (asked,) = sdk.sent("GET", "/api/v1/experiments/1/checkpoints")
    assert (asked.first("sortByAttr"), asked.first("orderBy")) == (
        "SORT_BY_SEARCHER_METRIC",
        "ORDER_BY_DESC",
    )


def test_the_top_checkpoint_by_another_metric_needs_its_direction(sdk: FakeCluster) -> None:
    found = client.get_experiment(1)
    with pytest.raises(ValueError, match="go together"):
        found.top_checkpoint(sort_by="val_loss")
    assert found.top_checkpoint(sort_by="val_loss", smaller_is_better=False).uuid == CKPT
    (asked,) = sdk.sent("GET", "/api/v1/experiments/1/checkpoints")
    assert (asked.first("sortByMetric"), asked.first("orderBy")) == ("val_loss", "ORDER_BY_DESC")


def test_no_checkpoint_is_the_top_by_a_metric_that_none_has(sdk: FakeCluster) -> None:
    with pytest.raises(errors.NotFoundException, match="no checkpoint with such a metric"):
        client.get_experiment(1).top_checkpoint(sort_by="acc", smaller_is_better=False)


def test_no_more_checkpoints_are_given_than_were_asked_for(sdk: FakeCluster) -> None:
    for n in "345":
        sdk.checkpoints[n] = checkpoint(n, 10, 1)
    assert len(client.get_experiment(1).top_n_checkpoints(2)) == 2
    assert len(client.get_experiment(1).list_checkpoints(max_results=3)) == 3


def test_download_code_writes_the_archive(sdk: FakeCluster, tmp_path: Path) -> None:
    path = client.get_experiment(1).download_code(str(tmp_path / "out"))
    assert path == str(tmp_path / "out" / "exp-1_model_def.tar.gz")
    assert Path(path).read_bytes()[:2] == b"\x1f\x8b"


def test_a_trial_shows_its_description(sdk: FakeCluster) -> None:
    found = client.get_trial(10)
    assert (found.experiment_id, found.hparams) == (1, {"lr": 0.1})
    assert found.state is client.TrialState.COMPLETED
    assert found.summary_metrics is not None
    assert found.get_experiment().name == "mnist-1"


def test_logs_are_text_and_can_be_cut(sdk: FakeCluster) -> None:
    sdk.logs = [log_line(i, f"line {i}") for i in range(1, 6)]
    found = client.get_trial(10)
    assert len(list(found.iter_logs())) == 5
    assert [line[-7:] for line in found.iter_logs(tail=2)] == ["line 4\n", "line 5\n"]
    assert [line[-7:] for line in found.logs(head=1)] == ["line 1\n"]
    assert list(found.iter_logs(tail=0)) == list(found.logs(head=0)) == []
    with pytest.raises(ValueError, match="exclude each other"):
        list(found.iter_logs(head=1, tail=1))


def test_log_filters_reach_the_server(sdk: FakeCluster) -> None:
    logs = client.get_trial(10).iter_logs(min_level="ERROR", rank_ids=[0], timestamp_after=0)
    assert list(logs) == []
    (asked,) = sdk.sent("GET", "/api/v1/trials/10/logs")
    assert asked.query["levels"] == ["LOG_LEVEL_ERROR", "LOG_LEVEL_CRITICAL"]
    assert asked.first("timestampAfter") == "1970-01-01T00:00:00.000000Z"


def test_select_checkpoint_takes_one_criterion(sdk: FakeCluster) -> None:
    found = client.get_trial(10)
    assert found.select_checkpoint(latest=True).uuid == CKPT
    assert found.select_checkpoint(best=True).uuid == CKPT
    assert found.select_checkpoint(uuid=CKPT).uuid == CKPT
    with pytest.raises(ValueError, match="choose one"):
        found.select_checkpoint(latest=True, best=True)
    with pytest.raises(errors.NotFoundException):
        found.select_checkpoint(uuid="other")


def report(steps: int, group: str, metrics: dict[str, Any]) -> dict[str, Any]:
    ids = {"trialId": 10, "trialRunId": 2, "id": steps, "archived": False}
    return {**ids, "totalBatches": steps, "group": group, "endTime": END, "metrics": metrics}


def test_metrics_come_as_objects(sdk: FakeCluster) -> None:
    batches = [
        {"metrics": [report(100, "validation", {"validation_metrics": {"loss": 0.5}})]},
        {"metrics": [report(200, "validation", {"validation_metrics": {"loss": 0.25}})]},
    ]
    sdk.on(
        "GET",
        "/api/v1/trials/metrics/trial_metrics",
        lambda _: iter([{"result": b} for b in batches]),
    )
    found = list(client.get_trial(10).iter_metrics("validation"))
    assert [(m.steps_completed, m.metrics, m.trial_run_id) for m in found] == [
        (100, {"loss": 0.5}, 2),
        (200, {"loss": 0.25}, 2),
    ]
    assert found[0].end_time.isoformat() == "2026-11-20T11:30:00+00:00"
    (asked,) = sdk.sent("GET", "/api/v1/trials/metrics/trial_metrics")
    assert asked.query == {"trialIds": ["10"], "group": ["validation"]}


def test_training_metrics_carry_those_of_batches(sdk: FakeCluster) -> None:
    values = {"avg_metrics": {"loss": 1.0}, "batch_metrics": [{"loss": 2.0}, {"loss": 0.0}]}
    answer = {"result": {"metrics": [report(2, "training", values)]}}
    sdk.on("GET", "/api/v1/trials/metrics/trial_metrics", lambda _: iter([answer]))
    (found,) = client.stream_trials_training_metrics([10])
    assert (found.metrics, found.total_batches) == ({"loss": 1.0}, 2)
    assert found.batch_metrics == [{"loss": 2.0}, {"loss": 0.0}]


def test_a_checkpoint_shows_its_training(sdk: FakeCluster) -> None:
    found = client.get_checkpoint(CKPT)
    assert found.training is not None
    assert (found.training.trial_id, found.training.hparams) == (10, {"lr": 0.1})
    assert found.state is client.CheckpointState.COMPLETED
    assert repr(found) == f"Checkpoint(uuid={CKPT}, task_id=1.t10, trial_id=10)"


def test_a_checkpoint_is_downloaded_with_its_metadata(sdk: FakeCluster, tmp_path: Path) -> None:
    target = client.get_checkpoint(CKPT).download(str(tmp_path / "c"), client.DownloadMode.MASTER)
    assert (Path(target) / "model.pt").stat().st_size == 2000
    assert json.loads((Path(target) / "metadata.json").read_text())["framework"] == "torch"


def test_metadata_is_added_and_removed(sdk: FakeCluster) -> None:
    def post(asked: Asked) -> Any:
        sdk.checkpoints[CKPT]["metadata"] = asked.body["checkpoint"]["metadata"]
        return {"checkpoint": sdk.checkpoints[CKPT]}

    sdk.on("POST", f"/api/v1/checkpoints/{CKPT}/metadata", post)
    found = client.get_checkpoint(CKPT)
    found.add_metadata({"stage": "prod"})
    found.remove_metadata(["framework", "none"])
    assert found.metadata == {"steps_completed": 200, "stage": "prod"}
    assert client.get_checkpoint(CKPT).metadata == found.metadata


def model(name: str, **more: Any) -> dict[str, Any]:
    base = {"id": 3, "name": name, "description": "", "creationTime": START, "lastUpdatedTime": END}
    return {
        **base,
        "metadata": {},
        "labels": [],
        "username": "ada",
        "workspaceId": 1,
        "archived": False,
        **more,
    }


def version(number: int) -> dict[str, Any]:
    return {
        "version": number,
        "id": number,
        "model": model("m x"),
        "checkpoint": checkpoint(CKPT, 10, 1),
    }


def test_models_and_versions(sdk: FakeCluster) -> None:
    sdk.on("POST", "/api/v1/models", lambda a: {"model": model(a.body["name"])})
    sdk.on(
        "GET",
        "/api/v1/models/m x/versions",
        lambda a: page("modelVersions", [version(2), version(1)], a),
    )
    sdk.on("PATCH", "/api/v1/models/m x", lambda a: {"model": model("m x", **a.body)})
    made = client.create_model("m x", labels=["l"])
    newest = made.get_version()
    assert newest is not None
    assert (newest.model_version, newest.checkpoint and newest.checkpoint.uuid) == (2, CKPT)
    made.add_metadata({"k": 1})
    made.set_labels(["z"])
    assert (made.labels, made.model_id) == (["z"], 3)


def test_a_model_without_versions_has_none(sdk: FakeCluster) -> None:
    sdk.on("GET", "/api/v1/models/m/versions", lambda a: page("modelVersions", [], a))
    assert client.Model(client._connected()._session, "m").get_version() is None


def test_workspaces_and_projects(sdk: FakeCluster) -> None:
    spaces = [{"id": 1, "name": "Uncategorized"}, {"id": 2, "name": "vision"}]
    project = {
        "id": 5, "name": "digits", "archived": False, "description": "", "key": "D", "numActiveExperiments": 0,
        "numExperiments": 1, "notes": [{"name": "n", "contents": "c"}], "username": "ada", "workspaceId": 2,
    }  # fmt: skip
    sdk.on("GET", "/api/v1/workspaces", lambda a: page("workspaces", spaces, a))
    sdk.on("GET", "/api/v1/workspaces/2/projects", lambda a: page("projects", [project], a))
    sdk.on("GET", "/api/v1/projects/5", {"project": project})
    sdk.on("PUT", "/api/v1/projects/5/notes", lambda a: {"notes": a.body["notes"]})
    space = client.get_workspace("vision")
    assert [w.id for w in client.list_workspaces()] == [1, 2]
    found = space.get_project("digits")
    found.remove_note("n")
    assert (found.id, found.notes) == (5, [])
    with pytest.raises(ValueError, match="0 notes"):
        found.remove_note("other")
    with pytest.raises(errors.NotFoundException):
        client.get_workspace("none")


def test_users_are_created_and_changed(sdk: FakeCluster) -> None:
    bob = client.create_user("bob", admin=False, password="Bobby1234")
    bob.change_display_name("Bob")
    bob.deactivate()
    assert (bob.display_name, bob.active) == ("Bob", False)
    assert client.get_user_by_name("bob").user_id == bob.user_id
    assert [u.username for u in client.list_users()] == ["admin", "determined", "ada", "bob"]
    assert "Bobby1234" not in str(sdk.passwords)


# The positional arguments that callers of Determined's SDK rely on.
SIGNATURES = {
    client.login: "master user password cert_path cert_name noverify",
    client.create_experiment: "config model_dir includes project_id template",
    client.list_experiments: "sort_by order_by experiment_ids labels users states name project_id",
    client.create_model: "name description metadata labels workspace_name",
    client.list_models: "sort_by order_by name description model_id workspace_names workspace_ids",
    client.create_user: "username admin password remote",
    client.iter_trials_metrics: "trial_ids group",
    client.Experiment.wait: "self interval",
    client.Experiment.list_checkpoints: "self sort_by order_by max_results",
    client.Experiment.top_n_checkpoints: "self limit sort_by smaller_is_better",
    client.Experiment.iter_trials: "self sort_by order_by limit",
    client.Trial.select_checkpoint: "self latest best uuid sort_by smaller_is_better",
    client.Checkpoint.download: "self path mode",
    client.Model.get_version: "self version",
}


@pytest.mark.parametrize(
    ("function", "names"), SIGNATURES.items(), ids=lambda v: getattr(v, "__qualname__", "")
)
def test_signatures_are_determineds(function: Any, names: str) -> None:
    assert list(inspect.signature(function).parameters) == names.split()


def test_importing_the_sdk_needs_only_the_standard_library() -> None:
    code = (
        "import determined.experimental.client, sys; print(*{m.split('.')[0] for m in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, 'harness'); {code}"],
                          capture_output=True, text=True, check=True,
                          cwd=Path(__file__).resolve().parents[2])  # fmt: skip
    outside = set(done.stdout.split()) - set(sys.stdlib_module_names) - {"determined", "__main__"}
    assert {m for m in outside if not m.startswith("_")} == set()
