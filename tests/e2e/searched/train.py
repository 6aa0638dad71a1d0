"""Trains as far as its search asks it to; the learning rate 0.03 is the best, and longer is better."""

import json
import math
import os
import pathlib
import time

import determined as det

# No trial trains past the first length before the test creates this file: the search is then in its middle.
GATE = pathlib.Path(os.environ["SEARCHED_GATE"])
FIRST_LENGTH = 4


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    rate, step = info.trial.hparams["learning_rate"], 0
    with det.core.init() as core:
        if info.latest_checkpoint is not None:
            with core.checkpoint.restore_path(info.latest_checkpoint) as path:
                step = json.loads((path / "state.json").read_text())["step"]
            print(f"resumed at step {step}")
        for operation in core.searcher.operations():
            print(f"asked to train to {operation.length}")
            while step < operation.length:
                if step == FIRST_LENGTH:
                    wait_at_the_gate(core)
                step += 1
                time.sleep(0.02)
                operation.report_progress(step)
                core.train.report_training_metrics(step, {"rate": rate})
                if core.preempt.should_preempt():
                    save(core, step)
                    return
            save(core, step)
            loss = abs(math.log10(rate) + 1.5) + 1 / step
            core.train.report_validation_metrics(step, {"loss": loss})
            operation.report_completed(loss)


def wait_at_the_gate(core: "det.core.Context") -> None:
    while not GATE.exists() and not core.preempt.should_preempt():
        time.sleep(0.05)


def save(core: "det.core.Context", step: int) -> None:
    with core.checkpoint.store_path({"steps_completed": step}) as (path, _):
        (pathlib.Path(path) / "state.json").write_text(json.dumps({"step": step}))


if __name__ == "__main__":
    main()
