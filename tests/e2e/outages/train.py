"""A training with known metrics. It appends a line for every step to a file outside its container.

The test controls it by files in `OUTAGE_FOLDER`: every trial waits after step 20 until the outage has begun, and trials
of the pace "slow" wait after step 50 until it is over.
"""

import json
import os
import pathlib
import random
import time

import determined as det

STEPS = 60
TRAINING_EVERY, VALIDATION_EVERY, CHECKPOINT_EVERY, PRINT_EVERY = 3, 5, 15, 10
WAITS_FOR = {20: "begun", 50: "over"}
# The duration of other steps. The test sets the duration of the steps between the gates.
STEP_S = 0.1
QUICK, SLOW = "quick", "slow"
LOOK_S = 0.25
# This step comes before the first checkpoint of the outage, which waits for the agent, too.
ASKS_AT = 25


def losses(seed: int) -> list[float]:
    """Return the loss after every step, from index 0 for the first step. The best loss comes late."""
    rng = random.Random(seed)
    return [rng.random() / step for step in range(1, STEPS + 1)]


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    assert info.trial is not None
    seed, pace = info.trial.hparams["seed"], info.trial.hparams["pace"]
    folder = pathlib.Path(os.environ["OUTAGE_FOLDER"])
    run, pace_s = os.environ["DET_TRIAL_RUN_ID"], float(os.environ[f"OUTAGE_{pace.upper()}_STEP_S"])
    held, waits = WAITS_FOR
    values, first = losses(seed), 0
    with (folder / f"{pace}-{seed}.steps").open("a", buffering=1) as notes, det.core.init() as core:
        if info.latest_checkpoint is not None:
            with core.checkpoint.restore_path(info.latest_checkpoint) as path:
                first = json.loads((path / "state.json").read_text())["step"]
        notes.write(f"run {run} starts at {first}\n")
        for step in range(first + 1, STEPS + 1):
            time.sleep(pace_s if held < step <= waits else STEP_S)
            notes.write(f"run {run} step {step}\n")
            report(core, step, values[step - 1])
            if step == ASKS_AT and "OUTAGE_ASKS" in os.environ:
                # Only the cluster can answer: the request waits for the end of the outage.
                core.train.get_metadata()
            gate = WAITS_FOR.get(step)
            if gate == "begun" or (gate and pace == SLOW):
                wait_for(folder / gate, core)
            if core.preempt.should_preempt():
                notes.write(f"run {run} is preempted at {step}\n")
                return
        notes.write(f"run {run} has trained\n")


def report(core: "det.core.Context", step: int, loss: float) -> None:
    if step % PRINT_EVERY == 0:
        print(f"at step {step}", flush=True)
    if step % TRAINING_EVERY == 0:
        core.train.report_training_metrics(step, {"loss": loss})
    if step % VALIDATION_EVERY == 0:
        core.train.report_validation_metrics(step, {"loss": loss})
    if step % CHECKPOINT_EVERY == 0:
        with core.checkpoint.store_path({"steps_completed": step}) as (path, _):
            (pathlib.Path(path) / "state.json").write_text(json.dumps({"step": step}))


def wait_for(gate: pathlib.Path, core: "det.core.Context") -> None:
    while not gate.exists() and not core.preempt.should_preempt():
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main()
