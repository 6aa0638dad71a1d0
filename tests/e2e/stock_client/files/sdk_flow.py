"""A script of a user of Determined's SDK. It runs in the environment of the stock client."""

import sys

from determined.experimental import client

master, context, out = sys.argv[1:]
client.login(master=master, user="determined", password="")
config = {
    "name": "sdk",
    "entrypoint": "python3 train.py",
    "hyperparameters": {"lr": 0.1, "steps": 4, "pause": 0.0},
    "searcher": {"name": "single", "metric": "val_loss", "max_length": 4},
    "max_restarts": 0,
}
experiment = client.create_experiment(config, context)
state = experiment.wait(interval=0.5)
assert state == client.ExperimentState.COMPLETED, state
(trial,) = experiment.list_trials()
training = [(m.steps_completed, m.metrics["loss"]) for m in trial.iter_metrics("training")]
assert training == [(1, 0.1), (2, 0.05), (3, 0.1 / 3), (4, 0.025)], training
validations = [(m.steps_completed, m.group) for m in trial.iter_metrics("validation")]
assert validations == [(2, "validation"), (4, "validation")], validations
best = experiment.top_checkpoint()
assert best.metadata is not None
assert best.metadata["steps_completed"] == 4, best.metadata
path = best.download(out, mode=client.DownloadMode.MASTER)
with open(f"{path}/state") as f:
    assert f.read() == "4"
assert any("step 4" in line for line in trial.logs())

model = client.create_model("counter", description="counts", metadata={"of": "steps"})
version = model.register_version(best.uuid)
version.set_notes("the first")
newest = model.get_version()
assert newest is not None
assert newest.model_version == version.model_version == 1
version.delete()
model.delete()

experiment.add_label("kept")
experiment.set_name("renamed")
experiment.reload()
assert experiment.name == "renamed", experiment.name
workspace = client.create_workspace("of the sdk")
project = workspace.create_project("moved here", description="by the SDK")
experiment.move_to_project("of the sdk", "moved here")
assert [p.name for p in workspace.list_projects()] == ["moved here"]
assert [p.name for p in workspace.list_pools()] == ["default"]
project.add_note("why", "because")
assert {u.username for u in client.list_users()} >= {"admin", "determined"}
print("the SDK did it all")
