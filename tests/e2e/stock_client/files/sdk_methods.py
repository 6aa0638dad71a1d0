"""Call every method of Determined's SDK, and print the others as JSON.

Runs in the environment of the stock client.
"""

import functools
import inspect
import json
import pathlib
import sys
from importlib import import_module
from typing import Any

from determined.experimental import client

MASTER, CONTEXT, OUT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
CLASSES = {
    "determined": ("Determined",),
    "experiment": ("Experiment",),
    "trial": ("Trial",),
    "checkpoint": ("Checkpoint",),
    "model": ("Model", "ModelVersion"),
    "workspace": ("Workspace",),
    "project": ("Project",),
    "resource_pool": ("ResourcePool",),
    "user": ("User",),
}
CONFIG = {
    "name": "methods",
    "entrypoint": "python3 train.py",
    "hyperparameters": {"lr": 0.1, "steps": 4, "pause": 0.0},
    "searcher": {"name": "single", "metric": "val_loss", "max_length": 4},
    "max_restarts": 0,
    "checkpoint_storage": {"save_trial_latest": 2},
}
LONG = {**CONFIG, "hyperparameters": {"lr": 0.1, "steps": 10_000, "pause": 0.2}}
called: set[str] = set()


def recorded(name: Any, method: Any) -> Any:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        called.add(name)
        return method(*args, **kwargs)

    return call


def note_calls() -> Any:
    noticed = set()
    modules = {name: import_module(f"determined.common.experimental.{name}") for name in CLASSES}
    for kind in [getattr(modules[m], name) for m, names in CLASSES.items() for name in names]:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                noticed.add(f"{kind.__name__}.{name}")
                setattr(kind, name, recorded(f"{kind.__name__}.{name}", method))
    return noticed


def experiments(d: Any) -> Any:
    e = d.create_experiment(CONFIG, CONTEXT)
    assert e.await_first_trial().experiment_id == e.id
    assert e.wait(interval=0.2) == client.ExperimentState.COMPLETED
    assert e.id in [x.id for x in d.list_experiments(name="methods")]
    e.set_description("what for")
    e.set_notes("and why")
    e.set_labels({"one", "two"})
    e.remove_label("one")
    e.add_label("two")
    e.set_name("methods")
    same = d.get_experiment(e.id)
    assert (same.description, same.notes, same.labels) == ("what for", "and why", {"two"})
    e.archive()
    e.unarchive()
    assert [t.id for t in e.iter_trials(limit=1)] == [t.id for t in e.get_trials()]
    steps = [c.metadata["steps_completed"] for c in e.list_checkpoints()]
    assert sorted(steps) == [2, 4], steps
    best = [c.metadata["steps_completed"] for c in e.top_n_checkpoints(2)]
    assert best == [4], "the best of each trial"
    assert e.top_checkpoint().metadata["steps_completed"] == 4
    assert pathlib.Path(e.download_code(str(OUT))).exists()
    e.delete_tensorboard_files()
    long = d.create_experiment(LONG, CONTEXT)
    long.pause()
    long.activate()
    long.cancel()
    long.kill()
    assert long.wait(interval=0.2) == client.ExperimentState.CANCELED
    long.delete()
    return e


def trials(d: Any, e: Any) -> Any:
    t = d.get_trial(e.list_trials()[0].id)
    t.reload()
    assert t.get_experiment().id == e.id
    assert list(t.iter_logs(search_text="STEP 3")), "a text is found in any case"
    assert len(list(t.logs(head=2))) == 2
    newest, best = t.select_checkpoint(latest=True), t.select_checkpoint(best=True)
    assert newest.uuid == best.uuid == t.top_checkpoint().uuid
    assert len(t.list_checkpoints()) == len(t.get_checkpoints()) == 2
    assert [m.metrics["loss"] for m in t.stream_training_metrics()][:1] == [0.1]
    assert [m.steps_completed for m in t.stream_validation_metrics()] == [2, 4]
    ids = [t.id]
    expected = [m.steps_completed for m in t.stream_metrics("training")]
    assert [m.steps_completed for m in d.iter_trials_metrics(ids, "training")] == expected
    assert len(list(d.stream_trials_metrics(ids, "validation"))) == 2
    assert len(list(d.stream_trials_training_metrics(ids))) == 4
    assert len(list(d.stream_trials_validation_metrics(ids))) == 2
    experiment = d.create_experiment(LONG, CONTEXT)
    experiment.await_first_trial().kill()
    assert experiment.wait(interval=0.2) == client.ExperimentState.CANCELED
    return newest


