"""Train anywhere – here, in a notebook, under another scheduler – and report to the cluster at DET_MASTER.

export DET_MASTER=http://127.0.0.1:8080 DET_USER=determined DET_PASS=
python3 train.py          # run it again after an interruption to resume from its checkpoint
python3 train.py another  # a run of that name
"""

import getpass
import json
import random
import sys

from determined import core
from determined.experimental import core_v2

STEPS = 20


def main(name: str = f"walk-of-{getpass.getuser()}") -> None:
    core_v2.init(
        defaults=core_v2.DefaultConfig(
            name="unmanaged-walk",
            searcher={"name": "single", "metric": "distance", "max_length": STEPS},
        ),
        # A resumed run finds its trial by these names.
        unmanaged=core_v2.UnmanagedConfig(external_experiment_id=name, external_trial_id=name),
        # AUTO writes TensorBoard files, too, and needs torch or TensorFlow for it.
        tensorboard_mode=core.TensorboardMode.MANUAL,
    )
    place, done = 10.0, 0
    if core_v2.info.latest_checkpoint:
        with core_v2.checkpoint.restore_path(core_v2.info.latest_checkpoint) as folder:
            place, done = json.loads((folder / "walk.json").read_text())
    rng = random.Random(done)
    for step in range(done + 1, STEPS + 1):
        place *= rng.uniform(0.5, 1.1)
        core_v2.train.report_training_metrics(steps_completed=step, metrics={"place": place})
        if step % 10 == 0:
            core_v2.train.report_validation_metrics(
                steps_completed=step, metrics={"distance": abs(place)}
            )
            with core_v2.checkpoint.store_path({"steps_completed": step}) as (folder, _):
                (folder / "walk.json").write_text(json.dumps([place, step]))
    print(f"trial {core_v2.info.trial.trial_id} reported {STEPS - done} steps")
    core_v2.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
