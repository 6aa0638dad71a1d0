"""`determined.experimental.client` against a fake cluster."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from determined.common.api import errors
from determined.common.http import APIError, SignInFailed
from determined.experimental import Determined, client

from tests.support.fake_api import Raw, RecordedRequest, Refusal
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
    """A cluster with one experiment. The module has no connection yet."""
    monkeypatch.setattr(client, "_connection", None)
    cluster.add(1, config={"searcher": {"smaller_is_better": False}})
    return cluster


def test_first_call_connects_with_environment_variables(sdk: FakeCluster) -> None:
    assert client.whoami().username == "determined"
    assert client.get_session_username() == "determined"


def test_login_sets_the_user(sdk: FakeCluster) -> None:
    client.login(user="ada", password="Lovelace1")
    me = client.whoami()
    assert (me.username, me.display_name, me.admin) == ("ada", "Ada L.", False)


def test_login_after_connection_is_rejected(sdk: FakeCluster) -> None:
    client.whoami()
    with pytest.raises(ValueError, match="connected already"):
        client.login()


def test_wrong_password_is_rejected(sdk: FakeCluster) -> None:
    with pytest.raises(SignInFailed, match="refused user 'ada'"):
        Determined(user="ada", password="wrong")


def test_logout_ends_the_session(sdk: FakeCluster) -> None:
    client.whoami()
    client.logout()
    assert sdk.tokens == {}


def test_two_connections_are_independent(sdk: FakeCluster) -> None:
    ada = Determined(user="ada", password="Lovelace1")
    admin = Determined(user="admin", password="Secret123")
    assert (ada.whoami().username, admin.whoami().username) == ("ada", "admin")


def test_create_experiment_accepts_mapping(sdk: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)\n")
    experiment = client.create_experiment(
        {"name": "x"}, tmp_path / "code", project_id=4, template="base"
    )
    assert (experiment.id, experiment.state) == (2, client.ExperimentState.RUNNING)
    (request,) = sdk.sent("POST", "/api/v1/experiments")
    assert json.loads(request.body["config"]) == {"name": "x"}
    assert [f["path"] for f in request.body["modelDefinition"]] == ["train.py"]
    assert (request.body["projectId"], request.body["template"]) == (4, "base")


def test_create_experiment_rejects_empty_file(sdk: FakeCluster, tmp_path: Path) -> None:
    config = tmp_path / "const.yaml"
    config.write_text("\n")
    with pytest.raises(ValueError, match=r"const\.yaml is empty"):
        client.create_experiment(config)


@pytest.mark.parametrize("kind", [str, Path])
def test_create_experiment_accepts_file_path(sdk: FakeCluster, tmp_path: Path, kind: Any) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("# kept\nname: x\n")
    client.create_experiment(kind(config))
    assert sdk.sent("POST", "/api/v1/experiments")[0].body["config"] == "# kept\nname: x\n"


def test_invalid_configuration_error_names_the_file(sdk: FakeCluster, tmp_path: Path) -> None:
    def refuse(_request: Any) -> Any:
        raise Refusal(400, "invalid experiment configuration: not valid YAML: line 3, column 1: x")

    sdk.on("POST", "/api/v1/experiments", refuse)
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(APIError, match=r"bad\.yaml: invalid experiment configuration: not valid"):
        client.create_experiment(tmp_path / "bad.yaml")
    with pytest.raises(APIError, match=r"^invalid experiment configuration"):
        client.create_experiment({})


@pytest.mark.parametrize("word", ["ERROR", "error", "LOG_LEVEL_ERROR", client.LogLevel.ERROR])
def test_enum_accepts_names_and_values(word: Any) -> None:
    assert client.LogLevel(word) is client.LogLevel.ERROR


def test_unknown_enum_value_error_lists_the_values(sdk: FakeCluster) -> None:
    message = "'LOUD' is not a LogLevel: choose one of TRACE, DEBUG, INFO"
    with pytest.raises(ValueError, match=message):
        list(client.get_trial(10).iter_logs(min_level="LOUD"))
    with pytest.raises(ValueError, match="is not a OrderBy: choose one of ASCENDING"):
        client.list_experiments(order_by="up")  # type: ignore[arg-type]


def test_experiment_attributes(sdk: FakeCluster) -> None:
    result = client.get_experiment(1)
    assert (result.name, result.labels, result.progress) == ("mnist-1", {"nightly", "a"}, 1.0)
    assert result.state is client.ExperimentState.COMPLETED
    assert repr(result) == "Experiment(id=1)"


def test_unknown_experiment_raises_not_found(sdk: FakeCluster) -> None:
    with pytest.raises(errors.NotFoundException, match="experiment '9' not found"):
        client.get_experiment(9)


@pytest.mark.parametrize("verb", ["activate", "pause", "cancel", "kill", "archive", "unarchive"])
def test_state_changes_send_one_request(sdk: FakeCluster, verb: str) -> None:
    sdk.add(2, state="STATE_RUNNING")
    getattr(client.get_experiment(2), verb)()
    assert len(sdk.sent("POST", f"/api/v1/experiments/2/{verb}")) == 1


def test_setters_change_object_and_cluster(sdk: FakeCluster) -> None:
    result = client.get_experiment(1)
    result.set_name("new")
    result.set_description("text")
    result.set_notes("note")
    result.set_labels({"b", "a"})
    assert (result.name, result.description, result.notes) == ("new", "text", "note")
    experiment = sdk.experiments[1]
    assert (experiment["name"], experiment["labels"]) == ("new", ["a", "b"])


def test_wait_returns_the_final_state(sdk: FakeCluster) -> None:
    states = iter(["STATE_QUEUED", "STATE_RUNNING", "STATE_ERROR"])

    def answer(_: RecordedRequest) -> Any:
        return {"experiment": {**sdk.experiments[1], "state": next(states)}}

    sdk.on("GET", "/api/v1/experiments/1", answer)
    experiment = client.Experiment(1, client._get_connection()._session)
    assert experiment.wait(interval=0) is client.ExperimentState.ERROR


def test_await_first_trial_waits_for_a_trial(sdk: FakeCluster) -> None:
    answers = iter([[], [], [trial(10, 1)]])
    sdk.add(2, state="STATE_QUEUED")
    sdk.on("GET", "/api/v1/experiments/2/trials", lambda a: page("trials", next(answers), a))
    assert client.get_experiment(2).await_first_trial(interval=0).id == 10


def test_await_first_trial_fails_if_experiment_ends(sdk: FakeCluster) -> None:
    sdk.trials.clear()
    with pytest.raises(errors.NotFoundException, match="ended without a trial"):
        client.get_experiment(1).await_first_trial(interval=0)


def test_iter_trials_reads_all_pages(sdk: FakeCluster) -> None:
    for id in (11, 12, 13):
        sdk.trials[id] = trial(id, 1)
    assert [t.id for t in client.get_experiment(1).iter_trials(limit=2)] == [10, 11, 12, 13]
    assert len(sdk.sent("GET", "/api/v1/experiments/1/trials")) == 2


def test_list_experiments_sends_its_filters(sdk: FakeCluster) -> None:
    result = client.list_experiments(
        sort_by=client.ExperimentSortBy.NAME,
        order_by=client.OrderBy.DESCENDING,
        experiment_ids=[1, 2],
        labels=["a"],
        users=["ada"],
        states=[client.ExperimentState.COMPLETED],
        name="mnist",
        project_id=1,
    )
    assert [e.id for e in result] == [1]
    (request,) = sdk.sent("GET", "/api/v1/experiments")
    assert request.query["experimentIdFilter.incl"] == ["1", "2"]
    assert request.query["states"] == ["STATE_COMPLETED"]
    assert (request.first("sortBy"), request.first("orderBy")) == ("SORT_BY_NAME", "ORDER_BY_DESC")


def test_top_checkpoint_uses_searcher_direction(sdk: FakeCluster) -> None:
    assert client.get_experiment(1).top_checkpoint().uuid == CKPT
    (request,) = sdk.sent("GET", "/api/v1/experiments/1/checkpoints")
    assert (request.first("sortByAttr"), request.first("orderBy")) == (
        "SORT_BY_SEARCHER_METRIC",
        "ORDER_BY_DESC",
    )


def test_top_checkpoint_by_other_metric_requires_direction(sdk: FakeCluster) -> None:
    result = client.get_experiment(1)
    with pytest.raises(ValueError, match="go together"):
        result.top_checkpoint(sort_by="val_loss")
    assert result.top_checkpoint(sort_by="val_loss", smaller_is_better=False).uuid == CKPT
    (request,) = sdk.sent("GET", "/api/v1/experiments/1/checkpoints")
    assert (request.first("sortByMetric"), request.first("orderBy")) == (
        "val_loss",
        "ORDER_BY_DESC",
    )


def test_top_checkpoint_by_unknown_metric_is_not_found(sdk: FakeCluster) -> None:
    with pytest.raises(errors.NotFoundException, match="no checkpoints with metric acc"):
        client.get_experiment(1).top_checkpoint(sort_by="acc", smaller_is_better=False)


def test_checkpoint_lists_respect_limits(sdk: FakeCluster) -> None:
    for n in "345":
        sdk.checkpoints[n] = checkpoint(n, 10, 1)
    assert len(client.get_experiment(1).top_n_checkpoints(2)) == 2
    assert len(client.get_experiment(1).list_checkpoints(max_results=3)) == 3


def test_download_code_writes_the_archive(sdk: FakeCluster, tmp_path: Path) -> None:
    path = client.get_experiment(1).download_code(str(tmp_path / "out"))
    assert path == str(tmp_path / "out" / "exp-1_model_def.tar.gz")
    assert Path(path).read_bytes()[:2] == b"\x1f\x8b"


def test_trial_attributes(sdk: FakeCluster) -> None:
    result = client.get_trial(10)
    assert (result.experiment_id, result.hparams) == (1, {"lr": 0.1})
    assert result.state is client.TrialState.COMPLETED
    assert result.summary_metrics is not None
    assert result.get_experiment().name == "mnist-1"


def test_logs_head_and_tail(sdk: FakeCluster) -> None:
    sdk.logs = [log_line(i, f"line {i}") for i in range(1, 6)]
    result = client.get_trial(10)
    assert len(list(result.iter_logs())) == 5
    assert [line[-7:] for line in result.iter_logs(tail=2)] == ["line 4\n", "line 5\n"]
    assert [line[-7:] for line in result.logs(head=1)] == ["line 1\n"]
    assert list(result.iter_logs(tail=0)) == list(result.logs(head=0)) == []
    with pytest.raises(ValueError, match="exclude each other"):
        list(result.iter_logs(head=1, tail=1))


def test_log_filters_are_sent_to_the_server(sdk: FakeCluster) -> None:
    logs = client.get_trial(10).iter_logs(min_level="ERROR", rank_ids=[0], timestamp_after=0)
    assert list(logs) == []
    (request,) = sdk.sent("GET", "/api/v1/trials/10/logs")
    assert request.query["levels"] == ["LOG_LEVEL_ERROR", "LOG_LEVEL_CRITICAL"]
    assert request.first("timestampAfter") == "1970-01-01T00:00:00.000000Z"


def test_select_checkpoint_requires_one_criterion(sdk: FakeCluster) -> None:
    result = client.get_trial(10)
    assert result.select_checkpoint(latest=True).uuid == CKPT
    assert result.select_checkpoint(best=True).uuid == CKPT
    assert result.select_checkpoint(uuid=CKPT).uuid == CKPT
    with pytest.raises(ValueError, match="choose one"):
        result.select_checkpoint(latest=True, best=True)
    with pytest.raises(errors.NotFoundException):
        result.select_checkpoint(uuid="other")


def report(steps: int, group: str, metrics: dict[str, Any]) -> dict[str, Any]:
    ids = {"trialId": 10, "trialRunId": 2, "id": steps, "archived": False}
    return {**ids, "totalBatches": steps, "group": group, "endTime": END, "metrics": metrics}


def test_metrics_are_objects(sdk: FakeCluster) -> None:
    batches = [
        {"metrics": [report(100, "validation", {"validation_metrics": {"loss": 0.5}})]},
        {"metrics": [report(200, "validation", {"validation_metrics": {"loss": 0.25}})]},
    ]
    sdk.on(
        "GET",
        "/api/v1/trials/metrics/trial_metrics",
        lambda _: iter([{"result": b} for b in batches]),
    )
    result = list(client.get_trial(10).iter_metrics("validation"))
    assert [(m.steps_completed, m.metrics, m.trial_run_id) for m in result] == [
        (100, {"loss": 0.5}, 2),
        (200, {"loss": 0.25}, 2),
    ]
    assert result[0].end_time.isoformat() == "2026-11-20T11:30:00+00:00"
    first, rest = sdk.sent("GET", "/api/v1/trials/metrics/trial_metrics")
    assert first.query == {"trialIds": ["10"], "group": ["validation"]}
    assert rest.query == {**first.query, "after": ["200"]}


def test_metrics_continue_after_an_early_end_and_a_broken_connection(
    sdk: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)

    def lines(*steps: int) -> bytes:
        batches = [{"metrics": [report(n, "training", {"avg_metrics": {"n": n}})]} for n in steps]
        return b"".join(json.dumps({"result": batch}).encode() + b"\n" for batch in batches)

    cut = lines(3, 4)
    parts = {
        0: Raw(lines(1, 2)),
        2: Raw(cut, cut_after=len(cut) - 9),
        3: Raw(lines(4)),
        4: Raw(b""),
    }
    path = "/api/v1/trials/metrics/trial_metrics"
    sdk.on("GET", path, lambda request: parts[int(request.first("after", "0"))])
    result = client.get_trial(10).iter_metrics("training")
    assert [m.steps_completed for m in result] == [1, 2, 3, 4]


def test_training_metrics_include_batch_metrics(sdk: FakeCluster) -> None:
    values = {"avg_metrics": {"loss": 1.0}, "batch_metrics": [{"loss": 2.0}, {"loss": 0.0}]}
    answer = {"result": {"metrics": [report(2, "training", values)]}}
    sdk.on("GET", "/api/v1/trials/metrics/trial_metrics", lambda _: iter([answer]))
    (result,) = client.stream_trials_training_metrics([10])
    assert (result.metrics, result.total_batches) == ({"loss": 1.0}, 2)
    assert result.batch_metrics == [{"loss": 2.0}, {"loss": 0.0}]


def test_checkpoint_attributes(sdk: FakeCluster) -> None:
    result = client.get_checkpoint(CKPT)
    assert result.training is not None
    assert (result.training.trial_id, result.training.hparams) == (10, {"lr": 0.1})
    assert result.state is client.CheckpointState.COMPLETED
    assert repr(result) == f"Checkpoint(uuid={CKPT}, task_id=1.t10, trial_id=10)"


def test_checkpoint_download_includes_metadata(sdk: FakeCluster, tmp_path: Path) -> None:
    target = client.get_checkpoint(CKPT).download(str(tmp_path / "c"), client.DownloadMode.MASTER)
    assert (Path(target) / "model.pt").stat().st_size == 2000
    assert json.loads((Path(target) / "metadata.json").read_text())["framework"] == "torch"


def test_metadata_is_added_and_removed(sdk: FakeCluster) -> None:
    def post(request: RecordedRequest) -> Any:
        sdk.checkpoints[CKPT]["metadata"] = request.body["checkpoint"]["metadata"]
        return {"checkpoint": sdk.checkpoints[CKPT]}

    sdk.on("POST", f"/api/v1/checkpoints/{CKPT}/metadata", post)
    result = client.get_checkpoint(CKPT)
    result.add_metadata({"stage": "prod"})
    result.remove_metadata(["framework", "none"])
    assert result.metadata == {"steps_completed": 200, "stage": "prod"}
    assert client.get_checkpoint(CKPT).metadata == result.metadata


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
    created_model = client.create_model("m x", labels=["l"])
    newest = created_model.get_version()
    assert newest is not None
    assert (newest.model_version, newest.checkpoint and newest.checkpoint.uuid) == (2, CKPT)
    created_model.add_metadata({"k": 1})
    created_model.set_labels(["z"])
    assert (created_model.labels, created_model.model_id) == (["z"], 3)


def test_model_without_versions(sdk: FakeCluster) -> None:
    sdk.on("GET", "/api/v1/models/m/versions", lambda a: page("modelVersions", [], a))
    assert client.Model(client._get_connection()._session, "m").get_version() is None


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
    result = space.get_project("digits")
    result.remove_note("n")
    assert (result.id, result.notes) == (5, [])
    with pytest.raises(ValueError, match="0 notes"):
        result.remove_note("other")
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


# The positional arguments of Determined's SDK.
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
def test_signatures_match_determined(function: Any, names: str) -> None:
    assert list(inspect.signature(function).parameters) == names.split()


def test_sdk_imports_only_the_standard_library() -> None:
    code = (
        "import determined.experimental.client, sys; print(*{m.split('.')[0] for m in sys.modules})"
    )
    result = subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, 'harness'); {code}"],
                          capture_output=True, text=True, check=True,
                          cwd=Path(__file__).resolve().parents[2])  # fmt: skip
    outside = set(result.stdout.split()) - set(sys.stdlib_module_names) - {"determined", "__main__"}
    assert {m for m in outside if not m.startswith("_")} == set()