def checkpoints(d: Any, newest: Any) -> None:
    c = d.get_checkpoint(newest.uuid)
    c.add_metadata({"note": "kept", "more": 1})
    c.remove_metadata(["more"])
    c.reload()
    assert c.metadata["note"] == "kept"
    assert "more" not in c.metadata
    assert pathlib.Path(
        c.download(str(OUT / "files"), mode=client.DownloadMode.MASTER), "state"
    ).exists()
    c.write_metadata_file(str(OUT / "metadata.json"))
    assert json.loads((OUT / "metadata.json").read_text())["note"] == "kept"
    assert list(c.get_metrics("validation")) == []
    oldest = next(x for x in c_of(d, newest) if x.uuid != newest.uuid)
    oldest.remove_files(["sta*"])
    oldest.delete()


def c_of(d: Any, newest: Any) -> Any:
    return d.get_experiment(newest.training.experiment_id).list_checkpoints()


def models(d: Any, newest: Any) -> None:
    m = d.create_model("methods", labels=["of methods"])
    m.add_metadata({"a": 1, "b": 2})
    m.remove_metadata(["b"])
    m.set_labels(["x"])
    m.set_description("described")
    version = m.register_version(newest.uuid)
    assert m.get_version().model_version == version.model_version
    version.set_name("first")
    version.set_notes("noted")
    version.reload()
    assert (version.name, version.notes) == ("first", "noted")
    assert list(version.get_metrics()) == list(version.iter_metrics()) == []
    assert [v.model_version for v in m.get_versions()] == [
        v.model_version for v in m.list_versions()
    ]
    d.create_workspace("for models")
    m.move_to_workspace("for models")
    m.archive()
    m.unarchive()
    m.reload()
    assert (m.description, m.labels, m.metadata) == ("described", ["x"], {"a": 1})
    assert d.get_model("methods").model_id == d.get_model_by_id(m.model_id).model_id
    assert {x.name for x in d.get_models()} == {x.name for x in d.list_models()} >= {"methods"}
    assert "x" in d.get_model_labels()
    version.delete()
    m.delete()
    d.delete_workspace("for models")


def organization(d: Any, e: Any) -> Any:
    w = d.create_workspace("methods")
    w.reload()
    assert d.get_workspace("methods").id == w.id
    assert w.id in [x.id for x in d.list_workspaces()]
    p = w.create_project("first", description="d")
    p.set_name("second")
    p.set_description("described")
    p.set_key("SEC")
    p.add_note("note", "contents")
    p.remove_note("note")
    p.archive()
    p.unarchive()
    p.reload()
    assert (p.name, p.key, p.list_experiments()) == ("second", "SEC", [])
    assert w.get_project("second").id == p.id
    e.move_to_project("methods", "second")
    assert [x.id for x in p.list_experiments()] == [e.id]
    e.move_to_project("Uncategorized", "Uncategorized")
    (pool,) = w.list_pools()
    w.delete_project("second")
    assert w.list_projects() == []
    return pool


def people(d: Any, pool: Any) -> None:
    # An administrator's part.
    pool_of_admin = d.get_workspace("methods").list_pools()[0]
    refused(lambda: pool_of_admin.add_bindings(["methods"]), "default")
    refused(lambda: pool_of_admin.replace_bindings(["methods"]), "default")
    refused(lambda: pool_of_admin.remove_bindings(["nowhere"]), "nowhere")
    assert pool_of_admin.list_workspaces() is not None
    u = d.create_user("methods", admin=False, password="Strong1Password")
    u.change_display_name("Display")
    u.change_password("Other1Password")
    u.deactivate()
    u.activate()
    u.rename("renamed")
    u.link_with_agent(agent_uid=1, agent_user="a", agent_gid=2, agent_group="g")
    u.reload()
    assert d.get_user_by_name("renamed").user_id == u.user_id
    assert d.get_user_by_id(u.user_id).display_name == "Display"
    assert "renamed" in [x.username for x in d.list_users(active=True)]
    assert d.whoami().username == d.get_session_username() == "admin"
    d.delete_workspace("methods")
    d.logout()


def refused(call: Any, cause: Any) -> None:
    output = ""
    try:
        call()
    except Exception as e:
        output = str(e)
    assert cause in output, output or "not refused"


def main() -> None:
    names = note_calls()
    d = client.Determined(MASTER, user="determined", password="")
    e = experiments(d)
    newest = trials(d, e)
    checkpoints(d, newest)
    models(d, newest)
    pool = organization(d, e)
    people(client.Determined(MASTER, user="admin", password=""), pool)
    print(json.dumps(sorted(names - called)))


main()
