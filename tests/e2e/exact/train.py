"""A training in which every step depends on all earlier steps, so that a wrong resume changes the result."""

import json
import os
import pathlib
import random
import time

import determined as det

# Training waits here until a test creates this file, so that the test can interrupt it in its middle.
GATE = os.environ.get("EXACT_GATE")
HELD_AT = 25
PAUSE_S = 0.02


def expected(seed: int, steps: int) -> int:
    rng, value = random.Random(seed), 1
    for _ in range(steps):
        value = (value * 31 + rng.randrange(1 << 30)) % (1 << 61)
    return value


def main() -> None:
    info = det.get_cluster_info()
    assert info is not None
    assert info.trial is not None
    seed = info.trial.trial_seed
    rng, value, step = random.Random(seed), 1, 0
    with det.core.init() as core:
        if info.latest_checkpoint is not None:
            with core.checkpoint.restore_path(info.latest_checkpoint) as path:
                document = json.loads((path / "state.json").read_text())
            value, step = document["value"], document["step"]
            rng.setstate((document["rng"][0], tuple(document["rng"][1]), document["rng"][2]))
            print(f"resumed at step {step}")
        for operation in core.searcher.operations():
            while step < operation.length:
                value = (value * 31 + rng.randrange(1 << 30)) % (1 << 61)
                step += 1
                time.sleep(PAUSE_S)
                if step % 5 == 0:
                    core.train.report_training_metrics(step, {"loss": 1 / step})
                    core.train.report_progress(step / operation.length)
                if step == HELD_AT:
                    wait_at_the_gate(core)
                if step % 10 == 0 or core.preempt.should_preempt():
                    save(core, step, value, rng)
                    print(f"saved step {step}")
                if core.preempt.should_preempt():
                    print(f"preempted at step {step}")
                    return
            core.train.report_validation_metrics(step, {"loss": 1 / step, "batches": step})
            operation.report_completed(1 / step)
        save(core, step, value, rng)
    verdict = "exact" if value == expected(seed, step) else "WRONG"
    print(f"finished at step {step}: {verdict}")


def wait_at_the_gate(core: "det.core.Context") -> None:
    while GATE and not os.path.exists(GATE) and not core.preempt.should_preempt():
        time.sleep(PAUSE_S)


def save(core: "det.core.Context", step: int, value: int, rng: random.Random) -> None:
    with core.checkpoint.store_path({"steps_completed": step}) as (path, _):
        state = {"value": value, "step": step, "rng": rng.getstate()}
        (pathlib.Path(path) / "state.json").write_text(json.dumps(state))


if __name__ == "__main__":
    main()
